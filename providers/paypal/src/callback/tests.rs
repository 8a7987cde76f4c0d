use super::*;
use crate::wire::tests::{captured, told};
use kassette_plugin::provider::http::{Request, Response, SendFailure};
use kassette_plugin::provider::{DisputeKind, Environment};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc};

const NOW: u64 = 1_800_000_000_000;
const ID: &str = "0123456789abcdef0123456789abcdef";
const WEBHOOK: &str = "1JE4291016473214C";
const CAPTURE: &str = "/v2/payments/captures/3C679366HH908993F";

/// PayPal's side: answers by path and records the requests.
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

    /// Returns the capture that the events are about.
    fn knowing(capture: &Value) -> Self {
        Self::answering(&[(CAPTURE, 200, of_ours(capture))])
    }
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        self.asked.borrow_mut().push(request.url.clone());
        let known = |(path, ..): &&(&str, u16, Value)| request.url.contains(path);
        let Some((_, status, body)) = self.answers.iter().find(known) else {
            return Err(SendFailure::NoAnswer("nothing".into()));
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
        settings: vec![(signature::WEBHOOK_ID.into(), WEBHOOK.into())],
    }
}

fn event(name: &str, resource: &Value) -> Value {
    let made = "2027-01-15T08:00:00Z";
    json!({ "id": "WH-1", "event_type": name, "create_time": made, "resource": resource })
}

/// Replaces the example's attempt id by the test's.
fn of_ours(resource: &Value) -> Value {
    let text = resource.to_string().replace("attempt-1", ID);
    serde_json::from_str(&text).unwrap()
}

/// Parses an event as if its signature were verified.
fn read_by(vendor: &Vendor, event: &Value) -> Result<CallbackReply, CallbackFailure> {
    let body = event.to_string().into_bytes();
    with_host(vendor.clone(), || read_event(&account(), &body))
}

/// The only notice of an event that causes no request.
fn notice(event: &Value) -> Notice {
    let vendor = Vendor::default();
    let mut notices = read_by(&vendor, event).unwrap().notices;
    assert_eq!(notices.len(), 1, "{event}");
    assert!(vendor.asked.borrow().is_empty(), "{event}");
    notices.remove(0)
}

fn approved() -> Value {
    event("CHECKOUT.ORDER.APPROVED", &of_ours(&told("APPROVED", &[])))
}

fn disputed(resource: &Value) -> Value {
    let mut dispute = json!({
        "dispute_id": "PP-D-27803", "reason": "UNAUTHORISED", "status": "OPEN",
        "dispute_amount": { "currency_code": "EUR", "value": "20.00" },
        "seller_response_due_date": "2027-01-25T08:00:00.000Z",
        "disputed_transactions": [{ "seller_transaction_id": "3C679366HH908993F", "custom": ID }],
    });
    let fields = resource.as_object().unwrap().clone();
    dispute.as_object_mut().unwrap().extend(fields);
    event("CUSTOMER.DISPUTE.UPDATED", &dispute)
}

#[test]
fn an_unsigned_event_is_not_read() {
    let vendor = Vendor::default();
    let bare = CallbackRequest {
        verb: Verb::Post,
        path: String::new(),
        query: String::new(),
        headers: Vec::new(),
        body: approved().to_string().into_bytes(),
    };
    let answer = with_host(vendor.clone(), || read(&account(), &bare));
    assert!(matches!(answer, Err(CallbackFailure::Forged(_))));
    let get = CallbackRequest {
        verb: Verb::Get,
        ..bare
    };
    let answer = with_host(vendor.clone(), || read(&account(), &get));
    assert!(matches!(answer, Err(CallbackFailure::Malformed(_))));
    assert!(vendor.asked.borrow().is_empty());
}

#[test]
fn an_approval_is_told() {
    let approved = notice(&approved());
    assert_eq!(approved.about, Subject::Attempt(ID.into()));
    let report = approved.report.unwrap();
    assert_eq!(
        (report.status, report.received.amount),
        (Status::Processing, 0)
    );
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
    assert_eq!(
        (notice.about, notice.report),
        (Subject::Attempt(ID.into()), None)
    );
}

#[test]
fn no_event_proves_money_it_makes_the_host_ask() {
    for name in [
        "CHECKOUT.PAYMENT-APPROVAL.REVERSED",
        "PAYMENT.CAPTURE.COMPLETED",
        "PAYMENT.CAPTURE.PENDING",
        "PAYMENT.CAPTURE.DENIED",
        "PAYMENT.CAPTURE.REFUNDED",
        "PAYMENT.CAPTURE.REVERSED",
    ] {
        for status in ["PENDING", "COMPLETED"] {
            let told = notice(&event(name, &of_ours(&captured(status, None))));
            assert_eq!(told.about, Subject::Attempt(ID.into()), "{name}");
            assert_eq!(told.report, None, "{name} {status}");
        }
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
    let reversal = event(
        "PAYMENT.CAPTURE.REVERSED",
        &json!({
            "id": "09E71677NS257044M", "status": "COMPLETED",
            "supplementary_data": { "related_ids": { "capture_id": "3C679366HH908993F" } },
        }),
    );
    let vendor = Vendor::knowing(&captured("REFUNDED", None));
    for told in [&refund, &reversal] {
        let notices = read_by(&vendor, told).unwrap().notices;
        let [told] = notices.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(
            (&told.about, &told.report),
            (&Subject::Attempt(ID.into()), &None)
        );
    }
    // PayPal retries the delivery until the attempt can be determined.
    for vendor in [
        Vendor::default(),
        Vendor::answering(&[(CAPTURE, 503, json!({}))]),
    ] {
        let answer = read_by(&vendor, &refund);
        assert!(matches!(answer, Err(CallbackFailure::Later(_))));
    }
    // The host may know a capture that cannot be parsed.
    let vendor = Vendor::answering(&[(CAPTURE, 200, json!({}))]);
    let notices = read_by(&vendor, &refund).unwrap().notices;
    assert_eq!(
        notices[0].about,
        Subject::Reference("3C679366HH908993F".into())
    );
}

#[test]
fn an_open_dispute_is_told_with_the_captures_money_and_its_own_particulars() {
    let vendor = Vendor::knowing(&captured("COMPLETED", None));
    let mut notices = read_by(&vendor, &disputed(&json!({}))).unwrap().notices;
    assert_eq!(notices.len(), 1);
    let report = notices.remove(0).report.unwrap();
    assert_eq!(
        (report.status, report.settlement, report.received.amount),
        (Status::Review, Settlement::Pending, 4990)
    );
    assert_eq!(report.detail, "dispute PP-D-27803, UNAUTHORISED");
    let expected = Dispute {
        id: "PP-D-27803".into(),
        amount: 2000,
        state: DisputeState::Open,
        reason: Some("UNAUTHORISED".into()),
        respond_by: Some(1_800_864_000_000),
        kind: DisputeKind::Dispute,
        withdrawn: 0,
        ends_by_refund: true,
        listed_as_refund: true,
        at: None,
    };
    assert_eq!(report.particulars.disputes, [expected]);
}

#[test]
fn a_decided_dispute_keeps_its_id_and_has_the_host_read_the_order() {
    for (outcome, state, amount) in [
        ("RESOLVED_SELLER_FAVOUR", DisputeState::Won, 2000),
        ("RESOLVED_WITH_PAYOUT", DisputeState::Won, 2000),
        ("CANCELED_BY_BUYER", DisputeState::Won, 2000),
        ("DENIED", DisputeState::Won, 2000),
        ("RESOLVED_BUYER_FAVOUR", DisputeState::Lost, 2000),
        ("ACCEPTED", DisputeState::Lost, 2000),
    ] {
        let resolved = disputed(&json!({
            "status": "RESOLVED", "dispute_outcome": { "outcome_code": outcome },
        }));
        let vendor = Vendor::knowing(&captured("COMPLETED", None));
        let notices = read_by(&vendor, &resolved).unwrap().notices;
        let [told, asked] = notices.as_slice() else {
            panic!("{outcome}: two notices")
        };
        let report = told.report.as_ref().unwrap();
        let dispute = &report.particulars.disputes[0];
        assert_eq!(
            (dispute.id.as_str(), dispute.state, dispute.amount),
            ("PP-D-27803", state, amount),
            "{outcome}"
        );
        assert_eq!(
            (report.status, report.received.amount),
            (Status::Completed, 4990)
        );
        assert_eq!(
            (&asked.about, &asked.report),
            (&Subject::Attempt(ID.into()), &None)
        );
    }
    // An undocumented decision does not count as a decision.
    let odd = disputed(&json!({ "dispute_outcome": { "outcome_code": "ODD" } }));
    let vendor = Vendor::knowing(&captured("COMPLETED", None));
    let notices = read_by(&vendor, &odd).unwrap().notices;
    let report = notices[0].report.as_ref().unwrap();
    assert_eq!(report.particulars.disputes[0].state, DisputeState::Open);
}

#[test]
fn a_dispute_about_a_capture_that_is_not_known_has_the_host_ask() {
    let vendor = Vendor::answering(&[(CAPTURE, 404, json!({}))]);
    let notices = read_by(&vendor, &disputed(&json!({}))).unwrap().notices;
    let [told] = notices.as_slice() else {
        panic!("one notice")
    };
    assert_eq!(
        (&told.about, &told.report),
        (&Subject::Attempt(ID.into()), &None)
    );
}

#[test]
fn what_is_none_of_ours_is_acknowledged_and_costs_no_request() {
    let vendor = Vendor::default();
    for (name, resource) in [
        ("BILLING.PLAN.CREATED", json!({})),
        ("PAYMENT.CAPTURE.COMPLETED", captured("COMPLETED", None)),
        ("PAYMENT.CAPTURE.COMPLETED", json!({ "id": "1" })),
        (
            "CUSTOMER.DISPUTE.CREATED",
            json!({ "disputed_transactions": [{ "custom": "shop:123", "seller_transaction_id": "3C679366HH908993F" }] }),
        ),
    ] {
        let answer = read_by(&vendor, &event(name, &resource)).unwrap();
        assert_eq!((answer.status, answer.notices.len()), (200, 0), "{name}");
    }
    assert!(vendor.asked.borrow().is_empty());
}

#[test]
fn what_is_no_event_is_acknowledged() {
    for body in ["", "{", "[]", r#"{"event_type":null,"resource":7}"#] {
        let answer = with_host(Vendor::default(), || {
            read_event(&account(), body.as_bytes())
        });
        assert_eq!(answer.unwrap().notices, [], "{body}");
    }
}

#[test]
fn an_event_of_a_new_kind_about_an_attempt_of_ours_has_the_host_ask() {
    let told = notice(&event(
        "PAYMENT.ODD",
        &of_ours(&captured("COMPLETED", None)),
    ));
    assert_eq!(told.about, Subject::Attempt(ID.into()));
    assert_eq!(told.report, None);
}

#[test]
fn a_dispute_that_is_over_without_an_outcome_is_asked_for() {
    let over = disputed(&json!({ "status": "RESOLVED", "dispute_outcome": null }));
    let mut decided = over["resource"].clone();
    decided["dispute_outcome"] = json!({ "outcome_code": "RESOLVED_SELLER_FAVOUR" });
    for (answer, state) in [
        ((200, decided), DisputeState::Won),
        ((404, json!({})), DisputeState::Open),
    ] {
        let vendor = Vendor::answering(&[
            (CAPTURE, 200, of_ours(&captured("COMPLETED", None))),
            ("/v1/customer/disputes/PP-D-27803", answer.0, answer.1),
        ]);
        let notices = read_by(&vendor, &over).unwrap().notices;
        let report = notices[0].report.as_ref().unwrap();
        assert_eq!(report.particulars.disputes[0].state, state);
    }
}

#[test]
fn health_looks_for_the_webhook_that_leads_here() {
    let condition = |status, webhooks: Value| {
        let vendor = Vendor::answering(&[("/notifications/webhooks", status, webhooks)]);
        with_host(vendor, || health(&account()))
    };
    let listed = |url: &str, id: &str| json!({ "webhooks": [{ "id": id, "url": url }] });
    let here = "https://pay.example/callbacks/paypal-test";
    assert_eq!(
        condition(200, listed(here, WEBHOOK)),
        Condition::Operational
    );
    let elsewhere = "https://pay.example/callbacks/paypal-live";
    for (other, why) in [
        (listed(here, "2JE4291016473214C"), "another id"),
        (listed(elsewhere, WEBHOOK), "no webhook"),
        (json!({}), "no webhook"),
    ] {
        let Condition::Degraded(said) = condition(200, other) else {
            panic!("not degraded");
        };
        assert!(said.contains(why), "{said}");
    }
    assert!(matches!(condition(403, json!({})), Condition::Down(_)));
}

#[test]
fn news_of_our_own_refund_leads_to_the_attempt_and_not_to_its_own_id() {
    let own = "fedcba9876543210fedcba9876543210";
    let links = json!([{ "rel": "up", "href": format!("https://api.paypal.com{CAPTURE}") }]);
    let found = |name: &str, resource: Value| {
        let event = json!({ "event_type": name, "resource": resource });
        let event = Json::parse(event.to_string().as_bytes()).unwrap();
        about(&event).map(|(_, found, _)| found)
    };
    let told = json!({ "custom_id": ID, "invoice_id": own, "links": links });
    for name in ["PAYMENT.CAPTURE.REFUNDED", "PAYMENT.REFUND.FAILED"] {
        let found = found(name, told.clone());
        assert_eq!(found, Some(Found::Ours(ID.into())), "{name}");
    }
    // Without the attempt's id the capture is read from PayPal.
    let told = json!({ "invoice_id": own, "links": links });
    let capture = Some(Found::Capture("3C679366HH908993F".into()));
    assert_eq!(found("PAYMENT.CAPTURE.REFUNDED", told), capture);
}
