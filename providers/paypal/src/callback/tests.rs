use super::*;
use crate::wire::tests::{captured, told};
use kassette_plugin::provider::Environment;
use kassette_plugin::provider::http::{Failure, Request, Response};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc};

const NOW: u64 = 1_800_000_000_000;
const ID: &str = "0123456789abcdef0123456789abcdef";

/// PayPal's side: answers by path, and remembers what was asked.
#[derive(Clone, Default)]
struct Vendor {
    answers: Vec<(&'static str, u16, Value)>,
    asked: Rc<RefCell<Vec<String>>>,
}

impl Vendor {
    fn answering(answers: &[(&'static str, u16, Value)]) -> Self {
        Self {
            answers: answers.to_vec(),
            asked: Rc::default(),
        }
    }

    /// Knows this event.
    fn knowing(event: &Value) -> Self {
        Self::answering(&[("/webhooks-events/WH-1", 200, event.clone())])
    }
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        self.asked.borrow_mut().push(request.url.clone());
        let known = |(path, ..): &&(&str, u16, Value)| request.url.contains(path);
        let Some((_, status, body)) = self.answers.iter().find(known) else {
            return Err(Failure::NoAnswer("nothing".into()));
        };
        Ok(Response {
            status: *status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        })
    }

    fn ready(&mut self, _: &str) -> bool {
        true
    }
}

fn account() -> Account {
    Account {
        id: "paypal-test".into(),
        environment: Environment::Test,
        now: NOW,
        callback_url: String::new(),
        settings: Vec::new(),
    }
}

fn event(name: &str, resource: &Value) -> Value {
    let made = "2027-01-15T08:00:00Z";
    json!({ "id": "WH-1", "event_type": name, "create_time": made, "resource": resource })
}

fn arriving(event: &Value) -> Incoming {
    Incoming {
        verb: Verb::Post,
        path: String::new(),
        query: String::new(),
        headers: Vec::new(),
        body: event.to_string().into_bytes(),
    }
}

/// The attempt's id in the place of the one that the examples have.
fn of_ours(resource: &Value) -> Value {
    let text = resource.to_string().replace("attempt-1", ID);
    serde_json::from_str(&text).unwrap()
}

fn read_by(vendor: &Vendor, event: &Value) -> Result<Acknowledged, Refused> {
    with_host(vendor.clone(), || read(&account(), &arriving(event)))
}

/// The one notice of an event that PayPal tells as it arrived.
fn notice(event: &Value) -> Notice {
    let mut notices = read_by(&Vendor::knowing(event), event).unwrap().notices;
    assert_eq!(notices.len(), 1, "{event}");
    notices.remove(0)
}

fn approved() -> Value {
    event("CHECKOUT.ORDER.APPROVED", &of_ours(&told("APPROVED", &[])))
}

#[test]
fn what_paypal_did_not_send_is_a_forgery() {
    for status in [404, 400] {
        let answer = (
            "/webhooks-events/",
            status,
            json!({ "name": "INVALID_RESOURCE_ID" }),
        );
        let answer = read_by(&Vendor::answering(&[answer]), &approved());
        assert!(matches!(answer, Err(Refused::Forged(_))), "{status}");
    }
}

#[test]
fn a_true_id_in_a_forged_body_leads_to_the_true_event() {
    let claim = event(
        "PAYMENT.CAPTURE.COMPLETED",
        &of_ours(&captured("COMPLETED", None)),
    );
    let truth = event(
        "PAYMENT.CAPTURE.PENDING",
        &of_ours(&captured("PENDING", None)),
    );
    let answer = read_by(&Vendor::knowing(&truth), &claim).unwrap();
    assert_eq!(answer.notices.len(), 1);
    assert!(answer.notices.iter().all(|notice| notice.report.is_none()));
    // The truth is about somebody else's payment.
    let truth = event("PAYMENT.CAPTURE.COMPLETED", &captured("COMPLETED", None));
    let answer = read_by(&Vendor::knowing(&truth), &claim).unwrap();
    assert!(answer.notices.is_empty());
}

#[test]
fn while_paypal_cannot_be_asked_it_is_to_come_again() {
    for vendor in [
        Vendor::default(),
        Vendor::answering(&[("/webhooks-events/", 503, json!({}))]),
        Vendor::answering(&[
            ("/webhooks-events/", 401, json!({})),
            ("/oauth2/token", 401, json!({})),
        ]),
        Vendor::answering(&[("/webhooks-events/", 200, json!({}))]),
    ] {
        let answer = read_by(&vendor, &approved());
        assert!(matches!(answer, Err(Refused::Later(_))));
    }
}

#[test]
fn an_approval_and_a_complete_capture_prove_their_state() {
    let approved = notice(&approved());
    assert_eq!(approved.about, Subject::Attempt(ID.into()));
    let report = approved.report.unwrap();
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Processing, 0)
    );

    let capture = of_ours(&captured("COMPLETED", None));
    let complete = notice(&event("PAYMENT.CAPTURE.COMPLETED", &capture));
    let report = complete.report.unwrap();
    assert_eq!(
        (report.status, report.settlement, report.received.amount),
        (Status::Completed, Settlement::Confirmed, 4990)
    );
    assert_eq!(report.reference, "5O190127TN364715T");
}

#[test]
fn an_old_event_makes_the_host_ask() {
    for (made, reported) in [
        ("2027-01-11T08:00:00Z", true),
        ("2027-01-11T07:59:59Z", false),
        ("yesterday", false),
    ] {
        let mut old = approved();
        old["create_time"] = made.into();
        assert_eq!(notice(&old).report.is_some(), reported, "{made}");
    }
}

#[test]
fn an_approval_of_an_order_marked_as_closed_is_no_news_of_money() {
    let mut marked = approved();
    marked["resource"]["purchase_units"][0]["custom_id"] = format!("{ID}{CLOSED}").into();
    let notice = notice(&marked);
    assert_eq!(notice.about, Subject::Attempt(ID.into()));
    assert_eq!(notice.report.unwrap().status, Status::Declined);
}

#[test]
fn what_tells_a_part_alone_makes_the_host_ask() {
    for name in [
        "CHECKOUT.PAYMENT-APPROVAL.REVERSED",
        "PAYMENT.CAPTURE.PENDING",
        "PAYMENT.CAPTURE.DENIED",
        "PAYMENT.CAPTURE.REFUNDED",
        "PAYMENT.CAPTURE.REVERSED",
    ] {
        let told = notice(&event(name, &of_ours(&captured("PENDING", None))));
        assert_eq!(told.report, None, "{name}");
    }
}

#[test]
fn a_refund_that_names_its_capture_alone_is_traced() {
    let refund = event(
        "PAYMENT.CAPTURE.REFUNDED",
        &json!({
            "id": "1JU08902781691411", "status": "COMPLETED",
            "links": [{ "rel": "up", "href": "https://api.paypal.com/v2/payments/captures/3C679366HH908993F" }],
        }),
    );
    let mut vendor = Vendor::knowing(&refund);
    let capture = of_ours(&captured("REFUNDED", None));
    let path = "/v2/payments/captures/3C679366HH908993F";
    vendor.answers.push((path, 200, capture));
    let notices = read_by(&vendor, &refund).unwrap().notices;
    let [told] = notices.as_slice() else {
        panic!("one notice")
    };
    assert_eq!(
        (&told.about, &told.report),
        (&Subject::Attempt(ID.into()), &None)
    );
}

#[test]
fn a_dispute_is_told_with_the_captures_money() {
    let dispute = event(
        "CUSTOMER.DISPUTE.CREATED",
        &json!({
            "dispute_id": "PP-D-27803", "reason": "UNAUTHORISED", "status": "OPEN",
            "disputed_transactions": [{ "seller_transaction_id": "3C679366HH908993F", "custom": ID }],
        }),
    );
    let mut vendor = Vendor::knowing(&dispute);
    let capture = of_ours(&captured("COMPLETED", None));
    vendor
        .answers
        .push(("/v2/payments/captures/", 200, capture));
    let mut notices = read_by(&vendor, &dispute).unwrap().notices;
    let report = notices.remove(0).report.unwrap();
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Review, 4990)
    );
    assert_eq!(report.detail, "dispute PP-D-27803, UNAUTHORISED");
}

#[test]
fn what_is_none_of_ours_is_acknowledged_and_costs_no_request() {
    let vendor = Vendor::default();
    for (name, resource) in [
        ("CHECKOUT.ORDER.COMPLETED", of_ours(&told("COMPLETED", &[]))),
        ("BILLING.PLAN.CREATED", json!({})),
        ("PAYMENT.CAPTURE.COMPLETED", captured("COMPLETED", None)),
        ("PAYMENT.CAPTURE.COMPLETED", json!({ "id": "1" })),
    ] {
        let answer = read_by(&vendor, &event(name, &resource)).unwrap();
        assert_eq!((answer.status, answer.notices.len()), (200, 0), "{name}");
    }
    assert!(vendor.asked.borrow().is_empty());
}

#[test]
fn what_is_no_event_is_malformed_and_costs_no_request() {
    let vendor = Vendor::default();
    let good = arriving(&approved());
    for body in [
        "",
        "[]",
        "{}",
        r#"{"id":"../captures/1"}"#,
        r#"{"id":""}"#,
        r#"{"id":1,"id":2}"#,
    ] {
        let odd = Incoming {
            body: body.into(),
            ..good.clone()
        };
        let answer = with_host(vendor.clone(), || read(&account(), &odd));
        assert!(matches!(answer, Err(Refused::Malformed(_))), "{body}");
    }
    let get = Incoming {
        verb: Verb::Get,
        ..good
    };
    let answer = with_host(vendor.clone(), || read(&account(), &get));
    assert!(matches!(answer, Err(Refused::Malformed(_))));
    assert!(vendor.asked.borrow().is_empty());
}

#[test]
fn health_looks_for_a_webhook_that_leads_here() {
    let condition = |status, webhooks: Value| {
        let vendor = Vendor::answering(&[("/notifications/webhooks", status, webhooks)]);
        with_host(vendor, || health(&account()))
    };
    let listed = |url: &str| json!({ "webhooks": [{ "id": "1", "url": url }] });
    let ours = listed("https://pay.example/callbacks/paypal-test");
    assert_eq!(condition(200, ours), Condition::Operational);
    for other in [
        listed("https://pay.example/callbacks/paypal-live"),
        json!({}),
    ] {
        assert!(matches!(condition(200, other), Condition::Degraded(_)));
    }
    assert!(matches!(condition(403, json!({})), Condition::Down(_)));
}
