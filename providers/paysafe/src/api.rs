//! Requests to Paysafe: address, credentials, and parsing of refusals.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::read;
use kassette_plugin::provider::{Account, Verb};

/// Secrets: the two parts of the private API key.
pub(crate) const USER: &str = "api-user";
pub(crate) const PASSWORD: &str = "api-password";

/// Error code for an object that does not exist.
pub(crate) const NOT_FOUND: &str = "5269";

const LIVE: &str = "https://api.paysafe.com";
const TEST: &str = "https://api.test.paysafe.com";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path).send()
}

/// Sends a change. Instead of an idempotency header, Paysafe uses the body's `merchantRefNum` and `dupCheck`.
pub(crate) fn post(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path).json(body).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Call {
    let base = base_url(account, LIVE, TEST);
    Call::new(verb, format!("{base}/paymenthub/v1{path}"))
        .header("accept", "application/json")
        .basic(USER, Some(PASSWORD))
}

/// A refusal: `{"error":{"code","message"}}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// Paysafe's error code; empty if missing.
    pub(crate) code: String,
    /// Names of the fields that it is about.
    pub(crate) fields: Vec<String>,
}

impl Problem {
    /// Whether it is about one of these fields of the request.
    pub(crate) fn names(&self, fields: &[&str]) -> bool {
        let about = |named: &String| fields.iter().any(|field| named.contains(field));
        self.fields.iter().any(about)
    }

    /// Whether Paysafe has already accepted a request with this `merchantRefNum`.
    pub(crate) fn is_repeat(&self) -> bool {
        self.status == 409 || matches!(self.code.as_str(), "5031" | "3044")
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} error {}", self.status, self.code)
    }
}

pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let error = body.get("error").unwrap_or(&Json::Null);
    let code = read::field(error, "code").unwrap_or_default();
    // It is logged, so only a code is kept, no sentence.
    let plain = code.len() <= 40 && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let named = read::items(error, &["fieldErrors"]).iter();
    let named = named.filter_map(|each| read::field(each, "field"));
    let details = read::items(error, &["details"])
        .iter()
        .filter_map(Json::text);
    Problem {
        status: answer.status,
        code: if plain {
            code.to_owned()
        } else {
            String::new()
        },
        fields: named.chain(details).map(str::to_owned).collect(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn answer(status: u16, body: &str) -> Answer {
        Answer {
            status,
            headers: Vec::new(),
            body: body.as_bytes().to_vec(),
        }
    }

    /// A refusal in Paysafe's format.
    pub(crate) fn refusal(status: u16, code: &str) -> Answer {
        answer(
            status,
            &format!(r#"{{"error":{{"code":"{code}","message":"m"}}}}"#),
        )
    }

    #[test]
    fn a_refusal_is_told_by_its_code_alone() {
        let said = problem(&refusal(402, "3022"));
        assert_eq!(said.to_string(), "status 402 error 3022");
        assert_eq!(problem(&refusal(400, "<b>")).code, "");
        assert_eq!(
            problem(&answer(502, "<html>")).to_string(),
            "status 502 error "
        );
    }

    #[test]
    fn a_repeat_is_known_by_status_or_code() {
        for (status, code, repeat) in [
            (409, "5031", true),
            (409, "", true),
            (402, "3044", true),
            (402, "3022", false),
            (400, "5068", false),
        ] {
            assert_eq!(
                problem(&refusal(status, code)).is_repeat(),
                repeat,
                "{code}"
            );
        }
    }
}
