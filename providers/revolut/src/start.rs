//! Creating an order. Revolut has no idempotency key for it, so a start first searches for the order of an earlier
//! start. The meaning of each refusal matters: the host tries another account only if no payer can pay this order.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Action, Attempt, Open, QueryFailure, StartFailure, Started,
};
use kassette_plugin::settings;

use crate::wire::{self, Order, Problem, Stands};
use crate::{api, query};

/// Setting: time of the capture.
pub(crate) const CAPTURE: &str = "capture";

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 255;

/// Minimum and maximum time that an order can wait for the payer, in seconds: a minute to 30 days.
const WAITS: (u64, u64) = (60, 30 * 86_400);

/// Creates the order, or finds the order that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let capture = match settings::text(&account.settings, CAPTURE) {
        None => "automatic",
        Some(mode @ ("automatic" | "manual")) => mode,
        Some(_) => {
            let why = format!("setting {CAPTURE} must be automatic or manual");
            return Err(StartFailure::Unavailable(why));
        }
    };
    match query::find(account, &attempt.id) {
        Ok(None) | Err(QueryFailure::Absent) => {}
        Ok(Some(order)) => return opened(Some(order), attempt),
        // This call created nothing. The host knows that earlier calls are uncertain.
        Err(QueryFailure::Unavailable(why)) => return Err(StartFailure::Unavailable(why)),
    }
    let described = Some(description(attempt));
    let mut answer = api::post(
        account,
        "/api/orders",
        &body(account, attempt, capture, described),
    )?;
    // Repeat without the description if Revolut refuses it.
    if matches!(answer.status, 400 | 422) && wire::problem(&answer).is_about("description") {
        answer = api::post(
            account,
            "/api/orders",
            &body(account, attempt, capture, None),
        )?;
    }
    match answer.status {
        200 | 201 => opened(wire::order(&answer.body), attempt),
        _ => Err(refused(&wire::problem(&answer))),
    }
}

fn body(account: &Account, attempt: &Attempt, capture: &str, description: Option<String>) -> Json {
    let left = attempt.expires.saturating_sub(account.now) / 1_000;
    let reference = object([("reference", attempt.id.as_str().into())]);
    let body = object([
        ("amount", attempt.due.amount.into()),
        ("currency", attempt.due.currency.as_str().into()),
        ("capture_mode", capture.into()),
        (
            "expire_pending_after",
            format!("PT{}S", left.clamp(WAITS.0, WAITS.1)).into(),
        ),
        ("merchant_order_data", reference),
        ("redirect_url", attempt.return_url.as_str().into()),
    ]);
    match (body, description) {
        (Json::Object(mut fields), Some(description)) => {
            fields.push(("description".to_owned(), description.into()));
            Json::Object(fields)
        }
        (body, _) => body,
    }
}

fn description(attempt: &Attempt) -> String {
    format!("{} - {}", attempt.merchant_order, attempt.merchant)
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Continues with an order if it belongs to this attempt and is paid or payable.
fn opened(order: Option<Order>, attempt: &Attempt) -> Result<Started, StartFailure> {
    let order = order.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    let other = order.attempt.as_ref().is_some_and(|id| *id != attempt.id);
    if other || order.amount != attempt.due {
        return Err(StartFailure::Uncertain(format!(
            "{} is about something else",
            order.id
        )));
    }
    if matches!(order.stands, Stands::Cancelled | Stands::Failed) {
        return Err(StartFailure::Declined(format!("{} is over", order.id)));
    }
    let page = order
        .checkout
        .ok_or_else(|| StartFailure::Uncertain(format!("{} has no page", order.id)))?;
    Ok(Started::Open(Open {
        reference: order.id,
        action: Action::Redirect(page),
        until: Some(attempt.expires),
    }))
}

/// Maps a refusal to its meaning.
fn refused(problem: &Problem) -> StartFailure {
    match problem.status {
        400 | 422 if problem.is_about("currency") => {
            StartFailure::NotActivated(problem.to_string())
        }
        // Documented refusals: no order exists. Another account may accept the payment.
        400..=499 => StartFailure::Unavailable(problem.to_string()),
        _ => StartFailure::Uncertain(problem.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signature::tests::{NOW, account};
    use crate::wire::tests::{ID, read, told};
    use kassette_plugin::provider::{Money, Payer};
    use serde_json::{Value, json};

    fn attempt() -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: "revolut".into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order-1".into(),
            merchant: "Shop\u{7}".into(),
            return_url: "https://x.example/r".into(),
            cancel_url: "https://x.example/c".into(),
            expires: NOW + 3_600_999,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: None,
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    #[test]
    fn the_attempt_is_the_orders_reference() {
        let body = body(
            &account(),
            &attempt(),
            "automatic",
            Some(description(&attempt())),
        )
        .to_string();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            body,
            json!({
                "amount": 4990, "currency": "EUR", "description": "order-1 - Shop",
                "capture_mode": "automatic", "expire_pending_after": "PT3600S",
                "merchant_order_data": { "reference": "attempt-1" },
                "redirect_url": "https://x.example/r",
            })
        );
    }

    #[test]
    fn an_order_waits_a_minute_at_least_and_a_month_at_most() {
        for (left, written) in [
            (0, "PT60S"),
            (90_000, "PT90S"),
            (u64::MAX - NOW, "PT2592000S"),
        ] {
            let mut attempt = attempt();
            attempt.expires = NOW + left;
            let body = body(&account(), &attempt, "manual", None);
            let waits = body.get("expire_pending_after").and_then(Json::text);
            assert_eq!(waits, Some(written));
        }
    }

    #[test]
    fn a_wrong_capture_setting_is_said_before_anything_is_sent() {
        let mut account = account();
        account.settings = vec![(CAPTURE.into(), "later".into())];
        let started = start(&account, &attempt());
        assert!(matches!(started, Err(StartFailure::Unavailable(why)) if why.contains("capture")));
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        let refusal = |status| {
            refused(&Problem {
                status,
                code: String::new(),
                message: String::new(),
            })
        };
        for status in [400, 401, 403, 404, 422, 429] {
            assert!(
                matches!(refusal(status), StartFailure::Unavailable(_)),
                "{status}"
            );
        }
        for status in [301, 500, 502, 503, 504] {
            assert!(
                matches!(refusal(status), StartFailure::Uncertain(_)),
                "{status}"
            );
        }
    }

    fn opened_as(change: &[(&str, Value)]) -> Result<Started, StartFailure> {
        let mut told = told("pending");
        for (name, value) in change {
            told[*name] = value.clone();
        }
        opened(read(&told), &attempt())
    }

    #[test]
    fn an_order_that_is_pending_leads_to_its_page() {
        let Ok(Started::Open(open)) = opened_as(&[]) else {
            panic!("not open");
        };
        let page = "https://checkout.revolut.com/payment-link/0adc0e3c";
        assert_eq!(open.reference, ID);
        assert_eq!(open.action, Action::Redirect(page.into()));
    }

    #[test]
    fn an_order_that_is_over_cannot_be_started() {
        for state in ["cancelled", "failed"] {
            let opened = opened_as(&[("state", json!(state))]);
            assert!(matches!(opened, Err(StartFailure::Declined(_))), "{state}");
        }
    }

    #[test]
    fn an_order_about_something_else_is_not_ours() {
        for (name, value) in [
            ("merchant_order_data", json!({ "reference": "attempt-2" })),
            ("amount", json!(4991)),
            ("currency", json!("USD")),
        ] {
            let opened = opened_as(&[(name, value)]);
            assert!(matches!(opened, Err(StartFailure::Uncertain(_))), "{name}");
        }
    }
}
