//! Reports about a link and its payments.
use kassette_plugin::provider::{
    Capture, Dispute, DisputeKind, DisputeState, Money, Particulars, RefundState, Report,
    Settlement, Status,
};
use kassette_plugin::time;

use crate::tries::{ends_at, is_alive, was_given_back};
use crate::wire::{Link, Payment, Phase, Refunds, Stage};

/// Maximum number of ids in a report.
const MOST_REFERENCES: usize = 8;
/// Maximum number of sentences about unreadable parts.
const MOST_SENTENCES: usize = 8;

/// Everything that this call has read about a link.
pub(crate) struct Findings<'a> {
    pub(crate) link: &'a Link,
    /// All tries to pay it, newest first.
    pub(crate) tries: &'a [Payment],
    /// Refunds by payment id, for each captured payment whose refunds were read.
    pub(crate) refunds: &'a [(String, Refunds)],
    pub(crate) disputes: &'a [Dispute],
    /// A sentence about each part that cannot be parsed.
    pub(crate) unreadable: &'a [String],
    /// Milliseconds since 1970.
    pub(crate) now: u64,
}

/// Report about a link. `None` if its status is not known: a paid link without a payment, or an undocumented
/// status without a capture.
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
    let particulars = particulars(known, &taken);
    // The bank's reason comes first, and the time until which the try may still be authorized last: until then the
    // payer cannot start another payment.
    let detail = match (status, &particulars.reason) {
        (Status::Pending | Status::Declined | Status::Cancelled, Some(reason)) => {
            format!("{reason}: {detail}{}", until(known, status))
        }
        _ => detail.to_owned(),
    };
    Some(Report {
        reference: known.link.id.clone(),
        status,
        settlement,
        received,
        given_back,
        detail,
        particulars,
    })
}

/// For a pending payment, a clause with the time at which the last open try becomes final; otherwise empty.
fn until(known: &Findings<'_>, status: Status) -> String {
    let alive = known.tries.iter().filter(|each| is_alive(each, known.now));
    match alive.filter_map(ends_at).max() {
        Some(seconds) if status == Status::Pending => {
            let until = time::rfc3339(seconds.saturating_mul(1_000));
            format!("; the last try may be authorised until {until}")
        }
        _ => String::new(),
    }
}

/// The part of a payment that belongs to the order. If the account's payers bear Razorpay's fee, the payment is
/// the order's amount plus `fee`, which is known after the capture.
pub(crate) fn own_money(link: &Link, payment: &Payment) -> Money {
    let Money { amount, currency } = payment.money.clone();
    let due = link.due.amount;
    let fee = payment.fee.unwrap_or(0);
    let own = if currency != link.due.currency || amount <= due {
        amount
    } else if amount - due == fee || (payment.payer_bears_fee && fee == 0) {
        due
    } else if payment.payer_bears_fee {
        amount.saturating_sub(fee)
    } else {
        amount
    };
    Money {
        amount: own,
        currency,
    }
}

/// Whether a try is authorized and not captured.
pub(crate) fn is_authorized(tries: &[Payment]) -> bool {
    tries.iter().any(|each| each.phase == Phase::Authorized)
}

/// Status and detail if nothing is captured or authorized. `None` if the link's status contradicts this. A link
/// that has ended is pending while a try may still be authorized.
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
        Stage::Cancelled if was_called_off(known.tries) => {
            (Status::Cancelled, "called off by the payer")
        }
        Stage::Cancelled => (Status::Declined, "the payment failed"),
        Stage::Expired => (Status::Expired, "expired"),
        Stage::Paid | Stage::PartiallyPaid | Stage::Unknown => return None,
    })
}

/// Whether the payer cancelled the newest try: "Error Reasons".
fn was_called_off(tries: &[Payment]) -> bool {
    let reason = tries.first().and_then(|each| each.reason.as_deref());
    matches!(
        reason,
        Some("payment_cancelled" | "payment_cancelled_by_user")
    )
}

fn taken_as(
    received: u64,
    given_back: u64,
    disputes: &[Dispute],
) -> (Status, Settlement, &'static str) {
    let open = |kind: DisputeKind| {
        let mut disputes = disputes.iter();
        disputes.any(|each| each.state == DisputeState::Open && each.kind == kind)
    };
    if given_back >= received {
        (Status::Completed, Settlement::Confirmed, "refunded")
    } else if open(DisputeKind::Dispute) {
        (Status::Review, Settlement::Pending, "disputed by the payer")
    } else if open(DisputeKind::Inquiry) {
        // The money was received; an operator decides whether to deliver.
        (
            Status::Review,
            Settlement::Confirmed,
            "the bank asks about it",
        )
    } else {
        (Status::Completed, Settlement::Confirmed, "captured")
    }
}

/// Captured amount: usually of one payment, but a link can be paid more than one time. Only amounts in the first
/// payment's currency count.
fn received(link: &Link, taken: &[&Payment]) -> Money {
    let currency = taken
        .first()
        .map_or(&link.due.currency, |payment| &payment.money.currency);
    let same = taken.iter().map(|payment| own_money(link, payment));
    let same = same.filter(|money| money.currency == *currency);
    Money {
        amount: same.fold(0, |sum: u64, money| sum.saturating_add(money.amount)),
        currency: currency.clone(),
    }
}

/// Refunded amount: succeeded refunds and lost disputes, at most the amount received. If not all refunds were
/// read, Razorpay's own sum, which may include pending ones.
fn given_back(known: &Findings<'_>, taken: &[&Payment]) -> u64 {
    let refunds = taken.iter().map(|payment| {
        let read = known.refunds.iter().find(|(of, _)| *of == payment.id);
        let complete = read.filter(|(_, refunds)| refunds.complete);
        complete.map_or(payment.refunded, |(_, refunds)| {
            let made = refunds.read.iter();
            let made = made.filter(|refund| refund.state == RefundState::Succeeded);
            made.fold(0, |sum, refund| sum.saturating_add(refund.amount))
        })
    });
    let disputes = known.disputes.iter();
    let lost = disputes.filter(|dispute| dispute.state == DisputeState::Lost);
    let sum = refunds
        .chain(lost.map(|dispute| dispute.amount))
        .fold(0, u64::saturating_add);
    sum.min(received(known.link, taken).amount)
}

/// Details about the captured payment, or else the authorized or the newest try.
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
        .flat_map(|(_, refunds)| refunds.read.clone());
    let disputes = known.disputes.iter().cloned();
    let captures = taken.iter().map(|payment| Capture {
        id: payment.id.clone(),
        amount: own_money(known.link, payment).amount,
        at: None,
        reversed: false,
    });
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
        captures: captures.collect(),
        unreadable: known
            .unreadable
            .iter()
            .take(MOST_SENTENCES)
            .cloned()
            .collect(),
        refunds: refunds.collect(),
        disputes: disputes.collect(),
        ..Particulars::default()
    }
}

/// The order, the main payment with the bank's numbers, then the other tries.
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
    use kassette_plugin::provider::Refund;

    /// A minute after the start of the tries.
    const SOON: u64 = (BEGAN + 60) * 1_000;
    /// A time when all tries are final.
    const LATER: u64 = (BEGAN + 6 * 24 * 3_600) * 1_000;

    fn tell(
        status: &str,
        tries: &[Payment],
        refunds: &[(String, Refunds)],
        disputes: &[Dispute],
        now: u64,
    ) -> Option<Report> {
        let link = read(&told(status)).unwrap();
        report(&Findings {
            link: &link,
            tries,
            refunds,
            disputes,
            unreadable: &[],
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
            // An authorization that expired uncaptured.
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

    fn objection(state: DisputeState, amount: u64, kind: DisputeKind) -> Dispute {
        Dispute {
            id: "disp_1".into(),
            kind,
            amount,
            withdrawn: 0,
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
            state,
            reason: Some("fraud".into()),
            respond_by: None,
        }
    }

    #[test]
    fn disputes_are_told() {
        let tell = |objection: Dispute| {
            let captured = [paid("captured", true, 0)];
            tell("paid", &captured, &[], &[objection], SOON).unwrap()
        };
        let lost = tell(objection(DisputeState::Lost, 4990, DisputeKind::Dispute));
        assert_eq!((lost.status, lost.given_back), (Status::Completed, 4990));
        assert_eq!(lost.particulars.disputes.len(), 1);
        let disputed = tell(objection(DisputeState::Open, 4990, DisputeKind::Dispute));
        assert_eq!(
            (disputed.status, disputed.settlement),
            (Status::Review, Settlement::Pending)
        );
        let asked = tell(objection(DisputeState::Open, 4990, DisputeKind::Inquiry));
        assert_eq!(
            (asked.status, asked.settlement),
            (Status::Review, Settlement::Confirmed)
        );
        let won = tell(objection(DisputeState::Won, 4990, DisputeKind::Dispute));
        assert_eq!((won.status, won.given_back), (Status::Completed, 0));
    }

    #[test]
    fn refunds_that_failed_or_are_under_way_are_not_given_back() {
        let refund = |id: &str, state| Refund {
            id: id.into(),
            order_id: None,
            amount: 990,
            paid_out: None,
            at: None,
            state,
        };
        let read = vec![
            refund("rfnd_1", RefundState::Failed),
            refund("rfnd_2", RefundState::Succeeded),
            refund("rfnd_3", RefundState::Pending),
        ];
        let read = Refunds {
            read,
            unreadable: Vec::new(),
            complete: true,
        };
        let read = [("pay_1".to_owned(), read)];
        let captured = [paid("captured", true, 2970)];
        let told = tell("paid", &captured, &read, &[], SOON).unwrap();
        assert_eq!((told.status, told.given_back), (Status::Completed, 990));
        assert_eq!(told.particulars.refunds.len(), 3);
        // Razorpay's own sum, because the refunds were not read.
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

    #[test]
    fn the_fee_that_the_payer_bears_is_not_received_for_the_order() {
        let pays = |amount: u64, fee: u64, bearer: &str| {
            let change = serde_json::json!({ "amount": amount, "fee": fee, "fee_bearer": bearer });
            let told_payment = crate::wire::tests::payment_told(&change);
            let payment = crate::wire::payment(told_payment.to_string().as_bytes()).unwrap();
            let told = tell("paid", &[payment], &[], &[], SOON).unwrap();
            (told.received.amount, told.particulars.fee.unwrap().amount)
        };
        assert_eq!(pays(5108, 118, "customer"), (4990, 118));
        assert_eq!(pays(5108, 118, "platform"), (4990, 118));
        assert_eq!(pays(5108, 0, "customer"), (4990, 0));
        assert_eq!(pays(4990, 118, "customer"), (4990, 118));
        // More than was due, but not because of the fee.
        assert_eq!(pays(6000, 118, "platform"), (6000, 118));
        assert_eq!(pays(6000, 118, "customer"), (5882, 118));
    }

    #[test]
    fn a_try_that_the_payer_called_off_is_no_decline() {
        let tried = [failed("payment_cancelled")];
        let (status, _) = said("cancelled", &tried, LATER).unwrap();
        assert_eq!(status, Status::Cancelled);
        let told = tell("created", &tried, &[], &[], SOON).unwrap();
        assert_eq!(told.status, Status::Pending);
        assert_eq!(
            told.detail,
            "payment_cancelled: tried; the payer may try again; the last try may be authorised until 2027-01-20T08:00:00Z"
        );
    }

    #[test]
    fn a_declined_payer_learns_until_when_the_try_may_be_authorised() {
        let tried = [failed("insufficient_funds"), failed("incorrect_pin")];
        let told = tell("cancelled", &tried, &[], &[], SOON).unwrap();
        assert_eq!(
            told.detail,
            "insufficient_funds: over, but a try to pay it may still be authorised; \
             the last try may be authorised until 2027-01-15T08:15:00Z"
        );
        let over = tell("cancelled", &tried, &[], &[], LATER).unwrap();
        assert_eq!(over.detail, "insufficient_funds: the payment failed");
    }

    #[test]
    fn no_more_is_given_back_than_was_received() {
        let captured = [paid("captured", true, 9980)];
        let told = tell("paid", &captured, &[], &[], SOON).unwrap();
        assert_eq!(told.given_back, 4990);
    }
}
