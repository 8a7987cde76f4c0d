//! Requests to the provider: address, token, headers, and the meaning of a missing answer.
use kassette_plugin::json::Json;
use kassette_plugin::provider::http::{
    self, Basic, Credential, Keep, Request, Response, SendFailure, Verb,
};
use kassette_plugin::provider::{Account, secrets};
use kassette_plugin::settings;

/// Setting: base address of the API.
pub(crate) const BASE_URL: &str = "base-url";
/// Secrets: the API credentials.
pub(crate) const CLIENT_ID: &str = "client-id";
pub(crate) const CLIENT_SECRET: &str = "client-secret";
/// Name of the access token that the host stores for this module.
pub(crate) const TOKEN: &str = "token";

/// Reason for a missing answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The request about the payment was not sent, so it had no effect.
    NotSent(String),
    /// The request may have been processed.
    NoAnswer(String),
}

pub(crate) fn get(account: &Account, path: &str) -> Result<Response, Broken> {
    send(account, Verb::Get, path, None)
}

/// Sends a change. The provider executes it once per idempotency key.
pub(crate) fn post(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Response, Broken> {
    send(account, Verb::Post, path, Some((key, body)))
}

fn send(
    account: &Account,
    verb: Verb,
    path: &str,
    change: Option<(&str, &Json)>,
) -> Result<Response, Broken> {
    let base = settings::text(&account.settings, BASE_URL)
        .ok_or_else(|| Broken::NotSent(format!("setting {BASE_URL} is missing")))?
        .trim_end_matches('/');
    let mut headers = vec![("accept".to_owned(), "application/json".to_owned())];
    let mut body = Vec::new();
    if let Some((key, value)) = change {
        headers.push(("content-type".into(), "application/json".into()));
        headers.push(("idempotency-key".into(), key.into()));
        body = value.to_string().into_bytes();
    }
    let request = Request {
        verb,
        url: format!("{base}{path}"),
        headers,
        credentials: vec![Credential::Bearer(TOKEN.into())],
        body,
        keep: None,
    };
    if !secrets::ready(TOKEN) {
        fetch_token(base)?;
    }
    let answer = http::send(&request).map_err(broken)?;
    if answer.status != 401 {
        return Ok(answer);
    }
    // The provider rejected the token before its expiry and did nothing: fetch a new one and retry.
    fetch_token(base)?;
    http::send(&request).map_err(broken)
}

/// Makes the host fetch and store a token. Every failure is `NotSent`, because no request about the payment was
/// sent yet.
fn fetch_token(base: &str) -> Result<(), Broken> {
    let answer = http::send(&Request {
        verb: Verb::Post,
        url: format!("{base}/oauth/token"),
        headers: vec![(
            "content-type".into(),
            "application/x-www-form-urlencoded".into(),
        )],
        credentials: vec![Credential::Basic(Basic {
            user: CLIENT_ID.into(),
            password: Some(CLIENT_SECRET.into()),
        })],
        body: b"grant_type=client_credentials".to_vec(),
        keep: Some(Keep {
            token: TOKEN.into(),
            pointer: "/access_token".into(),
            expires_in: Some("/expires_in".into()),
        }),
    });
    match answer {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(Broken::NotSent(format!(
            "no token: status {}",
            answer.status
        ))),
        Err(SendFailure::NotSent(why) | SendFailure::NoAnswer(why)) => {
            Err(Broken::NotSent(format!("no token: {why}")))
        }
    }
}

fn broken(failure: SendFailure) -> Broken {
    match failure {
        SendFailure::NotSent(why) => Broken::NotSent(why),
        SendFailure::NoAnswer(why) => Broken::NoAnswer(why),
    }
}
