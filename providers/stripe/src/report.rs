//! What a session and its payment say in the host's words.
use kassette_plugin::provider::{Money, Report, Settlement, Status};

use crate::wire::{Dispute, Payment, Phase, Session, Stage};

/// Most bytes of a report's detail.
const MOST_DETAIL: usize = 200;

/// Where a payment stands. None where that cannot be told yet: a try was declined, and the session
/// is still open for another one.
///
/// `disputes` are those of a disputed payment; `kept_open` says that a session may stay open after a
/// decline, so that its payment still waits for the payer.
pub(crate) fn report(
    session: &Session,
    disputes: &[Dispute],
    kept_open: bool,
    now: u64,
) -> Option<Report> {
    let (status, settlement, detail) = match &session.payment {
        Some(payment) => standing(session, payment, disputes, kept_open, now)?,
        None => match session.stage {
            Stage::Open => (Status::Pending, Settlement::Pending, "open".to_owned()),
            Stage::Expired => ended(session, now),
            // Complete without a payment: for a session of nothing, which ours is not.
            Stage::Complete => return None,
        },
    };
    let payment = session.payment.as_ref();
    let nothing = Money {
        amount: 0,
        currency: session.due.currency.clone(),
    };
    Some(Report {
        reference: session.id.clone(),
        status,
        settlement,
        received: payment.map_or(nothing, |payment| payment.received.clone()),
        returned: payment.map_or(0, |payment| returned(payment, disputes)),
        detail: cut(detail),
    })
}

fn standing(
    session: &Session,
    payment: &Payment,
    disputes: &[Dispute],
    kept_open: bool,
    now: u64,
) -> Option<(Status, Settlement, String)> {
    let failed = payment.failed.as_deref();
    let said = |status, settlement, detail: &str| Some((status, settlement, detail.to_owned()));
    match (payment.phase, session.stage) {
        (Phase::Succeeded, _) => Some(taken(payment, disputes)),
        (Phase::RequiresCapture, _) => {
            said(Status::Processing, Settlement::Pending, "requires_capture")
        }
        // The payer has done their part; only the outcome is not known yet.
        (Phase::Processing, _) => said(
            Status::VerificationPending,
            Settlement::Pending,
            "processing",
        ),
        // Given back, or run out, before anything was captured.
        (Phase::Canceled, Stage::Complete) => {
            said(Status::Declined, Settlement::Pending, "canceled")
        }
        (_, Stage::Expired) => Some(ended(session, now)),
        // Its session can take no other try.
        (Phase::RequiresPaymentMethod, Stage::Complete) => said(
            Status::Declined,
            Settlement::Pending,
            failed.unwrap_or("the payment failed"),
        ),
        (_, Stage::Complete) => said(
            Status::VerificationPending,
            Settlement::Pending,
            "the payer has a step to take",
        ),
        (Phase::RequiresPaymentMethod, Stage::Open) => match failed {
            Some(_) if !kept_open => None,
            Some(why) => said(Status::Pending, Settlement::Pending, why),
            None => said(Status::Pending, Settlement::Pending, "open"),
        },
        (_, Stage::Open) => said(Status::Pending, Settlement::Pending, "the payer is paying"),
    }
}

/// The money was taken; what became of it since?
fn taken(payment: &Payment, disputes: &[Dispute]) -> (Status, Settlement, String) {
    let (status, settlement, detail) = if returned(payment, disputes) >= payment.received.amount {
        (Status::Completed, Settlement::Confirmed, "refunded")
    } else if disputes.contains(&Dispute::Open) {
        (Status::Review, Settlement::Pending, "disputed by the payer")
    } else if payment.in_review {
        // The money is there; whether to deliver is what a person has to decide.
        (Status::Review, Settlement::Confirmed, "held for review")
    } else {
        (Status::Completed, Settlement::Confirmed, "succeeded")
    };
    (status, settlement, detail.to_owned())
}

/// An expired session: called off before its time, or out of it. Nothing was taken, nothing can be.
fn ended(session: &Session, now: u64) -> (Status, Settlement, String) {
    if now < session.expires_at.saturating_mul(1_000) {
        let why = session
            .payment
            .as_ref()
            .and_then(|payment| payment.failed.as_deref());
        let why = why.map_or_else(|| "called off".to_owned(), |why| format!("declined: {why}"));
        (Status::Declined, Settlement::Pending, why)
    } else {
        (Status::Expired, Settlement::Pending, "expired".to_owned())
    }
}

/// Given back: refunds, and disputes that were lost.
fn returned(payment: &Payment, disputes: &[Dispute]) -> u64 {
    let lost = disputes.iter().map(|dispute| match dispute {
        Dispute::Lost(amount) => *amount,
        Dispute::Open | Dispute::Over => 0,
    });
    lost.fold(payment.refunded, u64::saturating_add)
}

fn cut(mut detail: String) -> String {
    let end = (0..=MOST_DETAIL.min(detail.len()))
        .rev()
        .find(|&at| detail.is_char_boundary(at));
    detail.truncate(end.unwrap_or(0));
    detail
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{paid, paying, read, told};
    use serde_json::{Value, json};

    const BEFORE: u64 = 1_800_000_000_000;
    const AFTER: u64 = 1_800_003_600_000;

    fn said(told: &Value, disputes: &[Dispute], now: u64) -> Option<(Status, Settlement)> {
        let report = report(&read(told).unwrap(), disputes, false, now)?;
        Some((report.status, report.settlement))
    }

    #[test]
    fn each_state_has_its_report() {
        for (told, status, settlement) in [
            (told("open"), Status::Pending, Settlement::Pending),
            (told("expired"), Status::Declined, Settlement::Pending),
            (
                paying("open", "requires_action"),
                Status::Pending,
                Settlement::Pending,
            ),
            (
                paying("complete", "processing"),
                Status::VerificationPending,
                Settlement::Pending,
            ),
            (
                paying("complete", "requires_capture"),
                Status::Processing,
                Settlement::Pending,
            ),
            (
                paying("complete", "requires_payment_method"),
                Status::Declined,
                Settlement::Pending,
            ),
            (
                paying("complete", "canceled"),
                Status::Declined,
                Settlement::Pending,
            ),
            (
                paying("expired", "canceled"),
                Status::Declined,
                Settlement::Pending,
            ),
            (paid(), Status::Completed, Settlement::Confirmed),
        ] {
            assert_eq!(
                said(&told, &[], BEFORE),
                Some((status, settlement)),
                "{told}"
            );
        }
        assert_eq!(
            said(&told("expired"), &[], AFTER),
            Some((Status::Expired, Settlement::Pending))
        );
    }

    #[test]
    fn a_decline_that_can_still_be_paid_proves_nothing_or_waits_where_that_is_wanted() {
        let mut told = paying("open", "requires_payment_method");
        told["payment_intent"]["last_payment_error"] =
            json!({ "code": "card_declined", "decline_code": "insufficient_funds" });
        let session = read(&told).unwrap();
        assert_eq!(report(&session, &[], false, BEFORE), None);
        let kept = report(&session, &[], true, BEFORE).unwrap();
        assert_eq!(kept.status, Status::Pending);
        assert_eq!(kept.detail, "card_declined insufficient_funds");
    }

    #[test]
    fn what_was_received_is_the_payments_word_not_the_sessions() {
        let mut told = paid();
        told["payment_intent"]["amount_received"] = json!(4989);
        told["payment_intent"]["currency"] = json!("usd");
        let report = report(&read(&told).unwrap(), &[], false, BEFORE).unwrap();
        assert_eq!(
            report.received,
            Money {
                amount: 4989,
                currency: "USD".into()
            }
        );
    }

    #[test]
    fn a_review_in_the_dashboard_is_one_until_it_is_closed() {
        let mut told = paid();
        let review = |open: bool| json!({ "id": "prv_1", "object": "review", "open": open });
        told["payment_intent"]["review"] = review(true);
        assert_eq!(
            said(&told, &[], BEFORE),
            Some((Status::Review, Settlement::Confirmed))
        );
        told["payment_intent"]["review"] = review(false);
        assert_eq!(
            said(&told, &[], BEFORE),
            Some((Status::Completed, Settlement::Confirmed))
        );
    }

    #[test]
    fn refunds_and_lost_disputes_are_given_back() {
        let mut told = paid();
        told["payment_intent"]["latest_charge"]["amount_refunded"] = json!(990);
        let partly = report(&read(&told).unwrap(), &[], false, BEFORE).unwrap();
        assert_eq!((partly.status, partly.returned), (Status::Completed, 990));
        let disputes = [Dispute::Lost(4000), Dispute::Open];
        let wholly = report(&read(&told).unwrap(), &disputes, false, BEFORE).unwrap();
        assert_eq!((wholly.status, wholly.returned), (Status::Completed, 4990));
        assert_eq!(
            said(&told, &[Dispute::Open], BEFORE),
            Some((Status::Review, Settlement::Pending))
        );
        assert_eq!(
            said(&told, &[Dispute::Over], BEFORE),
            Some((Status::Completed, Settlement::Confirmed))
        );
    }

    #[test]
    fn a_detail_keeps_to_its_limit() {
        assert_eq!(cut("a".repeat(300)).len(), 200);
        assert_eq!(cut("é".repeat(150)).len(), 200);
        assert_eq!(cut(format!("a{}", "é".repeat(150))).len(), 199);
    }
}
