//! Notifications of the standard webhook: proved by their signatures before anything is believed.
//!
//! There is no time in what Adyen signs, so that an old notification cannot be told from a new one:
//! all that a repeated one can do is to say again what was true.
use kassette_plugin::json::Json;
use kassette_plugin::provider::secrets;
use kassette_plugin::provider::{
    Account, Acknowledged, Environment, Incoming, Notice, QueryFailure, Refused, Report, Status,
    Subject, Verb,
};

use crate::known::{Payment, Stage};
use crate::notification::{self, HMAC_KEY, Item, Unbelieved};
use crate::wire::is_plain;
use crate::{api, query};

/// Most items in one notification; Adyen sends one.
const ITEMS: usize = 64;

/// Verifies and reads one notification.
pub(crate) fn read(account: &Account, incoming: &Incoming) -> Result<Acknowledged, Refused> {
    if !matches!(incoming.verb, Verb::Post) {
        return Err(malformed("not a POST"));
    }
    if !secrets::ready(HMAC_KEY) {
        return Err(Refused::Later(format!("secret {HMAC_KEY} is missing")));
    }
    let body = Json::parse(&incoming.body).ok_or_else(|| malformed("the body cannot be read"))?;
    let items = match body.get("notificationItems") {
        Some(Json::List(items)) if (1..=ITEMS).contains(&items.len()) => items,
        _ => return Err(malformed("there are no notificationItems")),
    };
    let items: Vec<Item> = items
        .iter()
        .map(notification::read)
        .collect::<Result<_, _>>()
        .map_err(|unbelieved| match unbelieved {
            Unbelieved::Forged => Refused::Forged("a signature is missing or wrong".into()),
            Unbelieved::Malformed => malformed("an item cannot be read"),
        })?;
    let live = body.get("live").and_then(Json::text);
    if live
        != Some(if account.environment == Environment::Live {
            "true"
        } else {
            "false"
        })
    {
        return Err(malformed("it is of the other environment"));
    }
    let mut notices = Vec::new();
    for item in &items {
        let ours =
            item.merchant_account == api::merchant_account(account) && is_attempt(&item.reference);
        if ours {
            notices.extend(news(account, item)?);
        }
    }
    Ok(Acknowledged {
        notices,
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    })
}

/// Payments of the merchant's other systems are told here too.
fn is_attempt(reference: &str) -> bool {
    reference.len() == 32
        && reference
            .bytes()
            .all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// What an item says of our attempt; nothing for events that do not matter.
fn news(account: &Account, item: &Item) -> Result<Vec<Notice>, Refused> {
    let notice = |report: Option<Report>| Notice {
        about: Subject::Attempt(item.reference.clone()),
        report,
    };
    if item.event == "AUTHORISATION" && !item.success {
        return Ok(vec![notice(refused(account, item)?)]);
    }
    let Some(payment) = payment(item) else {
        return Ok(Vec::new());
    };
    Ok(reports(item, &payment)
        .into_iter()
        .map(|report| notice(Some(report)))
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
    let amount = payment.amount.amount;
    let event = item.event.as_str();
    let at = |stage| Payment {
        stage,
        ..payment.clone()
    };
    let returned = || Report {
        returned: amount,
        ..payment.report(Status::Cancelled, 0, event)
    };
    match (event, item.success) {
        ("AUTHORISATION", true) => {
            let authorised = at(Stage::Authorised).authorised(event);
            if item.hints.manual_review {
                // A person looks first; that the authorisation waits for its capture stays known.
                let review = Report {
                    status: Status::Review,
                    detail: "AUTHORISATION, in manual review".into(),
                    ..at(Stage::Authorised).report(Status::Review, 0, event)
                };
                vec![review, authorised]
            } else {
                vec![authorised]
            }
        }
        ("CAPTURE", true) => vec![at(Stage::Captured).captured(event)],
        ("CAPTURE", false) | ("CAPTURE_FAILED", true) => {
            vec![payment.report(Status::Review, 0, "CAPTURE failed")]
        }
        ("CANCELLATION" | "TECHNICAL_CANCEL" | "EXPIRE", true) => {
            vec![at(Stage::Cancelled).cancelled(event)]
        }
        ("CANCEL_OR_REFUND", true) => match item.hints.action.as_deref() {
            Some("cancel") => vec![at(Stage::Cancelled).cancelled(event)],
            Some("refund") => vec![returned()],
            _ => vec![payment.report(Status::Review, 0, event)],
        },
        ("REFUND", true) => vec![returned()],
        // The money is gone for good: nothing more can be said against it.
        ("SECOND_CHARGEBACK" | "PREARBITRATION_LOST", true) => vec![Report {
            returned: amount,
            ..payment.report(Status::Review, 0, event)
        }],
        ("NOTIFICATION_OF_CHARGEBACK" | "REQUEST_FOR_INFORMATION" | "CHARGEBACK", true) => {
            vec![payment.report(Status::Review, 0, event)]
        }
        _ => Vec::new(),
    }
}

/// After a refused try the link stays open at Adyen, and nothing that could be asked later would
/// tell of the refusal: so the link is closed here, and `declined` is certain.
fn refused(account: &Account, item: &Item) -> Result<Option<Report>, Refused> {
    let Some(link) = item.hints.link.as_deref().filter(|id| is_plain(id)) else {
        return Ok(None);
    };
    match query::decline(account, &item.reference, link, "AUTHORISATION refused") {
        Ok(report) => Ok(report),
        // Sent again, once Adyen can be asked.
        Err(QueryFailure::Unavailable(why)) => Err(Refused::Later(why)),
        Err(QueryFailure::Absent) => Ok(None),
    }
}

fn malformed(why: &str) -> Refused {
    Refused::Malformed(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notification::tests::{Keyed, signed_item};
    use crate::tests::account;
    use kassette_plugin::provider::Settlement;
    use kassette_plugin::testing::with_host;
    use serde_json::{Value, json};

    fn incoming(items: &[Value]) -> Incoming {
        let items: Vec<&Value> = items.iter().collect();
        Incoming {
            verb: Verb::Post,
            path: String::new(),
            query: String::new(),
            headers: Vec::new(),
            body: json!({ "live": "false", "notificationItems": items })
                .to_string()
                .into_bytes(),
        }
    }

    fn told(event: &str, success: bool, original: &str, extra: Value) -> Vec<Report> {
        let incoming = incoming(&[signed_item(event, success, original, extra)]);
        let answer = with_host(Keyed, || read(&account(), &incoming)).unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "[accepted]"));
        let report = |notice: Notice| {
            let id = "0123456789abcdef0123456789abcdef";
            assert_eq!(notice.about, Subject::Attempt(id.into()));
            notice.report.unwrap()
        };
        answer.notices.into_iter().map(report).collect()
    }

    #[test]
    fn each_event_has_its_report() {
        for (event, success, status, settlement, received, returned) in [
            (
                "CAPTURE",
                true,
                Status::Completed,
                Settlement::Confirmed,
                4990,
                0,
            ),
            ("CAPTURE", false, Status::Review, Settlement::Pending, 0, 0),
            (
                "CAPTURE_FAILED",
                true,
                Status::Review,
                Settlement::Pending,
                0,
                0,
            ),
            (
                "CANCELLATION",
                true,
                Status::Cancelled,
                Settlement::Pending,
                0,
                0,
            ),
            (
                "TECHNICAL_CANCEL",
                true,
                Status::Cancelled,
                Settlement::Pending,
                0,
                0,
            ),
            (
                "REFUND",
                true,
                Status::Cancelled,
                Settlement::Pending,
                0,
                4990,
            ),
            (
                "CHARGEBACK",
                true,
                Status::Review,
                Settlement::Pending,
                0,
                0,
            ),
            (
                "SECOND_CHARGEBACK",
                true,
                Status::Review,
                Settlement::Pending,
                0,
                4990,
            ),
        ] {
            let reports = told(event, success, "882617898204183A", json!({}));
            let [report] = reports.as_slice() else {
                panic!("one report of {event}")
            };
            assert_eq!(
                (
                    report.status,
                    report.settlement,
                    report.received.amount,
                    report.returned
                ),
                (status, settlement, received, returned),
                "{event}"
            );
            assert!(report.reference.starts_with("882617898204183A/"), "{event}");
        }
    }

    #[test]
    fn an_authorisation_is_not_a_capture() {
        let reports = told("AUTHORISATION", true, "", json!({}));
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
    }

    #[test]
    fn manual_review_goes_before_the_capture_and_forgets_no_authorisation() {
        let reports = told(
            "AUTHORISATION",
            true,
            "",
            json!({ "fraudManualReview": "true" }),
        );
        let statuses: Vec<Status> = reports.iter().map(|report| report.status).collect();
        assert_eq!(statuses, [Status::Review, Status::Processing]);
    }

    #[test]
    fn what_a_cancel_or_refund_did_is_told_or_looked_at() {
        for (action, status, returned) in [
            (json!("cancel"), Status::Cancelled, 0),
            (json!("refund"), Status::Cancelled, 4990),
            (Value::Null, Status::Review, 0),
        ] {
            let extra = json!({ "modification.action": action });
            let reports = told("CANCEL_OR_REFUND", true, "882617898204183A", extra);
            let said = reports
                .first()
                .map(|report| (report.status, report.returned));
            assert_eq!(said, Some((status, returned)));
        }
    }

    #[test]
    fn other_events_and_other_systems_payments_are_acknowledged_and_ignored() {
        for (event, success) in [
            ("REPORT_AVAILABLE", true),
            ("OFFER_CLOSED", true),
            ("REFUND", false),
            ("CANCELLATION", false),
            ("MANUAL_REVIEW_ACCEPT", true),
            ("SOMETHING_NEW", true),
        ] {
            assert_eq!(told(event, success, "", json!({})), [], "{event}");
        }
        assert!(!is_attempt("order-1") && !is_attempt(&"A".repeat(32)));
    }

    #[test]
    fn a_refusal_whose_link_cannot_be_asked_about_comes_again() {
        let extra = json!({ "paymentLinkId": "PL61C53A8B97E6915A" });
        let item = signed_item("AUTHORISATION", false, "", extra);
        let answer = with_host(Keyed, || read(&account(), &incoming(&[item])));
        assert!(matches!(answer, Err(Refused::Later(_))));
    }

    #[test]
    fn one_wrong_signature_spoils_the_whole() {
        let good = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        let mut bad = good.clone();
        bad["NotificationRequestItem"]["amount"]["value"] = json!(1);
        let answer = with_host(Keyed, || read(&account(), &incoming(&[good, bad])));
        assert!(matches!(answer, Err(Refused::Forged(_))));
    }

    #[test]
    fn what_is_no_notification_of_this_environment_is_malformed() {
        let item = signed_item("CAPTURE", true, "882617898204183A", json!({}));
        let mut live = incoming(std::slice::from_ref(&item));
        live.body = json!({ "live": "true", "notificationItems": [item] })
            .to_string()
            .into_bytes();
        for odd in [
            incoming(&[]),
            live,
            Incoming {
                verb: Verb::Get,
                ..incoming(&[])
            },
        ] {
            let answer = with_host(Keyed, || read(&account(), &odd));
            assert!(matches!(answer, Err(Refused::Malformed(_))));
        }
    }

    #[test]
    fn without_the_key_adyen_is_asked_to_come_again() {
        let answer = read(&account(), &incoming(&[]));
        assert!(matches!(answer, Err(Refused::Later(_))));
    }
}
