//! Refunds of a payment's settlement, according to the document "Processing Refunds".
use kassette_plugin::json::object;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};
use kassette_plugin::time;

use crate::api::{self, Problem};
use crate::query::{self, unavailable};
use crate::wire::{self, Refund};

const DAY_MS: u64 = 86_400_000;

/// Time for which `dupCheck` knows a `merchantRefNum`, minus a day for requests in flight, in milliseconds.
const KEY_LIVES_MS: u64 = 89 * DAY_MS;

/// Refund terms: in full or in parts; no document limits the number of refunds or the time.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("interac")]
}

/// Makes the refund, or finds the refund that an earlier call made with the order's id.
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
        let found = find(account, paid, order).map_err(|failure| match failure {
            QueryFailure::Unavailable(why) => RefundFailure::Unavailable(why),
            QueryFailure::Absent => RefundFailure::Unavailable("no refunds are shown".into()),
        })?;
        if let Some(found) = found {
            return Ok(found.given());
        }
    }
    let body = object([
        ("merchantRefNum", reference(paid, order).into()),
        ("amount", order.amount.amount.into()),
        ("dupCheck", true.into()),
    ]);
    // A payment with immediate settlement has a settlement with the payment's own id.
    let path = format!("/settlements/{}/refunds", paid.reference);
    let answer = api::post(account, &path, &body)?;
    if answer.is_success() {
        return made(&answer);
    }
    let problem = api::problem(&answer);
    if problem.is_repeat() {
        // An earlier call has made the refund, but this answer does not contain it.
        let found = find(account, paid, order).ok().flatten();
        let found = found.ok_or_else(|| RefundFailure::Uncertain(problem.to_string()))?;
        return Ok(found.given());
    }
    Err(refused(&problem))
}

/// Queries the refund by its id, or searches for it by the order's id.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let known = order.reference.as_deref().filter(|id| wire::is_word(id));
    let Some(id) = known else {
        let found = find(account, paid, order)?;
        return found.map(|it| it.given()).ok_or(QueryFailure::Absent);
    };
    let answer = api::get(account, &format!("/refunds/{id}"))?;
    match answer.status {
        200 => {
            let read = answer.json().as_ref().and_then(wire::refund);
            read.map(Refund::given)
                .ok_or_else(|| unavailable("the refund cannot be read"))
        }
        // Paysafe issued this id, so that a 404 proves nothing.
        404 => match find(account, paid, order)? {
            Some(found) => Ok(found.given()),
            None => Err(unavailable("the refund is unknown")),
        },
        _ => Err(unavailable(&api::problem(&answer).to_string())),
    }
}

/// Merchant reference of the refund. It starts with the attempt's id, so that a webhook that only contains the
/// refund leads to the payment.
fn reference(paid: &Paid, order: &Order) -> String {
    format!("{}-{}", paid.attempt, order.id)
}

/// The refund in the answer to the order's own request, which may omit its data.
fn made(answer: &Answer) -> Result<Given, RefundFailure> {
    let made = answer.json().as_ref().and_then(wire::refund);
    let made = made.ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()))?;
    Ok(made.given())
}

/// Searches for the refund since a day before its order. Paysafe's default is the last 30 days.
fn find(account: &Account, paid: &Paid, order: &Order) -> Result<Option<Refund>, QueryFailure> {
    let since = time::rfc3339(order.asked_at.saturating_sub(DAY_MS));
    let ours = reference(paid, order);
    let answer = query::look_up(account, &ours, "refunds", &format!("&startDate={since}"))?;
    let found = answer.list("refunds", &ours);
    let found = found.ok_or_else(|| unavailable("the refunds cannot be read"))?;
    let refunds = found.into_iter().filter_map(wire::refund);
    // If two refunds have this reference, the one with the most progress counts.
    Ok(refunds.min_by_key(|refund| match refund.state {
        Some(RefundState::Succeeded) => 0,
        Some(RefundState::Pending) | None => 1,
        Some(RefundState::Failed) => 2,
    }))
}

/// Error code: Paysafe has not batched the settlement yet, and accepts the refund once it has.
const NOT_BATCHED: &str = "3406";

/// Maps a refusal to its meaning, like that of a start.
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
            // An undocumented status counts as pending.
            state: self.state.unwrap_or(RefundState::Pending),
            claim_url: None,
            detail,
            paid_out: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::{answer, refusal};
    use kassette_plugin::provider::http::{Request, Response, SendFailure};
    use kassette_plugin::provider::{Environment, Money, Verb};
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
            "id": "6cf00c1c-fb83", "merchantRefNum": format!("{}-{ORDER}", "0".repeat(32)), "amount": 990, "currencyCode": "CAD",
            "status": status, "txnTime": "2026-01-21T19:22:04Z",
        })
    }

    /// A Paysafe that answers creations with one answer and queries with another, and records the requests.
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

    /// The result of a refund after that many days, and the requests to Paysafe.
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

    const LOOK: &str = "GET /refunds?merchantRefNum=00000000000000000000000000000000-0000000000000000000000000000000a&startDate=2027-01-14T08:00:00Z";
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
    fn the_answer_to_our_order_is_about_our_order() {
        let bare = json!({ "id": "r1", "status": "PENDING" });
        let made = |told: &Value| made(&answer(201, &told.to_string()));
        assert_eq!(made(&bare).unwrap().state, RefundState::Pending);
        assert_eq!(made(&told("ODD")).unwrap().state, RefundState::Pending);
        let refused = json!({ "id": "r1", "error": { "code": "3407" } });
        assert_eq!(made(&refused).unwrap().state, RefundState::Failed);
        for odd in [json!({}), json!([]), json!({ "id": "r1" })] {
            assert!(
                matches!(made(&odd), Err(RefundFailure::Uncertain(_))),
                "{odd}"
            );
        }
    }

    #[test]
    fn a_refund_that_paysafe_no_longer_knows_is_looked_up_by_its_reference() {
        let none = json!({ "error": { "code": "5269" } });
        let sent = std::rc::Rc::default();
        let host = Paysafe {
            made: (500, String::new()),
            asked: (404, none.to_string()),
            sent: std::rc::Rc::clone(&sent),
        };
        let account = Account {
            id: "paysafe-test".into(),
            environment: Environment::Test,
            now: ASKED_AT,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let asked = with_host(host, || {
            query(
                &account,
                &paid("settlement-1"),
                &order(Some("6cf00c1c-fb83")),
            )
        });
        assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
        assert_eq!(*sent.borrow(), ["GET /refunds/6cf00c1c-fb83", LOOK]);
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
