//! Creating a link. Razorpay has no idempotency key for links, but accepts each reference only one time: a
//! repetition is refused, and the first link is found by its reference.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Action, Attempt, Environment, Instructions, Open, StartFailure, Started,
};

use crate::api;
use crate::query;
use crate::wire::{self, Link, Problem, Stage};

pub(crate) const LINKS: &str = "/v1/payment_links";

/// Minimum lifetime of a link, in milliseconds: 15 minutes, plus one for clock differences.
const LEAST_LIFE_MS: u64 = 16 * 60 * 1_000;

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 2_048;

/// Creates the link, or finds the link that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let mut answer = api::post(account, LINKS, &body(account, attempt, true))?;
    let mut problem = wire::problem(&answer);
    // Repeat without the description if Razorpay refuses it.
    if problem.status == 400 && problem.is_about_description() {
        answer = api::post(account, LINKS, &body(account, attempt, false))?;
        problem = wire::problem(&answer);
    }
    if answer.is_success() {
        return opened(attempt, wire::link(&answer.body));
    }
    match problem.status {
        // Refused, maybe because the reference exists already: then use its link.
        400 => match query::find(account, &attempt.id) {
            Ok(Some(link)) => opened(attempt, Some(link)),
            Ok(None) => Err(refused(&problem)),
            Err(_) => Err(StartFailure::Uncertain(problem.to_string())),
        },
        401..=499 => Err(refused(&problem)),
        // The effect of the request is undocumented.
        _ => Err(StartFailure::Uncertain(problem.to_string())),
    }
}

fn body(account: &Account, attempt: &Attempt, described: bool) -> Json {
    let expires = attempt
        .expires
        .max(account.now.saturating_add(LEAST_LIFE_MS));
    let mut fields = vec![
        ("amount", attempt.due.amount.into()),
        ("currency", attempt.due.currency.as_str().into()),
        ("accept_partial", false.into()),
        ("reference_id", attempt.id.as_str().into()),
        ("expire_by", (expires / 1_000).into()),
        // The payer is on the payment page and needs no message.
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
        // Test mode does not support UPI links. A standard link that only offers UPI is equivalent.
        Environment::Test => ("options", only_upi()),
    });
    if described {
        fields.push(("description", description(attempt).into()));
    }
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

/// Continues with a link if it belongs to this attempt and is paid or payable.
fn opened(attempt: &Attempt, link: Option<Link>) -> Result<Started, StartFailure> {
    let link = link.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    let named_other = !link.attempt.is_empty() && link.attempt != attempt.id;
    if named_other || link.due != attempt.due {
        let why = format!("{} is about something else", link.id);
        return Err(StartFailure::Uncertain(why));
    }
    let (action, until) = match link.stage {
        Stage::Created if link.url.is_empty() => {
            let why = format!("{} has no page", link.id);
            return Err(StartFailure::Uncertain(why));
        }
        Stage::Created => (
            Action::Redirect(link.url),
            (link.expires_at > 0).then(|| link.expires_at.saturating_mul(1_000)),
        ),
        // Razorpay's page accepts no second payment. An event will follow.
        Stage::Paid | Stage::PartiallyPaid => {
            let instructions = Instructions::paid(attempt.payer.language.as_deref());
            (Action::Show(instructions), None)
        }
        Stage::Unknown => {
            let why = format!("{} has an unknown status", link.id);
            return Err(StartFailure::Uncertain(why));
        }
        // It was never opened, so no payer can have tried to pay it.
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

/// Maps a refusal, after which nothing was created. A limit of the account or a refused field does not concern the
/// payer, so another account may accept the payment.
fn refused(problem: &Problem) -> StartFailure {
    StartFailure::Unavailable(problem.to_string())
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
        let body = body(&account(environment), attempt, true).to_string();
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
    fn a_limit_or_a_field_that_is_refused_is_no_decline() {
        for (status, field) in [(400, "amount"), (400, "callback_url"), (401, ""), (429, "")] {
            let refused = refused(&Problem {
                status,
                code: "BAD_REQUEST_ERROR".into(),
                field: field.into(),
                ..Problem::default()
            });
            assert!(matches!(refused, StartFailure::Unavailable(_)));
        }
    }

    #[test]
    fn an_answer_that_does_not_repeat_the_reference_is_about_the_attempt() {
        let mut link = told("created");
        link["reference_id"] = json!("");
        let opened = opened(&attempt(), read(&link));
        assert!(matches!(opened, Ok(Started::Open(_))));
    }

    /// Refuses every description, and records the requests.
    struct NoWords(std::rc::Rc<std::cell::RefCell<Vec<Value>>>);
    impl kassette_plugin::testing::Host for NoWords {
        fn send(
            &mut self,
            request: &kassette_plugin::provider::http::Request,
        ) -> Result<
            kassette_plugin::provider::http::Response,
            kassette_plugin::provider::http::SendFailure,
        > {
            let sent: Value = serde_json::from_slice(&request.body).unwrap();
            let refused = sent.get("description").is_some();
            self.0.borrow_mut().push(sent);
            let error = json!({ "error": {
                "code": "BAD_REQUEST_ERROR", "field": "description",
                "description": "The description contains invalid characters.",
            } });
            Ok(kassette_plugin::provider::http::Response {
                status: if refused { 400 } else { 200 },
                headers: Vec::new(),
                body: if refused { error } else { told("created") }
                    .to_string()
                    .into_bytes(),
            })
        }
    }

    #[test]
    fn a_description_that_is_refused_is_left_out() {
        let sent = std::rc::Rc::default();
        let started =
            kassette_plugin::testing::with_host(NoWords(std::rc::Rc::clone(&sent)), || {
                start(&account(Environment::Live), &attempt())
            });
        assert!(matches!(started, Ok(Started::Open(_))), "{started:?}");
        assert_eq!(sent.borrow().len(), 2);
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
            // A try to pay it may still succeed; a query will show it.
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
