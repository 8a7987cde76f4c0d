//! Creating a session. The meaning of each refusal matters: the host tries another account only if this provider
//! certainly did nothing.
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::{
    Account, Attempt, Open, Question, QuestionKind, StartFailure, Started,
};

use crate::api::{self, Broken};
use crate::instructions;
use crate::query;
use crate::wire::{self, Phase, Problem, Session};

/// Maximum length of a merchant name, in characters.
const MERCHANT: usize = 200;

/// Details about the payer: the provider's field, and the name, label and kind of the question for it.
const DETAILS: [(&str, &str, &str, QuestionKind); 3] = [
    ("email", "email", "E-mail address", QuestionKind::Email),
    (
        "given_name",
        "given-name",
        "First name",
        QuestionKind::GivenName,
    ),
    (
        "family_name",
        "family-name",
        "Last name",
        QuestionKind::FamilyName,
    ),
];

/// Creates the session, or finds the session that an earlier call created.
pub(crate) fn start(account: &Account, attempt: &Attempt) -> Result<Started, StartFailure> {
    let answer = match api::post(account, "/v1/sessions", &attempt.id, &body(attempt)) {
        Ok(answer) => answer,
        Err(Broken::NotSent(why)) => return Err(StartFailure::Unavailable(why)),
        Err(Broken::NoAnswer(why)) => return Err(StartFailure::Uncertain(why)),
    };
    if matches!(answer.status, 200 | 201) {
        return opened(wire::session(&answer.body), attempt);
    }
    let problem = wire::problem(&answer);
    if problem.code == "idempotency_mismatch" {
        // An earlier call with other payer details created the session: use that session.
        let found = query::find(account, attempt);
        return opened(found.ok().flatten(), attempt);
    }
    refused(problem)
}

fn body(attempt: &Attempt) -> Json {
    let merchant: String = attempt
        .merchant
        .chars()
        .filter(|c| !c.is_control())
        .take(MERCHANT)
        .collect();
    object([
        ("merchant_reference", attempt.id.as_str().into()),
        ("amount", wire::money_json(&attempt.due)),
        ("method", attempt.method.as_str().into()),
        ("order", attempt.merchant_order.as_str().into()),
        ("merchant", merchant.into()),
        ("return_url", attempt.return_url.as_str().into()),
        ("cancel_url", attempt.cancel_url.as_str().into()),
        ("expires_at", attempt.expires.into()),
        ("payer", payer(attempt)),
    ])
}

/// Known details about the payer. Answers to questions take precedence over the attempt's own data.
fn payer(attempt: &Attempt) -> Json {
    let known = |field: &str, question: &str| {
        let answer = attempt.answers.iter().find(|(name, _)| name == question);
        let email = attempt.payer.email.as_ref().filter(|_| field == "email");
        answer.map(|(_, answer)| answer).or(email)
    };
    let fields = DETAILS.into_iter().filter_map(|(field, question, _, _)| {
        let value = known(field, question)?;
        Some((field.to_owned(), value.as_str().into()))
    });
    Json::Object(fields.collect())
}

/// Continues with a session if it belongs to this attempt and is paid or payable.
fn opened(session: Option<Session>, attempt: &Attempt) -> Result<Started, StartFailure> {
    let session =
        session.ok_or_else(|| StartFailure::Uncertain("the answer cannot be read".into()))?;
    if session.attempt != attempt.id || session.due != attempt.due {
        return Err(StartFailure::Uncertain(format!(
            "{} is about something else",
            session.id
        )));
    }
    let over = match session.phase {
        Phase::Closed | Phase::Cancelled | Phase::Failed | Phase::Expired => true,
        Phase::Declined => !session.payable,
        _ => false,
    };
    if over {
        return Err(StartFailure::Declined(format!("{} is over", session.id)));
    }
    let language = attempt.payer.language.as_deref();
    let action = session
        .action
        .ok_or_else(|| StartFailure::Uncertain(format!("{} leads nowhere", session.id)))?;
    Ok(Started::Open(Open {
        reference: session.id,
        action: instructions::told(action, &session.method, language),
        until: session.expires_at,
    }))
}

/// Maps a refusal to its meaning.
fn refused(problem: Problem) -> Result<Started, StartFailure> {
    match problem.status {
        422 if problem.code == "payer_details_required" => ask(&problem),
        // The amount is outside the provider's limits; another account may accept it.
        422 if problem.code == "amount_not_accepted" => {
            Err(StartFailure::Unavailable(problem.to_string()))
        }
        422 => Err(StartFailure::Declined(problem.to_string())),
        // The documentation guarantees that these are sent before any processing. The other 4xx codes mean that
        // this provider refused the request itself; another account may accept it.
        400..=499 | 503 => Err(StartFailure::Unavailable(problem.to_string())),
        // 500 and undocumented statuses: the session may exist.
        _ => Err(StartFailure::Uncertain(problem.to_string())),
    }
}

fn ask(problem: &Problem) -> Result<Started, StartFailure> {
    let question = |field: &String| {
        let (_, name, label, kind) = DETAILS.into_iter().find(|(known, ..)| known == field)?;
        Some(Question {
            name: name.into(),
            label: label.into(),
            kind,
            required: true,
            choices: Vec::new(),
        })
    };
    let questions: Option<Vec<Question>> = problem.fields.iter().map(question).collect();
    match questions {
        Some(questions) if !questions.is_empty() => Ok(Started::Ask(questions)),
        _ => Err(StartFailure::Unavailable(
            "the vendor asks for something unknown".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{ATTEMPT, told};
    use kassette_plugin::provider::{Money, Payer};
    use serde_json::json;

    fn attempt() -> Attempt {
        Attempt {
            id: ATTEMPT.into(),
            method: "ideal".into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            merchant_order: "order".into(),
            merchant: "Shop\u{7}".into(),
            return_url: "https://x.example/r".into(),
            cancel_url: "https://x.example/c".into(),
            expires: 3,
            payer: Payer {
                email: Some("a@shop.example".into()),
                ip: None,
                language: None,
                country: None,
            },
            answers: vec![
                ("given-name".into(), "Ada".into()),
                ("email".into(), "b@shop.example".into()),
            ],
        }
    }

    fn problem(status: u16, code: &str, fields: &[&str]) -> Problem {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        Problem {
            status,
            code: code.into(),
            fields,
        }
    }

    #[test]
    fn the_attempt_is_the_vendors_reference_and_answers_count_before_what_was_known() {
        let body = body(&attempt()).to_string();
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["merchant_reference"], ATTEMPT);
        assert_eq!(
            body["amount"],
            json!({ "value": "49.90", "currency": "EUR" })
        );
        assert_eq!(
            body["payer"],
            json!({ "email": "b@shop.example", "given_name": "Ada" })
        );
        assert_eq!(body["merchant"], "Shop");
    }

    #[test]
    fn a_refusal_means_what_it_proves() {
        for status in [400, 401, 403, 404, 405, 413, 429, 503] {
            assert!(
                matches!(
                    refused(problem(status, "x", &[])),
                    Err(StartFailure::Unavailable(_))
                ),
                "{status}"
            );
        }
        for status in [301, 500, 502, 504] {
            assert!(
                matches!(
                    refused(problem(status, "x", &[])),
                    Err(StartFailure::Uncertain(_))
                ),
                "{status}"
            );
        }
        assert!(matches!(
            refused(problem(422, "payment_refused", &[])),
            Err(StartFailure::Declined(_))
        ));
    }

    #[test]
    fn the_vendors_questions_become_ours() {
        let Ok(Started::Ask(questions)) = refused(problem(
            422,
            "payer_details_required",
            &["email", "family_name"],
        )) else {
            panic!("no questions");
        };
        let names: Vec<&str> = questions
            .iter()
            .map(|question| question.name.as_str())
            .collect();
        assert_eq!(names, ["email", "family-name"]);
        for fields in [&["card_number"][..], &[]] {
            let refused = refused(problem(422, "payer_details_required", fields));
            assert!(matches!(refused, Err(StartFailure::Unavailable(_))));
        }
    }

    fn opened_as(status: &str, payable: bool) -> Result<Started, StartFailure> {
        opened(
            wire::session(told(status, payable, "0.00").to_string().as_bytes()),
            &attempt(),
        )
    }

    #[test]
    fn a_session_that_is_over_cannot_be_started() {
        for (status, payable) in [("closed", false), ("expired", false), ("declined", false)] {
            assert!(
                matches!(opened_as(status, payable), Err(StartFailure::Declined(_))),
                "{status}"
            );
        }
        for (status, payable) in [
            ("open", true),
            ("declined", true),
            ("authorised", false),
            ("captured", false),
        ] {
            assert!(
                matches!(opened_as(status, payable), Ok(Started::Open(_))),
                "{status}"
            );
        }
    }

    #[test]
    fn a_session_about_something_else_is_not_ours() {
        let mut other = attempt();
        other.due.amount = 4991;
        let session = wire::session(told("open", true, "0.00").to_string().as_bytes());
        assert!(matches!(
            opened(session, &other),
            Err(StartFailure::Uncertain(_))
        ));
        assert!(matches!(
            opened(None, &attempt()),
            Err(StartFailure::Uncertain(_))
        ));
    }
}
