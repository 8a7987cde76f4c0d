//! Giving money back: a pull payment of the server, from which the payer claims a payout.
use kassette_plugin::encode::percent;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::api;
use crate::wire::{self, Claims, PullPayment};

/// Any part at any time: coins know no way back, so that a refund is a new payment to the payer.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("crypto")]
}

/// Makes the pull payment, or finds the one that an earlier call made: the server knows no idempotency
/// keys, so that every call looks first.
pub(crate) fn refund(
    account: &Account,
    paid: &Paid,
    order: &Order,
) -> Result<Given, RefundFailure> {
    if !wire::is_plain(&paid.reference) {
        let why = "the payment has no invoice at the server".into();
        return Err(RefundFailure::Refused(why));
    }
    let not_now = |failure| match failure {
        QueryFailure::Unavailable(why) => RefundFailure::Unavailable(why),
        QueryFailure::Absent => RefundFailure::Unavailable("no pull payments are shown".into()),
    };
    if let Some(found) = find(account, order).map_err(not_now)? {
        return told(account, found).map_err(|failure| match failure {
            QueryFailure::Unavailable(why) => RefundFailure::Uncertain(why),
            QueryFailure::Absent => RefundFailure::Uncertain("the claims are not shown".into()),
        });
    }
    let path = format!("/invoices/{}/refund", paid.reference);
    let answer = api::post(account, &path, &body(order))?;
    if answer.status == 200 {
        return made(&answer, order);
    }
    Err(refused(&answer))
}

/// Asks for the pull payment by its id, or looks for it by its name.
pub(crate) fn query(account: &Account, _: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let known = order.reference.as_deref().filter(|id| wire::is_plain(id));
    let Some(id) = known else {
        let found = find(account, order)?;
        return told(account, found.ok_or(QueryFailure::Absent)?);
    };
    let answer = api::get(account, &format!("/pull-payments/{id}"))?;
    if answer.status != 200 {
        return Err(unavailable(wire::refusal(&answer)));
    }
    match wire::pull_payment(&answer.body) {
        Some(pull) if pull.id == id => told(account, pull),
        _ => Err(unavailable("the pull payment cannot be read".into())),
    }
}

/// The amount stays in the invoice's currency: what it is in coins is decided when the store pays, and
/// no claim of it is approved before the store's owner says so.
fn body(order: &Order) -> Json {
    object([
        ("name", name(order).into()),
        (
            "description",
            order.reason.as_deref().unwrap_or_default().into(),
        ),
        ("refundVariant", "Custom".into()),
        ("customAmount", wire::decimal(order.amount.amount).into()),
        ("customCurrency", order.amount.currency.as_str().into()),
    ])
}

/// The pull payment's name, which the payer sees, and by which it is found again.
fn name(order: &Order) -> String {
    format!("Refund {}", order.id)
}

fn made(answer: &Answer, order: &Order) -> Result<Given, RefundFailure> {
    match wire::pull_payment(&answer.body) {
        Some(pull) if is_of(&pull, order) => Ok(given(pull, &Claims::default())),
        _ => Err(RefundFailure::Uncertain(
            "the answer is about no refund of this order".into(),
        )),
    }
}

fn is_of(pull: &PullPayment, order: &Order) -> bool {
    pull.name == name(order)
        && pull.currency == order.amount.currency
        && pull.amount == wire::parts(order.amount.amount)
}

/// Looks among the store's pull payments, archived ones too.
fn find(account: &Account, order: &Order) -> Result<Option<PullPayment>, QueryFailure> {
    let store = percent(api::store_id(account));
    let path = format!("/stores/{store}/pull-payments?includeArchived=true");
    let answer = api::get(account, &path)?;
    if answer.status != 200 {
        return Err(unavailable(wire::refusal(&answer)));
    }
    let all = wire::pull_payments(&answer.body);
    let all = all.ok_or_else(|| unavailable("the pull payments cannot be read".into()))?;
    let found = all.into_iter().find(|pull| pull.name == name(order));
    match found {
        Some(pull) if !is_of(&pull, order) => {
            Err(unavailable(format!("{} is of another amount", pull.id)))
        }
        found => Ok(found),
    }
}

/// What the payouts say that the payer has claimed.
fn told(account: &Account, pull: PullPayment) -> Result<Given, QueryFailure> {
    let answer = api::get(account, &format!("/pull-payments/{}/payouts", pull.id))?;
    if answer.status != 200 {
        return Err(unavailable(wire::refusal(&answer)));
    }
    let claims = wire::claims(&answer.body, &pull.currency);
    let claims = claims.ok_or_else(|| unavailable("the payouts cannot be read".into()))?;
    Ok(given(pull, &claims))
}

fn given(pull: PullPayment, claims: &Claims) -> Given {
    let whole = wire::cents(claims.paid) >= wire::cents(pull.amount);
    let (state, detail) = match (claims, whole) {
        (_, true) => (RefundState::Succeeded, "claimed and paid"),
        // The server no longer shows the payouts of what was archived: nothing proves that none was paid.
        _ if pull.archived => (
            RefundState::Pending,
            "archived; see the payouts in the store",
        ),
        (
            Claims {
                unapproved: true, ..
            },
            _,
        ) => (
            RefundState::Pending,
            "a claim waits for the store's approval",
        ),
        (Claims { underway: true, .. }, _) => {
            (RefundState::Pending, "a claim waits for its payout")
        }
        (Claims { paid: 0, .. }, _) => (RefundState::Pending, "waits for the payer's claim"),
        _ => (RefundState::Pending, "claimed in part"),
    };
    Given {
        reference: pull.id,
        state,
        claim_url: Some(pull.link),
        detail: detail.into(),
    }
}

/// What a refusal proves, as of a start.
fn refused(answer: &Answer) -> RefundFailure {
    let why = wire::refusal(answer);
    match answer.status {
        401 | 403 | 429 | 503 => RefundFailure::Unavailable(why),
        400..=499 => RefundFailure::Refused(why),
        _ => RefundFailure::Uncertain(why),
    }
}

fn unavailable(why: String) -> QueryFailure {
    QueryFailure::Unavailable(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::account;
    use crate::wire::tests::{payout_told, pull_told};
    use kassette_plugin::provider::Money;
    use kassette_plugin::provider::http::{Request, Response, SendFailure, Verb};
    use kassette_plugin::testing::{Host, with_host};
    use serde_json::{Value, json};
    use std::{cell::RefCell, rc::Rc};

    fn order() -> Order {
        Order {
            id: "0000000000000000000000000000000a".into(),
            amount: Money {
                amount: 990,
                currency: "EUR".into(),
            },
            reason: Some("wrong size".into()),
            asked_at: 1,
            reference: None,
        }
    }

    fn paid() -> Paid {
        Paid {
            attempt: "attempt-1".into(),
            method: "crypto".into(),
            reference: "HMprBnL9BTXWuPvpoKBS6e".into(),
            references: Vec::new(),
            received: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            captured_at: None,
            merchant_order: "order-1".into(),
            merchant: "Demo shop".into(),
        }
    }

    /// A server with these pull payments, and what it was sent.
    struct Server(Value, Rc<RefCell<Vec<String>>>);
    impl Host for Server {
        fn send(&mut self, request: &Request) -> Result<Response, SendFailure> {
            let path = request.url.split("/api/v1").nth(1).unwrap();
            let sent = match request.verb {
                Verb::Post => format!("{path} {}", String::from_utf8_lossy(&request.body)),
                _ => path.to_owned(),
            };
            self.1.borrow_mut().push(sent);
            let body = match request.verb {
                Verb::Post => pull_told(&name(&order()), false),
                _ if path.ends_with("/payouts") => json!([payout_told("Completed", "9.90")]),
                _ => self.0.clone(),
            };
            Ok(Response {
                status: 200,
                headers: Vec::new(),
                body: body.to_string().into_bytes(),
            })
        }
    }

    fn refunded(known: Value) -> (Result<Given, RefundFailure>, Vec<String>) {
        let sent = Rc::default();
        let server = Server(known, Rc::clone(&sent));
        let result = with_host(server, || refund(&account(), &paid(), &order()));
        let sent = sent.borrow().clone();
        (result, sent)
    }

    const LOOK: &str = "/stores/shop/pull-payments?includeArchived=true";

    #[test]
    fn the_payer_gets_a_link_to_claim_what_the_order_says() {
        let (made, sent) = refunded(json!([pull_told("Refund of another", false)]));
        let made = made.unwrap();
        assert_eq!(made.state, RefundState::Pending);
        assert_eq!(made.detail, "waits for the payer's claim");
        let link = "https://pay.shop.example/pull-payments/2xY7mkVxEMQdhsq9";
        assert_eq!(made.claim_url.as_deref(), Some(link));
        let [looked, asked] = sent.as_slice() else {
            panic!("two requests: {sent:?}")
        };
        assert_eq!(looked, LOOK);
        let (path, body) = asked.split_once(' ').unwrap();
        assert_eq!(path, "/invoices/HMprBnL9BTXWuPvpoKBS6e/refund");
        let expected = json!({
            "name": name(&order()), "description": "wrong size", "refundVariant": "Custom",
            "customAmount": "9.90", "customCurrency": "EUR",
        });
        assert_eq!(serde_json::from_str::<Value>(body).unwrap(), expected);
    }

    #[test]
    fn a_pull_payment_of_the_order_is_found_and_no_second_is_made() {
        let (found, sent) = refunded(json!([pull_told(&name(&order()), true)]));
        assert_eq!(found.unwrap().state, RefundState::Succeeded);
        assert_eq!(sent, [LOOK, "/pull-payments/2xY7mkVxEMQdhsq9/payouts"]);
        let mut less = pull_told(&name(&order()), false);
        less["amount"] = json!("9.89");
        for odd in [json!([less]), json!({})] {
            let (unclear, sent) = refunded(odd);
            assert!(matches!(unclear, Err(RefundFailure::Unavailable(_))));
            assert_eq!(sent, [LOOK]);
        }
    }

    #[test]
    fn it_succeeds_once_all_was_claimed_and_paid() {
        let said = |archived, payouts: &[(&str, &str)]| {
            let pull = pull_told("Refund 1", archived).to_string();
            let payouts = payouts
                .iter()
                .map(|(state, amount)| payout_told(state, amount));
            let payouts = Value::Array(payouts.collect()).to_string();
            let claims = wire::claims(payouts.as_bytes(), "EUR").unwrap();
            let given = given(wire::pull_payment(pull.as_bytes()).unwrap(), &claims);
            (given.state, given.detail)
        };
        let pending = |detail: &str| (RefundState::Pending, detail.to_owned());
        let succeeded = || (RefundState::Succeeded, "claimed and paid".to_owned());
        assert_eq!(said(false, &[]), pending("waits for the payer's claim"));
        let waits = said(false, &[("AwaitingApproval", "9.9")]);
        assert_eq!(waits, pending("a claim waits for the store's approval"));
        for state in ["AwaitingPayment", "InProgress"] {
            let waits = said(false, &[(state, "9.9")]);
            assert_eq!(waits, pending("a claim waits for its payout"));
        }
        let part = said(false, &[("Completed", "9.89"), ("Cancelled", "9.9")]);
        assert_eq!(part, pending("claimed in part"));
        let whole = said(false, &[("Completed", "4.9"), ("Completed", "4.99999999")]);
        assert_eq!(whole, succeeded());
        let archived = said(true, &[]);
        assert_eq!(archived, pending("archived; see the payouts in the store"));
        assert_eq!(said(true, &[("Completed", "9.9")]), succeeded());
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        let refused = |status| {
            refused(&Answer {
                status,
                headers: Vec::new(),
                body: br#"{"code":"non-refundable","message":"m"}"#.to_vec(),
            })
        };
        for status in [400, 404, 422] {
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
        for status in [302, 500, 502] {
            assert!(
                matches!(refused(status), RefundFailure::Uncertain(_)),
                "{status}"
            );
        }
    }
}
