//! Giving money back: "Refunds API" (create, list and get payment refund), "Refunds".
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::method::Method;
use crate::{api, particulars, wire};

/// Longest description that Mollie keeps, in characters.
const DESCRIPTION: usize = 255;

/// Refunds a page, the most that Mollie tells, and many more than a payment of ours has.
const PAGE: usize = 250;

/// Mollie keeps an idempotency key for an hour.
const KEY_LIFE_MS: u64 = 60 * 60 * 1_000;

/// Every method here gives back all or parts. Mollie documents neither how many refunds nor how many
/// days; what it finds too late it refuses.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let methods = Method::ALL.into_iter();
    methods
        .map(|method| Refundable::in_parts(method.wire_id()))
        .collect()
}

/// Creates the refund, or finds the one that an earlier call made.
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
    // A repeat is answered with how it stood at first.
    let now = by_id(account, &path, order, &given.reference);
    now.map_err(|_| uncertain(format!("{} cannot be read", given.reference)))
}

/// What became of the refund.
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

/// Depends on nothing that changes between repeats.
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

/// Where the payment's refunds are.
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
        // A refund that was called off before it went out may be gone.
        404 => find(account, path, order).or_else(|failure| match failure {
            QueryFailure::Absent => Ok(Given {
                reference: id.to_owned(),
                state: RefundState::Failed,
                claim_url: None,
                detail: "Mollie no longer knows it: canceled".into(),
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

/// A refund of ours in the host's words; none where it is not the one that was asked for.
fn read(value: &Json, order: &Order) -> Option<Given> {
    let refund = particulars::refund(value, &order.amount.currency)?;
    let same = refund.order_id.as_ref() == Some(&order.id) && refund.amount == order.amount.amount;
    let detail = match value.get("status")?.text()? {
        "queued" => "queued, until the balance at Mollie suffices",
        "refunded" => "",
        other => other,
    };
    same.then(|| Given {
        reference: refund.id,
        state: refund.state,
        claim_url: None,
        detail: detail.to_owned(),
    })
}

/// What a refusal means. 400 may say that the key was used with other data, 409 that the same was asked
/// for a moment ago: of us, or in the dashboard.
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
        assert_eq!(told(&json!({ "status": "odd" })), None);
    }

    #[test]
    fn a_refund_of_something_else_is_not_taken_for_ours() {
        for change in [
            json!({ "metadata": null }),
            json!({ "metadata": { "cart": 7 } }),
            json!({ "metadata": "00000000000000000000000000000000" }),
            json!({ "amount": { "value": "9.91", "currency": "EUR" } }),
            json!({ "amount": { "value": "9.90", "currency": "USD" } }),
        ] {
            assert_eq!(told(&change), None, "{change}");
        }
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
