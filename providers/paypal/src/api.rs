//! Requests to PayPal: token, headers, and parsing of refusals.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Verb, secrets};

/// Secrets: the credentials of the REST app.
pub(crate) const CLIENT_ID: &str = "client-id";
pub(crate) const CLIENT_SECRET: &str = "client-secret";
/// Name of the access token that the host stores for this module.
pub(crate) const TOKEN: &str = "token";

const LIVE: &str = "https://api-m.paypal.com";
const TEST: &str = "https://api-m.sandbox.paypal.com";

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    send(account, &Call::new(Verb::Get, url(account, path)))
}

/// Sends a change. PayPal executes it once per key and returns the complete object.
pub(crate) fn post(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Answer, Broken> {
    let call = Call::new(Verb::Post, url(account, path))
        .header("paypal-request-id", key)
        .header("prefer", "return=representation")
        .json(body);
    send(account, &call)
}

/// Sends a POST that changes nothing, with an unmodified JSON body.
pub(crate) fn ask(account: &Account, path: &str, body: Vec<u8>) -> Result<Answer, Broken> {
    let call = Call::new(Verb::Post, url(account, path)).body("application/json", body);
    send(account, &call)
}

/// Sends a change that is idempotent without a key.
pub(crate) fn patch(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    send(
        account,
        &Call::new(Verb::Patch, url(account, path)).json(body),
    )
}

fn url(account: &Account, path: &str) -> String {
    format!("{}{path}", base_url(account, LIVE, TEST))
}

fn send(account: &Account, call: &Call) -> Result<Answer, Broken> {
    let call = call
        .clone()
        .header("accept", "application/json")
        .bearer(TOKEN);
    if !secrets::ready(TOKEN) {
        fetch_token(account)?;
    }
    let answer = call.send()?;
    if answer.status != 401 {
        return Ok(answer);
    }
    // PayPal can revoke a token before its expiry, for example when the secret changes. It did nothing, so retry.
    fetch_token(account)?;
    call.send()
}

/// Makes the host fetch and store a token. Every failure is `NotSent`, because no request about the payment was
/// sent yet.
fn fetch_token(account: &Account) -> Result<(), Broken> {
    let answer = Call::new(Verb::Post, url(account, "/v1/oauth2/token"))
        .header("accept", "application/json")
        .basic(CLIENT_ID, Some(CLIENT_SECRET))
        .form(&[("grant_type", "client_credentials")])
        .keep(TOKEN, "/access_token", Some("/expires_in"))
        .send();
    match answer {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => {
            let why = format!("no access token: status {}", answer.status);
            Err(Broken::NotSent(why))
        }
        Err(Broken::NotSent(why) | Broken::NoAnswer(why)) => {
            Err(Broken::NotSent(format!("no access token: {why}")))
        }
    }
}

/// A refusal: `{"name","details":[{"issue"}],"debug_id"}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    /// The first issue, or the error's name if issues are missing; empty if both are missing.
    pub(crate) issue: String,
    /// The fields that the error is about, in PayPal's notation, concatenated.
    fields: String,
    /// Id that PayPal's support asks for.
    debug_id: String,
}

impl Problem {
    /// Whether PayPal refuses a text that only describes the payment or the refund.
    pub(crate) fn is_about_words(&self) -> bool {
        ["description", "brand_name", "note_to_payer"]
            .iter()
            .any(|field| self.fields.contains(field))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {}", self.status, self.issue)?;
        if !self.debug_id.is_empty() {
            write!(f, " (debug id {})", self.debug_id)?;
        }
        Ok(())
    }
}

pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let word = |value: Option<&Json>| {
        let text = value.and_then(Json::text).unwrap_or_default();
        // It is logged, so only codes and ids are kept, no sentences.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        let fit = !text.is_empty() && text.len() <= 64 && text.bytes().all(plain);
        if fit { text.to_owned() } else { String::new() }
    };
    let details = body.get("details").map_or(&[][..], Json::items);
    let issue = word(details.first().and_then(|detail| detail.get("issue")));
    Problem {
        status: answer.status,
        issue: if issue.is_empty() {
            word(body.get("name"))
        } else {
            issue
        },
        fields: details
            .iter()
            .filter_map(|detail| detail.get("field")?.text())
            .collect(),
        debug_id: word(body.get("debug_id")),
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

    /// A refusal in PayPal's format.
    pub(crate) fn refusal(status: u16, issue: &str) -> Answer {
        let body = format!(
            r#"{{"name":"UNPROCESSABLE_ENTITY","details":[{{"issue":"{issue}","description":"d"}}],"debug_id":"90957fca61718"}}"#
        );
        answer(status, &body)
    }

    #[test]
    fn a_refusal_is_told_by_its_issue_and_debug_id() {
        let said = problem(&refusal(422, "ORDER_NOT_APPROVED"));
        assert_eq!(
            said.to_string(),
            "status 422 ORDER_NOT_APPROVED (debug id 90957fca61718)"
        );
        let bare = problem(&answer(404, r#"{"name":"RESOURCE_NOT_FOUND"}"#));
        assert_eq!(bare.to_string(), "status 404 RESOURCE_NOT_FOUND");
    }

    #[test]
    fn prose_of_a_stranger_is_not_told() {
        let said = problem(&refusal(502, "<html> and more"));
        assert_eq!(said.issue, "UNPROCESSABLE_ENTITY");
        assert_eq!(problem(&answer(502, "<html>")).to_string(), "status 502 ");
    }
}
