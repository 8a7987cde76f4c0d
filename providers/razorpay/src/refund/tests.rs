use super::*;
use crate::query::PAGE;
use crate::wire::tests::{payment_told, told};
use kassette_plugin::provider::http::{Request, Response, SendFailure, Verb};
use kassette_plugin::provider::{Environment, Money};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc};

const ID: &str = "0123456789abcdef0123456789abcdef";

/// Razorpay's side: a paid link, its refunds, and the answer to a new one.
#[derive(Clone)]
struct Vendor {
    payments: Value,
    refunds: Rc<RefCell<Vec<Value>>>,
    /// A refund that exists once a refund was requested.
    afterwards: Option<Value>,
    answer: (u16, Value),
    asked: Rc<RefCell<Vec<Request>>>,
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        self.asked.borrow_mut().push(request.clone());
        let list = |items: Value| json!({ "entity": "collection", "count": 1, "items": items });
        let (status, body) = match request.url.rsplit('/').next().unwrap_or_default() {
            "plink_1" => (200, told("paid")),
            "payments" => (200, list(self.payments.clone())),
            "refunds?count=100" => (200, list(json!(*self.refunds.borrow()))),
            "refund" => {
                self.refunds.borrow_mut().extend(self.afterwards.take());
                self.answer.clone()
            }
            "rfnd_1" if self.refunds.borrow().is_empty() => unknown(),
            "rfnd_1" => (200, self.refunds.borrow()[0].clone()),
            _ => unknown(),
        };
        if status == 0 {
            return Err(SendFailure::NoAnswer("late".into()));
        }
        Ok(Response {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        })
    }
}

impl Vendor {
    fn answering(status: u16, body: Value) -> Self {
        Self {
            payments: json!([payment_told(&json!({}))]),
            refunds: Rc::default(),
            afterwards: None,
            answer: (status, body),
            asked: Rc::default(),
        }
    }

    fn having(self, refund: Value) -> Self {
        self.refunds.borrow_mut().push(refund);
        self
    }

    fn refund(&self) -> Result<Given, RefundFailure> {
        with_host(self.clone(), || refund(&account(), &paid(), &order(None)))
    }

    fn query(&self, reference: Option<&str>) -> Result<Given, QueryFailure> {
        with_host(self.clone(), || {
            query(&account(), &paid(), &order(reference))
        })
    }

    fn posted(&self) -> Vec<Request> {
        let asked = self.asked.borrow();
        let posts = asked.iter().filter(|asked| asked.verb == Verb::Post);
        posts.cloned().collect()
    }
}

fn unknown() -> (u16, Value) {
    refusal(400, "The id provided does not exist")
}

fn refusal(status: u16, description: &str) -> (u16, Value) {
    let error = json!({ "code": "BAD_REQUEST_ERROR", "description": description });
    (status, json!({ "error": error }))
}

fn account() -> Account {
    Account {
        id: "razorpay-test".into(),
        environment: Environment::Test,
        now: 0,
        callback_url: String::new(),
        settings: Vec::new(),
    }
}

fn inr(amount: u64) -> Money {
    Money {
        amount,
        currency: "INR".into(),
    }
}

fn paid() -> Paid {
    Paid {
        attempt: "attempt-1".into(),
        method: "upi_imps".into(),
        reference: "plink_1".into(),
        references: vec!["order_1".into(), "pay_1".into()],
        received: inr(4990),
        captured_at: None,
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
    }
}

fn order(reference: Option<&str>) -> Order {
    Order {
        id: ID.into(),
        amount: inr(1000),
        reason: Some("late\u{7} delivery".into()),
        asked_at: 0,
        reference: reference.map(str::to_owned),
    }
}

fn made(status: &str) -> Value {
    json!({
        "id": "rfnd_1", "entity": "refund", "amount": 1000, "currency": "INR", "payment_id": "pay_1",
        "receipt": ID, "status": status,
    })
}

#[test]
fn the_captured_payment_is_given_back_under_the_orders_id() {
    let vendor = Vendor::answering(200, made("processed"));
    let given = vendor.refund().unwrap();
    assert_eq!(
        (given.reference.as_str(), given.state),
        ("rfnd_1", RefundState::Succeeded)
    );
    let posted = vendor.posted();
    let [post] = posted.as_slice() else {
        panic!("{posted:?}");
    };
    assert!(post.url.ends_with("/v1/payments/pay_1/refund"));
    let key = ("x-refund-idempotency".to_owned(), ID.to_owned());
    assert!(post.headers.contains(&key));
    let body: Value = serde_json::from_slice(&post.body).unwrap();
    let expected = json!({
        "amount": 1000, "speed": "normal", "receipt": ID, "notes": { "reason": "late delivery" },
    });
    assert_eq!(body, expected);
}

#[test]
fn each_state_of_a_refund_has_its_own() {
    for (status, state) in [
        ("pending", RefundState::Pending),
        ("processed", RefundState::Succeeded),
        ("failed", RefundState::Failed),
    ] {
        let vendor = Vendor::answering(200, made(status));
        assert_eq!(vendor.refund().unwrap().state, state);
    }
}

#[test]
fn a_refund_that_an_earlier_call_made_is_told_and_not_made_again() {
    let vendor = Vendor::answering(500, json!({})).having(made("pending"));
    assert_eq!(vendor.refund().unwrap().state, RefundState::Pending);
    assert_eq!(vendor.posted(), []);
}

#[test]
fn of_a_link_that_was_paid_twice_the_payment_with_enough_left_is_given_back() {
    let mut vendor = Vendor::answering(200, made("processed"));
    let spent = json!({ "amount_refunded": 4500 });
    let other = json!({ "id": "pay_2" });
    vendor.payments = json!([payment_told(&spent), payment_told(&other)]);
    vendor.refund().unwrap();
    assert!(vendor.posted()[0].url.contains("/pay_2/"));
}

#[test]
fn an_answer_that_proves_nothing_is_uncertain() {
    let mut other = made("processed");
    other["amount"] = 4990.into();
    for (status, body) in [
        (0, json!({})),
        (200, json!({})),
        (200, other),
        (409, json!({})),
        (500, json!({})),
        (503, json!({})),
    ] {
        let failed = Vendor::answering(status, body.clone()).refund();
        assert!(
            matches!(failed, Err(RefundFailure::Uncertain(_))),
            "{status} {body}"
        );
    }
}

#[test]
fn a_refusal_is_believed_once_the_payment_shows_no_such_refund() {
    let why = "The payment has been fully refunded already";
    let (status, body) = refusal(400, why);
    let mut vendor = Vendor::answering(status, body);
    let refused = RefundFailure::Refused(format!("status 400: {why}"));
    assert_eq!(vendor.refund(), Err(refused));
    // A call whose answer was lost has made it.
    vendor.afterwards = Some(made("processed"));
    assert_eq!(vendor.refund().unwrap().reference, "rfnd_1");
}

#[test]
fn what_proves_that_nothing_was_asked_for_can_be_asked_again() {
    for status in [401, 429] {
        let failed = Vendor::answering(status, json!({})).refund();
        assert!(matches!(failed, Err(RefundFailure::Unavailable(_))));
    }
}

#[test]
fn what_was_not_captured_is_not_given_back() {
    let mut vendor = Vendor::answering(200, made("processed"));
    let authorized = json!({ "status": "authorized", "captured": false });
    vendor.payments = json!([payment_told(&authorized)]);
    assert!(matches!(vendor.refund(), Err(RefundFailure::Refused(_))));
    assert_eq!(vendor.posted(), []);
}

#[test]
fn a_refund_is_asked_for_by_its_id_and_looked_up_by_its_receipt() {
    let vendor = Vendor::answering(500, json!({})).having(made("failed"));
    for reference in [Some("rfnd_1"), None] {
        assert_eq!(vendor.query(reference).unwrap().state, RefundState::Failed);
    }
    let mut other = made("processed");
    other["receipt"] = json!(null);
    let vendor = Vendor::answering(500, json!({})).having(other);
    assert_eq!(vendor.query(None), Err(QueryFailure::Absent));
}

#[test]
fn a_refund_that_razorpay_has_named_is_never_absent() {
    let asked = Vendor::answering(500, json!({})).query(Some("rfnd_1"));
    assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
}

#[test]
fn a_payment_with_more_refunds_than_are_read_proves_no_absence() {
    let mut other = made("processed");
    other["receipt"] = json!(null);
    let vendor = (0..PAGE).fold(Vendor::answering(500, json!({})), |vendor, _| {
        vendor.having(other.clone())
    });
    assert!(matches!(
        vendor.query(None),
        Err(QueryFailure::Unavailable(_))
    ));
    assert!(matches!(
        vendor.refund(),
        Err(RefundFailure::Unavailable(_))
    ));
    assert_eq!(vendor.posted(), []);
}
