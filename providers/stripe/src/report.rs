//! Reports about a session and its payment.
use kassette_plugin::provider::{Dispute, DisputeState, Money, Report, Settlement, Status};

use crate::charge::Charge;
use crate::particulars;
use crate::wire::{Payment, Phase, Session, Stage};

/// Maximum length of a report's detail, in bytes.
const MOST_DETAIL: usize = 200;

/// Report about a session. `None` if it is not final yet: a try was declined and the session is still payable, or
/// the status is unknown.
///
/// `disputes` are the payment's disputes. With `kept_open`, a session that is open after a decline is reported as
/// pending.
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
            // Complete without a payment: only for a session with amount zero, which this module never creates.
            Stage::Complete | Stage::Unknown => return None,
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
        given_back: payment.map_or(0, |payment| given_back(payment, disputes)),
        detail: cut(detail),
        particulars: particulars::told(session, disputes),
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
        // The status is unknown, but the amount received is known.
        (Phase::Unknown, _) if payment.received.amount > 0 => Some(taken(payment, disputes)),
        (Phase::Unknown, _) => said(
            Status::Pending,
            Settlement::Pending,
            "the payment has an unknown status",
        ),
        (Phase::RequiresCapture, _) => Some(held(session, payment)),
        // The payer has finished; only the outcome is missing.
        (Phase::Processing, _) => said(
            Status::VerificationPending,
            Settlement::Pending,
            "processing",
        ),
        // Cancelled or expired before the capture: no charge is possible any longer.
        (Phase::Canceled, Stage::Complete | Stage::Unknown) => {
            said(Status::Declined, Settlement::Pending, "canceled")
        }
        // No payer can complete an expired session, and only its page can confirm its payment. But a payment that
        // Stripe has not cancelled while the payer is at the bank may still succeed.
        (Phase::RequiresAction | Phase::RequiresConfirmation, Stage::Expired) => said(
            Status::Pending,
            Settlement::Pending,
            "expired, and the payer may be at the bank",
        ),
        (_, Stage::Expired) => Some(ended(session, now)),
        // The session allows no further attempt to pay.
        (Phase::RequiresPaymentMethod, Stage::Complete) => said(
            declined(payment),
            Settlement::Pending,
            failed.unwrap_or("the payment failed"),
        ),
        (_, Stage::Unknown) => None,
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

/// Status of an authorized payment. A payment that Radar selected for review is not captured before an operator
/// approves it, and neither is an amount that differs from the amount due.
fn held(session: &Session, payment: &Payment) -> (Status, Settlement, String) {
    let review = payment.review.as_ref();
    let (status, detail) = if review.is_some_and(|review| !review.approved) {
        (Status::Review, "held for review before capture")
    } else if payment.capturable != session.due.amount {
        (Status::Review, "authorised for another amount")
    } else {
        (Status::Processing, "requires_capture")
    };
    (status, Settlement::Pending, detail.to_owned())
}

/// Status of a captured payment, considering refunds, disputes and reviews.
fn taken(payment: &Payment, disputes: &[Dispute]) -> (Status, Settlement, String) {
    let (status, settlement, detail) = if given_back(payment, disputes) >= payment.received.amount {
        (Status::Completed, Settlement::Confirmed, "refunded")
    } else if is_disputed(disputes) {
        (Status::Review, Settlement::Pending, "disputed by the payer")
    } else if payment.review.as_ref().is_some_and(|review| review.open) {
        // The money was received; an operator decides whether to deliver.
        (Status::Review, Settlement::Confirmed, "held for review")
    } else {
        (Status::Completed, Settlement::Confirmed, "succeeded")
    };
    (status, settlement, detail.to_owned())
}

/// Status of an expired session: cancelled before its expiry, or expired. Nothing was captured and nothing can be.
fn ended(session: &Session, now: u64) -> (Status, Settlement, String) {
    let ends = session.expires_at.map(|at| at.saturating_mul(1_000));
    if ends.is_some_and(|ends| now < ends) {
        let payment = session.payment.as_ref();
        let why = payment.and_then(|payment| payment.failed.as_deref());
        let why = why.map_or_else(|| "called off".to_owned(), |why| format!("declined: {why}"));
        let status = payment.map_or(Status::Declined, declined);
        (status, Settlement::Pending, why)
    } else {
        (Status::Expired, Settlement::Pending, "expired".to_owned())
    }
}

/// `Cancelled` if the payer refused at the bank or in the wallet, otherwise `Declined`.
fn declined(payment: &Payment) -> Status {
    let words = payment.failed.as_deref().unwrap_or_default();
    if words
        .split(' ')
        .any(|word| word == "payment_method_customer_decline")
    {
        Status::Cancelled
    } else {
        Status::Declined
    }
}

/// Whether a dispute or an inquiry is open.
fn is_disputed(disputes: &[Dispute]) -> bool {
    disputes
        .iter()
        .any(|dispute| dispute.state == DisputeState::Open)
}

/// Refunds and lost disputes in minor units, at most the amount received.
fn given_back(payment: &Payment, disputes: &[Dispute]) -> u64 {
    if payment.received.amount == 0 {
        return 0;
    }
    let refunded = payment.charge.as_ref().map_or(0, Charge::given_back);
    let lost = disputes
        .iter()
        .filter(|dispute| dispute.state == DisputeState::Lost);
    let sum = lost.fold(refunded, |sum, dispute| sum.saturating_add(dispute.amount));
    sum.min(payment.received.amount)
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
    use crate::wire::tests::{authorised, paid, paying, read, told};
    use kassette_plugin::provider::DisputeKind;
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
            (authorised(), Status::Processing, Settlement::Pending),
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
            (
                paying("expired", "requires_payment_method"),
                Status::Declined,
                Settlement::Pending,
            ),
            (
                paying("expired", "requires_action"),
                Status::Pending,
                Settlement::Pending,
            ),
            (
                paying("expired", "processing"),
                Status::VerificationPending,
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
        let reason = kept.particulars.reason.as_deref();
        assert_eq!(reason, Some("insufficient_funds"));
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
    fn a_review_holds_before_capture_until_it_is_approved() {
        let mut told = authorised();
        let mut said_of = |open: bool, closed: Value| {
            told["payment_intent"]["review"] =
                json!({ "object": "review", "open": open, "closed_reason": closed });
            said(&told, &[], BEFORE)
        };
        let held = Some((Status::Review, Settlement::Pending));
        assert_eq!(said_of(true, Value::Null), held);
        assert_eq!(
            said_of(false, json!("approved")),
            Some((Status::Processing, Settlement::Pending))
        );
        // The reviewer did not approve it.
        assert_eq!(said_of(false, json!("refunded_as_fraud")), held);
        let mut over = paying("complete", "canceled");
        over["payment_intent"]["review"] =
            json!({ "object": "review", "open": false, "closed_reason": "refunded_as_fraud" });
        assert_eq!(
            said(&over, &[], BEFORE),
            Some((Status::Declined, Settlement::Pending))
        );
    }

    #[test]
    fn an_authorisation_of_another_amount_waits_for_an_operator() {
        let mut told = authorised();
        told["payment_intent"]["amount_capturable"] = json!(4989);
        assert_eq!(
            said(&told, &[], BEFORE),
            Some((Status::Review, Settlement::Pending))
        );
    }

    #[test]
    fn what_was_released_uncaptured_was_not_given_back() {
        let mut told = authorised();
        told["payment_intent"]["status"] = json!("canceled");
        let charge = &mut told["payment_intent"]["latest_charge"];
        charge["amount_refunded"] = json!(4990);
        charge["refunds"]["data"] =
            json!([{ "id": "re_1", "object": "refund", "amount": 4990, "status": "succeeded" }]);
        let report = report(&read(&told).unwrap(), &[], false, BEFORE).unwrap();
        assert_eq!((report.status, report.given_back), (Status::Declined, 0));
        assert_eq!(report.particulars.refunds, []);
    }

    fn dispute(state: DisputeState, amount: u64) -> Dispute {
        Dispute {
            id: "du_1".into(),
            amount,
            state,
            reason: None,
            respond_by: None,
            kind: DisputeKind::Dispute,
            withdrawn: 0,
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
        }
    }

    #[test]
    fn refunds_and_lost_disputes_are_given_back() {
        let mut told = paid();
        told["payment_intent"]["latest_charge"]["refunds"]["data"] =
            json!([{ "id": "re_1", "object": "refund", "amount": 990, "status": "succeeded" }]);
        let partly = report(&read(&told).unwrap(), &[], false, BEFORE).unwrap();
        assert_eq!((partly.status, partly.given_back), (Status::Completed, 990));
        let disputes = [
            dispute(DisputeState::Lost, 4000),
            dispute(DisputeState::Open, 10),
        ];
        let wholly = report(&read(&told).unwrap(), &disputes, false, BEFORE).unwrap();
        assert_eq!(
            (wholly.status, wholly.given_back),
            (Status::Completed, 4990)
        );
        assert_eq!(
            said(&told, &[dispute(DisputeState::Open, 4990)], BEFORE),
            Some((Status::Review, Settlement::Pending))
        );
        assert_eq!(
            said(&told, &[dispute(DisputeState::Won, 4990)], BEFORE),
            Some((Status::Completed, Settlement::Confirmed))
        );
    }

    #[test]
    fn no_more_is_given_back_than_was_received() {
        let lost = [
            dispute(DisputeState::Lost, 4990),
            dispute(DisputeState::Lost, 91700),
        ];
        let report = report(&read(&paid()).unwrap(), &lost, false, BEFORE).unwrap();
        assert_eq!(report.given_back, 4990);
    }

    #[test]
    fn a_payment_that_the_payer_called_off_is_no_decline() {
        let mut told = paying("complete", "requires_payment_method");
        told["payment_intent"]["last_payment_error"] =
            json!({ "code": "payment_method_customer_decline" });
        let called_off = Some((Status::Cancelled, Settlement::Pending));
        assert_eq!(said(&told, &[], BEFORE), called_off);
        told["status"] = json!("expired");
        assert_eq!(said(&told, &[], BEFORE), called_off);
    }

    #[test]
    fn an_unknown_status_hides_no_money() {
        let mut told = paid();
        told["payment_intent"]["status"] = json!("settled");
        assert_eq!(
            said(&told, &[], BEFORE),
            Some((Status::Completed, Settlement::Confirmed))
        );
        told["payment_intent"]["amount_received"] = json!(0);
        assert_eq!(
            said(&told, &[], BEFORE),
            Some((Status::Pending, Settlement::Pending))
        );
    }

    #[test]
    fn a_detail_keeps_to_its_limit() {
        assert_eq!(cut("a".repeat(300)).len(), 200);
        assert_eq!(cut("é".repeat(150)).len(), 200);
        assert_eq!(cut(format!("a{}", "é".repeat(150))).len(), 199);
    }
}
