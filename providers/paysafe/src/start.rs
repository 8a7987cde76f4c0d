//! Creating a payment handle. The meaning of each refusal matters: the host tries another account only if Paysafe
//! certainly did nothing.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{
    Account, Action, Attempt, Open, Question, QuestionKind, StartFailure, Started,
};
use kassette_plugin::settings;

use crate::api::{self, Problem};
use crate::query;
use crate::wire::{self, Handle, Handled};

/// Setting: number of the merchant account, if there are several.
pub(crate) const ACCOUNT_ID: &str = "account-id";

/// Name of the question for the payer's e-mail address.
const EMAIL: &str = "email";

/// Creates the handle, or finds the handle that an earlier call created: Paysafe refuses a second one with the
/// same `merchantRefNum`.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let Some(email) = email(attempt) else {
        return Ok(ask());
    };
    let account_id = settings::text(&account.settings, ACCOUNT_ID);
    let post = |ip| {
        let body = body(attempt, email, account_id, ip);
        api::post(account, "/paymenthandles", &body)
    };
    let ip = attempt.payer.ip.as_deref();
    let mut answer = post(ip)?;
    // The payer's IP address is only used in Paysafe's statistics.
    if ip.is_some() && refuses(&answer, &["customerIp"]) {
        answer = post(None)?;
    }
    if matches!(answer.status, 200 | 201) {
        // The answer is about this handle, even if it omits its data.
        let told = answer.json();
        let handle = told.as_ref().and_then(wire::handle);
        let handle = handle.ok_or_else(|| unclear("the answer cannot be read"))?;
        return opened(handle, account, attempt);
    }
    if refuses(&answer, &["consumerId", "email"]) {
        return Ok(ask());
    }
    let problem = api::problem(&answer);
    if problem.is_repeat() {
        let found = query::handle(account, attempt);
        let handle = found.ok().flatten();
        let handle = handle.ok_or_else(|| unclear("an earlier handle cannot be found"))?;
        return opened(handle, account, attempt);
    }
    Err(refused(&problem))
}

fn ask() -> Started {
    Started::Ask(vec![Question {
        name: EMAIL.into(),
        label: "E-mail address".into(),
        kind: QuestionKind::Email,
        required: true,
        choices: Vec::new(),
    }])
}

/// Whether Paysafe refuses one of these fields.
fn refuses(answer: &Answer, fields: &[&str]) -> bool {
    answer.status == 400 && api::problem(answer).names(fields)
}

/// The payer's address, to which Interac sends its request. The payer's answer takes precedence.
fn email(attempt: &Attempt) -> Option<&str> {
    let answer = attempt.answers.iter().find(|(name, _)| name == EMAIL);
    let known = answer
        .map(|(_, email)| email)
        .or(attempt.payer.email.as_ref());
    known
        .map(|email| email.trim())
        .filter(|email| !email.is_empty())
}

fn body(attempt: &Attempt, email: &str, account_id: Option<&str>, ip: Option<&str>) -> Json {
    let link = |rel: &str, href: &str| {
        object([
            ("rel", rel.into()),
            ("href", href.into()),
            ("method", "GET".into()),
        ])
    };
    let mut fields = vec![
        ("merchantRefNum", Json::from(attempt.id.as_str())),
        ("transactionType", "PAYMENT".into()),
        ("paymentType", wire::PAYMENT_TYPE.into()),
        ("amount", attempt.due.amount.into()),
        ("currencyCode", attempt.due.currency.as_str().into()),
        ("dupCheck", true.into()),
        (
            "interacEtransfer",
            object([("consumerId", email.into()), ("type", "EMAIL".into())]),
        ),
        ("profile", object([("email", email.into())])),
        (
            "returnLinks",
            vec![
                link("default", &attempt.return_url),
                link("on_completed", &attempt.return_url),
                link("on_failed", &attempt.cancel_url),
                link("on_cancelled", &attempt.cancel_url),
            ]
            .into(),
        ),
    ];
    if let Some(id) = account_id {
        fields.push(("accountId", id.into()));
    }
    if let Some(ip) = ip {
        fields.push(("customerIp", ip.into()));
    }
    let named = |(name, value): (&str, Json)| (name.to_owned(), value);
    Json::Object(fields.into_iter().map(named).collect())
}

/// Continues with a handle if its amount equals the amount due and it can still be used.
fn opened(handle: Handle, account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    if handle.due.as_ref().is_some_and(|due| *due != attempt.due) {
        return Err(unclear("the handle is over something else"));
    }
    match handle.stands {
        Handled::Waiting | Handled::Payable | Handled::Unknown => {}
        Handled::Failed | Handled::Cancelled | Handled::Expired => {
            return Err(StartFailure::Declined(format!(
                "handle {} is over",
                handle.id
            )));
        }
        // The host queries the payment's outcome.
        Handled::Used => return Err(unclear("a payment was made with the handle")),
    }
    let redirect = handle.redirect;
    let redirect = redirect.ok_or_else(|| unclear("the handle leads nowhere"))?;
    let lives = handle.lives.map(|seconds| seconds.saturating_mul(1_000));
    Ok(Started::Open(Open {
        reference: handle.id,
        action: Action::Redirect(redirect),
        until: lives.map(|ms| account.now.saturating_add(ms)),
    }))
}

/// Error codes: invalid currency for the account, unknown account, account disabled, account not configured.
const NOT_SET_UP: [&str; 4] = ["5001", "5016", "5017", "5050"];

/// Maps a refusal to its meaning. A handle moves no money, so Paysafe's statement is trusted, and only an answer
/// without one is uncertain.
fn refused(problem: &Problem) -> StartFailure {
    let why = problem.to_string();
    match problem.status {
        // The account is not configured for the currency or the method, or does not exist.
        400..=499 if NOT_SET_UP.contains(&problem.code.as_str()) => StartFailure::NotActivated(why),
        402 => StartFailure::Declined(why),
        400..=499 | 503 => StartFailure::Unavailable(why),
        _ => StartFailure::Uncertain(why),
    }
}

fn unclear(why: &str) -> StartFailure {
    StartFailure::Uncertain(why.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::tests::refusal;
    use crate::wire::tests::{handle_told, read};
    use kassette_plugin::provider::{Environment, Money, Payer};
    use serde_json::{Value, json};

    fn attempt() -> Attempt {
        Attempt {
            id: "attempt-1".into(),
            method: "interac".into(),
            due: Money {
                amount: 4990,
                currency: "CAD".into(),
            },
            merchant_order: "order".into(),
            merchant: "Shop".into(),
            return_url: "https://pay.example/return/t".into(),
            cancel_url: "https://pay.example/return/t?cancelled=1".into(),
            expires: 3,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: Some("192.0.2.1".into()),
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    fn account() -> Account {
        Account {
            id: "paysafe-test".into(),
            environment: Environment::Test,
            now: 1_000,
            callback_url: String::new(),
            settings: Vec::new(),
        }
    }

    #[test]
    fn the_attempt_is_paysafes_reference_and_a_second_handle_is_forbidden() {
        let body = body(
            &attempt(),
            "a@shop.example",
            Some("1002786770"),
            Some("192.0.2.1"),
        );
        let body = body.to_string();
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["merchantRefNum"], "attempt-1");
        assert_eq!(body["dupCheck"], true);
        assert_eq!(
            (&body["amount"], &body["currencyCode"]),
            (&json!(4990), &json!("CAD"))
        );
        assert_eq!(
            body["interacEtransfer"],
            json!({ "consumerId": "a@shop.example", "type": "EMAIL" })
        );
        assert_eq!(
            body["returnLinks"][3]["href"],
            "https://pay.example/return/t?cancelled=1"
        );
        assert_eq!(
            (&body["accountId"], &body["customerIp"]),
            (&json!("1002786770"), &json!("192.0.2.1"))
        );
    }

    #[test]
    fn the_payers_answer_counts_before_what_was_known() {
        let mut asked = attempt();
        assert_eq!(email(&asked), Some("a@shop.example"));
        asked.answers = vec![("email".into(), " b@shop.example ".into())];
        assert_eq!(email(&asked), Some("b@shop.example"));
        asked.answers.clear();
        asked.payer.email = Some("  ".into());
        assert_eq!(email(&asked), None);
    }

    #[test]
    fn without_an_address_the_payer_is_asked_and_nothing_is_sent() {
        let mut unknown = attempt();
        unknown.payer.email = None;
        let Ok(Started::Ask(questions)) = start(&account(), &unknown) else {
            panic!("asks");
        };
        assert_eq!(
            questions.first().map(|question| question.kind),
            Some(QuestionKind::Email)
        );
    }

    fn open(told: &Value) -> Result<Started, StartFailure> {
        let handle = wire::handle(&read(told)).unwrap();
        opened(handle, &account(), &attempt())
    }

    #[test]
    fn a_handle_leads_to_interac_for_as_long_as_it_lives() {
        for status in ["INITIATED", "PAYABLE"] {
            let Ok(Started::Open(open)) = open(&handle_told(status)) else {
                panic!("{status} is open");
            };
            assert!(
                matches!(&open.action, Action::Redirect(url) if url.ends_with("/redirect?x=1"))
            );
            assert_eq!(open.until, Some(900_000));
        }
    }

    #[test]
    fn a_handle_that_is_over_or_another_one_is_not_gone_on_with() {
        for status in ["FAILED", "EXPIRED"] {
            let over = open(&handle_told(status));
            assert!(matches!(over, Err(StartFailure::Declined(_))), "{status}");
        }
        assert!(matches!(
            open(&handle_told("COMPLETED")),
            Err(StartFailure::Uncertain(_))
        ));
        let mut dearer = handle_told("INITIATED");
        dearer["amount"] = 4991.into();
        assert!(matches!(open(&dearer), Err(StartFailure::Uncertain(_))));
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        for status in [400, 401, 403, 404, 429, 503] {
            let failure = refused(&api::problem(&refusal(status, "5068")));
            assert!(matches!(failure, StartFailure::Unavailable(_)), "{status}");
        }
        for status in [302, 500, 502, 504] {
            let failure = refused(&api::problem(&refusal(status, "1000")));
            assert!(matches!(failure, StartFailure::Uncertain(_)), "{status}");
        }
        let declined = refused(&api::problem(&refusal(402, "3022")));
        assert!(matches!(declined, StartFailure::Declined(_)));
    }

    #[test]
    fn a_refused_address_is_asked_for_again_and_an_account_that_is_not_set_up_is_named() {
        let named = r#"{"error":{"code":"5068","fieldErrors":[{"field":"interacEtransfer.consumerId","error":"invalid"}]}}"#;
        let answer = api::tests::answer(400, named);
        assert!(refuses(&answer, &["consumerId", "email"]));
        assert!(!refuses(&answer, &["customerIp"]));
        let failure = refused(&api::problem(&refusal(400, "5001")));
        assert!(matches!(failure, StartFailure::NotActivated(_)));
    }
}
