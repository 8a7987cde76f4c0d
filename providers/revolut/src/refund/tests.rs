use super::*;
use crate::signature::tests::{NOW, account};
use crate::wire::tests::{ID, PAYMENT, tried};
use kassette_plugin::provider::Money;
use kassette_plugin::provider::http::{Request, Response, SendFailure, Verb};
use kassette_plugin::testing::{Host, with_host};
use serde_json::{Value, json};
use std::{cell::RefCell, rc::Rc};

const MADE: &str = "6852e9a6-5cf0-ac65-8182-6a9c251011ce";

/// Revolut's side: the listed refunds, the answer to a new refund, and the answer about an order's id.
#[derive(Clone)]
struct Vendor {
    listed: Rc<RefCell<Vec<Value>>>,
    /// A refund that is listed once a refund was requested.
    afterwards: Option<Value>,
    answer: (u16, Value),
    asked: Rc<RefCell<Vec<Request>>>,
}

impl Host for Vendor {
    fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
        self.asked.borrow_mut().push(request.clone());
        let (status, body) = if request
            .url
            .contains("?merchant_order_data_reference=attempt-1&")
        {
            (200, json!({ "orders": *self.listed.borrow() }))
        } else {
            self.listed.borrow_mut().extend(self.afterwards.take());
            self.answer.clone()
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
            listed: Rc::default(),
            afterwards: None,
            answer: (status, body),
            asked: Rc::default(),
        }
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

fn eur(amount: u64) -> Money {
    Money {
        amount,
        currency: "EUR".into(),
    }
}

fn paid() -> Paid {
    Paid {
        attempt: "attempt-1".into(),
        method: "revolut".into(),
        reference: ID.into(),
        references: vec![PAYMENT.into()],
        received: eur(4990),
        captured_at: None,
        merchant_order: "order-1".into(),
        merchant: "Shop".into(),
    }
}

fn order(reference: Option<&str>) -> Order {
    Order {
        id: "refund-1".into(),
        amount: eur(1000),
        reason: Some("late\u{7} delivery".into()),
        asked_at: NOW,
        reference: reference.map(str::to_owned),
    }
}

/// A refund's order, as Revolut would return it.
fn made(state: &str, payment: &str) -> Value {
    let mut made = tried(state, payment, 1000);
    made["id"] = json!(MADE);
    made["type"] = json!("refund");
    made["amount"] = json!(1000);
    made["related_order_id"] = json!(ID);
    made["metadata"] = json!({ "refund": "refund-1" });
    made
}

#[test]
fn the_order_is_given_back_under_the_orders_id() {
    let vendor = Vendor::answering(201, made("processing", "refund_validated"));
    let given = vendor.refund().unwrap();
    assert_eq!(
        (given.reference.as_str(), given.state),
        (MADE, RefundState::Pending)
    );
    let posted = vendor.posted();
    let [post] = posted.as_slice() else {
        panic!("{posted:?}");
    };
    assert!(post.url.ends_with(&format!("/api/orders/{ID}/refund")));
    let key = ("idempotency-key".to_owned(), "refund-1".to_owned());
    assert!(post.headers.contains(&key));
    let body: Value = serde_json::from_slice(&post.body).unwrap();
    let expected = json!({
        "amount": 1000, "currency": "EUR", "merchant_order_data": { "reference": "attempt-1" },
        "metadata": { "refund": "refund-1" }, "description": "late delivery",
    });
    assert_eq!(body, expected);
}

#[test]
fn each_state_of_a_refund_has_its_own() {
    for (state, expected) in [
        ("pending", RefundState::Pending),
        ("processing", RefundState::Pending),
        ("completed", RefundState::Succeeded),
        ("failed", RefundState::Failed),
        ("cancelled", RefundState::Failed),
    ] {
        let vendor = Vendor::answering(201, made(state, "refund_started"));
        assert_eq!(vendor.refund().unwrap().state, expected, "{state}");
    }
}

#[test]
fn a_declined_refund_has_failed_once_its_order_must_have_ended() {
    let mut declined = made("processing", "declined");
    declined["payments"][0]["decline_reason"] = json!("suspected_fraud");
    let asked = |now: u64| {
        let made = wire::order(declined.to_string().as_bytes()).unwrap();
        let given = given(&made, now);
        (given.state, given.detail)
    };
    let why = |state: &str| format!("{state}, suspected_fraud");
    assert_eq!(asked(NOW), (RefundState::Pending, why("processing")));
    assert_eq!(asked(NOW + ENDS), (RefundState::Failed, why("failed")));
}

#[test]
fn a_refund_that_an_earlier_call_made_is_told_and_not_made_again() {
    let vendor = Vendor::answering(500, json!({}));
    vendor
        .listed
        .borrow_mut()
        .push(made("completed", "completed"));
    assert_eq!(vendor.refund().unwrap().state, RefundState::Succeeded);
    assert_eq!(vendor.posted(), []);
}

#[test]
fn an_answer_that_proves_nothing_is_uncertain() {
    for (status, body) in [
        (0, json!({})),
        (201, json!({})),
        (409, json!({})),
        (500, json!({})),
    ] {
        let failed = Vendor::answering(status, body.clone()).refund();
        assert!(
            matches!(failed, Err(RefundFailure::Uncertain(_))),
            "{status} {body}"
        );
    }
}

#[test]
fn of_a_refund_that_is_declined_at_once_the_order_is_found() {
    let declined = json!({ "code": "bad_request", "message": "declined" });
    let mut vendor = Vendor::answering(400, declined);
    vendor.afterwards = Some(made("failed", "declined"));
    let given = vendor.refund().unwrap();
    assert_eq!(
        (given.reference.as_str(), given.state),
        (MADE, RefundState::Failed)
    );
}

#[test]
fn a_refusal_is_believed_where_no_refund_is_listed() {
    for status in [400, 403, 404, 422] {
        let failed = Vendor::answering(status, json!({})).refund();
        assert!(matches!(failed, Err(RefundFailure::Refused(_))), "{status}");
    }
}

#[test]
fn what_proves_that_nothing_was_asked_for_can_be_asked_again() {
    for status in [401, 429] {
        let failed = Vendor::answering(status, json!({})).refund();
        assert!(matches!(failed, Err(RefundFailure::Unavailable(_))));
    }
}

#[test]
fn a_refund_is_asked_for_by_its_id_and_looked_up_by_the_orders() {
    let vendor = Vendor::answering(200, made("failed", "declined"));
    assert_eq!(vendor.query(Some(MADE)).unwrap().state, RefundState::Failed);
    assert_eq!(vendor.query(None), Err(QueryFailure::Absent));
    vendor
        .listed
        .borrow_mut()
        .push(made("completed", "completed"));
    assert_eq!(vendor.query(None).unwrap().state, RefundState::Succeeded);
}

#[test]
fn a_refund_that_revolut_has_named_is_never_absent() {
    for (status, body) in [
        (404, json!({})),
        (200, tried("completed", "completed", 4990)),
    ] {
        let asked = Vendor::answering(status, body).query(Some(MADE));
        assert!(
            matches!(asked, Err(QueryFailure::Unavailable(_))),
            "{status}"
        );
    }
}

#[test]
fn a_refund_that_revolut_no_longer_finds_by_id_is_looked_for_in_the_list() {
    let vendor = Vendor::answering(404, json!({}));
    vendor
        .listed
        .borrow_mut()
        .push(made("completed", "completed"));
    let asked = vendor.query(Some(MADE)).unwrap();
    assert_eq!(asked.state, RefundState::Succeeded);
}

#[test]
fn the_answer_to_our_order_is_about_our_order() {
    let mut bare = made("processing", "refund_validated");
    for name in ["metadata", "related_order_id", "merchant_order_data"] {
        bare[name] = Value::Null;
    }
    bare["amount"] = json!(100);
    let given = Vendor::answering(201, bare).refund().unwrap();
    assert_eq!(
        (given.reference.as_str(), given.state),
        (MADE, RefundState::Pending)
    );
}
