//! Creating a payment. The meaning of each refusal matters: the host tries another account only if no payer can
//! pay this payment.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Action, Attempt, Open, Question, StartFailure, Started};
use kassette_plugin::settings;

use crate::method::Method;
use crate::wire::{self, Payment, Problem, Stands};
use crate::{api, callback, klarna, locale, search};

/// Setting: time of the capture.
pub(crate) const CAPTURE: &str = "capture";

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 255;

/// Creates the payment, or finds the payment that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let method = Method::find(&attempt.method).ok_or_else(|| {
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
    let key = key(attempt, method);
    let mut answer = api::post(account, "/v2/payments", &key, &body)?;
    let problem = wire::problem(&answer);
    // Repeat without optional fields if Mollie refuses one.
    if problem.status == 422 && DECORATIVE.iter().any(|field| problem.is_about(field)) {
        let key = format!("{key}-plain");
        answer = api::post(account, "/v2/payments", &key, &plain(body))?;
    }
    match answer.status {
        200 | 201 => opened(wire::payment(&answer.body), account, attempt),
        400 => other_body(account, attempt, &answer),
        _ => {
            let problem = wire::problem(&answer);
            match klarna::refused(attempt, &problem) {
                Some(question) => Ok(Started::Ask(vec![question])),
                None => Err(refused(problem)),
            }
        }
    }
}

/// Optional fields.
const DECORATIVE: [&str; 2] = ["locale", "cancelUrl"];

/// Removes the optional fields.
fn plain(body: Json) -> Json {
    match body {
        Json::Object(mut fields) => {
            fields.retain(|(name, _)| !DECORATIVE.contains(&name.as_str()));
            Json::Object(fields)
        }
        other => other,
    }
}

/// The idempotency key. For Klarna it includes a hash of the payer's answers: after a refusal the payer answers
/// again, and Mollie accepts only one body per key.
fn key(attempt: &Attempt, method: Method) -> String {
    if method != Method::Klarna {
        return attempt.id.clone();
    }
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (name, answer) in &attempt.answers {
        for byte in name.bytes().chain([0]).chain(answer.bytes()).chain([0]) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    format!("{}-{hash:016x}", attempt.id)
}

/// The key was used with another body, because an earlier call had fewer data. Continues with that call's payment.
fn other_body(
    account: &Account,
    attempt: &Attempt,
    answer: &Answer,
) -> Result<Started, StartFailure> {
    match search::find(account, &attempt.id) {
        Ok(Some(payment)) => opened(Some(payment), account, attempt),
        // A malformed request results in the same status.
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
    if let Some(locale) = language.and_then(locale::find) {
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

/// The order comes first, because some methods truncate after a dozen characters.
fn description(attempt: &Attempt) -> String {
    format!("{} - {}", attempt.merchant_order, attempt.merchant)
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Continues with a payment if it belongs to this attempt and is paid or payable.
fn opened(
    payment: Option<Payment>,
    account: &Account,
    attempt: &Attempt,
) -> Result<Started, StartFailure> {
    let payment =
        payment.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    if payment
        .environment
        .is_some_and(|mode| mode != account.environment)
    {
        // No payer receives its address, so it can never be paid.
        return Err(StartFailure::Unavailable(
            "the API key is one of the other mode".into(),
        ));
    }
    let other = payment.attempt.as_ref().is_some_and(|id| *id != attempt.id);
    if other || payment.amount != attempt.due {
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
    // A payment that was paid in the meantime does not have this address; the host finds it by a query.
    let page = payment.checkout.ok_or_else(|| {
        StartFailure::Uncertain(format!("{} cannot be paid any more", payment.id))
    })?;
    Ok(Started::Open(Open {
        reference: payment.id,
        action: Action::Redirect(page),
        until: payment.expires,
    }))
}

/// Maps a refusal to its meaning.
fn refused(problem: Problem) -> StartFailure {
    match problem.status {
        // The account does not support the method or its currency.
        422 if problem.is_about("method") || problem.detail.contains("currency") => {
            StartFailure::NotActivated(problem.to_string())
        }
        // The first request with this key is in progress.
        409 => StartFailure::Uncertain(problem.to_string()),
        // Documented refusals: no payment was created. 503 means that the method's own network is unavailable.
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
        let method = Method::find(&attempt.method).unwrap();
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
            (422, "amount"),
            (422, "billingAddress.email"),
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
        assert!(matches!(
            refusal(422, "method"),
            StartFailure::NotActivated(_)
        ));
        let currency = refused(Problem {
            status: 422,
            detail: "The payment method does not support this currency".into(),
            field: "amount".into(),
        });
        assert!(matches!(currency, StartFailure::NotActivated(_)));
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

    #[test]
    fn an_answer_that_mollie_refuses_is_asked_for_again() {
        let mut attempt = attempt("klarna");
        attempt.answers = answers();
        let problem = |field: &str| Problem {
            status: 422,
            detail: "x".into(),
            field: field.into(),
        };
        let question = klarna::refused(&attempt, &problem("billingAddress.postalCode")).unwrap();
        assert_eq!(question.name, "postal-code");
        assert!(klarna::refused(&attempt, &problem("amount")).is_none());
        let first = key(&attempt, Method::Klarna);
        attempt.answers[4].1 = "1015 CX".into();
        assert_ne!(first, key(&attempt, Method::Klarna));
        assert_eq!(key(&attempt, Method::Ideal), attempt.id);
    }

    #[test]
    fn a_payment_can_do_without_what_decorates_it() {
        let attempt = attempt("ideal");
        let body = body(&account(), &attempt, Method::Ideal, false).unwrap();
        let plain: Value = serde_json::from_str(&plain(body).to_string()).unwrap();
        assert_eq!((plain.get("locale"), plain.get("cancelUrl")), (None, None));
        assert_eq!(plain["metadata"], "attempt-1");
    }
}
