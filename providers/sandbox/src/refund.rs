//! Making refunds and querying them.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::http::Response;
use kassette_plugin::provider::read::Unreadable;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, Refund, RefundFailure, RefundState, Refundable,
};

use crate::api::{self, Broken};
use crate::{METHODS, particulars, query, wire};

/// Refund terms: every method, in full or in parts, at any time.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    METHODS.into_iter().map(Refundable::in_parts).collect()
}

/// Makes the refund, or finds the refund that an earlier call made. The order's id is the idempotency key; keys do
/// not expire here.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    if !query::is_plain(&paid.reference) {
        return Err(RefundFailure::Refused(
            "the payment has no session at the sandbox".into(),
        ));
    }
    let body = object([
        ("amount", wire::money_json(&order.amount)),
        ("merchant_reference", order.id.as_str().into()),
        ("reason", order.reason.as_deref().map(plain).into()),
    ]);
    let path = format!("/v1/sessions/{}/refunds", paid.reference);
    match api::post(account, &path, &order.id, &body) {
        Ok(answer) if matches!(answer.status, 200 | 201) => made(&answer.body, order),
        Ok(answer) => Err(refused(&answer)),
        Err(Broken::NotSent(why)) => Err(RefundFailure::Unavailable(why)),
        Err(Broken::NoAnswer(why)) => Err(RefundFailure::Uncertain(why)),
    }
}

/// Finds the order's refund among the refunds of the payment's session.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let unavailable = |why: String| QueryFailure::Unavailable(why);
    if !query::is_plain(&paid.reference) {
        return Err(unavailable(
            "the payment has no session at the sandbox".into(),
        ));
    }
    let path = format!("/v1/sessions/{}", paid.reference);
    let answer = api::get(account, &path).map_err(query::broken)?;
    // Not `Absent`: an unknown session does not prove that the refund does not exist.
    if answer.status != 200 {
        return Err(unavailable(wire::problem(&answer).to_string()));
    }
    let found = find(&answer.body, order);
    let found = found.ok_or_else(|| unavailable("the answer cannot be read".into()))?;
    found.map(given).ok_or(QueryFailure::Absent)
}

/// Removes control characters, which the provider rejects.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn made(body: &[u8], order: &Order) -> Result<Given, RefundFailure> {
    let read = |body: Json| particulars::refund(&body, &mut Unreadable::default());
    let refund = Json::parse(body).and_then(read);
    let refund =
        refund.ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()))?;
    if refund.order_id.as_ref().is_some_and(|id| *id != order.id) {
        let why = format!("{} is another refund", refund.id);
        return Err(RefundFailure::Uncertain(why));
    }
    Ok(given(refund))
}

/// The order's refund in a session. `None` if the answer cannot be parsed, `Some(None)` if the session does not
/// list the refund.
fn find(body: &[u8], order: &Order) -> Option<Option<Refund>> {
    let session = Json::parse(body)?;
    let Json::List(refunds) = session.get("refunds")? else {
        return None;
    };
    let read = |value| particulars::refund(value, &mut Unreadable::default());
    let ours = |refund: &Refund| match &order.reference {
        Some(reference) => refund.id == *reference,
        None => refund.order_id.as_ref() == Some(&order.id),
    };
    let read: Vec<Refund> = refunds.iter().filter_map(read).collect();
    let all = read.len() == refunds.len();
    let found = read.into_iter().find(ours);
    // A refund that could not be parsed may be the order's.
    (found.is_some() || all).then_some(found)
}

fn given(refund: Refund) -> Given {
    let detail = match refund.state {
        RefundState::Pending => "on its way to the payer",
        RefundState::Succeeded => "given back",
        RefundState::Failed => "it came back",
    };
    Given {
        reference: refund.id,
        state: refund.state,
        claim_url: None,
        detail: detail.into(),
        paid_out: None,
    }
}

/// Maps a refusal to its meaning: a 4xx proves that no refund exists, a 500 does not.
fn refused(answer: &Response) -> RefundFailure {
    let problem = wire::problem(answer);
    let why = problem.to_string();
    match problem.status {
        // A refund exists under this key, but with other data than this order's.
        409 if problem.code == "idempotency_mismatch" => RefundFailure::Uncertain(why),
        401 | 403 | 429 | 503 => RefundFailure::Unavailable(why),
        400..=499 => RefundFailure::Refused(why),
        _ => RefundFailure::Uncertain(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::told;
    use kassette_plugin::provider::Money;
    use serde_json::{Value, json};

    const ORDER: &str = "0000000000000000000000000000000a";

    fn order(reference: Option<&str>) -> Order {
        Order {
            id: ORDER.into(),
            amount: Money {
                amount: 990,
                currency: "EUR".into(),
            },
            reason: None,
            asked_at: 1,
            reference: reference.map(str::to_owned),
        }
    }

    fn refund_told(id: &str, order: Value, status: &str) -> Value {
        json!({
            "id": id, "merchant_reference": order, "status": status, "created_at": 1,
            "amount": { "value": "9.90", "currency": "EUR" },
        })
    }

    fn made_of(told: &Value) -> Result<Given, RefundFailure> {
        made(told.to_string().as_bytes(), &order(None))
    }

    #[test]
    fn a_refund_is_told_with_its_state() {
        for (status, state) in [
            ("pending", RefundState::Pending),
            ("succeeded", RefundState::Succeeded),
            ("failed", RefundState::Failed),
        ] {
            let given = made_of(&refund_told("re_1", json!(ORDER), status)).unwrap();
            assert_eq!((given.reference.as_str(), given.state), ("re_1", state));
        }
    }

    #[test]
    fn the_answer_to_our_order_is_about_our_order() {
        for (told, state) in [
            (
                refund_told("re_1", json!(null), "succeeded"),
                RefundState::Succeeded,
            ),
            (
                refund_told("re_1", json!(ORDER), "succeeded_maybe"),
                RefundState::Pending,
            ),
        ] {
            assert_eq!(made_of(&told).unwrap().state, state, "{told}");
        }
        for odd in [
            json!({}),
            refund_told("re_1", json!("f".repeat(32)), "succeeded"),
        ] {
            let made = made_of(&odd);
            assert!(matches!(made, Err(RefundFailure::Uncertain(_))), "{odd}");
        }
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        let refused = |status, code: &str| {
            refused(&Response {
                status,
                headers: Vec::new(),
                body: json!({ "error": { "code": code } })
                    .to_string()
                    .into_bytes(),
            })
        };
        for (status, code) in [(422, "payment_refused"), (409, "wrong_state"), (404, "")] {
            assert!(
                matches!(refused(status, code), RefundFailure::Refused(_)),
                "{status}"
            );
        }
        for status in [401, 429, 503] {
            assert!(
                matches!(refused(status, ""), RefundFailure::Unavailable(_)),
                "{status}"
            );
        }
        for (status, code) in [
            (409, "idempotency_mismatch"),
            (500, ""),
            (502, ""),
            (301, ""),
        ] {
            assert!(
                matches!(refused(status, code), RefundFailure::Uncertain(_)),
                "{status}"
            );
        }
    }

    #[test]
    fn it_is_found_by_its_id_or_by_ours_and_its_lack_is_certain() {
        let mut session = told("captured", false, "49.90");
        session["refunds"] = json!([
            refund_told("re_1", json!(null), "succeeded"),
            refund_told("re_2", json!(ORDER), "pending"),
        ]);
        let find = |session: &Value, reference| {
            let found = find(session.to_string().as_bytes(), &order(reference));
            found.map(|found| found.map(|refund| refund.id))
        };
        assert_eq!(find(&session, None), Some(Some("re_2".into())));
        assert_eq!(find(&session, Some("re_1")), Some(Some("re_1".into())));
        assert_eq!(find(&session, Some("re_3")), Some(None));
        session["refunds"] = json!([]);
        assert_eq!(find(&session, None), Some(None));
        session["refunds"] = json!([{ "id": "re_1" }]);
        assert_eq!(find(&session, None), None);
        assert_eq!(find(&json!({}), None), None);
    }
}
