//! What a link and its payments say in the host's words.
use kassette_plugin::provider::{
    DisputeState, Money, Particulars, Refund, RefundState, Report, Settlement, Status,
};

use crate::tries::{is_alive, was_given_back};
use crate::wire::{Link, Objection, Payment, Phase, Stage};

/// Most ids, refunds and disputes that a report tells.
const MOST_REFERENCES: usize = 8;
const MOST_ITEMS: usize = 64;

/// What was read about a link in this call.
pub(crate) struct Findings<'a> {
    pub(crate) link: &'a Link,
    /// Every try to pay it, the newest first.
    pub(crate) tries: &'a [Payment],
    /// Of each captured payment whose refunds were read, all of them.
    pub(crate) refunds: &'a [(String, Vec<Refund>)],
    pub(crate) disputes: &'a [Objection],
    /// In milliseconds.
    pub(crate) now: u64,
}

/// Where a payment stands. None where that cannot be told: a paid link shows no payment.
pub(crate) fn report(known: &Findings<'_>) -> Option<Report> {
    let taken: Vec<&Payment> = known.tries.iter().filter(|each| each.captured).collect();
    let received = received(known.link, &taken);
    let given_back = given_back(known, &taken);
    let (status, settlement, detail) = if !taken.is_empty() {
        taken_as(received.amount, given_back, known.disputes)
    } else if is_authorized(known.tries) {
        let detail = "authorized; given back by Razorpay if it is not captured";
        (Status::Processing, Settlement::Pending, detail)
    } else {
        let (status, detail) = untaken(known)?;
        (status, Settlement::Pending, detail)
    };
    Some(Report {
        reference: known.link.id.clone(),
        status,
        settlement,
        received,
        given_back,
        detail: detail.to_owned(),
        particulars: particulars(known, &taken),
    })
}

/// Whether the payer has approved, and nothing was taken yet.
pub(crate) fn is_authorized(tries: &[Payment]) -> bool {
    tries.iter().any(|each| each.phase == Phase::Authorized)
}

/// Nothing is taken and nothing held. A link that is over proves nothing as long as a try to pay it may
/// still be authorised.
fn untaken(known: &Findings<'_>) -> Option<(Status, &'static str)> {
    let alive = known.tries.iter().any(|each| is_alive(each, known.now));
    let released = known.tries.iter().any(was_given_back);
    Some(match known.link.stage {
        Stage::Created if known.tries.is_empty() => (Status::Pending, "created"),
        Stage::Created => (Status::Pending, "tried; the payer may try again"),
        Stage::Cancelled | Stage::Expired if alive => (
            Status::Pending,
            "over, but a try to pay it may still be authorised",
        ),
        Stage::Cancelled if released => (Status::Declined, "given back uncaptured"),
        Stage::Cancelled if known.tries.is_empty() => (Status::Declined, "cancelled"),
        Stage::Cancelled => (Status::Declined, "the payment failed"),
        Stage::Expired => (Status::Expired, "expired"),
        Stage::Paid | Stage::PartiallyPaid => return None,
    })
}

fn taken_as(
    received: u64,
    given_back: u64,
    disputes: &[Objection],
) -> (Status, Settlement, &'static str) {
    let open = |is_inquiry: bool| {
        disputes
            .iter()
            .any(|each| each.dispute.state == DisputeState::Open && each.is_inquiry == is_inquiry)
    };
    if given_back >= received {
        (Status::Completed, Settlement::Confirmed, "refunded")
    } else if open(false) {
        (Status::Review, Settlement::Pending, "disputed by the payer")
    } else if open(true) {
        // The money is there; whether to deliver is what a person has to decide.
        (
            Status::Review,
            Settlement::Confirmed,
            "the bank asks about it",
        )
    } else {
        (Status::Completed, Settlement::Confirmed, "captured")
    }
}

/// What was captured: of one payment, but for one that was made twice.
fn received(link: &Link, taken: &[&Payment]) -> Money {
    let currency = taken
        .first()
        .map_or(&link.due.currency, |payment| &payment.money.currency);
    let same = |payment: &&&Payment| payment.money.currency == *currency;
    let amounts = taken.iter().filter(same);
    Money {
        amount: amounts.fold(0, |sum: u64, payment| {
            sum.saturating_add(payment.money.amount)
        }),
        currency: currency.clone(),
    }
}

/// Given back: refunds that the payer has, and disputes that were lost. Razorpay's own sum, where the
/// refunds were not read, may hold some that are under way.
fn given_back(known: &Findings<'_>, taken: &[&Payment]) -> u64 {
    let refunds = taken.iter().map(|payment| {
        let read = known.refunds.iter().find(|(of, _)| *of == payment.id);
        read.map_or(payment.refunded, |(_, refunds)| {
            let made = refunds
                .iter()
                .filter(|refund| refund.state == RefundState::Succeeded);
            made.fold(0, |sum, refund| sum.saturating_add(refund.amount))
        })
    });
    let disputes = known.disputes.iter().map(|each| &each.dispute);
    let lost = disputes.filter(|dispute| dispute.state == DisputeState::Lost);
    refunds
        .chain(lost.map(|dispute| dispute.amount))
        .fold(0, u64::saturating_add)
}

/// What is told beside: the payment that took the money counts, or else the newest try.
fn particulars(known: &Findings<'_>, taken: &[&Payment]) -> Particulars {
    let held = || {
        let mut tries = known.tries.iter();
        tries.find(|each| each.phase == Phase::Authorized)
    };
    let main = taken.first().copied();
    let main = main.or_else(held).or_else(|| known.tries.first());
    let stage = known.link.stage.word();
    let fees = taken.iter().filter_map(|payment| payment.fee);
    let fee = fees.reduce(u64::saturating_add);
    let refunds = known
        .refunds
        .iter()
        .flat_map(|(_, refunds)| refunds.clone());
    let disputes = known.disputes.iter().map(|each| each.dispute.clone());
    Particulars {
        provider_status: Some(
            main.map_or(stage, |payment| payment.phase.word())
                .to_owned(),
        ),
        reason: main
            .filter(|payment| payment.phase == Phase::Failed)
            .and_then(|payment| payment.reason.clone()),
        references: references(known, main),
        fee: fee.map(|amount| Money {
            amount,
            currency: received(known.link, taken).currency,
        }),
        instrument: main.and_then(|payment| payment.instrument.clone()),
        refunds: refunds.take(MOST_ITEMS).collect(),
        disputes: disputes.take(MOST_ITEMS).collect(),
        ..Particulars::default()
    }
}

/// The order, the payment that counts with the bank's numbers for it, then the other tries.
fn references(known: &Findings<'_>, main: Option<&Payment>) -> Vec<String> {
    let mut references: Vec<String> = known.link.order.iter().cloned().collect();
    if let Some(payment) = main {
        references.push(payment.id.clone());
        references.extend(payment.numbers.iter().cloned());
    }
    let others = known.tries.iter().map(|payment| &payment.id);
    for id in others {
        if !references.contains(id) {
            references.push(id.clone());
        }
    }
    references.truncate(MOST_REFERENCES);
    references
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{BEGAN, failed, paid, read, told};
    use kassette_plugin::provider::Dispute;

    /// A minute after the tries began.
    const SOON: u64 = (BEGAN + 60) * 1_000;
    /// When no try can bring money any more.
    const LATER: u64 = (BEGAN + 6 * 24 * 3_600) * 1_000;

    fn tell(
        status: &str,
        tries: &[Payment],
        refunds: &[(String, Vec<Refund>)],
        disputes: &[Objection],
        now: u64,
    ) -> Option<Report> {
        let link = read(&told(status)).unwrap();
        report(&Findings {
            link: &link,
            tries,
            refunds,
            disputes,
            now,
        })
    }

    fn said(status: &str, tries: &[Payment], now: u64) -> Option<(Status, Settlement)> {
        let report = tell(status, tries, &[], &[], now)?;
        Some((report.status, report.settlement))
    }

    #[test]
    fn each_state_has_its_report() {
        for (link, tries, status) in [
            ("created", vec![], Status::Pending),
            ("created", vec![paid("created", false, 0)], Status::Pending),
            ("created", vec![failed("payment_declined")], Status::Pending),
            (
                "created",
                vec![failed("payment_declined"), paid("authorized", false, 0)],
                Status::Processing,
            ),
            (
                "cancelled",
                vec![paid("authorized", false, 0)],
                Status::Processing,
            ),
            ("cancelled", vec![], Status::Declined),
            ("expired", vec![], Status::Expired),
            // An authorisation that ran out: given back before anything was taken.
            (
                "cancelled",
                vec![paid("refunded", false, 4990)],
                Status::Declined,
            ),
            (
                "expired",
                vec![paid("refunded", false, 4990)],
                Status::Expired,
            ),
        ] {
            assert_eq!(
                said(link, &tries, SOON),
                Some((status, Settlement::Pending)),
                "{link} {tries:?}"
            );
        }
        for over in ["created", "paid", "cancelled", "expired"] {
            assert_eq!(
                said(over, &[paid("captured", true, 0)], SOON),
                Some((Status::Completed, Settlement::Confirmed)),
                "{over}"
            );
        }
        assert_eq!(said("paid", &[], SOON), None);
    }

    #[test]
    fn a_link_that_is_over_proves_nothing_while_a_try_may_be_authorised_late() {
        for (tries, still) in [
            (vec![failed("payment_timed_out")], SOON),
            (vec![failed("insufficient_funds")], SOON),
            (vec![paid("created", false, 0)], SOON),
        ] {
            for (over, ended) in [
                ("cancelled", Status::Declined),
                ("expired", Status::Expired),
            ] {
                let pending = Some((Status::Pending, Settlement::Pending));
                assert_eq!(said(over, &tries, still), pending, "{over} {tries:?}");
                assert_eq!(
                    said(over, &tries, LATER),
                    Some((ended, Settlement::Pending))
                );
            }
        }
    }

    fn objection(state: DisputeState, amount: u64, is_inquiry: bool) -> Objection {
        Objection {
            dispute: Dispute {
                id: "disp_1".into(),
                amount,
                state,
                reason: Some("fraud".into()),
                respond_by: None,
            },
            is_inquiry,
        }
    }

    #[test]
    fn disputes_are_told() {
        let tell = |objection: Objection| {
            let captured = [paid("captured", true, 0)];
            tell("paid", &captured, &[], &[objection], SOON).unwrap()
        };
        let lost = tell(objection(DisputeState::Lost, 4990, false));
        assert_eq!((lost.status, lost.given_back), (Status::Completed, 4990));
        assert_eq!(lost.particulars.disputes.len(), 1);
        let disputed = tell(objection(DisputeState::Open, 4990, false));
        assert_eq!(
            (disputed.status, disputed.settlement),
            (Status::Review, Settlement::Pending)
        );
        let asked = tell(objection(DisputeState::Open, 4990, true));
        assert_eq!(
            (asked.status, asked.settlement),
            (Status::Review, Settlement::Confirmed)
        );
        let won = tell(objection(DisputeState::Won, 4990, false));
        assert_eq!((won.status, won.given_back), (Status::Completed, 0));
    }

    #[test]
    fn refunds_that_failed_or_are_under_way_are_not_given_back() {
        let refund = |id: &str, state| Refund {
            id: id.into(),
            order_id: None,
            amount: 990,
            state,
        };
        let read = [(
            "pay_1".to_owned(),
            vec![
                refund("rfnd_1", RefundState::Failed),
                refund("rfnd_2", RefundState::Succeeded),
                refund("rfnd_3", RefundState::Pending),
            ],
        )];
        let captured = [paid("captured", true, 2970)];
        let told = tell("paid", &captured, &read, &[], SOON).unwrap();
        assert_eq!((told.status, told.given_back), (Status::Completed, 990));
        assert_eq!(told.particulars.refunds.len(), 3);
        // Razorpay's own sum, where the refunds were not read.
        let told = tell("paid", &captured, &[], &[], SOON).unwrap();
        assert_eq!(told.given_back, 2970);
    }

    #[test]
    fn a_payment_that_was_made_twice_is_told_with_its_sum() {
        let twice = [paid("captured", true, 0), paid("captured", true, 0)];
        let told = tell("paid", &twice, &[], &[], SOON).unwrap();
        assert_eq!(told.received.amount, 9980);
        assert_eq!(told.particulars.fee.unwrap().amount, 236);
    }

    #[test]
    fn the_payment_that_counts_is_told_with_its_ids() {
        let mut first = failed("incorrect_pin");
        first.id = "pay_0".into();
        let tries = [first, paid("captured", true, 0)];
        let told = tell("paid", &tries, &[], &[], SOON).unwrap().particulars;
        assert_eq!(told.provider_status.as_deref(), Some("captured"));
        assert_eq!(
            told.references,
            ["order_1", "pay_1", "103608848276", "pay_0"]
        );
        assert_eq!(told.instrument.as_deref(), Some("upi @okaxis"));
        assert_eq!(told.reason, None);
    }

    #[test]
    fn a_refused_try_tells_its_reason_while_the_payer_may_go_on() {
        let told = tell("created", &[failed("incorrect_pin")], &[], &[], SOON).unwrap();
        assert_eq!(told.status, Status::Pending);
        let told = told.particulars;
        assert_eq!(told.reason.as_deref(), Some("incorrect_pin"));
        assert_eq!(told.provider_status.as_deref(), Some("failed"));
    }
}
