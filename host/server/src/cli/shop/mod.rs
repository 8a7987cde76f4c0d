//! Commands for developers of shops. They use only the public API, with a merchant's test key.

mod listen;
mod sandbox;
mod trigger;

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use kassette_domain::secret::Secret;
use kassette_http::{
    CertificateDer, Client, Guard, HeaderMap, HeaderValue, HostPattern, Method, Request, Response,
    StatusCode,
};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use url::Url;

pub(super) use listen::{ListenArgs, listen};
pub(super) use trigger::{TriggerArgs, trigger};

use super::credential::credential;
use super::output::plain;

/// Environment variable with the merchant's key.
const KEY: &str = "KASSETTE_API_KEY";
/// Beginning of a merchant's test key.
const TEST_KEY: &str = "kp_test_";
/// Maximum duration of a call: a start waits for a provider.
const DEADLINE: Duration = Duration::from_secs(30);
/// Maximum size of a response in bytes; a page of a hundred events is smaller.
const MAX_RESPONSE: usize = 4 << 20;
/// Pause after a response that asks for one without saying how long.
const PAUSE: Duration = Duration::from_secs(5);
/// Maximum pause that a response can ask for.
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The gateway, and the key.
#[derive(Args, Debug)]
pub(super) struct ShopArgs {
    /// Address of the gateway.
    #[arg(long, env = "KASSETTE_URL", default_value = "http://127.0.0.1:8080")]
    url: Url,
    /// File with a merchant's test key; otherwise it is read from KASSETTE_API_KEY.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Certificate authority (PEM) to trust in addition to the public ones.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// The API of a gateway for one merchant's test payments.
struct Shop {
    base: Url,
    key: HeaderValue,
    client: Client,
}

/// Error of a call.
#[derive(Debug)]
enum CallError {
    /// The call can be repeated after this time.
    Later(Duration, String),
    /// The gateway refused it.
    Refused(String),
}

impl CallError {
    fn text(self) -> String {
        match self {
            Self::Later(_, why) | Self::Refused(why) => why,
        }
    }
}

impl Shop {
    /// Reads the key. `others` are further hosts that the client may reach, even on private networks.
    ///
    /// # Errors
    /// The key is missing or is not a merchant's test key, or a file cannot be read.
    fn new(args: &ShopArgs, others: &[&Url]) -> Result<Self, String> {
        let key = credential(KEY, args.key_file.as_deref())?.ok_or_else(|| {
            format!("a merchant's test key is needed: set {KEY}, or name a file with --key-file")
        })?;
        let key = bearer(&key)?;
        let hosts = others.iter().copied().chain([&args.url]);
        let hosts = hosts.filter_map(HostPattern::from_url);
        let authorities = match &args.ca_file {
            None => Vec::new(),
            Some(path) => {
                let failed = |error| format!("{}: {error}", path.display());
                let found = CertificateDer::pem_file_iter(path).map_err(failed)?;
                found.collect::<Result<_, _>>().map_err(failed)?
            }
        };
        let client = Client::new(Guard {
            allow_loopback: true,
        });
        Ok(Self {
            base: args.url.clone(),
            key,
            client: client.reaching(hosts.collect(), &authorities),
        })
    }

    /// `GET` below `/api/v1`.
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, CallError> {
        self.call(Method::GET, path, query, None).await
    }

    /// `POST` below `/api/v1`.
    async fn post(&self, path: &str, body: &Value) -> Result<Value, CallError> {
        self.call(Method::POST, path, &[], Some(body)).await
    }

    /// `POST` below `/api/v1` without a body.
    async fn post_empty(&self, path: &str) -> Result<Value, CallError> {
        self.call(Method::POST, path, &[], None).await
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
        body: Option<&Value>,
    ) -> Result<Value, CallError> {
        let refused = |why: &dyn std::fmt::Display| CallError::Refused(format!("{path}: {why}"));
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut headers = HeaderMap::from_iter([(AUTHORIZATION, self.key.clone())]);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let sent = self.send(method, url, headers, body).await;
        let response = sent.map_err(|why| CallError::Later(PAUSE, why))?;
        let answer = serde_json::from_slice::<Value>(&response.body).ok();
        if response.status.is_success() {
            return answer.ok_or_else(|| refused(&"the answer is not JSON"));
        }
        let why = answer.as_ref().and_then(|answer| answer["error"].as_str());
        let why = plain(why.unwrap_or("the answer says no more"));
        let why = format!("{path}: {why} ({})", response.status.as_u16());
        let is_for_now = response.status == StatusCode::TOO_MANY_REQUESTS
            || response.status.is_server_error()
            || response.headers.contains_key(RETRY_AFTER);
        Err(match is_for_now {
            true => CallError::Later(retry_after(&response.headers), why),
            false => CallError::Refused(why),
        })
    }

    /// Sends a request to any of the allowed hosts.
    async fn send(
        &self,
        method: Method,
        url: Url,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response, String> {
        let address = url.clone();
        let request = Request {
            method,
            url,
            headers,
            body,
            deadline: DEADLINE,
            max_response: MAX_RESPONSE,
            hosts: None,
        };
        let sent = self.client.send(request).await;
        sent.map_err(|error| format!("{}: {error}", address.origin().ascii_serialization()))
    }
}

/// Header value of a merchant's test key.
///
/// # Errors
/// It is another key. A live key is never sent anywhere.
fn bearer(key: &Secret) -> Result<HeaderValue, String> {
    if !key.expose().starts_with(TEST_KEY) {
        return Err(format!(
            "only a merchant's test key is accepted, which begins with {TEST_KEY}: this one does not"
        ));
    }
    let value = HeaderValue::from_str(&format!("Bearer {}", key.expose()));
    let mut value = value.map_err(|_| "the key has characters that no key has".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Pause that a response asks for.
fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER);
    let seconds = seconds.and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(PAUSE, Duration::from_secs).min(MAX_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_test_key_of_a_merchant_is_accepted() {
        assert!(bearer(&Secret::new("kp_test_a")).is_ok());
        for key in ["kp_live_a", "kr_test_a", "ko_a", ""] {
            let why = bearer(&Secret::new(key)).unwrap_err();
            assert!(!why.contains("kp_live_a"), "{why}");
        }
    }
}
