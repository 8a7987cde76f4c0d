//! Refunds: a pull payment of the server, from which the payer claims a payout.
use kassette_plugin::encode::percent;
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Given, Order, Paid, QueryFailure, RefundFailure, RefundState, Refundable,
};

use crate::wire::{self, Claims, PullPayment};
use crate::{api, coins};

/// Refund terms: in full or in parts at any time. Coins cannot be returned, so a refund is a new payment to the
/// payer.
pub(crate) fn terms(_: &Account) -> Vec<Refundable> {
    vec![Refundable::in_parts("crypto")]
}

/// Makes the pull payment, or finds the pull payment that an earlier call made. The server does not support
/// idempotency keys, so every call searches first.
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
        return told(account, found, order).map_err(|failure| match failure {
            QueryFailure::Unavailable(why) => RefundFailure::Uncertain(why),
            QueryFailure::Absent => RefundFailure::Uncertain("the claims are not shown".into()),
        });
    }
    let invoice = api::invoice(account, &paid.reference);
    let path = format!("{invoice}/refund");
    let mut answer = api::post(account, &path, &body(order, None))?;
    // Servers before 2.4 require the payment method by which the payer can claim it.
    if let Some(field) = wanted_method(&answer) {
        let methods = api::get(account, &format!("{invoice}/payment-methods"));
        let coins = methods.ok().and_then(|methods| coins::coins(&methods.body));
        let way = coins.and_then(|coins| coins.ways.into_iter().next());
        if let Some(way) = way {
            answer = api::post(account, &path, &body(order, Some((field, &way))))?;
        }
    }
    if answer.status == 200 {
        return made(&answer);
    }
    Err(refused(&answer))
}

/// The field for a payment method that a refusal requires.
fn wanted_method(answer: &Answer) -> Option<&'static str> {
    let missing = wire::refused_fields(answer);
    let names = ["payoutMethodId", "paymentMethod"].into_iter();
    let mut wanted =
        names.filter(|name| missing.iter().any(|path| path.eq_ignore_ascii_case(name)));
    wanted.next().filter(|_| matches!(answer.status, 400 | 422))
}

/// Archives the pull payment, so that the payer can claim nothing more, and reports the claims made before. Does
/// nothing if it was claimed in full, or if the store is already paying out a claim, which cannot be cancelled.
pub(crate) fn cancel(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    let pull = located(account, paid, order)?;
    let before = payouts(account, &pull, order)?;
    let claims = before.unwrap_or_default();
    if claims.underway || given(pull.clone(), &claims, order).state == RefundState::Succeeded {
        return Ok(given(pull, &claims, order));
    }
    if !pull.archived {
        let store = percent(api::store_id(account));
        let answer = api::delete(
            account,
            &format!("/stores/{store}/pull-payments/{}", pull.id),
        )?;
        if !answer.is_success() {
            return Err(unavailable(wire::refusal(&answer)));
        }
    }
    // Includes claims made in the meantime, if the server still lists them.
    let claims = payouts(account, &pull, order)?.unwrap_or(claims);
    let claimed = wire::cents(claims.paid).try_into().unwrap_or(u64::MAX);
    Ok(Given {
        reference: pull.id,
        state: match claimed {
            0 => RefundState::Failed,
            _ => RefundState::Succeeded,
        },
        claim_url: None,
        detail: "archived".into(),
        paid_out: Some(claimed),
    })
}

/// Queries the pull payment by its id, or finds it by its name, and reports its claims.
pub(crate) fn query(account: &Account, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
    told(account, located(account, paid, order)?, order)
}

fn located(account: &Account, _: &Paid, order: &Order) -> Result<PullPayment, QueryFailure> {
    let known = order.reference.as_deref().filter(|id| wire::is_plain(id));
    let Some(id) = known else {
        return find(account, order)?.ok_or(QueryFailure::Absent);
    };
    let answer = api::get(account, &format!("/pull-payments/{id}"))?;
    if answer.status != 200 {
        return Err(unavailable(wire::refusal(&answer)));
    }
    match wire::pull_payment(&answer.body) {
        Some(pull) if pull.id == id => Ok(pull),
        _ => Err(unavailable("the pull payment cannot be read".into())),
    }
}

/// Body of the request. The amount stays in the invoice's currency: the amount in coins is determined when the
/// store pays, and the store's owner has to approve every claim.
fn body(order: &Order, method: Option<(&str, &str)>) -> Json {
    let body = object([
        ("name", name(order).into()),
        (
            "description",
            order.reason.as_deref().unwrap_or_default().into(),
        ),
        ("refundVariant", "Custom".into()),
        ("customAmount", wire::decimal(order.amount.amount).into()),
        ("customCurrency", order.amount.currency.as_str().into()),
    ]);
    match (body, method) {
        (Json::Object(mut fields), Some((name, way))) => {
            fields.push((name.to_owned(), way.into()));
            Json::Object(fields)
        }
        (body, _) => body,
    }
}

/// Name of the pull payment, which the payer sees, and by which it is found again.
fn name(order: &Order) -> String {
    format!("Refund {}", order.id)
}

/// The pull payment in the answer to the order's own request, which may omit its data.
fn made(answer: &Answer) -> Result<Given, RefundFailure> {
    let pull = wire::pull_payment(&answer.body);
    let pull = pull.ok_or_else(|| RefundFailure::Uncertain("the answer cannot be read".into()))?;
    Ok(waiting(
        pull,
        "waits for the payer's claim",
        &Claims::default(),
    ))
}

/// Whether a pull payment with the order's name has the order's amount. Missing values match.
fn is_of(pull: &PullPayment, order: &Order) -> bool {
    let currency = pull.currency.as_ref();
    currency.is_none_or(|currency| *currency == order.amount.currency)
        && pull
            .amount
            .is_none_or(|amount| amount == wire::parts(order.amount.amount))
}

/// Searches the store's pull payments, including archived ones.
fn find(account: &Account, order: &Order) -> Result<Option<PullPayment>, QueryFailure> {
    let store = percent(api::store_id(account));
    let path = format!("/stores/{store}/pull-payments?includeArchived=true");
    let answer = api::get(account, &path)?;
    if answer.status != 200 {
        return Err(unavailable(wire::refusal(&answer)));
    }
    let all = wire::pull_payments(&answer.body);
    let all = all.ok_or_else(|| unavailable("the pull payments cannot be read".into()))?;
    let ours = |pull: &PullPayment| pull.name.as_ref() == Some(&name(order));
    match all.into_iter().find(ours) {
        Some(pull) if !is_of(&pull, order) => {
            Err(unavailable(format!("{} is of another amount", pull.id)))
        }
        found => Ok(found),
    }
}

/// The claims of a pull payment. `None` if the server no longer lists them.
fn payouts(
    account: &Account,
    pull: &PullPayment,
    order: &Order,
) -> Result<Option<Claims>, QueryFailure> {
    let answer = api::get(account, &format!("/pull-payments/{}/payouts", pull.id))?;
    match answer.status {
        200 => {
            let claims = wire::claims(&answer.body, &order.amount.currency);
            let claims = claims.ok_or_else(|| unavailable("the payouts cannot be read".into()))?;
            Ok(Some(claims))
        }
        404 => Ok(None),
        _ => Err(unavailable(wire::refusal(&answer))),
    }
}

/// State of a refund, from the payouts that the payer has claimed.
fn told(account: &Account, pull: PullPayment, order: &Order) -> Result<Given, QueryFailure> {
    match payouts(account, &pull, order)? {
        Some(claims) => Ok(given(pull, &claims, order)),
        None => Err(unavailable("the payouts are not shown".into())),
    }
}

fn given(pull: PullPayment, claims: &Claims, order: &Order) -> Given {
    let whole = wire::cents(claims.paid) >= u128::from(order.amount.amount);
    if whole {
        return Given {
            reference: pull.id,
            state: RefundState::Succeeded,
            claim_url: pull.link,
            detail: "claimed and paid".into(),
            paid_out: None,
        };
    }
    // The server does not list the payouts of an archived pull payment, so they may have been paid.
    let detail = match claims {
        _ if pull.archived => "archived; see the payouts in the store",
        Claims {
            unapproved: true, ..
        } => "a claim waits for the store's approval",
        Claims { underway: true, .. } => "a claim waits for its payout",
        Claims { paid: 0, .. } => "waits for the payer's claim",
        _ => "claimed in part",
    };
    waiting(pull, detail, claims)
}

fn waiting(pull: PullPayment, detail: &str, claims: &Claims) -> Given {
    let claimed = u64::try_from(wire::cents(claims.paid)).ok();
    Given {
        reference: pull.id,
        state: RefundState::Pending,
        claim_url: pull.link,
        detail: detail.into(),
        paid_out: claimed.filter(|claimed| *claimed > 0),
    }
}

/// Maps a refusal to its meaning, like that of a start.
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

    /// A server with these pull payments, which records the requests.
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
        assert_eq!(path, "/stores/shop/invoices/HMprBnL9BTXWuPvpoKBS6e/refund");
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
            let given = given(
                wire::pull_payment(pull.as_bytes()).unwrap(),
                &claims,
                &order(),
            );
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

    #[test]
    fn an_old_server_is_told_by_which_coin_the_payer_can_claim() {
        let refusal = |path: &str| Answer {
            status: 422,
            headers: Vec::new(),
            body: format!(r#"[{{"path":"{path}","message":"m"}}]"#).into_bytes(),
        };
        for name in ["paymentMethod", "payoutMethodId"] {
            assert_eq!(wanted_method(&refusal(name)), Some(name));
        }
        assert_eq!(wanted_method(&refusal("customAmount")), None);
        let body = body(&order(), Some(("paymentMethod", "BTC-OnChain"))).to_string();
        assert!(
            body.ends_with(r#""paymentMethod":"BTC-OnChain"}"#),
            "{body}"
        );
    }

    #[test]
    fn a_refund_that_is_called_off_is_archived() {
        let sent = Rc::default();
        let server = Server(pull_told("Refund 1", false), Rc::clone(&sent));
        let order = Order {
            reference: Some("2xY7mkVxEMQdhsq9".into()),
            ..order()
        };
        // It was claimed in full before.
        let claimed = with_host(server, || cancel(&account(), &paid(), &order)).unwrap();
        assert_eq!(claimed.state, RefundState::Succeeded);
        assert_eq!(
            sent.borrow().len(),
            2,
            "nothing is archived: {:?}",
            sent.borrow()
        );
    }
}
