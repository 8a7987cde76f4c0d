//! Reports from the events of a verified notification.
use kassette_plugin::provider::{
    Account, CallbackFailure, Capture, Dispute, DisputeKind, DisputeState, Notice, Refund,
    RefundState, Report, Subject,
};

use crate::notification::Item;
use crate::reference::{Payment, Stage};
use crate::wire::{self, is_plain};
use crate::{methods, refusal};

/// Notices from a signed item; empty for events that do not matter.
pub(crate) fn notices(account: &Account, item: &Item) -> Result<Vec<Notice>, CallbackFailure> {
    let notice = |report: Option<Report>| Notice {
        about: Subject::Attempt(item.reference.clone()),
        reference: None,
        report,
    };
    // The payer did not pay before the offer closed. The host queries the page to learn its status.
    if item.event == "OFFER_CLOSED" && wire::is_ours(&item.reference) {
        return Ok(vec![notice(None)]);
    }
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

/// The payment that an item is about. `None` if the item lacks an amount or a usable id.
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

/// Reports from an item, in order.
fn reports(item: &Item, payment: &Payment) -> Vec<Report> {
    let event = item.event.as_str();
    match (event, item.success) {
        ("AUTHORISATION", true) => authorised(item, &payment.at(Stage::Authorised(None))),
        ("CAPTURE", true) => {
            let report = payment.at(Stage::Captured).captured(event);
            vec![with_capture(report, &item.psp_reference, item, payment)]
        }
        // An operator has to check. The payment is still authorized, and can be captured again or cancelled.
        ("CAPTURE", false) if is_plain(&item.psp_reference) => {
            let refused = payment.at(Stage::Refused(item.psp_reference.clone()));
            vec![refused.review("CAPTURE refused, still authorised")]
        }
        // The scheme reversed the capture. For some causes Adyen tries again automatically for up to ten days, and
        // then sends another CAPTURE.
        ("CAPTURE_FAILED", true) => {
            let report = payment.review("CAPTURE_FAILED");
            vec![with_capture(report, &item.psp_reference, item, payment)]
        }
        ("NOTIFICATION_OF_FRAUD", true) => vec![warned(item, payment)],
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
        // Adyen withdraws the money with the chargeback, defended or not, and sends CHARGEBACK_REVERSED if it
        // returns. Some chargebacks already contain the status "Won".
        ("CHARGEBACK" | "SECOND_CHARGEBACK", true) => {
            let state = match item.hints.dispute_status.as_deref() {
                Some("Won") => DisputeState::Won,
                _ => DisputeState::Lost,
            };
            vec![dispute(item, payment, state)]
        }
        ("PREARBITRATION_LOST", true) => {
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
    // A manual review comes first; the second report keeps the fact that the authorization awaits its capture.
    let review = payment.review("AUTHORISATION, in manual review");
    vec![review, authorised]
}

/// Reports a refund. Success and failure of one refund have the same id, so that partial refunds add up and failed
/// refunds no longer count.
fn refund(item: &Item, payment: &Payment, state: RefundState) -> Report {
    let mut report = payment.beside(&item.event);
    report.particulars.refunds = vec![Refund {
        id: own_id(item, payment),
        order_id: item.order.clone(),
        amount: payment.amount.amount,
        state,
        paid_out: None,
        at: item.hints.at,
    }];
    report
}

/// Reports a dispute. All events of one dispute have the same id.
fn dispute(item: &Item, payment: &Payment, state: DisputeState) -> Report {
    let mut report = match state {
        DisputeState::Won => payment.beside(&item.event),
        DisputeState::Open | DisputeState::Lost => payment.review(&item.event),
    };
    let amount = payment.amount.amount;
    let event = item.event.as_str();
    report.particulars.disputes = vec![Dispute {
        id: own_id(item, payment),
        kind: match event {
            "REQUEST_FOR_INFORMATION" => DisputeKind::Inquiry,
            _ => DisputeKind::Dispute,
        },
        amount,
        withdrawn: match state {
            DisputeState::Lost => amount,
            DisputeState::Open | DisputeState::Won => 0,
        },
        // Adyen's documents do not state that a refund ends a dispute.
        ends_by_refund: false,
        listed_as_refund: false,
        at: item.hints.at.filter(|_| state == DisputeState::Open),
        state,
        reason: item.hints.dispute_code.clone(),
        respond_by: item.hints.respond_by,
    }];
    report
}

/// Adds the capture that received the money, or that was reversed.
fn with_capture(mut report: Report, id: &str, item: &Item, payment: &Payment) -> Report {
    let reversed = item.event == "CAPTURE_FAILED";
    if is_plain(id) {
        report.particulars.captures = vec![Capture {
            id: id.to_owned(),
            amount: payment.amount.amount,
            at: item.hints.at.filter(|_| !reversed),
            reversed,
        }];
    }
    report
}

/// Reports the issuer's early fraud warning; the money is not claimed back yet.
fn warned(item: &Item, payment: &Payment) -> Report {
    let mut report = payment.beside(&item.event);
    let reason = item.hints.reason.clone();
    report.particulars.fraud_warning = Some(reason.unwrap_or_else(|| item.event.clone()));
    report
}

/// Id of the refund or dispute; the payment's id if the item has none.
fn own_id(item: &Item, payment: &Payment) -> String {
    let id = Some(&item.psp_reference).filter(|id| is_plain(id));
    id.unwrap_or(&payment.psp_reference).clone()
}

/// Adds the details that all events share.
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
    // Only for failures: the reason of an authorized card contains its digits.
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

    /// Id of the payment that modifications refer to.
    const PAYMENT: &str = "882617898204183A";
    /// Id of the modification itself.
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
        // Not a refund of this gateway: the reference does not contain an attempt and an order.
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
