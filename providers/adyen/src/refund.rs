//! Refunds: "Refund", "API idempotency", "REFUND_FAILED reasons".
//!
//! Adyen accepts a request ("received") and reports its outcome by a notification. The Checkout API cannot query a
//! refund, so a request whose answer was lost is repeated under its key.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::reference::Reference;
use crate::{api, methods, start, wire};

/// Minimum lifetime of an idempotency key at Adyen: seven days, in milliseconds.
const KEY_LIFE_MS: u64 = 7 * 86_400_000;

/// Refund terms: every method, in full or in parts. Adyen documents no common limit of refunds or days; it refuses
/// a late refund by a notification.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    let methods = methods::METHODS.iter();
    methods
        .map(|method| Refundable::in_parts(method.id))
        .collect()
}

/// Requests the refund. After the key's lifetime the module cannot know whether Adyen has received an earlier
/// request, so it sends none and returns `Uncertain`.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    if let Some(reference) = order.reference.clone() {
        return Ok(taken_in(reference));
    }
    if account.now >= order.asked_at.saturating_add(KEY_LIFE_MS) {
        return Err(RefundFailure::Uncertain(
            "too old to be repeated: look in the Customer Area whether it was made".into(),
        ));
    }
    let Some(payment) = payment(paid) else {
        let why = "the payment's psp reference is not told yet";
        return Err(RefundFailure::Unavailable(why.into()));
    };
    let path = format!("/payments/{payment}/refunds");
    let answer = api::post(account, &path, &order.id, &body(account, paid, order))?;
    match answer.status {
        201 => wire::refund(&answer.body, &payment, &order.amount)
            .map(taken_in)
            .ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into())),
        _ => Err(refused(&answer)),
    }
}

/// Checkout cannot be queried about a refund. If its id is unknown, the request is repeated under its key, which
/// makes it the same refund; otherwise the result is `Unavailable`.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    if order.reference.is_some() {
        return Err(QueryFailure::Unavailable(
            "notifications alone tell what becomes of a refund".into(),
        ));
    }
    refund(account, paid, order).map_err(|failure| match failure {
        RefundFailure::Refused(_) => QueryFailure::Absent,
        RefundFailure::Unavailable(why) | RefundFailure::Uncertain(why) => {
            QueryFailure::Unavailable(why)
        }
    })
}

/// A refund that Adyen has accepted.
fn taken_in(reference: String) -> Given {
    Given {
        reference,
        state: RefundState::Pending,
        claim_url: None,
        detail: "received".into(),
        paid_out: None,
    }
}

/// Id of the captured payment. `None` until a notification or a session's result has contained it.
fn payment(paid: &Paid) -> Option<String> {
    let known = std::iter::once(&paid.reference).chain(&paid.references);
    let mut payments = known.filter_map(|reference| match Reference::read(reference)? {
        Reference::Payment(payment) => Some(payment.psp_reference),
        Reference::Page(_) => None,
    });
    payments.next()
}

/// Body of the request, identical in every repetition.
fn body(account: &Account, paid: &Paid, order: &Order) -> Json {
    let mut fields = vec![
        ("merchantAccount", api::merchant_account(account).into()),
        ("amount", wire::money_json(&order.amount)),
        (
            "reference",
            wire::refund_reference(&paid.attempt, &order.id).into(),
        ),
        ("merchantRefundReason", "CUSTOMER REQUEST".into()),
    ];
    // Klarna requires line items that explain a partial refund.
    if paid.method == "klarna" {
        let item = object([
            ("id", "1".into()),
            ("description", paid.merchant_order.as_str().into()),
            ("quantity", 1.into()),
            ("amountIncludingTax", order.amount.amount.into()),
        ]);
        fields.push(("lineItems", vec![item].into()));
    }
    let named = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    Json::Object(named.collect())
}

/// Maps a refusal to its meaning.
fn refused(answer: &Answer) -> RefundFailure {
    let problem = wire::problem(answer);
    let why = problem.to_string();
    match problem.status {
        422 if problem.code != start::IN_PROGRESS => RefundFailure::Refused(why),
        400 => RefundFailure::Refused(why),
        401 | 403 | 429 | 503 => RefundFailure::Unavailable(why),
        _ => RefundFailure::Uncertain(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::account;
    use kassette_plugin::provider::Money;
    use serde_json::{Value, json};

    const ATTEMPT: &str = "000000000000000000000000000000a1";
    const ORDER: &str = "000000000000000000000000000000aa";

    fn order() -> Order {
        Order {
            id: ORDER.into(),
            amount: Money {
                amount: 990,
                currency: "EUR".into(),
            },
            reason: None,
            asked_at: account().now,
            reference: None,
        }
    }

    fn paid(method: &str, references: &[&str]) -> Paid {
        let mut references = references.iter().map(|each| (*each).to_owned());
        Paid {
            attempt: ATTEMPT.into(),
            method: method.into(),
            reference: references.next().unwrap(),
            references: references.collect(),
            received: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            captured_at: None,
            merchant_order: "order-1".into(),
            merchant: "Shop".into(),
        }
    }

    #[test]
    fn the_payment_is_found_among_everything_that_was_told() {
        let captured = "993617898204183D/4990EUR/captured";
        for known in [
            &[captured][..],
            &["993617898204183D/990EUR/noted", captured],
            &["PL61C53A8B97E6915A", "882617898204183A", captured],
        ] {
            let found = payment(&paid("ideal", known));
            assert_eq!(found.as_deref(), Some("993617898204183D"));
        }
        assert_eq!(payment(&paid("ideal", &["PL61C53A8B97E6915A"])), None);
    }

    #[test]
    fn attempt_and_order_are_the_reference_and_klarna_is_told_what_for() {
        let body = |method| -> Value {
            let body = body(&account(), &paid(method, &["x"]), &order());
            serde_json::from_str(&body.to_string()).unwrap()
        };
        let mut card = json!({
            "merchantAccount": "ShopECOM",
            "amount": { "value": 990, "currency": "EUR" },
            "reference": format!("{ATTEMPT}-{ORDER}"),
            "merchantRefundReason": "CUSTOMER REQUEST",
        });
        assert_eq!(body("credit_card"), card);
        card["lineItems"] = json!([{
            "id": "1", "description": "order-1", "quantity": 1, "amountIncludingTax": 990,
        }]);
        assert_eq!(body("klarna"), card);
    }

    #[test]
    fn once_its_key_has_ended_nothing_is_sent() {
        let mut later = account();
        later.now += KEY_LIFE_MS;
        let payment = paid("ideal", &["993617898204183D/4990EUR/captured"]);
        // No request is sent: this test has no host.
        let old = refund(&later, &payment, &order());
        assert!(matches!(old, Err(RefundFailure::Uncertain(_))), "{old:?}");
        let asked = query(&later, &payment, &order());
        assert!(matches!(asked, Err(QueryFailure::Unavailable(_))));
        let known = Order {
            reference: Some("993617898204183E".into()),
            ..order()
        };
        let again = refund(&later, &payment, &known).unwrap();
        assert_eq!(again.reference, "993617898204183E");
    }

    #[test]
    fn only_what_surely_gave_nothing_back_is_refused() {
        let refused = |status, code: &str| {
            let body = json!({ "status": status, "errorCode": code, "errorType": "validation" });
            refused(&Answer {
                status,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            })
        };
        for (status, code) in [(422, "167"), (422, "137"), (400, "702")] {
            assert!(matches!(refused(status, code), RefundFailure::Refused(_)));
        }
        for status in [401, 403, 429, 503] {
            let failure = refused(status, "");
            assert!(matches!(failure, RefundFailure::Unavailable(_)), "{status}");
        }
        for (status, code) in [(422, start::IN_PROGRESS), (500, ""), (502, "")] {
            let failure = refused(status, code);
            assert!(matches!(failure, RefundFailure::Uncertain(_)), "{status}");
        }
    }
}
