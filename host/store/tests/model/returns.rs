//! The reference's account of what went back, and of the particulars that a provider tells.

use std::collections::BTreeMap;

use kassette_domain::provider::{DisputeState, Particulars, RefundState, Report, VendorStatus};

/// What went back of an attempt's money. What has an id counts once, under it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Returns {
    pub(crate) refunds: BTreeMap<String, (u64, RefundState)>,
    pub(crate) disputes: BTreeMap<String, (u64, DisputeState)>,
    /// The provider's own sum.
    sum: u64,
}

/// What a report adds to it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Back {
    /// Refunds that succeeded: at least and at most. What a sum told before may get ids now, and then
    /// is not told again.
    pub(crate) refunds: (usize, usize),
    pub(crate) more: bool,
    pub(crate) less: bool,
    /// Disputes that were not known.
    pub(crate) disputes: usize,
    /// Disputes that are lost now.
    pub(crate) lost: usize,
}

impl Returns {
    fn named(&self) -> u64 {
        let succeeded = |(_, state): &&(u64, RefundState)| *state == RefundState::Succeeded;
        let refunds = self.refunds.values().filter(succeeded);
        refunds.map(|(amount, _)| amount).sum()
    }

    fn lost(&self) -> u64 {
        let lost = |(_, state): &&(u64, DisputeState)| *state == DisputeState::Lost;
        let disputes = self.disputes.values().filter(lost);
        disputes.map(|(amount, _)| amount).sum()
    }

    pub(crate) fn total(&self) -> u64 {
        self.sum.max(self.named() + self.lost())
    }

    /// What only the sum tells of.
    pub(crate) fn unnamed(&self) -> u64 {
        self.total() - self.named() - self.lost()
    }

    /// Hears a report; one that answers a question is believed where it lowers the sum, too.
    pub(crate) fn hear(&mut self, report: &Report, answers: bool) -> Back {
        let before = self.clone();
        let mut back = Back::default();
        let mut succeeded = 0;
        for told in &report.particulars.refunds {
            let known = self.refunds.get(&told.id).map(|(_, state)| *state);
            // Pending, then succeeded, then failed, and never back.
            let newer = match (known, told.state) {
                (None, _) => true,
                (Some(known), RefundState::Failed) => known != RefundState::Failed,
                (Some(known), RefundState::Succeeded) => known == RefundState::Pending,
                (Some(_), RefundState::Pending) => false,
            };
            if newer {
                self.refunds
                    .insert(told.id.clone(), (told.amount.0, told.state));
                succeeded += usize::from(told.state == RefundState::Succeeded);
            }
        }
        for told in &report.particulars.disputes {
            let known = self.disputes.get(&told.id).map(|(_, state)| *state);
            let reopens = known.is_some_and(|known| known != DisputeState::Open)
                && told.state == DisputeState::Open;
            if !reopens {
                self.disputes
                    .insert(told.id.clone(), (told.amount.0, told.state));
                back.disputes += usize::from(known.is_none());
                let is_lost = told.state == DisputeState::Lost;
                back.lost += usize::from(is_lost && known != Some(DisputeState::Lost));
            }
        }
        let taken = matches!(
            report.status,
            VendorStatus::Completed | VendorStatus::Review
        );
        if report.returned.0 > 0 || (taken && report.received.0 > 0) {
            self.sum = if answers {
                report.returned.0
            } else {
                self.sum.max(report.returned.0)
            };
        }
        let grew = self.named() + self.unnamed() > before.named() + before.unnamed();
        let all_named = before.unnamed() == 0 && self.unnamed() == 0;
        back.refunds = match grew {
            _ if all_named => (succeeded, succeeded),
            true => (1, succeeded.max(1)),
            false => (0, 0),
        };
        back.more = self.total() > before.total();
        back.less = self.total() < before.total();
        back
    }
}

/// What else a provider told, by name: the newest of each.
pub(crate) type Details = BTreeMap<&'static str, String>;

pub(crate) fn details(told: &Particulars) -> Details {
    fn text(what: &Option<impl std::fmt::Debug>) -> Option<String> {
        what.as_ref().map(|what| format!("{what:?}"))
    }
    let all = [
        ("status", text(&told.provider_status)),
        ("reason", text(&told.reason)),
        ("fee", text(&told.fee)),
        ("authorised", text(&told.authorised_at)),
        ("captured", text(&told.captured_at)),
        ("capture before", text(&told.capture_before)),
        ("instrument", text(&told.instrument)),
    ];
    let told = |(name, text): (_, Option<_>)| text.map(|text| (name, text));
    all.into_iter().filter_map(told).collect()
}
