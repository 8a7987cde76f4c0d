//! Giving money back, after the document "Processing Refunds": a refund of the payment's settlement.
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, Refundable,
};
use kassette_plugin::time;

use crate::api::{self, Problem};
use crate::wire::{self, Refund};

const DAY_MS: u64 = 86_400_000;

/// How long `dupCheck` knows a `merchantRefNum`, less a day for what is under way.
const KEY_LIVES_MS: u64 = 89 * DAY_MS;

/// The whole payment, or parts of it; no document limits their number or time.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("interac")]
}

/// Makes the refund, or finds the one that an earlier call made under the order's id.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    if !wire::is_word(&paid.reference) {
        let why = "the payment has no settlement at Paysafe".into();
        return Err(RefundFailure::Refused(why));
    }
    if account.now.saturating_sub(order.asked_at) >= KEY_LIVES_MS {
        let found = find(account, order).map_err(|failure| match failure {
            QueryFailure::Unavailable(why) => RefundFailure::Unavailable(why),
            QueryFailure::Absent => RefundFailure::Unavailable("no refunds are shown".into()),
        })?;
        if let Some(found) = found {
            return Ok(found.given());
        }
    }
    let body = object([
        ("merchantRefNum", order.id.as_str().into()),
        ("amount", order.amount.amount.into()),
        ("dupCheck", true.into()),
    ]);
    // Money that is taken in one step has its settlement under the payment's own id.
    let path = format!("/settlements/{}/refunds", paid.reference);
    let answer = api::post(account, &path, &body)?;
    if answer.is_success() {
        return made(&answer, order);
    }
    let problem = api::problem(&answer);
    if problem.is_repeat() {
        // An earlier call has made it, and is answered by this one without it.
        let found = find(account, order).ok().flatten();
        let found = found.ok_or_else(|| RefundFailure::Uncertain(problem.to_string()))?;
        return Ok(found.given());
    }
    Err(refused(&problem))
}

/// Asks for the refund by its id, or looks it up by the order's.
pub(crate) fn query(account: &Account, _: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let known = order.reference.as_deref().filter(|id| wire::is_word(id));
    let Some(id) = known else {
        let found = find(account, order)?;
        return found.map(|it| it.given()).ok_or(QueryFailure::Absent);
    };
    let answer = api::get(account, &format!("/refunds/{id}"))?;
    if answer.status != 200 {
        return Err(unavailable(&api::problem(&answer).to_string()));
    }
    let read = answer.json().as_ref().and_then(wire::refund);
    match read {
        Some((_, refund)) if refund.id == id => Ok(refund.given()),
        _ => Err(unavailable("the refund cannot be read")),
    }
}

fn made(answer: &Answer, order: &Order) -> Result<Given, RefundFailure> {
    let made = answer.json().as_ref().and_then(wire::refund);
    match made {
        Some((named, refund)) if named == order.id && refund.amount == order.amount.amount => {
            Ok(refund.given())
        }
        _ => Err(RefundFailure::Uncertain(
            "the answer is about no refund of this order".into(),
        )),
    }
}

/// Looks among the refunds since it was asked for: without a beginning Paysafe looks at 30 days.
fn find(account: &Account, order: &Order) -> Result<Option<Refund>, QueryFailure> {
    let since = time::rfc3339(order.asked_at.saturating_sub(DAY_MS));
    let path = format!("/refunds?merchantRefNum={}&startDate={since}", order.id);
    let answer = api::get(account, &path)?;
    // Either way Paysafe says that there is none.
    if answer.status == 404 && api::problem(&answer).code == "5269" {
        return Ok(None);
    }
    if answer.status != 200 {
        return Err(unavailable(&api::problem(&answer).to_string()));
    }
    let found = answer
        .json()
        .and_then(|body| wire::found(&body, "refunds", &order.id, wire::refund));
    let found = found.ok_or_else(|| unavailable("the refunds cannot be read"))?;
    Ok(found.into_iter().next())
}

/// Paysafe has not batched the settlement yet: it takes the refund once it has.
const NOT_BATCHED: &str = "3406";

/// What a refusal proves, as of a start.
fn refused(problem: &Problem) -> RefundFailure {
    let why = problem.to_string();
    match problem.status {
        401 | 403 | 429 | 503 => RefundFailure::Unavailable(why),
        400..=499 if problem.code == NOT_BATCHED => RefundFailure::Unavailable(why),
        400..=499 => RefundFailure::Refused(why),
        _ => RefundFailure::Uncertain(why),
    }
}

impl Refund {
    fn given(self) -> Given {
        let detail = match &self.error {
            Some(error) => format!("refund {} error {error}", self.status),
            None => format!("refund {}", self.status),
        };
        Given {
            reference: self.id,
            state: self.state,
            claim_url: None,
            detail,
        }
    }
}

fn unavailable(why: &str) -> QueryFailure {
    QueryFailure::Unavailable(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::{answer, refusal};
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::provider::{Environment, Money, RefundState, Verb};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};

    const ORDER: &str = "0000000000000000000000000000000a";
    const ASKED_AT: u64 = 1_800_000_000_000;

    fn order(reference: Option<&str>) -> Order {
        Order {
            id: ORDER.into(),
            amount: Money {
                amount: 990,
                currency: "CAD".into(),
            },
            reason: Some("wrong size".into()),
            asked_at: ASKED_AT,
            reference: reference.map(str::to_owned),
        }
    }

    fn paid(reference: &str) -> Paid {
        Paid {
            attempt: "0".repeat(32),
            method: "interac".into(),
            reference: reference.into(),
            references: Vec::new(),
            received: Money {
                amount: 4990,
                currency: "CAD".into(),
            },
            captured_at: None,
            merchant_order: "order".into(),
            merchant: "Demo shop".into(),
        }
    }

    fn told(status: &str) -> Value {
        json!({
            "id": "6cf00c1c-fb83", "merchantRefNum": ORDER, "amount": 990, "currencyCode": "CAD",
            "status": status, "txnTime": "2026-01-21T19:22:04Z",
        })
    }

    /// A Paysafe that answers a creation with one answer and every question with another, and what it
    /// was sent.
    struct Paysafe {
        made: (u16, String),
        asked: (u16, String),
        sent: std::rc::Rc<std::cell::RefCell<Vec<String>>>,
    }
    impl Host for Paysafe {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            let path = request.url.split("/v1").nth(1).unwrap().to_owned();
            let (verb, (status, body)) = match request.verb {
                Verb::Post => ("POST", &self.made),
                _ => ("GET", &self.asked),
            };
            self.sent.borrow_mut().push(format!("{verb} {path}"));
            Ok(Response {
                status: *status,
                headers: Vec::new(),
                body: body.clone().into_bytes(),
            })
        }
    }

    /// What comes of a refund after so many days, and what Paysafe was sent.
    fn refunded(
        made: (u16, &Value),
        asked: (u16, &Value),
        days: u64,
    ) -> (Result<Given, RefundFailure>, Vec<String>) {
        let sent = std::rc::Rc::default();
        let host = Paysafe {
            made: (made.0, made.1.to_string()),
            asked: (asked.0, asked.1.to_string()),
            sent: std::rc::Rc::clone(&sent),
        };
        let account = Account {
            id: "paysafe-test".into(),
            environment: Environment::Test,
            now: ASKED_AT + days * DAY_MS,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let result = with_host(host, || {
            refund(&account, &paid("settlement-1"), &order(None))
        });
        let sent = sent.borrow().clone();
        (result, sent)
    }

    const LOOK: &str = "GET /refunds?merchantRefNum=0000000000000000000000000000000a&startDate=2027-01-14T08:00:00Z";
    const MAKE: &str = "POST /settlements/settlement-1/refunds";

    #[test]
    fn a_repeat_is_answered_with_what_the_first_made_and_one_after_the_keys_end_looks_first() {
        let none = json!({ "refunds": [] });
        let one = json!({ "refunds": [told("PENDING")] });
        let conflict = json!({ "error": { "code": "5031" } });
        let (first, sent) = refunded((201, &told("PENDING")), (200, &none), 0);
        assert_eq!(first.unwrap().state, RefundState::Pending);
        assert_eq!(sent, [MAKE]);
        let (again, sent) = refunded((409, &conflict), (200, &one), 40);
        assert_eq!(again.unwrap().reference, "6cf00c1c-fb83");
        assert_eq!(sent, [MAKE, LOOK]);
        let (unseen, _) = refunded((409, &conflict), (200, &none), 40);
        assert!(matches!(unseen, Err(RefundFailure::Uncertain(_))));
        let (old, sent) = refunded((201, &told("PENDING")), (200, &one), 89);
        assert!(old.is_ok());
        assert_eq!(sent, [LOOK]);
        let (lost, sent) = refunded(
            (201, &told("PENDING")),
            (404, &json!({"error": {"code": "5269"}})),
            89,
        );
        assert!(lost.is_ok());
        assert_eq!(sent, [LOOK, MAKE]);
        let (unknown, sent) = refunded((201, &told("PENDING")), (500, &json!({})), 89);
        assert!(matches!(unknown, Err(RefundFailure::Unavailable(_))));
        assert_eq!(sent, [LOOK]);
    }

    #[test]
    fn an_answer_about_another_refund_proves_nothing() {
        let mut other = told("COMPLETED");
        other["merchantRefNum"] = "another".into();
        let mut less = told("COMPLETED");
        less["amount"] = 989.into();
        for odd in [other, less, told("ODD"), json!({})] {
            let made = made(&answer(201, &odd.to_string()), &order(None));
            assert!(matches!(made, Err(RefundFailure::Uncertain(_))), "{odd}");
        }
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        let refused = |status| refused(&api::problem(&refusal(status, "3402")));
        for status in [400, 402, 404] {
            assert!(
                matches!(refused(status), RefundFailure::Refused(_)),
                "{status}"
            );
        }
        for status in [401, 403, 429, 503] {
            assert!(
                matches!(refused(status), RefundFailure::Unavailable(_)),
                "{status}"
            );
        }
        for status in [302, 500, 502, 504] {
            assert!(
                matches!(refused(status), RefundFailure::Uncertain(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn what_is_not_batched_yet_can_be_given_back_later() {
        let early = refused(&api::problem(&refusal(402, "3406")));
        assert!(matches!(early, RefundFailure::Unavailable(_)));
    }

    #[test]
    fn a_reference_that_could_change_the_path_is_not_used() {
        let account = Account {
            id: "paysafe-test".into(),
            environment: Environment::Test,
            now: ASKED_AT,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let odd = refund(&account, &paid("../payments"), &order(None));
        assert!(matches!(odd, Err(RefundFailure::Refused(_))));
    }
}
