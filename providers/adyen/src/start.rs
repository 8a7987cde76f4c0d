//! Creating a payment link. What matters is what each refusal proves.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::{Answer, Broken};
use kassette_plugin::provider::{Account, Action, Attempt, Failure, Open, Started};
use kassette_plugin::time;

use crate::wire::{self, Link, Problem};
use crate::{api, methods};

/// Longest description that the payment page takes, in characters.
const DESCRIPTION: usize = 280;
/// Longest e-mail address.
const EMAIL: usize = 500;

/// Creates the link, or finds the one that an earlier call made: Adyen answers a repeated key with
/// its first answer.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, Failure> {
    opened(&create(account, attempt)?, account, attempt)
}

/// Asks for the link.
pub(crate) fn create(account: &Account, attempt: &Attempt) -> Result<Answer, Broken> {
    let body = body(api::merchant_account(account), attempt);
    api::post(account, "/paymentLinks", &attempt.id, &body)
}

fn body(merchant_account: &str, attempt: &Attempt) -> Json {
    let mut fields: Vec<(&str, Json)> = vec![
        ("merchantAccount", merchant_account.into()),
        ("amount", wire::money_json(&attempt.due)),
        ("reference", attempt.id.as_str().into()),
        ("merchantOrderReference", attempt.order.as_str().into()),
        ("description", description(attempt).into()),
        ("returnUrl", attempt.return_url.as_str().into()),
        ("expiresAt", time::rfc3339(attempt.expires).into()),
        ("reusable", false.into()),
    ];
    if let Some(method) = methods::of(&attempt.method) {
        let types = method.types.iter().map(|&name| name.into()).collect();
        fields.push(("allowedPaymentMethods", Json::List(types)));
        if method.captured_by_us {
            fields.push(("manualCapture", true.into()));
        }
    }
    let email = attempt.payer.email.as_deref();
    if let Some(email) = email.filter(|email| email.len() <= EMAIL) {
        fields.push(("shopperEmail", email.into()));
    }
    if let Some(country) = country(attempt) {
        fields.push(("countryCode", country.into()));
    }
    if attempt.method == "klarna" {
        fields.push(("lineItems", vec![line_item(attempt)].into()));
        let asked = [
            "billingAddress",
            "shopperEmail",
            "shopperName",
            "telephoneNumber",
        ];
        let asked = asked.into_iter().map(Json::from).collect();
        fields.push(("requiredShopperFields", Json::List(asked)));
    }
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(fields.into_iter().map(named).collect())
}

/// Where it is paid decides which methods the page offers. Without it the page asks the payer.
fn country(attempt: &Attempt) -> Option<&str> {
    match attempt.method.as_str() {
        "ideal" => Some("NL"),
        "upi_imps" => Some("IN"),
        _ => attempt.payer.country.as_deref(),
    }
}

/// Klarna lists on its invoice what was bought: the order, as far as we know.
fn line_item(attempt: &Attempt) -> Json {
    object([
        ("id", "1".into()),
        ("description", attempt.order.as_str().into()),
        ("quantity", 1.into()),
        ("amountIncludingTax", attempt.due.amount.into()),
    ])
}

fn description(attempt: &Attempt) -> String {
    format!("{}: {}", attempt.merchant, attempt.order)
        .chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Goes on with the answer.
fn opened(answer: &Answer, account: &Account, attempt: &Attempt) -> Result<Started, Failure> {
    if answer.status != 201 {
        return Err(refused(&wire::problem(answer)));
    }
    let link = wire::link(&answer.body)
        .ok_or_else(|| Failure::Uncertain("the answer cannot be read".into()))?;
    if !is_ours(&link, account, attempt) || link.due != attempt.due {
        return Err(Failure::Uncertain(format!(
            "{} is about something else",
            link.id
        )));
    }
    Ok(Started::Open(Open {
        reference: link.id,
        action: Action::Redirect(link.url),
        until: link.expires_at,
    }))
}

/// Whether a link is the attempt's.
pub(crate) fn is_ours(link: &Link, account: &Account, attempt: &Attempt) -> bool {
    link.attempt == attempt.id && link.merchant_account == api::merchant_account(account)
}

/// What a refusal proves.
fn refused(problem: &Problem) -> Failure {
    let why = problem.to_string();
    match problem.status {
        // The same key is being worked on.
        422 if problem.code == IN_PROGRESS => Failure::Uncertain(why),
        // The request was refused, or not looked at. Another provider need not refuse it.
        400..=499 | 503 => Failure::Unavailable(why),
        // 500 and everything undocumented: the link may exist.
        _ => Failure::Uncertain(why),
    }
}

/// Adyen's number for a request whose key is in use at the moment.
pub(crate) const IN_PROGRESS: &str = "704";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{account, attempt};
    use crate::wire::tests::told;

    fn field(method: &str, name: &str) -> Option<Json> {
        body("ShopECOM", &attempt(method)).get(name).cloned()
    }

    #[test]
    fn a_link_is_for_one_payment_of_one_method_with_our_reference() {
        let body = body("ShopECOM", &attempt("credit_card"));
        assert_eq!(
            body.to_string(),
            concat!(
                r#"{"merchantAccount":"ShopECOM","amount":{"value":4990,"currency":"EUR"},"#,
                r#""reference":"attempt-1","merchantOrderReference":"order-1","#,
                r#""description":"Demo shop: order-1","returnUrl":"https://pay.example/return/1","#,
                r#""expiresAt":"2027-01-15T09:00:00Z","reusable":false,"#,
                r#""allowedPaymentMethods":["scheme"],"manualCapture":true}"#
            )
        );
    }

    #[test]
    fn what_takes_money_at_once_is_not_said_to_be_captured_later() {
        for (method, manual) in [
            ("credit_card", true),
            ("klarna", true),
            ("paypal", true),
            ("ideal", false),
            ("upi_imps", false),
        ] {
            assert_eq!(field(method, "manualCapture").is_some(), manual, "{method}");
        }
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
    }

    #[test]
    fn long_names_are_cut_to_what_the_page_takes() {
        let mut long = attempt("ideal");
        long.merchant = "é".repeat(400);
        assert_eq!(description(&long).chars().count(), 280);
    }

    fn answered(status: u16, body: &serde_json::Value) -> Result<Started, Failure> {
        let answer = Answer {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        };
        opened(&answer, &account(), &attempt("ideal"))
    }

    #[test]
    fn the_payer_goes_to_the_link() {
        let Ok(Started::Open(open)) = answered(201, &told("active")) else {
            panic!("open")
        };
        assert_eq!(open.reference, "PL61C53A8B97E6915A");
        assert_eq!(open.until, Some(1_800_000_000_000));
        assert_eq!(
            open.action,
            Action::Redirect("https://test.adyen.link/PL61C53A8B97E6915A".into())
        );
    }

    #[test]
    fn a_link_about_something_else_is_not_ours() {
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
            let mut link = told("active");
            link[name] = odd;
            assert!(
                matches!(answered(201, &link), Err(Failure::Uncertain(_))),
                "{name}"
            );
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
            let refused = answered(status, &problem(code));
            assert!(
                matches!(refused, Err(Failure::Unavailable(_))),
                "{status} {code}"
            );
        }
        for (status, code) in [(422, IN_PROGRESS), (500, "905"), (502, ""), (200, "")] {
            let refused = answered(status, &problem(code));
            assert!(
                matches!(refused, Err(Failure::Uncertain(_))),
                "{status} {code}"
            );
        }
    }
}
