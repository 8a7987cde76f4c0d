//! Refunds: "Create a refund", "List all refunds", "Refund and cancel payments".
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::api;
use crate::charge::{self, ORDER};
use crate::query::is_id;
use crate::start::{SESSIONS, plain};
use crate::wire;

const REFUNDS: &str = "/v1/refunds";

/// Maximum number of pages with 100 refunds in a search; more than any payment of the gateway has.
const MOST_PAGES: usize = 4;

/// Minimum lifetime of an idempotency key, in milliseconds.
const KEY_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;

/// Refund terms: every method, in full or in parts. Stripe documents no maximum number of refunds and, for cards,
/// no time limit; it refuses a late refund.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let methods = crate::METHODS.into_iter();
    methods
        .map(|(method, ..)| Refundable::in_parts(method))
        .collect()
}

/// Creates the refund, or finds the refund that an earlier call made.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    let known = order.reference.is_some();
    if known || account.now >= order.asked_at.saturating_add(KEY_LIFE_MS) {
        match query(account, paid, order) {
            Ok(given) => return Ok(given),
            Err(QueryFailure::Absent) => {}
            // An earlier request may have made it.
            Err(QueryFailure::Unavailable(why)) => return Err(RefundFailure::Uncertain(why)),
        }
    }
    let payment = payment(account, paid).map_err(|failure| match failure {
        QueryFailure::Absent => RefundFailure::Refused("Stripe knows no such payment".into()),
        QueryFailure::Unavailable(why) => RefundFailure::Unavailable(why),
    })?;
    let fields = fields(paid, order, &payment);
    let fields: Vec<(&str, &str)> = fields
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let answer = api::post(account, REFUNDS, &order.id, &fields)?;
    if !answer.is_success() {
        return Err(refused(&answer));
    }
    let uncertain = |why: &str| RefundFailure::Uncertain(why.into());
    let told = answer.json().and_then(|body| read(&body, order));
    let given = told.ok_or_else(|| uncertain("the answer cannot be read"))?;
    if !api::is_replayed(&answer) {
        return Ok(given);
    }
    // A repeated answer contains the initial state, so read the current one.
    let now = by_id(account, order, &given.reference);
    now.map_err(|_| uncertain(&format!("{} cannot be read", given.reference)))
}

/// Queries the refund.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    match order.reference.as_deref().filter(|id| is_id(id)) {
        Some(id) => by_id(account, order, id),
        None => find(account, &payment(account, paid)?, order),
    }
}

/// The request's form, identical in every repetition.
fn fields(paid: &Paid, order: &Order, payment: &str) -> Vec<(&'static str, String)> {
    let mut fields = vec![
        ("payment_intent", payment.to_owned()),
        ("amount", order.amount.amount.to_string()),
        ("reason", "requested_by_customer".to_owned()),
        ("metadata[refund]", order.id.clone()),
        ("metadata[attempt]", paid.attempt.clone()),
    ];
    let reason = order.reason.as_deref().map(plain).unwrap_or_default();
    // Stripe rejects an empty value.
    if !reason.trim().is_empty() {
        fields.push(("metadata[reason]", reason));
    }
    fields
}

/// The payment's id, from the references that the host knows, or from the session.
fn payment(account: &Account, paid: &Paid) -> Result<String, QueryFailure> {
    let known = std::iter::once(&paid.reference).chain(&paid.references);
    let mut payments = known.filter(|id| id.starts_with("pi_") && is_id(id));
    if let Some(id) = payments.next() {
        return Ok(id.clone());
    }
    let path = format!("{SESSIONS}/{}", encode::percent(&paid.reference));
    let answer = api::get(account, &path)?;
    match answer.status {
        200 => {
            let body = answer.json();
            let id = body.and_then(|body| wire::text(&body, "payment_intent"));
            id.filter(|id| is_id(id)).ok_or_else(unreadable)
        }
        404 if wire::problem(&answer).code == "resource_missing" => Err(QueryFailure::Absent),
        _ => Err(unavailable(&answer)),
    }
}

fn by_id(account: &Account, order: &Order, id: &str) -> Result<Given, QueryFailure> {
    let answer = api::get(account, &format!("{REFUNDS}/{id}"))?;
    // Stripe never deletes refunds: a 404 means that the key belongs to another account.
    if answer.status != 200 {
        return Err(unavailable(&answer));
    }
    let told = answer.json().and_then(|body| read(&body, order));
    told.ok_or_else(unreadable)
}

/// Searches the payment's refunds, newest first.
fn find(account: &Account, payment: &str, order: &Order) -> Result<Given, QueryFailure> {
    let mut after = String::new();
    for _ in 0..MOST_PAGES {
        let mut query = vec![("payment_intent", payment), ("limit", "100")];
        if !after.is_empty() {
            query.push(("starting_after", after.as_str()));
        }
        let answer = api::get(account, &format!("{REFUNDS}?{}", encode::form(&query)))?;
        if answer.status != 200 {
            return Err(unavailable(&answer));
        }
        let list = answer.json().ok_or_else(unreadable)?;
        let (items, more) = wire::list_of(&list).ok_or_else(unreadable)?;
        let ours = |item: &&Json| {
            let named = item.path(&["metadata", ORDER]).and_then(Json::text);
            named == Some(order.id.as_str())
        };
        let mut found: Vec<Given> = Vec::new();
        for item in items.iter().filter(ours) {
            found.push(read(item, order).ok_or_else(unreadable)?);
        }
        // If two refunds have this order's id, the one with the most progress counts.
        if let Some(given) = found.into_iter().max_by_key(|given| progress(given.state)) {
            return Ok(given);
        }
        match items.last().and_then(|last| wire::text(last, "id")) {
            Some(last) if more => after = last,
            _ => return Err(QueryFailure::Absent),
        }
    }
    Err(QueryFailure::Unavailable(
        "too many refunds to look through".into(),
    ))
}

const fn progress(state: RefundState) -> u8 {
    match state {
        RefundState::Failed => 0,
        RefundState::Pending => 1,
        RefundState::Succeeded => 2,
    }
}

/// Reads a refund. `None` if its amount or currency differs from the order's. The answer may omit both, because it
/// answers the order's own request.
fn read(value: &Json, order: &Order) -> Option<Given> {
    let refund = charge::refund_of(value, Some(order.amount.amount))?;
    let currency = wire::currency(value);
    let same = refund.amount == order.amount.amount
        && currency.is_none_or(|currency| currency == order.amount.currency);
    let words = match refund.state {
        RefundState::Succeeded => Vec::new(),
        RefundState::Pending => vec!["status", "pending_reason"],
        RefundState::Failed => vec!["status", "failure_reason"],
    };
    let words = words.into_iter().filter_map(|name| wire::code(value, name));
    same.then(|| Given {
        reference: refund.id,
        state: refund.state,
        claim_url: None,
        detail: words.collect::<Vec<_>>().join(" "),
        paid_out: None,
    })
}

/// Maps a refusal to its meaning. Uncertain if an earlier request under the key is in progress (409) or had other
/// data.
fn refused(answer: &Answer) -> RefundFailure {
    let problem = wire::problem(answer);
    let why = problem.to_string();
    match problem.status {
        400 if problem.kind == "idempotency_error" => RefundFailure::Uncertain(why),
        400 | 402 | 404 => RefundFailure::Refused(why),
        401 | 403 | 429 => RefundFailure::Unavailable(why),
        _ => RefundFailure::Uncertain(why),
    }
}

fn unavailable(answer: &Answer) -> QueryFailure {
    QueryFailure::Unavailable(wire::problem(answer).to_string())
}

fn unreadable() -> QueryFailure {
    QueryFailure::Unavailable("the answer cannot be read".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::provider::{Environment, Money};
    use serde_json::{Value, json};

    const ORDER_ID: &str = "000000000000000000000000000000aa";

    fn order() -> Order {
        Order {
            id: ORDER_ID.into(),
            amount: Money {
                amount: 990,
                currency: "EUR".into(),
            },
            reason: Some("came\u{7} back".into()),
            asked_at: 0,
            reference: None,
        }
    }

    fn paid() -> Paid {
        Paid {
            attempt: "attempt-1".into(),
            method: "credit_card".into(),
            reference: "cs_test_1".into(),
            references: vec!["pi_1".into(), "ch_1".into()],
            received: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            captured_at: None,
            merchant_order: "order 7".into(),
            merchant: "Shop".into(),
        }
    }

    fn told(change: &Value) -> Option<Given> {
        let mut refund = json!({
            "id": "re_1", "object": "refund", "amount": 990, "currency": "eur", "status": "succeeded",
            "metadata": { "refund": ORDER_ID },
        });
        for (name, value) in change.as_object().unwrap() {
            refund[name.as_str()] = value.clone();
        }
        read(&Json::parse(refund.to_string().as_bytes())?, &order())
    }

    #[test]
    fn each_state_of_stripe_is_told_with_its_reason() {
        for (change, state, detail) in [
            (json!({}), RefundState::Succeeded, ""),
            (
                json!({ "status": "pending", "pending_reason": "insufficient_funds" }),
                RefundState::Pending,
                "pending insufficient_funds",
            ),
            (
                json!({ "status": "requires_action" }),
                RefundState::Pending,
                "requires_action",
            ),
            (
                json!({ "status": "failed", "failure_reason": "expired_or_canceled_card" }),
                RefundState::Failed,
                "failed expired_or_canceled_card",
            ),
            (
                json!({ "status": "canceled" }),
                RefundState::Failed,
                "canceled",
            ),
        ] {
            let given = told(&change).unwrap();
            assert_eq!((given.state, given.detail.as_str()), (state, detail));
        }
    }

    #[test]
    fn a_refund_of_something_else_is_not_taken_for_ours() {
        for change in [
            json!({ "amount": 991 }),
            json!({ "currency": "usd" }),
            json!({ "id": null }),
        ] {
            assert_eq!(told(&change), None, "{change}");
        }
    }

    #[test]
    fn the_answer_to_our_order_need_not_repeat_it() {
        for field in ["object", "metadata", "amount", "currency"] {
            let given = told(&json!({ field: null })).unwrap();
            assert_eq!(given.state, RefundState::Succeeded, "{field}");
        }
        let given = told(&json!({ "status": "odd" })).unwrap();
        assert_eq!(given.state, RefundState::Pending);
    }

    #[test]
    fn the_order_is_in_the_metadata_and_the_amount_in_minor_units() {
        let fields = fields(&paid(), &order(), "pi_1");
        for (name, value) in [
            ("payment_intent", "pi_1"),
            ("amount", "990"),
            ("metadata[refund]", ORDER_ID),
            ("metadata[attempt]", "attempt-1"),
            ("metadata[reason]", "came back"),
        ] {
            assert!(fields.contains(&(name, value.to_owned())), "{name}");
        }
        let silent = Order {
            reason: Some("\u{7} ".into()),
            ..order()
        };
        let fields = super::fields(&paid(), &silent, "pi_1");
        assert!(!fields.iter().any(|(name, _)| *name == "metadata[reason]"));
        assert_eq!((ORDER, wire::ATTEMPT), ("refund", "attempt"));
    }

    #[test]
    fn only_what_surely_gave_nothing_back_is_refused() {
        let refused = |status, kind: &str| {
            let body = json!({ "error": { "type": kind, "code": "charge_already_refunded" } });
            refused(&Answer {
                status,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            })
        };
        for (status, kind) in [
            (400, "invalid_request_error"),
            (402, "card_error"),
            (404, "invalid_request_error"),
        ] {
            assert!(matches!(refused(status, kind), RefundFailure::Refused(_)));
        }
        for status in [401, 403, 429] {
            let failure = refused(status, "invalid_request_error");
            assert!(matches!(failure, RefundFailure::Unavailable(_)), "{status}");
        }
        for (status, kind) in [
            (400, "idempotency_error"),
            (409, "invalid_request_error"),
            (500, "api_error"),
            (503, "api_error"),
        ] {
            let failure = refused(status, kind);
            assert!(matches!(failure, RefundFailure::Uncertain(_)), "{status}");
        }
    }

    #[test]
    fn every_method_gives_back_parts() {
        let account = Account {
            id: "stripe-test".into(),
            environment: Environment::Test,
            now: 0,
            callback_url: String::new(),
            settings: Vec::new(),
        };
        let terms = terms(&account);
        assert_eq!(terms.len(), crate::METHODS.len());
        assert!(terms.iter().all(|term| term.parts));
    }
}
