//! Creating a link. Razorpay has no idempotency key for it, but takes a reference once: a repeat is
//! refused, and the link of the first is found by the reference.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Action, Attempt, Environment, Instructions, Open, StartFailure, Started,
};

use crate::api;
use crate::query;
use crate::wire::{self, Link, Problem, Stage};

pub(crate) const LINKS: &str = "/v1/payment_links";

/// A link lives 15 minutes at least; one more for clocks that differ.
const LEAST_LIFE_MS: u64 = 16 * 60 * 1_000;

/// Longest description, in characters.
const DESCRIPTION: usize = 2_048;

/// Creates the link, or finds the one that an earlier call made.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let answer = api::post(account, LINKS, &body(account, attempt))?;
    if answer.is_success() {
        return opened(attempt, wire::link(&answer.body));
    }
    let problem = wire::problem(&answer);
    match problem.status {
        // Refused, maybe because the reference is taken: then its link is the one.
        400 => match query::find(account, &attempt.id) {
            Ok(Some(link)) => opened(attempt, Some(link)),
            Ok(None) => Err(refused(&problem)),
            Err(_) => Err(StartFailure::Uncertain(problem.to_string())),
        },
        401..=499 => Err(refused(&problem)),
        // Nothing is documented about what was done.
        _ => Err(StartFailure::Uncertain(problem.to_string())),
    }
}

fn body(account: &Account, attempt: &Attempt) -> Json {
    let expires = attempt
        .expires
        .max(account.now.saturating_add(LEAST_LIFE_MS));
    let mut fields = vec![
        ("amount", attempt.due.amount.into()),
        ("currency", attempt.due.currency.as_str().into()),
        ("accept_partial", false.into()),
        ("reference_id", attempt.id.as_str().into()),
        ("description", description(attempt).into()),
        ("expire_by", (expires / 1_000).into()),
        // The payer is at our page and needs no message.
        (
            "notify",
            object([("sms", false.into()), ("email", false.into())]),
        ),
        ("reminder_enable", false.into()),
        (
            "notes",
            object([(wire::ATTEMPT, attempt.id.as_str().into())]),
        ),
        ("callback_url", attempt.return_url.as_str().into()),
        ("callback_method", "get".into()),
    ];
    fields.push(match account.environment {
        Environment::Live => ("upi_link", true.into()),
        // Test mode has no UPI links: the same by a standard link that offers nothing else.
        Environment::Test => ("options", only_upi()),
    });
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(fields.into_iter().map(named).collect())
}

fn only_upi() -> Json {
    let method = object([
        ("upi", "1".into()),
        ("card", "0".into()),
        ("netbanking", "0".into()),
        ("wallet", "0".into()),
    ]);
    object([("checkout", object([("method", method)]))])
}

fn description(attempt: &Attempt) -> String {
    let text = format!("{}: {}", attempt.merchant, attempt.merchant_order);
    text.chars()
        .filter(|c| !c.is_control())
        .take(DESCRIPTION)
        .collect()
}

/// Goes on with a link, where it is ours and can still be paid or has been.
fn opened(attempt: &Attempt, link: Option<Link>) -> Result<Started, StartFailure> {
    let link = link.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    if link.attempt != attempt.id || link.due != attempt.due {
        let why = format!("{} is about something else", link.id);
        return Err(StartFailure::Uncertain(why));
    }
    let (action, until) = match link.stage {
        Stage::Created => (
            Action::Redirect(link.url),
            (link.expires_at > 0).then(|| link.expires_at.saturating_mul(1_000)),
        ),
        // Razorpay's page takes no second payment, and news is on its way.
        Stage::Paid | Stage::PartiallyPaid => {
            let instructions = Instructions::paid(attempt.payer.language.as_deref());
            (Action::Show(instructions), None)
        }
        // It was never opened, so that no payer can have tried to pay it.
        Stage::Cancelled | Stage::Expired if link.order.is_none() => {
            return Err(StartFailure::Declined(format!("{} is over", link.id)));
        }
        Stage::Cancelled | Stage::Expired => {
            let why = format!("{} is over, and was tried before", link.id);
            return Err(StartFailure::Uncertain(why));
        }
    };
    Ok(Started::Open(Open {
        reference: link.id,
        action,
        until,
    }))
}

/// What a refusal means for this payment. In either case nothing was created.
fn refused(problem: &Problem) -> StartFailure {
    if problem.status == 400 && problem.field == "amount" {
        StartFailure::Declined(problem.to_string())
    } else {
        StartFailure::Unavailable(problem.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{read, told};
    use kassette_plugin::provider::{Money, Payer};
    use serde_json::{Value, json};

    const NOW: u64 = 1_800_000_000_000;

    fn account(environment: Environment) -> Account {
        Account {
            id: "razorpay".into(),
            environment,
            now: NOW,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    fn attempt() -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: "upi_imps".into(),
            due: Money {
                amount: 4990,
                currency: "INR".into(),
            },
            merchant_order: "order 7".into(),
            merchant: "Shop\u{7}".into(),
            return_url: "https://x.example/r".into(),
            cancel_url: "https://x.example/c".into(),
            expires: NOW + 3_600_000,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: None,
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    fn sent(environment: Environment, attempt: &Attempt) -> Value {
        let body = body(&account(environment), attempt).to_string();
        serde_json::from_str(&body).unwrap()
    }

    #[test]
    fn the_attempt_is_the_reference_and_the_amount_is_in_paise() {
        let body = sent(Environment::Live, &attempt());
        assert_eq!(
            (&body["reference_id"], &body["amount"], &body["currency"]),
            (&json!("attempt-1"), &json!(4990), &json!("INR"))
        );
        assert_eq!(body["description"], "Shop: order 7");
        assert_eq!(body["expire_by"], 1_800_003_600);
        assert_eq!(body["upi_link"], true);
        assert_eq!(body["notify"], json!({ "sms": false, "email": false }));
        assert_eq!(body.get("customer"), None);
    }

    #[test]
    fn test_mode_has_no_upi_links_and_offers_upi_alone() {
        let body = sent(Environment::Test, &attempt());
        assert_eq!(body.get("upi_link"), None);
        let methods = &body["options"]["checkout"]["method"];
        assert_eq!(
            (&methods["upi"], &methods["card"]),
            (&json!("1"), &json!("0"))
        );
    }

    #[test]
    fn a_link_lives_a_quarter_of_an_hour_at_least() {
        let mut near = attempt();
        near.expires = NOW + 60_000;
        assert_eq!(sent(Environment::Live, &near)["expire_by"], 1_800_000_960);
    }

    #[test]
    fn a_refusal_is_about_the_payment_only_where_it_says_so() {
        let refused = |status, field: &str| {
            refused(&Problem {
                status,
                code: "BAD_REQUEST_ERROR".into(),
                field: field.into(),
                ..Problem::default()
            })
        };
        assert!(matches!(refused(400, "amount"), StartFailure::Declined(_)));
        for (status, field) in [(400, "callback_url"), (401, ""), (429, "")] {
            assert!(matches!(
                refused(status, field),
                StartFailure::Unavailable(_)
            ));
        }
    }

    #[test]
    fn a_link_that_is_over_or_of_something_else_cannot_be_started() {
        let opened = |status: &str, attempt: &Attempt| {
            let mut link = told(status);
            link["order_id"] = Value::Null;
            opened(attempt, read(&link))
        };
        assert!(matches!(
            opened("created", &attempt()),
            Ok(Started::Open(_))
        ));
        for over in ["cancelled", "expired"] {
            assert!(matches!(
                opened(over, &attempt()),
                Err(StartFailure::Declined(_))
            ));
            // A try to pay it may still come to something: the question says.
            let tried = super::opened(&attempt(), read(&told(over)));
            assert!(matches!(tried, Err(StartFailure::Uncertain(_))));
        }
        let mut other = attempt();
        other.due.amount += 1;
        assert!(matches!(
            opened("created", &other),
            Err(StartFailure::Uncertain(_))
        ));
    }
}
