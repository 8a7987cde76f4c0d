use super::*;
use crate::wire::tests::{captured, told as order_told};
use kassette_plugin::provider::http::{Request, Response, SendFailure, Verb};
use kassette_plugin::provider::{Environment, Money};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc};

const NOW: u64 = 1_800_000_000_000;
const ID: &str = "0123456789abcdef0123456789abcdef";
const CAPTURE: &str = "3C679366HH908993F";

/// PayPal's side: answers the requests in turn and records them.
#[derive(Clone, Default)]
struct Vendor {
    answers: Rc<RefCell<Vec<(u16, Value)>>>,
    asked: Rc<RefCell<Vec<Request>>>,
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        self.asked.borrow_mut().push(request.clone());
        let mut answers = self.answers.borrow_mut();
        if answers.is_empty() {
            return Err(SendFailure::NoAnswer("nothing".into()));
        }
        let (status, body) = answers.remove(0);
        Ok(Response {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        })
    }

    fn ready(&mut self, _: &str) -> bool {
        true
    }
}

impl Vendor {
    fn answering(answers: &[(u16, Value)]) -> Self {
        Self {
            answers: Rc::new(RefCell::new(answers.to_vec())),
            asked: Rc::default(),
        }
    }

    fn refund(&self, order: &Order) -> Result<Given, RefundFailure> {
        with_host(self.clone(), || refund(&account(), &paid(), order))
    }

    fn query(&self, order: &Order) -> Result<Given, QueryFailure> {
        with_host(self.clone(), || query(&account(), &paid(), order))
    }

    /// The POST requests: last path segment, request id, body.
    fn posted(&self) -> Vec<(String, String, Value)> {
        let asked = self.asked.borrow();
        let posts = asked.iter().filter(|asked| asked.verb == Verb::Post);
        posts
            .map(|post| {
                let key = post
                    .headers
                    .iter()
                    .find(|(name, _)| name == "paypal-request-id");
                (
                    post.url.replace("https://api-m.sandbox.paypal.com", ""),
                    key.unwrap().1.clone(),
                    serde_json::from_slice(&post.body).unwrap(),
                )
            })
            .collect()
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

fn eur(amount: u64) -> Money {
    Money {
        amount,
        currency: "EUR".into(),
    }
}

fn paid() -> Paid {
    Paid {
        attempt: "attempt-1".into(),
        method: "paypal".into(),
        reference: "5O190127TN364715T".into(),
        references: vec![CAPTURE.into()],
        received: eur(4990),
        captured_at: Some(NOW),
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
    }
}

fn order() -> Order {
    Order {
        id: ID.into(),
        amount: eur(1000),
        reason: Some("late\u{7} delivery".into()),
        asked_at: NOW,
        reference: None,
    }
}

fn made(status: &str) -> Value {
    json!({
        "id": "1JU08902781691411", "status": status, "invoice_id": ID, "custom_id": "attempt-1",
        "amount": { "currency_code": "EUR", "value": "10.00" },
    })
}

/// The order with its capture and these refunds.
fn known(refunds: &[Value]) -> Value {
    let mut order = order_told("COMPLETED", &[captured("COMPLETED", None)]);
    order["purchase_units"][0]["payments"]["refunds"] = refunds.into();
    order
}

fn refused(issue: &str) -> Value {
    json!({ "name": "UNPROCESSABLE_ENTITY", "details": [{ "issue": issue }] })
}

#[test]
fn the_capture_is_given_back_under_the_orders_id() {
    let vendor = Vendor::answering(&[(200, known(&[])), (201, made("COMPLETED"))]);
    let given = vendor.refund(&order()).unwrap();
    assert_eq!(
        (given.reference.as_str(), given.state),
        ("1JU08902781691411", RefundState::Succeeded)
    );
    let body = json!({
        "amount": { "currency_code": "EUR", "value": "10.00" },
        "custom_id": "attempt-1", "invoice_id": ID, "note_to_payer": "late delivery",
    });
    let path = format!("/v2/payments/captures/{CAPTURE}/refund");
    assert_eq!(vendor.posted(), [(path, ID.to_owned(), body)]);
}

#[test]
fn a_refund_that_an_earlier_call_made_is_told_and_not_made_again() {
    let vendor = Vendor::answering(&[(200, known(&[made("PENDING")]))]);
    assert_eq!(vendor.refund(&order()).unwrap().state, RefundState::Pending);
    assert_eq!(vendor.posted(), []);
}

#[test]
fn each_state_of_a_refund_has_its_own() {
    for (status, state) in [
        ("PENDING", RefundState::Pending),
        ("COMPLETED", RefundState::Succeeded),
        ("FAILED", RefundState::Failed),
        ("CANCELLED", RefundState::Failed),
    ] {
        let vendor = Vendor::answering(&[(200, known(&[])), (201, made(status))]);
        assert_eq!(vendor.refund(&order()).unwrap().state, state, "{status}");
    }
    let mut waits = made("PENDING");
    waits["status_details"] = json!({ "reason": "ECHECK" });
    let vendor = Vendor::answering(&[(200, known(&[])), (201, waits)]);
    assert_eq!(vendor.refund(&order()).unwrap().detail, "pending, ECHECK");
}

#[test]
fn an_answer_that_proves_nothing_is_uncertain() {
    let mut other = made("COMPLETED");
    other["amount"]["value"] = "49.90".into();
    for answer in [
        (201, json!({})),
        (201, other),
        (409, refused("PREVIOUS_REQUEST_IN_PROGRESS")),
        (422, refused("DUPLICATE_INVOICE_ID")),
        (500, refused("INTERNAL_SERVER_ERROR")),
        (503, refused("SERVICE_UNAVAILABLE")),
    ] {
        let vendor = Vendor::answering(&[(200, known(&[])), answer.clone()]);
        let failed = vendor.refund(&order());
        assert!(
            matches!(failed, Err(RefundFailure::Uncertain(_))),
            "{answer:?}"
        );
    }
}

#[test]
fn a_refusal_is_believed_once_the_order_shows_no_such_refund() {
    for (status, issue) in [
        (422, "CAPTURE_FULLY_REFUNDED"),
        (422, "REFUND_TIME_LIMIT_EXCEEDED"),
        (422, "REFUND_FAILED_INSUFFICIENT_FUNDS"),
        (403, "PERMISSION_DENIED"),
        (404, "INVALID_RESOURCE_ID"),
    ] {
        let answers = [
            (200, known(&[])),
            (status, refused(issue)),
            (200, known(&[])),
        ];
        let failed = Vendor::answering(&answers).refund(&order());
        assert!(matches!(failed, Err(RefundFailure::Refused(_))), "{issue}");
        let there = (200, known(&[made("COMPLETED")]));
        let answers = [(200, known(&[])), (status, refused(issue)), there];
        assert!(
            Vendor::answering(&answers).refund(&order()).is_ok(),
            "{issue}"
        );
        // The order could not be read, so the refund may exist.
        let answers = [(200, known(&[])), (status, refused(issue))];
        let failed = Vendor::answering(&answers).refund(&order());
        assert!(
            matches!(failed, Err(RefundFailure::Uncertain(_))),
            "{issue}"
        );
    }
}

#[test]
fn what_proves_that_nothing_was_asked_for_can_be_asked_again() {
    for answers in [
        vec![(200, known(&[])), (429, refused("RATE_LIMIT_REACHED"))],
        vec![(500, json!({}))],
        vec![],
    ] {
        let failed = Vendor::answering(&answers).refund(&order());
        assert!(
            matches!(failed, Err(RefundFailure::Unavailable(_))),
            "{answers:?}"
        );
    }
}

#[test]
fn what_was_not_credited_is_not_given_back() {
    let pending = order_told("COMPLETED", &[captured("PENDING", Some("ECHECK"))]);
    let vendor = Vendor::answering(&[(200, pending)]);
    assert!(matches!(
        vendor.refund(&order()),
        Err(RefundFailure::Refused(_))
    ));
    assert_eq!(vendor.posted(), []);
}

#[test]
fn forints_are_given_back_whole_or_not_at_all() {
    let mut order = order();
    order.amount = Money {
        amount: 499_050,
        currency: "HUF".into(),
    };
    let failed = Vendor::default().refund(&order);
    assert!(matches!(failed, Err(RefundFailure::Refused(_))));
}

#[test]
fn of_an_order_that_paypal_tells_no_more_the_capture_is_given_back_while_its_key_is_kept() {
    let unknown = (404, json!({ "name": "RESOURCE_NOT_FOUND" }));
    let vendor = Vendor::answering(&[unknown.clone(), (201, made("COMPLETED"))]);
    assert!(vendor.refund(&order()).is_ok());
    assert!(vendor.posted()[0].0.contains(CAPTURE));
    let mut order = order();
    order.asked_at = NOW - KEPT;
    let vendor = Vendor::answering(&[unknown]);
    assert!(matches!(
        vendor.refund(&order),
        Err(RefundFailure::Uncertain(_))
    ));
    assert_eq!(vendor.posted(), []);
}

#[test]
fn a_refund_is_asked_for_by_its_id_and_looked_up_by_the_orders() {
    let mut by_id = order();
    by_id.reference = Some("1JU08902781691411".into());
    let vendor = Vendor::answering(&[(200, made("FAILED"))]);
    assert_eq!(vendor.query(&by_id).unwrap().state, RefundState::Failed);
    let asked = vendor.asked.borrow()[0].url.clone();
    assert!(asked.ends_with("/v2/payments/refunds/1JU08902781691411"));

    let vendor = Vendor::answering(&[(200, known(&[made("COMPLETED")]))]);
    assert_eq!(
        vendor.query(&order()).unwrap().state,
        RefundState::Succeeded
    );
    // A refund made in the dashboard, which contains the capture's `invoice_id`.
    let mut other = made("COMPLETED");
    other["invoice_id"] = "attempt-1".into();
    let vendor = Vendor::answering(&[(200, known(&[other]))]);
    assert_eq!(vendor.query(&order()), Err(QueryFailure::Absent));
}

#[test]
fn a_refund_that_paypal_has_named_is_never_absent() {
    let mut by_id = order();
    by_id.reference = Some("1JU08902781691411".into());
    for (status, order) in [(404, by_id), (404, order()), (500, order())] {
        let asked = Vendor::answering(&[(status, json!({}))]).query(&order);
        assert!(
            matches!(asked, Err(QueryFailure::Unavailable(_))),
            "{status}"
        );
    }
}
