//! Creating a payment. What matters is what each refusal proves: the host tries another account
//! only where no payer can pay this one.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Action, Attempt, Open, Question, StartFailure, Started};
use kassette_plugin::settings;

use crate::method::Method;
use crate::wire::{self, Payment, Problem, Stands};
use crate::{api, callback, klarna, locale, search};

/// Setting: when the money is taken.
pub(crate) const CAPTURE: &str = "capture";

/// Longest description that Mollie keeps, in characters.
const DESCRIPTION: usize = 255;

/// Creates the payment, or finds the one that an earlier call made.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let method = Method::of(&attempt.method).ok_or_else(|| {
        StartFailure::Unavailable(format!("Mollie does not take {}", attempt.method))
    })?;
    let manual = match settings::text(&account.settings, CAPTURE) {
        None | Some("automatic") => false,
        Some("manual") => true,
        Some(_) => {
            let why = format!("setting {CAPTURE} must be automatic or manual");
            return Err(StartFailure::Unavailable(why));
        }
    };
    let body = match body(account, attempt, method, manual) {
        Ok(body) => body,
        Err(questions) => return Ok(Started::Ask(questions)),
    };
    let answer = api::post(account, "/v2/payments", &attempt.id, &body)?;
    match answer.status {
        201 => opened(wire::payment(&answer.body), account, attempt),
        400 => other_body(account, attempt, &answer),
        _ => Err(refused(wire::problem(&answer))),
    }
}

/// The key was used with another body: an earlier call knew less of the payer. Its payment is the one.
fn other_body(
    account: &Account,
    attempt: &Attempt,
    answer: &Answer,
) -> Result<Started, StartFailure> {
    match search::find(account, &attempt.id) {
        Ok(Some(payment)) => opened(Some(payment), account, attempt),
        // A request that Mollie cannot read looks the same.
        _ => Err(StartFailure::Uncertain(wire::problem(answer).to_string())),
    }
}

fn body(
    account: &Account,
    attempt: &Attempt,
    method: Method,
    manual: bool,
) -> Result<Json, Vec<Question>> {
    let mut fields = vec![
        ("amount", wire::money_json(&attempt.due)),
        ("description", description(attempt).into()),
        ("redirectUrl", attempt.return_url.as_str().into()),
        ("cancelUrl", attempt.cancel_url.as_str().into()),
        ("webhookUrl", callback::address(account, attempt).into()),
        ("method", method.mollie_id().into()),
        ("metadata", attempt.id.as_str().into()),
    ];
    let language = attempt.payer.language.as_deref();
    if let Some(locale) = language.and_then(locale::of) {
        fields.push(("locale", locale.into()));
    }
    if manual && method.can_be_held() {
        fields.push(("captureMode", "manual".into()));
    }
    if method == Method::Klarna {
        fields.push(("billingAddress", klarna::address(attempt)?));
        fields.push(("lines", klarna::lines(attempt)));
    }
    let named = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    Ok(Json::Object(named.collect()))
}

/// The order first: methods cut the rest off, some after a dozen characters.
fn description(attempt: &Attempt) -> String {
    format!("{} - {}", attempt.merchant_order, attempt.merchant)
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Goes on with a payment, where it is ours and can still be paid or has been.
fn opened(
    payment: Option<Payment>,
    account: &Account,
    attempt: &Attempt,
) -> Result<Started, StartFailure> {
    let payment =
        payment.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    if payment.environment != account.environment {
        // Its address goes to no payer, so that it can never be paid.
        return Err(StartFailure::Unavailable(
            "the API key is one of the other mode".into(),
        ));
    }
    if payment.attempt.as_ref() != Some(&attempt.id) || payment.amount != attempt.due {
        return Err(StartFailure::Uncertain(format!(
            "{} is about something else",
            payment.id
        )));
    }
    if matches!(
        payment.stands,
        Stands::Canceled | Stands::Expired | Stands::Failed
    ) {
        return Err(StartFailure::Declined(format!("{} is over", payment.id)));
    }
    // A payment that was paid meanwhile has no such address any more: the host finds it by asking.
    let page = payment.checkout.ok_or_else(|| {
        StartFailure::Uncertain(format!("{} cannot be paid any more", payment.id))
    })?;
    Ok(Started::Open(Open {
        reference: payment.id,
        action: Action::Redirect(page),
        until: payment.expires,
    }))
}

/// What a refusal proves.
fn refused(problem: Problem) -> StartFailure {
    match problem.status {
        // What the payer typed: another account would not take it either.
        422 if problem.field.starts_with("billingAddress") => {
            StartFailure::Declined(problem.to_string())
        }
        // The first request with this key is still at work.
        409 => StartFailure::Uncertain(problem.to_string()),
        // Documented refusals: no payment was made. 503 says that the method's own network is down.
        400..=499 | 503 => StartFailure::Unavailable(problem.to_string()),
        _ => StartFailure::Uncertain(problem.to_string()),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::klarna::tests::answers;
    use crate::wire::tests::{read, told};
    use kassette_plugin::provider::{Environment, Money, Payer};
    use serde_json::{Value, json};

    pub(crate) fn attempt(method: &str) -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: method.into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order-1".into(),
            merchant: "Shop\u{7}".into(),
            return_url: "https://x.example/r".into(),
            cancel_url: "https://x.example/c".into(),
            expires: 3,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: None,
                language: Some("nl".into()),
                country: None,
            },
            answers: Vec::new(),
        }
    }

    pub(crate) fn account() -> Account {
        Account {
            id: "mollie-test".into(),
            environment: Environment::Test,
            now: 0,
            callback_url: "https://pay.example/callbacks/mollie-test".into(),
            settings: Vec::new(),
        }
    }

    fn sent(attempt: &Attempt, manual: bool) -> Value {
        let method = Method::of(&attempt.method).unwrap();
        let body = body(&account(), attempt, method, manual).unwrap();
        serde_json::from_str(&body.to_string()).unwrap()
    }

    #[test]
    fn the_attempt_is_the_payments_metadata() {
        assert_eq!(
            sent(&attempt("credit_card"), false),
            json!({
                "amount": { "currency": "EUR", "value": "49.90" },
                "description": "order-1 - Shop",
                "redirectUrl": "https://x.example/r",
                "cancelUrl": "https://x.example/c",
                "webhookUrl": "https://pay.example/callbacks/mollie-test",
                "method": "creditcard",
                "metadata": "attempt-1",
                "locale": "nl_NL",
            })
        );
    }

    #[test]
    fn only_methods_that_can_be_held_are_captured_by_hand() {
        assert_eq!(sent(&attempt("credit_card"), true)["captureMode"], "manual");
        for method in ["ideal", "paypal"] {
            assert_eq!(sent(&attempt(method), true).get("captureMode"), None);
        }
    }

    #[test]
    fn klarna_gets_an_address_and_a_line_of_the_whole_amount() {
        let mut attempt = attempt("klarna");
        attempt.answers = answers();
        let sent = sent(&attempt, false);
        assert_eq!(sent["billingAddress"]["country"], "NL");
        assert_eq!(
            sent["lines"],
            json!([{
                "description": "order-1", "quantity": 1,
                "unitPrice": { "currency": "EUR", "value": "49.90" },
                "totalAmount": { "currency": "EUR", "value": "49.90" },
            }])
        );
    }

    #[test]
    fn a_wrong_capture_setting_is_said_before_anything_is_sent() {
        let mut account = account();
        account.settings = vec![(CAPTURE.into(), "later".into())];
        let started = start(&account, &attempt("ideal"));
        assert!(matches!(started, Err(StartFailure::Unavailable(why)) if why.contains("capture")));
    }

    fn refusal(status: u16, field: &str) -> StartFailure {
        refused(Problem {
            status,
            detail: "x".into(),
            field: field.into(),
        })
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        for (status, field) in [
            (401, ""),
            (403, ""),
            (404, ""),
            (422, "method"),
            (422, "amount"),
            (422, "redirectUrl"),
            (429, ""),
            (503, ""),
        ] {
            let refusal = refusal(status, field);
            assert!(
                matches!(refusal, StartFailure::Unavailable(_)),
                "{status} {field}"
            );
        }
        for status in [301, 409, 500, 502, 504] {
            assert!(
                matches!(refusal(status, ""), StartFailure::Uncertain(_)),
                "{status}"
            );
        }
        let typed = refusal(422, "billingAddress.email");
        assert!(matches!(typed, StartFailure::Declined(_)));
    }

    fn opened_as(change: &[(&str, Value)]) -> Result<Started, StartFailure> {
        let mut told = told("open");
        for (name, value) in change {
            told[*name] = value.clone();
        }
        opened(read(&told), &account(), &attempt("credit_card"))
    }

    #[test]
    fn a_payment_that_is_open_leads_to_its_page() {
        let Ok(Started::Open(open)) = opened_as(&[]) else {
            panic!("not open");
        };
        assert_eq!(open.reference, "tr_1");
        assert_eq!(
            open.action,
            Action::Redirect("https://www.mollie.com/checkout/1".into())
        );
        assert_eq!(open.until, Some(1_800_001_800_000));
    }

    #[test]
    fn a_payment_that_is_over_cannot_be_started() {
        for status in ["canceled", "expired", "failed"] {
            let opened = opened_as(&[("status", json!(status))]);
            assert!(matches!(opened, Err(StartFailure::Declined(_))), "{status}");
        }
    }

    #[test]
    fn a_payment_about_something_else_is_not_ours() {
        for (name, value) in [
            ("metadata", json!("attempt-2")),
            ("metadata", json!(null)),
            ("amount", json!({ "value": "49.91", "currency": "EUR" })),
            ("amount", json!({ "value": "49.90", "currency": "USD" })),
        ] {
            let opened = opened_as(&[(name, value)]);
            assert!(matches!(opened, Err(StartFailure::Uncertain(_))), "{name}");
        }
    }

    #[test]
    fn a_payment_of_the_other_mode_is_given_to_no_payer() {
        let opened = opened_as(&[("mode", json!("live"))]);
        assert!(matches!(opened, Err(StartFailure::Unavailable(_))));
    }
}
