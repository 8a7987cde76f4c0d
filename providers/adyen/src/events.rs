//! What each event of a believed notification reports.
use kassette_plugin::provider::{
    Account, CallbackFailure, Dispute, DisputeState, Notice, Refund, RefundState, Report, Subject,
};

use crate::notification::Item;
use crate::reference::{Payment, Stage};
use crate::wire::is_plain;
use crate::{methods, refusal};

/// What an item says of our attempt; nothing for events that do not matter.
pub(crate) fn notices(account: &Account, item: &Item) -> Result<Vec<Notice>, CallbackFailure> {
    let notice = |report: Option<Report>| Notice {
        about: Subject::Attempt(item.reference.clone()),
        reference: None,
        report,
    };
    let Some(payment) = payment(item) else {
        return Ok(Vec::new());
    };
    if item.event == "AUTHORISATION" && !item.success {
        return Ok(vec![notice(refusal::heard(account, item, &payment)?)]);
    }
    Ok(reports(item, &payment)
        .into_iter()
        .map(|report| notice(Some(particular(item, report))))
        .collect())
}

/// The payment that an item is about; none where it names no amount.
fn payment(item: &Item) -> Option<Payment> {
    let psp_reference = match item.original.as_str() {
        "" => &item.psp_reference,
        original => original,
    };
    Some(Payment {
        psp_reference: is_plain(psp_reference).then(|| psp_reference.to_owned())?,
        amount: item.amount.clone()?,
        stage: Stage::Noted,
    })
}

/// What an item reports of its payment, one after the other.
fn reports(item: &Item, payment: &Payment) -> Vec<Report> {
    let event = item.event.as_str();
    match (event, item.success) {
        ("AUTHORISATION", true) => authorised(item, &payment.at(Stage::Authorised(None))),
        ("CAPTURE", true) => vec![payment.at(Stage::Captured).captured(event)],
        // A person looks. What was authorised still is: it can be captured again, or cancelled.
        ("CAPTURE", false) if is_plain(&item.psp_reference) => {
            let refused = payment.at(Stage::Refused(item.psp_reference.clone()));
            vec![refused.review("CAPTURE refused, still authorised")]
        }
        // The scheme took back what had been captured. Adyen tries again by itself for some causes, for
        // up to ten days, and then tells CAPTURE once more.
        ("CAPTURE_FAILED", true) => vec![payment.review("CAPTURE_FAILED")],
        ("CANCELLATION" | "TECHNICAL_CANCEL" | "EXPIRE", true) => {
            vec![payment.at(Stage::Cancelled).cancelled(event)]
        }
        ("CANCEL_OR_REFUND", true) => match item.hints.action.as_deref() {
            Some("cancel") => vec![payment.at(Stage::Cancelled).cancelled(event)],
            Some("refund") => vec![refund(item, payment, RefundState::Succeeded)],
            _ => vec![payment.review(event)],
        },
        ("REFUND", true) => vec![refund(item, payment, RefundState::Succeeded)],
        ("REFUND", false) | ("REFUND_FAILED" | "REFUNDED_REVERSED", true) => {
            vec![refund(item, payment, RefundState::Failed)]
        }
        ("NOTIFICATION_OF_CHARGEBACK" | "REQUEST_FOR_INFORMATION", true) => {
            vec![dispute(item, payment, DisputeState::Open)]
        }
        // Adyen withdraws the money with the chargeback, defended or not.
        ("CHARGEBACK" | "SECOND_CHARGEBACK" | "PREARBITRATION_LOST", true) => {
            vec![dispute(item, payment, DisputeState::Lost)]
        }
        (
            "CHARGEBACK_REVERSED" | "PREARBITRATION_WON" | "ISSUER_RESPONSE_TIMEFRAME_EXPIRED",
            true,
        ) => vec![dispute(item, payment, DisputeState::Won)],
        _ => Vec::new(),
    }
}

fn authorised(item: &Item, payment: &Payment) -> Vec<Report> {
    let mut authorised = payment.authorised("AUTHORISATION");
    authorised.particulars.authorised_at = item.hints.at;
    if let Some(method) = &item.hints.method {
        let until = |at: u64| Some(at.saturating_add(methods::capturable_ms(method)?));
        authorised.particulars.capture_before = item.hints.at.and_then(until);
        if !methods::of_type(method).captured_by_us {
            authorised.particulars.captured_at = item.hints.at;
        }
    }
    if !item.hints.manual_review {
        return vec![authorised];
    }
    // A person looks first; that the authorisation waits for its capture stays known.
    let review = payment.review("AUTHORISATION, in manual review");
    vec![review, authorised]
}

/// A refund is known by an id of its own, which its failure names as well: so that parts add up, and
/// what failed no longer counts.
fn refund(item: &Item, payment: &Payment, state: RefundState) -> Report {
    let mut report = payment.beside(&item.event);
    report.particulars.refunds = vec![Refund {
        id: own_id(item, payment),
        order_id: item.order.clone(),
        amount: payment.amount.amount,
        state,
    }];
    report
}

/// Every event of one dispute names the same id.
fn dispute(item: &Item, payment: &Payment, state: DisputeState) -> Report {
    let mut report = match state {
        DisputeState::Won => payment.beside(&item.event),
        DisputeState::Open | DisputeState::Lost => payment.review(&item.event),
    };
    report.particulars.disputes = vec![Dispute {
        id: own_id(item, payment),
        amount: payment.amount.amount,
        state,
        reason: item.hints.dispute_code.clone(),
        respond_by: item.hints.respond_by,
    }];
    report
}

/// The refund's or dispute's id; the payment's where an account is not told any other.
fn own_id(item: &Item, payment: &Payment) -> String {
    let id = Some(&item.psp_reference).filter(|id| is_plain(id));
    id.unwrap_or(&payment.psp_reference).clone()
}

/// Adds what is told with every event.
fn particular(item: &Item, mut report: Report) -> Report {
    let told = &mut report.particulars;
    told.provider_status = Some(item.event.clone());
    if !item.original.is_empty() && is_plain(&item.psp_reference) {
        told.references.push(item.psp_reference.clone());
    }
    match item.event.as_str() {
        "AUTHORISATION" => told.instrument.clone_from(&item.hints.instrument),
        "CAPTURE" if item.success => told.captured_at = item.hints.at,
        _ => {}
    }
    // Of what succeeded it is no refusal's: an authorised card's is its digits.
    if !item.success || item.event.ends_with("_FAILED") {
        told.reason.clone_from(&item.hints.reason);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::tests::{heard, told};
    use crate::notification::tests::{ATTEMPT, item_of, signed_item};
    use crate::tests::account;
    use kassette_plugin::provider::{Settlement, Status};
    use serde_json::{Value, json};

    /// The payment that modifications are of.
    const PAYMENT: &str = "882617898204183A";
    /// What an item is named by itself.
    const OWN: &str = "993617898204183D";

    fn one(event: &str, success: bool, extra: Value) -> Report {
        let reports = told(event, success, PAYMENT, extra);
        let [report] = reports.as_slice() else {
            panic!("one report of {event}")
        };
        assert!(report.reference.starts_with(PAYMENT), "{event}");
        assert_eq!(report.given_back, 0, "{event}");
        assert_eq!(report.particulars.references, [PAYMENT, OWN], "{event}");
        report.clone()
    }

    #[test]
    fn each_event_has_its_report() {
        for (event, success, status, settlement, received) in [
            (
                "CAPTURE",
                true,
                Status::Completed,
                Settlement::Confirmed,
                4990,
            ),
            (
                "CAPTURE_FAILED",
                true,
                Status::Review,
                Settlement::Pending,
                0,
            ),
            (
                "CANCELLATION",
                true,
                Status::Cancelled,
                Settlement::Pending,
                0,
            ),
            (
                "TECHNICAL_CANCEL",
                true,
                Status::Cancelled,
                Settlement::Pending,
                0,
            ),
            ("EXPIRE", true, Status::Cancelled, Settlement::Pending, 0),
            ("REFUND", true, Status::Pending, Settlement::Pending, 0),
            ("CHARGEBACK", true, Status::Review, Settlement::Pending, 0),
            (
                "CHARGEBACK_REVERSED",
                true,
                Status::Pending,
                Settlement::Pending,
                0,
            ),
        ] {
            let report = one(event, success, json!({}));
            assert_eq!(
                (report.status, report.settlement, report.received.amount),
                (status, settlement, received),
                "{event}"
            );
        }
    }

    #[test]
    fn an_authorisation_is_not_a_capture() {
        let reports = told("AUTHORISATION", true, "", json!({ "cardSummary": "4242" }));
        let [report] = reports.as_slice() else {
            panic!("one report")
        };
        assert_eq!(
            (report.status, report.settlement, report.reference.as_str()),
            (
                Status::Processing,
                Settlement::Pending,
                "993617898204183D/4990EUR/authorised"
            )
        );
        let told = &report.particulars;
        assert_eq!(told.instrument.as_deref(), Some("visa 4242"));
        assert_eq!(told.authorised_at, Some(1_800_000_000_000));
        assert_eq!(told.captured_at, None);
        assert_eq!(
            told.capture_before,
            Some(1_800_000_000_000 + 28 * 86_400_000)
        );
    }

    #[test]
    fn what_takes_the_money_at_once_is_captured_when_it_is_authorised() {
        let mut item = signed_item("AUTHORISATION", true, "", json!({}));
        item["NotificationRequestItem"]["paymentMethod"] = json!("ideal");
        let reports = heard(&account(), &[item]);
        let told = &reports.first().unwrap().particulars;
        assert_eq!(told.captured_at, Some(1_800_000_000_000));
        assert_eq!(told.capture_before, None);
    }

    #[test]
    fn manual_review_goes_before_the_capture_and_forgets_no_authorisation() {
        let extra = json!({ "fraudManualReview": "true" });
        let reports = told("AUTHORISATION", true, "", extra);
        let statuses: Vec<Status> = reports.iter().map(|report| report.status).collect();
        assert_eq!(statuses, [Status::Review, Status::Processing]);
        let last = reports.last().unwrap();
        assert!(last.reference.ends_with("/authorised"));
    }

    #[test]
    fn a_refused_capture_is_for_a_person_while_its_authorisation_stands() {
        let mut item = signed_item("CAPTURE", false, PAYMENT, json!({}));
        item["NotificationRequestItem"]["reason"] = json!("Capture not allowed");
        let reports = heard(&account(), &[item]);
        let [report] = reports.as_slice() else {
            panic!("one report")
        };
        assert_eq!((report.status, report.received.amount), (Status::Review, 0));
        let reference = format!("{PAYMENT}/4990EUR/refused/{OWN}");
        assert_eq!(report.reference, reference);
        let reason = report.particulars.reason.as_deref();
        assert_eq!(reason, Some("Capture not allowed"));
    }

    #[test]
    fn refunds_count_by_their_own_id_until_they_fail() {
        for (event, success, state) in [
            ("REFUND", true, RefundState::Succeeded),
            ("REFUND", false, RefundState::Failed),
            ("REFUND_FAILED", true, RefundState::Failed),
            ("REFUNDED_REVERSED", true, RefundState::Failed),
        ] {
            let report = one(event, success, json!({}));
            let [refund] = report.particulars.refunds.as_slice() else {
                panic!("one refund of {event}")
            };
            assert_eq!(
                (refund.id.as_str(), refund.amount, refund.state),
                (OWN, 4990, state),
                "{event}"
            );
        }
    }

    #[test]
    fn a_refund_of_ours_is_told_by_its_order_and_any_other_by_none() {
        let order = "000000000000000000000000000000aa";
        let named = |reference: &str| {
            let item = item_of(reference, "REFUND", true, PAYMENT, json!({}));
            let report = heard(&account(), &[item]).pop();
            report.map(|report| report.particulars.refunds[0].order_id.clone())
        };
        let ours = named(&format!("{ATTEMPT}-{order}"));
        assert_eq!(ours, Some(Some(order.to_owned())));
        assert_eq!(named(ATTEMPT), Some(None));
        // Not a refund of this gateway's: nothing says which payment it would be about.
        assert_eq!(named(&format!("{ATTEMPT}-refund")), None);
    }

    #[test]
    fn a_chargeback_takes_the_money_until_it_is_reversed() {
        let extra = json!({
            "chargebackReasonCode": "10.4", "disputeStatus": "Undefended",
            "defensePeriodEndsAt": "2027-02-02T09:00:00+01:00",
        });
        for (event, state) in [
            ("REQUEST_FOR_INFORMATION", DisputeState::Open),
            ("NOTIFICATION_OF_CHARGEBACK", DisputeState::Open),
            ("CHARGEBACK", DisputeState::Lost),
            ("CHARGEBACK_REVERSED", DisputeState::Won),
            ("SECOND_CHARGEBACK", DisputeState::Lost),
            ("PREARBITRATION_LOST", DisputeState::Lost),
            ("PREARBITRATION_WON", DisputeState::Won),
            ("ISSUER_RESPONSE_TIMEFRAME_EXPIRED", DisputeState::Won),
        ] {
            let report = one(event, true, extra.clone());
            let [dispute] = report.particulars.disputes.as_slice() else {
                panic!("one dispute of {event}")
            };
            assert_eq!(
                (dispute.id.as_str(), dispute.amount, dispute.state),
                (OWN, 4990, state),
                "{event}"
            );
            assert_eq!(dispute.reason.as_deref(), Some("10.4"));
            assert_eq!(dispute.respond_by, Some(1_801_555_200_000));
        }
    }

    #[test]
    fn what_a_cancel_or_refund_did_is_told_or_looked_at() {
        for (action, status, refunds) in [
            (json!("cancel"), Status::Cancelled, 0),
            (json!("refund"), Status::Pending, 1),
            (Value::Null, Status::Review, 0),
        ] {
            let report = one(
                "CANCEL_OR_REFUND",
                true,
                json!({ "modification.action": action }),
            );
            let refunded = report.particulars.refunds.len();
            assert_eq!((report.status, refunded), (status, refunds));
        }
    }
}
