//! The reference's account of what went back, and of the particulars that a provider tells.

use std::collections::BTreeMap;

use kassette_domain::id::RefundId;
use kassette_domain::lifecycle::NewRefund;
use kassette_domain::provider::{
    DisputeState, Particulars, RefundState, Report, VendorRefund, VendorStatus,
};
use kassette_domain::refund::RefundOrigin;
use kassette_domain::time::Time;
use kassette_domain::work::WorkKind;

/// Refunds of any kind that are kept of one attempt.
pub(crate) const MOST_REFUNDS: usize = 64;

/// Money that was ordered to be given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: RefundId,
    pub(crate) amount: u64,
    pub(crate) state: RefundState,
    pub(crate) origin: RefundOrigin,
    /// The amount and the reason that were asked for.
    pub(crate) asked: (Option<u64>, Option<String>),
    pub(crate) line: Option<WorkKind>,
    /// The provider's id for it.
    pub(crate) reference: Option<String>,
    /// The provider may have it without having said so.
    pub(crate) uncertain: bool,
    pub(crate) sent: Time,
    pub(crate) claimed: Time,
    pub(crate) busy: Option<Time>,
    /// When the product sends it or asks about it next.
    pub(crate) next: Option<Time>,
    /// How much of the provider's sum it explains.
    explains: u64,
}

impl Order {
    pub(crate) fn new(new: &NewRefund, amount: u64, now: Time) -> Self {
        Self {
            id: new.id,
            amount,
            state: RefundState::Pending,
            origin: new.origin,
            asked: (new.amount.map(|amount| amount.0), new.reason.clone()),
            line: new.line.map(|(kind, _)| kind),
            reference: None,
            uncertain: false,
            sent: Time::default(),
            claimed: Time::default(),
            busy: None,
            next: Some(now),
            explains: 0,
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        self.state == RefundState::Pending
    }

    /// The provider surely has nothing of it yet.
    pub(crate) fn is_to_send(&self) -> bool {
        self.is_pending() && !self.uncertain && self.reference.is_none()
    }

    fn counts(&self) -> bool {
        self.state != RefundState::Failed
    }

    pub(crate) fn explains(&self) -> bool {
        self.explains > 0
    }
}

/// A refund that was not ordered here, under the provider's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    pub(crate) amount: u64,
    pub(crate) state: RefundState,
    /// How much of the provider's sum it explains while it has not succeeded.
    explains: u64,
}

/// What went back of an attempt's money. What has an id counts once, under it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Returns {
    /// Refunds that were not ordered here, in the order in which they were told.
    pub(crate) refunds: Vec<(String, Elsewhere)>,
    /// What of them only the provider's sum tells, in pieces.
    pub(crate) pieces: Vec<u64>,
    pub(crate) orders: Vec<Order>,
    pub(crate) disputes: BTreeMap<String, (u64, DisputeState)>,
    /// The provider's own sum.
    sum: u64,
}

/// A refund that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// None for one that was not ordered here.
    pub(crate) order: Option<RefundId>,
    pub(crate) amount: u64,
    /// It had succeeded before.
    pub(crate) late: bool,
    pub(crate) line: Option<WorkKind>,
}

impl Ended {
    fn of(order: &Order, late: bool) -> Self {
        Self {
            order: Some(order.id),
            amount: order.amount,
            late,
            line: order.line,
        }
    }

    const fn elsewhere(amount: u64) -> Self {
        Self {
            order: None,
            amount,
            late: false,
            line: None,
        }
    }
}

/// What a report adds to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Back {
    /// Refunds that succeeded now. What a sum told before may get ids now, and then is not told again.
    pub(crate) given: Vec<Ended>,
    /// Orders that failed now.
    pub(crate) failed: Vec<Ended>,
    /// Orders that were thought never to have reached the provider, and had.
    pub(crate) revived: Vec<(RefundId, u64)>,
    pub(crate) more: bool,
    pub(crate) less: bool,
    /// Disputes that were not known.
    pub(crate) disputes: usize,
    /// Disputes that are lost now.
    pub(crate) lost: usize,
}

fn order_of(state: RefundState) -> u8 {
    match state {
        RefundState::Pending => 0,
        RefundState::Succeeded => 1,
        RefundState::Failed => 2,
    }
}

impl Returns {
    fn named(&self) -> u64 {
        self.elsewhere(|refund| refund.state == RefundState::Succeeded)
    }

    fn elsewhere(&self, are: impl Fn(&Elsewhere) -> bool) -> u64 {
        let refunds = self.refunds.iter().filter(|(_, refund)| are(refund));
        refunds.map(|(_, refund)| refund.amount).sum()
    }

    fn lost(&self) -> u64 {
        let lost = |(_, state): &&(u64, DisputeState)| *state == DisputeState::Lost;
        let disputes = self.disputes.values().filter(lost);
        disputes.map(|(amount, _)| amount).sum()
    }

    fn orders_that(&self, are: impl Fn(&Order) -> bool) -> u64 {
        let orders = self.orders.iter().filter(|order| are(order));
        orders.map(|order| order.amount).sum()
    }

    /// What was given back, by whom ever.
    pub(crate) fn refunded(&self) -> u64 {
        let ours = self.orders_that(|order| order.state == RefundState::Succeeded);
        ours + self.named() + self.unnamed()
    }

    pub(crate) fn total(&self) -> u64 {
        self.refunded() + self.lost()
    }

    /// What only the sum tells of.
    pub(crate) fn unnamed(&self) -> u64 {
        self.pieces.iter().sum()
    }

    /// Everything that is gone or may go.
    pub(crate) fn committed(&self) -> u64 {
        let elsewhere = self.elsewhere(|refund| refund.state != RefundState::Failed);
        let disputed = self.disputes.values();
        let disputed = disputed.filter(|(_, state)| *state != DisputeState::Won);
        let disputed: u64 = disputed.map(|(amount, _)| amount).sum();
        self.orders_that(Order::counts) + elsewhere + self.unnamed() + disputed
    }

    /// What orders for a line of the work list have given back, or may.
    pub(crate) fn for_line(&self, line: WorkKind, also_pending: bool) -> u64 {
        self.orders_that(|order| {
            order.line == Some(line)
                && (order.state == RefundState::Succeeded || (also_pending && order.is_pending()))
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.refunds.len() + self.pieces.len() + self.orders.len()
    }

    /// Refunds that have not failed.
    pub(crate) fn count_not_failed(&self) -> usize {
        let elsewhere = self.refunds.iter();
        let elsewhere = elsewhere.filter(|(_, refund)| refund.state != RefundState::Failed);
        let ours = self.orders.iter().filter(|order| order.counts());
        elsewhere.count() + self.pieces.len() + ours.count()
    }

    /// Hears a report; one that answers a question is believed where it lowers the sum, too.
    pub(crate) fn hear(&mut self, report: &Report, answers: bool, now: Time) -> Back {
        let before = self.total();
        let mut back = Back::default();
        for told in &report.particulars.refunds {
            self.hear_refund(told, now, &mut back);
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
        let tells = report.returned.0 > 0 || (taken && report.received.0 > 0);
        if tells {
            if answers {
                self.sum = report.returned.0;
                for order in self.orders.iter_mut().filter(|order| !order.counts()) {
                    order.explains = 0;
                }
                for (_, refund) in &mut self.refunds {
                    if refund.state == RefundState::Failed {
                        refund.explains = 0;
                    }
                }
            } else {
                self.sum = self.sum.max(report.returned.0);
            }
        }
        self.explain(tells && answers, &mut back);
        back.more = self.total() > before;
        back.less = self.total() < before;
        back
    }

    /// Hears what became of an order; false where the provider names another order's refund.
    pub(crate) fn answer(
        &mut self,
        at: usize,
        reference: &str,
        state: RefundState,
        now: Time,
        back: &mut Back,
    ) -> bool {
        let is_others = |(other, order): (usize, &Order)| {
            other != at && order.reference.as_deref() == Some(reference)
        };
        if self.orders.iter().enumerate().any(is_others) {
            return false;
        }
        let before = self.total();
        self.hear_order(at, reference, state, now, back);
        self.explain(false, back);
        back.more = self.total() > before;
        back.less = self.total() < before;
        true
    }

    fn hear_refund(&mut self, told: &VendorRefund, now: Time, back: &mut Back) {
        let is_it = |order: &Order| {
            told.order == Some(order.id) || order.reference.as_deref() == Some(&told.id)
        };
        if let Some(at) = self.orders.iter().position(is_it) {
            return self.hear_order(at, &told.id, told.state, now, back);
        }
        let full = self.count() >= MOST_REFUNDS;
        let (amount, state) = (told.amount.0, told.state);
        let known = self.refunds.iter_mut().find(|(id, _)| *id == told.id);
        // Pending, then succeeded, then failed, and never back.
        if let Some((_, known)) = known {
            if order_of(state) <= order_of(known.state) {
                return;
            }
            let late = known.state == RefundState::Succeeded;
            if late || state == RefundState::Succeeded {
                let holds = late && self.sum > 0;
                known.explains = if holds { amount } else { 0 };
            }
            (known.amount, known.state) = (amount, state);
        } else {
            let piece = self.pieces.iter().position(|piece| *piece == amount);
            let piece = piece.filter(|_| state == RefundState::Succeeded);
            if full && piece.is_none() {
                return;
            }
            let refund = Elsewhere {
                amount,
                state,
                explains: 0,
            };
            self.refunds.push((told.id.clone(), refund));
            if let Some(piece) = piece {
                // The sum has told it.
                self.pieces.remove(piece);
                return;
            }
        }
        if state == RefundState::Succeeded {
            back.given.push(Ended::elsewhere(amount));
        }
    }

    fn hear_order(
        &mut self,
        at: usize,
        reference: &str,
        mut state: RefundState,
        now: Time,
        back: &mut Back,
    ) {
        let order = &mut self.orders[at];
        let never_was = order.state == RefundState::Failed && order.reference.is_none();
        let named = order.reference.is_none();
        // The provider's first id for it counts.
        order.reference.get_or_insert_with(|| reference.to_owned());
        // A notice that did not name the order was about it.
        let twin = self.refunds.iter().position(|(id, _)| id == reference);
        let twin = twin
            .filter(|_| named)
            .map(|twin| self.refunds.remove(twin).1);
        let told = twin
            .as_ref()
            .is_some_and(|twin| twin.state == RefundState::Succeeded);
        if let Some(twin) = twin {
            let explains = if told && self.sum > 0 {
                twin.amount
            } else {
                twin.explains
            };
            order.explains = order.amount.min(order.explains + explains);
            if order_of(twin.state) > order_of(state) {
                state = twin.state;
            }
        }
        if !never_was && order_of(state) <= order_of(order.state) {
            return;
        }
        let late = order.state == RefundState::Succeeded;
        order.state = state;
        order.uncertain = false;
        order.next = order.is_pending().then_some(now);
        if never_was {
            back.revived.push((order.id, order.amount));
        }
        match state {
            RefundState::Succeeded if !told => back.given.push(Ended::of(order, false)),
            RefundState::Failed => back.failed.push(Ended::of(order, late)),
            _ => {}
        }
    }

    /// Ends an order that surely was never made.
    pub(crate) fn never_made(&mut self, at: usize, back: &mut Back) {
        let order = &mut self.orders[at];
        if order.is_pending() && order.reference.is_none() {
            order.state = RefundState::Failed;
            back.failed.push(Ended::of(order, false));
        }
    }

    /// What the sum holds beyond refunds and disputes that have ids is explained by orders, the oldest
    /// first, else by refunds elsewhere.
    fn explain(&mut self, fresh: bool, back: &mut Back) {
        let rest = self.sum.saturating_sub(self.named() + self.lost());
        let orders: u64 = self.orders.iter().map(|order| order.explains).sum();
        let elsewhere = self.refunds.iter();
        let elsewhere: u64 = elsewhere.map(|(_, refund)| refund.explains).sum();
        let explained = orders + elsewhere + self.unnamed();
        let mut missing = rest.saturating_sub(explained);
        for order in self.orders.iter_mut().filter(|order| order.counts()) {
            let more = missing.min(order.amount - order.explains);
            order.explains += more;
            missing -= more;
        }
        for (_, refund) in &mut self.refunds {
            if refund.state == RefundState::Pending {
                let more = missing.min(refund.amount - refund.explains);
                refund.explains += more;
                missing -= more;
            }
        }
        // An older sum can hold what has failed since.
        let orders = self.orders.iter_mut().filter(|order| !order.counts());
        let orders = orders.map(|order| (order.amount, &mut order.explains));
        let failed = |(_, refund): &&mut (String, Elsewhere)| refund.state == RefundState::Failed;
        let elsewhere = self.refunds.iter_mut().filter(failed);
        let elsewhere = elsewhere.map(|(_, refund)| (refund.amount, &mut refund.explains));
        for (amount, explains) in orders.chain(elsewhere).filter(|_| !fresh) {
            let more = missing.min(amount - *explains);
            *explains += more;
            missing -= more;
        }
        if missing > 0 {
            let full = self.count() >= MOST_REFUNDS;
            match self.pieces.last_mut().filter(|_| full) {
                Some(last) => *last += missing,
                None => self.pieces.push(missing),
            }
            back.given.push(Ended::elsewhere(missing));
        }
        let mut surplus = explained.saturating_sub(rest);
        self.explain_less(&mut surplus, true);
        let mut told = surplus.min(self.unnamed());
        surplus -= told;
        let mut gone = told;
        while gone > 0 {
            let last = self.pieces.pop().unwrap();
            if last > gone {
                self.pieces.push(last - gone);
                break;
            }
            gone -= last;
        }
        back.given.retain(|given| {
            let again = given.order.is_none() && given.amount <= told;
            told -= if again { given.amount } else { 0 };
            !again
        });
        self.explain_less(&mut surplus, false);
    }

    /// The newest first, those elsewhere before orders.
    fn explain_less(&mut self, surplus: &mut u64, failed_only: bool) {
        let elsewhere = self.refunds.iter_mut().rev().map(|(_, refund)| {
            let failed = refund.state == RefundState::Failed;
            (failed, &mut refund.explains)
        });
        let orders = self.orders.iter_mut().rev();
        let orders = orders.map(|order| (!order.counts(), &mut order.explains));
        for (failed, explains) in elsewhere.chain(orders) {
            if failed || !failed_only {
                let less = (*surplus).min(*explains);
                *explains -= less;
                *surplus -= less;
            }
        }
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
