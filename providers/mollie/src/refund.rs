//! Refunds: "Refunds API" (create, list and get payment refund), "Refunds".
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::read::{self, Unreadable};
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::method::Method;
use crate::{api, particulars, wire};

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 255;

/// Refunds per page: Mollie's maximum, and more than any payment of the gateway has.
const PAGE: usize = 250;

/// Lifetime of an idempotency key at Mollie, in milliseconds: an hour.
const KEY_LIFE_MS: u64 = 60 * 60 * 1_000;

/// Refund terms: every method, in full or in parts. Mollie documents no maximum number of refunds and no time
/// limit; it refuses a late refund.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let methods = Method::ALL.into_iter();
    methods
        .map(|method| Refundable::in_parts(method.wire_id()))
        .collect()
}

/// Creates the refund, or finds the refund that an earlier call made.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    let path = refunds(paid).map_err(RefundFailure::Refused)?;
    let known = order.reference.is_some();
    if known || account.now >= order.asked_at.saturating_add(KEY_LIFE_MS) {
        match query(account, paid, order) {
            Ok(given) => return Ok(given),
            Err(QueryFailure::Absent) => {}
            // An earlier request may have made it.
            Err(QueryFailure::Unavailable(why)) => return Err(RefundFailure::Uncertain(why)),
        }
    }
    let answer = api::post(account, &path, &order.id, &body(order))?;
    if !answer.is_success() {
        return Err(refused(&answer));
    }
    let uncertain = |why: String| RefundFailure::Uncertain(why);
    let told = answer.json().and_then(|told| read(&told, order));
    let given = told.ok_or_else(|| uncertain("the answer cannot be read".into()))?;
    if answer.header("idempotent-replayed") != Some("true") {
        return Ok(given);
    }
    // A repeated answer contains the initial state, so read the current one.
    let now = by_id(account, &path, order, &given.reference);
    now.map_err(|_| uncertain(format!("{} cannot be read", given.reference)))
}

/// Queries the refund.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let path = refunds(paid).map_err(QueryFailure::Unavailable)?;
    match order
        .reference
        .as_deref()
        .filter(|id| particulars::is_word(id))
    {
        Some(id) => by_id(account, &path, order, id),
        None => find(account, &path, order),
    }
}

/// Body of the request, identical in every repetition.
fn body(order: &Order) -> Json {
    let reason = order.reason.as_deref().unwrap_or_default().chars();
    let reason = reason.filter(|c| !c.is_control()).take(DESCRIPTION);
    let reason: String = reason.collect();
    let reason = if reason.trim().is_empty() {
        "Refund".to_owned()
    } else {
        reason
    };
    object([
        ("amount", wire::money_json(&order.amount)),
        ("description", reason.into()),
        ("metadata", order.id.as_str().into()),
    ])
}

/// Path of the payment's refunds. The error is the reason why there is none.
fn refunds(paid: &Paid) -> Result<String, String> {
    if wire::is_id(&paid.reference) {
        Ok(format!("/v2/payments/{}/refunds", paid.reference))
    } else {
        Err("the payment has no id of Mollie's".into())
    }
}

fn by_id(account: &Account, path: &str, order: &Order, id: &str) -> Result<Given, QueryFailure> {
    let answer = api::get(account, &format!("{path}/{id}"))?;
    match answer.status {
        200 => {
            let told = answer.json().and_then(|told| read(&told, order));
            told.ok_or_else(unreadable)
        }
        // A refund that was cancelled before it was sent may be missing.
        404 => find(account, path, order).or_else(|failure| match failure {
            QueryFailure::Absent => Ok(Given {
                reference: id.to_owned(),
                state: RefundState::Failed,
                claim_url: None,
                detail: "Mollie no longer knows it: canceled".into(),
                paid_out: None,
            }),
            other => Err(other),
        }),
        _ => Err(unavailable(&answer)),
    }
}

fn find(account: &Account, path: &str, order: &Order) -> Result<Given, QueryFailure> {
    let answer = api::get(account, &format!("{path}?limit={PAGE}"))?;
    if answer.status != 200 {
        return Err(unavailable(&answer));
    }
    let list = answer.json().ok_or_else(unreadable)?;
    let items = list
        .path(&["_embedded", "refunds"])
        .ok_or_else(unreadable)?;
    let ours = |item: &&Json| particulars::order(item).as_ref() == Some(&order.id);
    if let Some(found) = items.items().iter().find(ours) {
        return read(found, order).ok_or_else(unreadable);
    }
    match list.path(&["_links", "next"]) {
        None | Some(Json::Null) => Err(QueryFailure::Absent),
        Some(_) => Err(QueryFailure::Unavailable(
            "too many refunds to look through".into(),
        )),
    }
}

/// Reads a refund. The answer is about the order's refund, even if it omits its data. `None` without an id.
fn read(value: &Json, order: &Order) -> Option<Given> {
    let id = read::field(value, "id").filter(|id| particulars::is_word(id))?;
    let told = particulars::refund(value, &order.amount.currency, &mut Unreadable::default());
    let status = read::field(value, "status").unwrap_or_default();
    Some(Given {
        reference: id.to_owned(),
        state: told.map_or(RefundState::Pending, |refund| refund.state),
        claim_url: None,
        detail: match status {
            "queued" => "queued, until the balance at Mollie suffices",
            "refunded" => "",
            other => other,
        }
        .to_owned(),
        paid_out: None,
    })
}

/// Maps a refusal to its meaning. 400 may mean that the key was used with other data; 409 that an identical refund
/// was requested a moment ago, by this module or in the dashboard. Both are uncertain.
fn refused(answer: &Answer) -> RefundFailure {
    let problem = wire::problem(answer);
    let why = problem.to_string();
    match problem.status {
        404 | 410 | 422 => RefundFailure::Refused(why),
        401 | 403 | 429 | 503 => RefundFailure::Unavailable(why),
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
    use kassette_plugin::provider::Money;
    use serde_json::{Value, json};

    const ORDER: &str = "000000000000000000000000000000aa";

    fn order(amount: u64, currency: &str) -> Order {
        Order {
            id: ORDER.into(),
            amount: Money {
                amount,
                currency: currency.into(),
            },
            reason: Some("came\u{7} back".into()),
            asked_at: 0,
            reference: None,
        }
    }

    fn told(change: &Value) -> Option<Given> {
        let mut refund = json!({
            "resource": "refund", "id": "re_1", "status": "refunded", "metadata": ORDER,
            "amount": { "value": "9.90", "currency": "EUR" },
        });
        for (name, value) in change.as_object().unwrap() {
            refund[name.as_str()] = value.clone();
        }
        let order = order(990, "EUR");
        read(&Json::parse(refund.to_string().as_bytes())?, &order)
    }

    #[test]
    fn each_state_of_mollie_is_told() {
        for (status, state) in [
            ("queued", RefundState::Pending),
            ("pending", RefundState::Pending),
            ("processing", RefundState::Pending),
            ("refunded", RefundState::Succeeded),
            ("failed", RefundState::Failed),
            ("canceled", RefundState::Failed),
        ] {
            let given = told(&json!({ "status": status })).unwrap();
            assert_eq!(given.state, state, "{status}");
            assert_eq!(given.detail.is_empty(), state == RefundState::Succeeded);
        }
        assert_eq!(
            told(&json!({ "status": "odd" })).unwrap().state,
            RefundState::Pending
        );
    }

    #[test]
    fn the_answer_to_our_order_is_about_our_order() {
        for change in [
            json!({ "metadata": null }),
            json!({ "metadata": "{\"bookkeeping_id\":12345}" }),
            json!({ "amount": { "value": "-9.90", "currency": "eur" } }),
        ] {
            let given = told(&change).unwrap();
            assert_eq!(given.state, RefundState::Succeeded, "{change}");
        }
        assert_eq!(told(&json!({ "id": null })), None);
    }

    #[test]
    fn the_order_is_the_metadata_and_the_amount_has_two_decimals() {
        let body: Value = serde_json::from_str(&body(&order(99_000, "HUF")).to_string()).unwrap();
        assert_eq!(
            body,
            json!({
                "amount": { "value": "990.00", "currency": "HUF" },
                "description": "came back",
                "metadata": ORDER,
            })
        );
    }

    #[test]
    fn only_what_surely_gave_nothing_back_is_refused() {
        let refused = |status| {
            refused(&Answer {
                status,
                headers: Vec::new(),
                body: b"{}".to_vec(),
            })
        };
        for status in [404, 422] {
            assert!(matches!(refused(status), RefundFailure::Refused(_)));
        }
        for status in [401, 403, 429, 503] {
            assert!(matches!(refused(status), RefundFailure::Unavailable(_)));
        }
        for status in [400, 409, 500, 502] {
            assert!(matches!(refused(status), RefundFailure::Uncertain(_)));
        }
    }
}
