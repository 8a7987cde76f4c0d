//! Creating the page for the payer: a session or a link. The meaning of each refusal matters.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::{Answer, Broken};
use kassette_plugin::provider::{Account, Action, Attempt, Money, Open, StartFailure, Started};
use kassette_plugin::time;

use crate::wire::{self, Problem};
use crate::{api, methods};

/// Maximum length of the description on a link's page, in characters.
const DESCRIPTION: usize = 280;
/// Maximum length of an e-mail address, in bytes.
const EMAIL: usize = 500;
/// Maximum lifetime of a session, in milliseconds: a day, minus a minute for clock differences.
const LONGEST_SESSION_MS: u64 = (24 * 60 - 1) * 60_000;

/// A created page: a session or a link.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) id: String,
    pub(crate) due: Money,
    url: String,
    /// Milliseconds since 1970.
    expires_at: Option<u64>,
}

/// Creates the page, or finds the page that an earlier call created: Adyen answers a repeated key with its first
/// answer.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    opened(&create(account, attempt)?, account, attempt)
}

/// Requests the page. If Adyen refuses an optional field, requests it again without optional fields. The two
/// requests have separate keys, so a repeated call takes the same path.
pub(crate) fn create(account: &Account, attempt: &Attempt) -> Result<Answer, Broken> {
    let answer = create_once(account, attempt, false)?;
    if matches!(answer.status, 400 | 422) && wire::problem(&answer).about_optional_field {
        return create_once(account, attempt, true);
    }
    Ok(answer)
}

fn create_once(account: &Account, attempt: &Attempt, bare: bool) -> Result<Answer, Broken> {
    let body = body(account, attempt, bare);
    let key = format!("{}{}", attempt.id, if bare { "-bare" } else { "" });
    let path = if methods::is_captured_by_us(&attempt.method) {
        "/sessions"
    } else {
        "/paymentLinks"
    };
    api::post(account, path, &key, &body)
}

fn body(account: &Account, attempt: &Attempt, bare: bool) -> Json {
    let mut fields: Vec<(&str, Json)> = vec![
        ("merchantAccount", api::merchant_account(account).into()),
        ("amount", wire::money_json(&attempt.due)),
        ("reference", attempt.id.as_str().into()),
    ];
    if !bare {
        fields.push((
            "merchantOrderReference",
            attempt.merchant_order.as_str().into(),
        ));
    }
    fields.push(("returnUrl", attempt.return_url.as_str().into()));
    if methods::is_captured_by_us(&attempt.method) {
        // The attempt's expiry if possible, so that a repetition sends the same value.
        let latest = account.now.saturating_add(LONGEST_SESSION_MS);
        let expires = time::rfc3339(attempt.expires.min(latest));
        fields.extend([
            ("mode", "hosted".into()),
            ("channel", "Web".into()),
            ("expiresAt", expires.into()),
            // Overrides the default of the merchant account.
            ("additionalData", object([("manualCapture", "true".into())])),
        ]);
        if let Some(ip) = attempt.payer.ip.as_ref().filter(|_| !bare) {
            fields.push(("shopperIP", ip.as_str().into()));
        }
    } else {
        if !bare {
            fields.push(("description", description(attempt).into()));
        }
        fields.extend([
            ("expiresAt", time::rfc3339(attempt.expires).into()),
            ("reusable", false.into()),
        ]);
    }
    if let Some(method) = methods::find(&attempt.method) {
        let types = method.types.iter().map(|&name| name.into()).collect();
        fields.push(("allowedPaymentMethods", Json::List(types)));
    }
    let email = attempt.payer.email.as_deref().filter(|_| !bare);
    if let Some(email) = email.filter(|email| email.len() <= EMAIL) {
        fields.push(("shopperEmail", email.into()));
    }
    if let Some(country) = country(attempt) {
        fields.push(("countryCode", country.into()));
    }
    if attempt.method == "klarna" {
        // Klarna asks the payer for a missing name or address.
        fields.push(("lineItems", vec![line_item(attempt)].into()));
    }
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(fields.into_iter().map(named).collect())
}

/// Country of the payment, which determines the methods on the page. Each Klarna currency except the euro belongs
/// to one country. If `None`, the page determines it.
fn country(attempt: &Attempt) -> Option<&str> {
    let known = attempt.payer.country.as_deref();
    match attempt.method.as_str() {
        "ideal" => Some("NL"),
        "upi_imps" => Some("IN"),
        "klarna" => known.or_else(|| match attempt.due.currency.as_str() {
            "EUR" => None,
            currency => currency.get(..2),
        }),
        _ => known,
    }
}

/// Line item for Klarna's invoice: the merchant's order.
fn line_item(attempt: &Attempt) -> Json {
    object([
        ("id", "1".into()),
        ("description", attempt.merchant_order.as_str().into()),
        ("quantity", 1.into()),
        ("amountIncludingTax", attempt.due.amount.into()),
    ])
}

fn description(attempt: &Attempt) -> String {
    format!("{}: {}", attempt.merchant, attempt.merchant_order)
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Converts the answer to the creation.
fn opened(answer: &Answer, account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    if answer.status != 201 {
        return Err(refused(&wire::problem(answer)));
    }
    let page = page(answer, account, attempt)
        .filter(|page| page.due == attempt.due)
        .ok_or_else(|| StartFailure::Uncertain("the answer is not about this attempt".into()))?;
    Ok(Started::Open(Open {
        reference: page.id,
        action: Action::Redirect(page.url),
        until: page.expires_at,
    }))
}

/// The page in an answer. `None` if it cannot be parsed or belongs to another attempt.
pub(crate) fn page(answer: &Answer, account: &Account, attempt: &Attempt) -> Option<Page> {
    let (whose, merchant_account, page) = if methods::is_captured_by_us(&attempt.method) {
        let session = wire::session(&answer.body)?;
        let page = Page {
            id: session.id,
            due: session.due,
            url: session.url,
            expires_at: session.expires_at,
        };
        (session.attempt, session.merchant_account, page)
    } else {
        let link = wire::link(&answer.body)?;
        let page = Page {
            id: link.id,
            due: link.due,
            url: link.url,
            expires_at: link.expires_at,
        };
        (link.attempt, link.merchant_account, page)
    };
    // The answer may omit the values that this module sent.
    let ours = whose.is_none_or(|of| of == attempt.id)
        && merchant_account.is_none_or(|of| of == api::merchant_account(account));
    Some(page).filter(|page| ours && !page.url.is_empty())
}

/// Maps a refusal to its meaning.
fn refused(problem: &Problem) -> StartFailure {
    let why = problem.to_string();
    match problem.status {
        // A request with the same key is in progress.
        422 if problem.code == IN_PROGRESS => StartFailure::Uncertain(why),
        // Unsupported currency; no acquirer for the method or the currency.
        422 if problem.code == "138" || problem.code.starts_with("905") => {
            StartFailure::NotActivated(why)
        }
        // The request was refused or not processed. Another account may accept it.
        400..=499 | 503 => StartFailure::Unavailable(why),
        // 500 and undocumented statuses: the page may exist.
        _ => StartFailure::Uncertain(why),
    }
}

/// Adyen's error code for a request whose key is in use by a request in progress.
pub(crate) const IN_PROGRESS: &str = "704";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::{opened as session, told};

    fn field(method: &str, name: &str) -> Option<Json> {
        body(&account(), &attempt(method), false).get(name).cloned()
    }

    #[test]
    fn a_session_is_hosted_and_captured_by_us_and_carries_our_reference() {
        assert_eq!(
            body(&account(), &attempt("credit_card"), false).to_string(),
            concat!(
                r#"{"merchantAccount":"ShopECOM","amount":{"value":4990,"currency":"EUR"},"#,
                r#""reference":"attempt-1","merchantOrderReference":"order-1","#,
                r#""returnUrl":"https://pay.example/return/1","mode":"hosted","channel":"Web","#,
                r#""expiresAt":"2027-01-15T09:00:00Z","additionalData":{"manualCapture":"true"},"#,
                r#""allowedPaymentMethods":["scheme"]}"#
            )
        );
    }

    #[test]
    fn a_link_is_for_one_payment_of_one_method_with_our_reference() {
        assert_eq!(
            body(&account(), &attempt("ideal"), false).to_string(),
            concat!(
                r#"{"merchantAccount":"ShopECOM","amount":{"value":4990,"currency":"EUR"},"#,
                r#""reference":"attempt-1","merchantOrderReference":"order-1","#,
                r#""returnUrl":"https://pay.example/return/1","#,
                r#""description":"Demo shop: order-1","expiresAt":"2027-01-15T09:00:00Z","#,
                r#""reusable":false,"allowedPaymentMethods":["ideal"],"countryCode":"NL"}"#
            )
        );
    }

    #[test]
    fn what_takes_money_at_once_is_not_said_to_be_captured_later() {
        for (method, hosted) in [
            ("credit_card", true),
            ("klarna", true),
            ("paypal", true),
            ("ideal", false),
            ("upi_imps", false),
        ] {
            assert_eq!(field(method, "mode").is_some(), hosted, "{method}");
            assert_eq!(
                field(method, "additionalData").is_some(),
                hosted,
                "{method}"
            );
        }
    }

    #[test]
    fn a_session_ends_with_its_attempt_or_within_a_day() {
        let mut long = attempt("credit_card");
        long.expires = account().now + 7 * 86_400_000;
        let expires = body(&account(), &long, false).get("expiresAt").cloned();
        assert_eq!(expires, Some("2027-01-16T06:59:00Z".into()));
    }

    #[test]
    fn klarna_is_told_what_is_bought() {
        let items = field("klarna", "lineItems").unwrap();
        let item = items.items().first().unwrap();
        assert_eq!(
            item.get("amountIncludingTax").and_then(Json::whole),
            Some(4990)
        );
        assert_eq!(field("paypal", "lineItems"), None);
        let country = |currency: &str, known: Option<&str>| {
            let mut klarna = attempt("klarna");
            klarna.due.currency = currency.into();
            klarna.payer.country = known.map(str::to_owned);
            country(&klarna).map(str::to_owned)
        };
        assert_eq!(country("SEK", None).as_deref(), Some("SE"));
        assert_eq!(country("EUR", None), None);
        assert_eq!(country("EUR", Some("FI")).as_deref(), Some("FI"));
    }

    #[test]
    fn long_names_are_cut_to_what_the_page_takes() {
        let mut long = attempt("ideal");
        long.merchant = "é".repeat(400);
        assert_eq!(description(&long).chars().count(), 280);
    }

    fn answered(
        method: &str,
        status: u16,
        body: &serde_json::Value,
    ) -> Result<Started, StartFailure> {
        let answer = Answer {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        opened(&answer, &account(), &attempt(method))
    }

    #[test]
    fn the_payer_goes_to_the_page() {
        for (method, body, id) in [
            ("credit_card", session(), "CS451F2AB1ED897A94"),
            ("ideal", told("active"), "PL61C53A8B97E6915A"),
        ] {
            let Ok(Started::Open(open)) = answered(method, 201, &body) else {
                panic!("open")
            };
            assert_eq!(open.reference, id);
            assert_eq!(open.until, Some(1_800_000_000_000));
            let url = format!("https://test.adyen.link/{id}");
            assert_eq!(open.action, Action::Redirect(url));
        }
    }

    #[test]
    fn a_page_about_something_else_is_not_ours() {
        for (method, body) in [("credit_card", session()), ("ideal", told("active"))] {
            for (name, odd) in [
                ("reference", serde_json::json!("attempt-2")),
                ("merchantAccount", serde_json::json!("OtherECOM")),
                (
                    "amount",
                    serde_json::json!({ "value": 4991, "currency": "EUR" }),
                ),
                (
                    "amount",
                    serde_json::json!({ "value": 4990, "currency": "USD" }),
                ),
            ] {
                let mut other = body.clone();
                other[name] = odd;
                assert!(
                    matches!(
                        answered(method, 201, &other),
                        Err(StartFailure::Uncertain(_))
                    ),
                    "{method} {name}"
                );
            }
        }
    }

    #[test]
    fn each_refusal_says_what_it_proves() {
        let problem = |code: &str| serde_json::json!({ "errorCode": code });
        for (status, code) in [
            (400, "702"),
            (401, "000"),
            (403, "901"),
            (422, "14_030"),
            (429, ""),
            (503, ""),
        ] {
            let refused = answered("ideal", status, &problem(code));
            assert!(
                matches!(refused, Err(StartFailure::Unavailable(_))),
                "{status} {code}"
            );
        }
        for (status, code) in [(422, IN_PROGRESS), (500, "905"), (502, ""), (200, "")] {
            let refused = answered("ideal", status, &problem(code));
            assert!(
                matches!(refused, Err(StartFailure::Uncertain(_))),
                "{status} {code}"
            );
        }
    }
}
