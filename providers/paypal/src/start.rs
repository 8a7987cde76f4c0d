//! Creating an order. The meaning of each refusal matters: the host tries another account only if PayPal certainly
//! did nothing.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Account, Action, Attempt, Open, StartFailure, Started};
use kassette_plugin::settings;

use crate::api::{self, Problem};
use crate::wire::{self, Order};
use crate::{money, signature};

/// Maximum length of the description and the brand name, in UTF-16 code units.
const LONGEST_TEXT: usize = 127;

/// Setting: whether Venmo payers may be sent to PayPal's page.
///
/// PayPal's documentation ("Pay with Venmo", section "Eligibility") requires PayPal's JavaScript SDK, whose button
/// opens the app or shows a QR code; the Venmo part of the Orders API has no return address. An approval by
/// redirect works if PayPal has allowed it for the account, but is not documented. So it is off by default.
pub(crate) const VENMO: &str = "venmo-by-redirect";

/// Creates the order, or finds the order that an earlier call created: PayPal stores the request id for six hours
/// and answers a repetition with the current order.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    signature::simulator(&account.settings).map_err(StartFailure::Unavailable)?;
    if attempt.method == "venmo" {
        let allowed = settings::flag(&account.settings, VENMO, false);
        if !allowed.map_err(|refusal| StartFailure::Unavailable(refusal.detail))? {
            return Err(StartFailure::Unavailable(format!(
                "PayPal promises Venmo to its JavaScript SDK alone; see the setting {VENMO}"
            )));
        }
    }
    let mut answer = create(account, attempt, true)?;
    // Repeat without the descriptive texts if PayPal refuses them.
    if matches!(answer.status, 400 | 422) && api::problem(&answer).is_about_words() {
        answer = create(account, attempt, false)?;
    }
    judged(&answer, attempt)
}

fn create(account: &Account, attempt: &Attempt, described: bool) -> Result<Answer, StartFailure> {
    let body = body(attempt, described).ok_or_else(|| {
        let currency = &attempt.due.currency;
        StartFailure::Unavailable(format!("PayPal takes {currency} without decimals"))
    })?;
    let key = format!("{}{}", attempt.id, if described { "" } else { "-bare" });
    Ok(api::post(account, "/v2/checkout/orders", &key, &body)?)
}

/// Body of the request. `None` if PayPal cannot represent the amount. It contains nothing that becomes known later
/// (the payer's address, answers), so that a repetition is identical.
fn body(attempt: &Attempt, described: bool) -> Option<Json> {
    let mut unit = vec![
        ("amount".to_owned(), money::written(&attempt.due)?),
        ("custom_id".to_owned(), attempt.id.as_str().into()),
        // Unique per merchant: an account that blocks repeated invoice ids never captures two orders of an
        // attempt.
        ("invoice_id".to_owned(), attempt.id.as_str().into()),
    ];
    let text = |words: &str| text(words).filter(|_| described);
    if let Some(order) = text(&attempt.merchant_order) {
        unit.push(("description".to_owned(), order));
    }
    let mut look = vec![("shipping_preference".to_owned(), "NO_SHIPPING".into())];
    if let Some(merchant) = text(&attempt.merchant) {
        look.push(("brand_name".to_owned(), merchant));
    }
    let way = [
        ("user_action".to_owned(), Json::from("PAY_NOW")),
        ("return_url".to_owned(), attempt.return_url.as_str().into()),
        ("cancel_url".to_owned(), attempt.cancel_url.as_str().into()),
    ];
    let units = vec![Json::Object(unit)];
    Some(if attempt.method == "venmo" {
        // Venmo's own context has no addresses, so they are in the order's context.
        object([
            ("intent", "CAPTURE".into()),
            ("purchase_units", units.into()),
            ("payment_source", source("venmo", look)),
            ("application_context", Json::Object(way.into())),
        ])
    } else {
        look.extend(way);
        // No eChecks: they take days, and the payer waits.
        let instant = "IMMEDIATE_PAYMENT_REQUIRED".into();
        look.push(("payment_method_preference".to_owned(), instant));
        object([
            ("intent", "CAPTURE".into()),
            ("purchase_units", units.into()),
            ("payment_source", source("paypal", look)),
        ])
    })
}

fn source(name: &str, context: Vec<(String, Json)>) -> Json {
    let wallet = object([("experience_context", Json::Object(context))]);
    object([(name, wallet)])
}

/// Text for the payer, without control characters and cut to PayPal's maximum length. `None` if it is blank.
fn text(text: &str) -> Option<Json> {
    let cut = cut(text, LONGEST_TEXT);
    (!cut.trim().is_empty()).then(|| cut.into())
}

/// Removes control characters and cuts a text to `longest` UTF-16 code units, the unit of PayPal's limits.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let mut units = 0;
    let plain = text.chars().filter(|c| !c.is_control());
    let fits = plain.take_while(|c| {
        units += c.len_utf16();
        units <= longest
    });
    fits.collect()
}

/// Converts the answer to a creation.
fn judged(answer: &Answer, attempt: &Attempt) -> Result<Started, StartFailure> {
    if matches!(answer.status, 200 | 201) {
        let currency = Some(attempt.due.currency.as_str());
        let order = answer.json();
        let order = order
            .as_ref()
            .and_then(|order| wire::order(order, currency));
        let order =
            order.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
        return opened(order, attempt);
    }
    Err(refused(&api::problem(answer)))
}

/// Continues with an order if it belongs to this attempt and can still be approved.
fn opened(order: Order, attempt: &Attempt) -> Result<Started, StartFailure> {
    let id = &order.id;
    // The answer may omit the values that this module sent.
    let same = order
        .amount
        .as_ref()
        .is_none_or(|amount| *amount == attempt.due);
    if !order.is_of(&attempt.id) || !same {
        return Err(StartFailure::Uncertain("the order is another one".into()));
    }
    if order.is_over() {
        return Err(StartFailure::Declined(format!("order {id} is over")));
    }
    let Some(approve) = order.approve else {
        // Approved or captured: the payer has nothing left to do, and the host queries the outcome.
        return Err(StartFailure::Uncertain(format!(
            "order {id} waits for no payer any more"
        )));
    };
    Ok(Started::Open(Open {
        reference: order.id,
        action: Action::Redirect(approve),
        // PayPal does not document an expiry of orders; the attempt's own expiry is earlier.
        until: None,
    }))
}

/// Maps a refusal to its meaning.
///
/// A creation moves no money, and an order whose id is unknown can be neither approved nor captured. So PayPal's
/// statement is trusted, and only an answer without one is uncertain.
fn refused(problem: &Problem) -> StartFailure {
    let why = problem.to_string();
    match (problem.status, problem.issue.as_str()) {
        // This attempt has another order, whose request id PayPal no longer stores.
        (_, "DUPLICATE_INVOICE_ID" | "DUPLICATE_REQUEST_ID") => StartFailure::Uncertain(why),
        (_, "CURRENCY_NOT_SUPPORTED" | "CURRENCY_NOT_SUPPORTED_FOR_COUNTRY") => {
            StartFailure::NotActivated(why)
        }
        // A limit of the account at PayPal.
        (_, "TRANSACTION_LIMIT_EXCEEDED" | "TRANSACTION_RECEIVING_LIMIT_EXCEEDED") => {
            StartFailure::Unavailable(why)
        }
        // The payer's wallet is the cause, not the request.
        (422, issue) if crate::query::DECLINES.contains(&issue) => StartFailure::Declined(why),
        (400..=499 | 503, _) => StartFailure::Unavailable(why),
        _ => StartFailure::Uncertain(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::{answer, refusal};
    use crate::wire::tests::{captured, told};
    use kassette_plugin::provider::{Environment, Money, Payer};
    use serde_json::{Value, json};

    fn attempt(method: &str, amount: u64, currency: &str) -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: method.into(),
            due: Money {
                amount,
                currency: currency.into(),
            },
            merchant_order: "No. 7 \u{1F4BF}".repeat(30),
            merchant: "Shop\u{7} & Söhne".into(),
            return_url: "https://pay.example/return/t".into(),
            cancel_url: "https://pay.example/return/t?cancelled=1".into(),
            expires: 3,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: None,
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    fn written(attempt: &Attempt) -> Value {
        serde_json::from_str(&body(attempt, true).unwrap().to_string()).unwrap()
    }

    #[test]
    fn the_attempt_is_paypals_reference_twice_and_texts_are_cut() {
        let body = written(&attempt("paypal", 4990, "EUR"));
        let unit = &body["purchase_units"][0];
        assert_eq!(unit["custom_id"], "attempt-1");
        assert_eq!(unit["invoice_id"], "attempt-1");
        assert_eq!(
            unit["amount"],
            json!({ "currency_code": "EUR", "value": "49.90" })
        );
        let description = unit["description"].as_str().unwrap();
        // The next character has two units.
        assert_eq!(description.encode_utf16().count(), 126);
        let context = &body["payment_source"]["paypal"]["experience_context"];
        assert_eq!(context["brand_name"], "Shop & Söhne");
        assert_eq!(context["return_url"], "https://pay.example/return/t");
        assert_eq!(context["user_action"], "PAY_NOW");
        assert!(body.get("application_context").is_none());
    }

    #[test]
    fn venmos_addresses_stand_in_the_orders_own_context() {
        let body = written(&attempt("venmo", 4990, "USD"));
        let context = &body["payment_source"]["venmo"]["experience_context"];
        assert_eq!(context["shipping_preference"], "NO_SHIPPING");
        assert!(context.get("return_url").is_none());
        let order = &body["application_context"];
        assert_eq!(
            order["cancel_url"],
            "https://pay.example/return/t?cancelled=1"
        );
    }

    #[test]
    fn venmo_is_refused_without_a_request_until_the_operator_says_that_paypal_has_allowed_it() {
        let refused = |settings: &[(&str, &str)]| {
            let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let account = Account {
                id: "paypal-test".into(),
                environment: Environment::Test,
                now: 1,
                callback_url: String::new(),
                settings: settings.iter().map(own).collect(),
            };
            // Without a host every request fails with this message.
            match start(&account, &attempt("venmo", 4990, "USD")) {
                Err(StartFailure::Unavailable(why)) => !why.contains("no access token"),
                other => panic!("{other:?}"),
            }
        };
        assert!(refused(&[]));
        assert!(refused(&[(VENMO, "false")]));
        assert!(
            refused(&[(VENMO, "yes")]),
            "what cannot be read is never ignored"
        );
        assert!(!refused(&[(VENMO, "true")]));
    }

    #[test]
    fn forints_with_decimals_go_to_another_provider() {
        assert!(body(&attempt("paypal", 499_050, "HUF"), true).is_none());
        let whole = written(&attempt("paypal", 499_000, "HUF"));
        assert_eq!(whole["purchase_units"][0]["amount"]["value"], "4990");
    }

    #[test]
    fn what_becomes_known_of_the_payer_does_not_change_the_request() {
        let first = attempt("paypal", 4990, "EUR");
        let mut later = first.clone();
        later.payer = Payer {
            email: None,
            ip: Some("192.0.2.1".into()),
            language: Some("de".into()),
            country: Some("DE".into()),
        };
        assert_eq!(body(&first, true), body(&later, true));
    }

    fn judge(status: u16, body: &Value) -> Result<Started, StartFailure> {
        let attempt = attempt("paypal", 4990, "EUR");
        judged(&answer(status, &body.to_string()), &attempt)
    }

    #[test]
    fn a_created_and_a_repeated_order_lead_to_the_payers_page() {
        for status in [200, 201] {
            let Ok(Started::Open(open)) = judge(status, &told("PAYER_ACTION_REQUIRED", &[])) else {
                panic!("not open");
            };
            assert_eq!(open.reference, "5O190127TN364715T");
            let page = "https://www.paypal.com/checkoutnow?token=5O190127TN364715T";
            assert_eq!(open.action, Action::Redirect(page.into()));
        }
    }

    #[test]
    fn an_order_that_is_over_is_declined_and_a_paid_one_is_asked_about() {
        assert!(matches!(
            judge(200, &told("VOIDED", &[])),
            Err(StartFailure::Declined(_))
        ));
        let refused = told("COMPLETED", &[captured("DECLINED", None)]);
        assert!(matches!(
            judge(200, &refused),
            Err(StartFailure::Declined(_))
        ));
        let mut approved = told("APPROVED", &[]);
        approved["links"] = json!([]);
        assert!(matches!(
            judge(200, &approved),
            Err(StartFailure::Uncertain(_))
        ));
    }

    #[test]
    fn an_order_about_something_else_is_not_ours() {
        let mut other = told("CREATED", &[]);
        other["purchase_units"][0]["amount"]["value"] = "49.91".into();
        assert!(matches!(
            judge(201, &other),
            Err(StartFailure::Uncertain(_))
        ));
        let mut other = told("CREATED", &[]);
        other["purchase_units"][0]["custom_id"] = "attempt-2".into();
        assert!(matches!(
            judge(201, &other),
            Err(StartFailure::Uncertain(_))
        ));
        assert!(matches!(
            judge(201, &json!({})),
            Err(StartFailure::Uncertain(_))
        ));
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        let failure = |status, issue| refused(&api::problem(&refusal(status, issue)));
        for (status, issue) in [
            (400, "INVALID_PARAMETER_VALUE"),
            (401, "INVALID_ACCOUNT_STATUS"),
            (403, "PERMISSION_DENIED"),
            (422, "PAYEE_ACCOUNT_RESTRICTED"),
            (429, "RATE_LIMIT_REACHED"),
            (503, "SERVICE_UNAVAILABLE"),
        ] {
            assert!(
                matches!(failure(status, issue), StartFailure::Unavailable(_)),
                "{issue}"
            );
        }
        for (status, issue) in [
            (422, "DUPLICATE_INVOICE_ID"),
            (500, "INTERNAL_SERVER_ERROR"),
            (502, ""),
            (302, ""),
        ] {
            assert!(
                matches!(failure(status, issue), StartFailure::Uncertain(_)),
                "{issue}"
            );
        }
        assert!(matches!(
            failure(422, "PAYER_CANNOT_PAY"),
            StartFailure::Declined(_)
        ));
    }
}
