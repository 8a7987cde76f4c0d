//! `http.send`: checks a module's request, adds credentials, sends it and redacts the response.

use std::time::Duration;

use kassette_domain::conversation::HttpRequest;
use kassette_domain::secret::Secret;
use kassette_http::{
    Guard, HeaderMap, HeaderName, HeaderValue, HostPattern, Method, Request, Response, SendError,
};
use tokio::time::Instant;
use url::Url;

use super::credentials;
use super::exchange_log;
use super::provider::{CallState, fingerprint};
use crate::host::Identity;
use crate::v0_2::bindings::provider::kassette::plugin::http as wit;

/// Maximum number of requests per call, from the contract.
const MAX_REQUESTS: u32 = 16;
/// Maximum size of URL, headers and body of a request together, in bytes, from the contract.
const MAX_REQUEST_BYTES: usize = 256 * 1024;
/// Maximum size of a response body in bytes, from the contract.
const MAX_RESPONSE_BYTES: usize = 1024 * 1024;
const MAX_HEADERS: usize = 64;
/// Maximum length of a token. A signed token with many claims has 2 KiB.
const MAX_TOKEN_BYTES: usize = 8 * 1024;
/// Headers that only the host sets, in addition to those that the client refuses. The last two could hide a secret
/// from [redaction](CallState::redacted) by compressing or splitting a response.
const RESERVED_HEADERS: [&str; 5] = [
    "user-agent",
    "host",
    "content-length",
    "accept-encoding",
    "range",
];

/// A checked request with its credentials.
pub(super) struct PreparedRequest {
    pub(super) url: Url,
    method: Method,
    headers: HeaderMap,
    body: Vec<u8>,
    /// Hosts that a token from the response may be sent to.
    token_hosts: Vec<HostPattern>,
}

impl CallState {
    /// Sends a request of the module, or answers it from a record.
    pub(super) async fn send(
        &mut self,
        identity: &Identity,
        request: wit::Request,
    ) -> Result<wit::Response, wit::SendFailure> {
        let Some(as_kept) = self.as_kept(&request) else {
            return self.send_out(identity, request).await;
        };
        let answer = match &mut self.exchange_log {
            Some(exchange_log) if exchange_log.is_replay() => {
                let answer = exchange_log.play(&as_kept);
                self.replayed(&request, &answer);
                return answer;
            }
            _ => self.send_out(identity, request).await,
        };
        if let Some(exchange_log) = &mut self.exchange_log {
            exchange_log.record(as_kept, &answer);
        }
        answer
    }

    /// The recorded form of a request. `None` if calls are not recorded or replayed.
    pub(super) fn as_kept(&self, request: &wit::Request) -> Option<HttpRequest> {
        let exchange_log = self.exchange_log.as_ref();
        exchange_log.map(|_| exchange_log::http_request(&self.access.redactor(), request))
    }

    /// Records a replayed request as if it had been sent.
    fn replayed(
        &mut self,
        request: &wit::Request,
        answer: &Result<wit::Response, wit::SendFailure>,
    ) {
        if !matches!(request.verb, wit::Verb::Get) {
            let sent = self.sent_requests.sending(fingerprint(request));
            match answer {
                Ok(_) => self.sent_requests.answered(&sent),
                Err(wit::SendFailure::NotSent(_)) => self.sent_requests.refused(&sent),
                Err(wit::SendFailure::NoAnswer(_)) => {}
            }
        }
    }

    async fn send_out(
        &mut self,
        identity: &Identity,
        request: wit::Request,
    ) -> Result<wit::Response, wit::SendFailure> {
        let ready = self.prepare(&request)?;
        let (answer, _) = self.exchange(identity, request, ready).await?;
        Ok(answer)
    }

    /// Sends a checked request. Returns the response as the module sees it, and whether it is unchanged: false if
    /// a secret was redacted.
    pub(super) async fn exchange(
        &mut self,
        identity: &Identity,
        request: wit::Request,
        ready: PreparedRequest,
    ) -> Result<(wit::Response, bool), wit::SendFailure> {
        let mutating = ready.method != Method::GET;
        let sent = mutating.then(|| self.sent_requests.sending(fingerprint(&request)));
        let deadline = self.ends.saturating_duration_since(Instant::now());
        let sending = Request {
            method: ready.method,
            url: ready.url,
            headers: ready.headers,
            body: ready.body.into(),
            deadline: deadline.min(self.host.config.request_deadline),
            max_response: MAX_RESPONSE_BYTES,
            hosts: Some(&self.access.hosts),
        };
        self.waits += 1;
        self.access.contact.begin();
        let outcome = self.host.outgoing.send(sending).await;
        self.access.contact.end(&outcome);
        let unreadable = outcome.as_ref().ok().and_then(unreadable);
        if let Some(sent) = sent {
            match &outcome {
                Ok(_) if unreadable.is_none() => self.sent_requests.answered(&sent),
                Err(SendError::NotSent(_)) => self.sent_requests.refused(&sent),
                Ok(_) | Err(SendError::NoAnswer(_)) => {}
            }
        }
        if let Some(why) = unreadable {
            return Err(wit::SendFailure::NoAnswer(why.into()));
        }
        match outcome {
            Ok(response) => {
                if let Some(keep) = request.keep.filter(|_| response.status.is_success()) {
                    self.keep_token(identity, &keep, &response.body, ready.token_hosts);
                }
                Ok(self.redacted(&response))
            }
            Err(SendError::NotSent(why)) => Err(wit::SendFailure::NotSent(why.to_string())),
            Err(SendError::NoAnswer(why)) => Err(wit::SendFailure::NoAnswer(why.to_string())),
        }
    }

    /// Checks a request and adds its credentials.
    pub(super) fn prepare(
        &mut self,
        request: &wit::Request,
    ) -> Result<PreparedRequest, wit::SendFailure> {
        self.check(request)
            .map_err(|why| wit::SendFailure::NotSent(why.into()))
    }

    fn check(&mut self, request: &wit::Request) -> Result<PreparedRequest, &'static str> {
        self.requests += 1;
        if self.requests > MAX_REQUESTS {
            return Err("more than 16 requests in one call");
        }
        let headers: usize = request
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        if request.url.len() + headers + request.body.len() > MAX_REQUEST_BYTES
            || request.headers.len() > MAX_HEADERS
        {
            return Err("the request is over 256 KiB, or has over 64 headers");
        }
        let url = Url::parse(&request.url).map_err(|_| "the address is malformed")?;
        // The client checks again, but allows loopback by its own setting. Here the account decides.
        let guard = Guard {
            allow_loopback: self.access.plain_loopback,
        };
        guard
            .judge_url(&url)
            .map_err(|_| "the address is not a plain https address")?;
        if !self.access.hosts.iter().any(|host| host.matches(&url)) {
            return Err("the host is not among the account's hosts");
        }
        if let Some(keep) = &request.keep
            && !self.description.tokens.contains(&keep.token)
        {
            return Err("a token that the description does not list");
        }
        let mut headers = self::headers(&request.headers)?;
        let mut body = request.body.clone();
        let mut token_hosts = credentials::write(
            &request.credentials,
            &url,
            &self.access,
            &mut headers,
            &mut body,
        )?;
        if token_hosts.is_empty() {
            token_hosts.extend(HostPattern::from_url(&url));
        }
        Ok(PreparedRequest {
            method: method(request.verb),
            url,
            headers,
            body,
            token_hosts,
        })
    }

    fn keep_token(
        &self,
        identity: &Identity,
        keep: &wit::Keep,
        body: &[u8],
        hosts: Vec<HostPattern>,
    ) {
        let answer: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let at = |pointer: &str| answer.as_ref()?.pointer(pointer);
        let value = at(&keep.pointer).and_then(|value| value.as_str());
        let Some(value) = value.filter(|value| (1..=MAX_TOKEN_BYTES).contains(&value.len())) else {
            tracing::warn!(
                plugin.slot = %identity.slot, plugin.token = keep.token,
                "{} found no token where it expected one", identity.slot,
            );
            return;
        };
        let life = keep.expires_in.as_deref().and_then(at).and_then(seconds);
        let now = self.access.account.now;
        self.access
            .tokens
            .keep(&keep.token, Secret::new(value), hosts, life, now);
    }

    /// Returns the response as the module sees it, and whether nothing was redacted.
    fn redacted(&self, response: &Response) -> (wit::Response, bool) {
        let redactor = self.access.redactor();
        let mut whole = true;
        let headers = response.headers.iter().map(|(name, value)| {
            let value = String::from_utf8_lossy(value.as_bytes());
            let redacted = redactor.text(&value);
            whole &= redacted == value;
            (name.as_str().to_owned(), redacted)
        });
        let headers = headers.collect();
        let body = redactor.bytes(&response.body);
        whole &= body == response.body;
        let answer = wit::Response {
            status: response.status.as_u16(),
            headers,
            body,
        };
        (answer, whole)
    }
}

/// Reason why the module must not read a response: it is incomplete, or secrets in it could not be redacted.
fn unreadable(response: &Response) -> Option<&'static str> {
    if response.truncated {
        Some("the answer is over 1 MiB")
    } else if is_compressed(response) {
        Some("the answer is compressed, which the request did not ask for")
    } else {
        None
    }
}

/// Whether the body is compressed or otherwise encoded.
fn is_compressed(response: &Response) -> bool {
    let codings = response.headers.get_all("content-encoding").iter();
    codings
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

fn method(verb: wit::Verb) -> Method {
    match verb {
        wit::Verb::Get => Method::GET,
        wit::Verb::Post => Method::POST,
        wit::Verb::Put => Method::PUT,
        wit::Verb::Patch => Method::PATCH,
        wit::Verb::Delete => Method::DELETE,
    }
}

fn headers(given: &[(String, String)]) -> Result<HeaderMap, &'static str> {
    let mut headers = HeaderMap::new();
    for (name, value) in given {
        let name =
            HeaderName::try_from(name.as_str()).map_err(|_| "a header's name is malformed")?;
        if RESERVED_HEADERS.contains(&name.as_str()) {
            return Err("a header that only the host sets");
        }
        let value = HeaderValue::from_str(value).map_err(|_| "a header's value is malformed")?;
        if headers.insert(name, value).is_some() {
            return Err("a header is given twice");
        }
    }
    Ok(headers)
}

/// Parses whole seconds from a number or, as some providers write it, a string.
fn seconds(value: &serde_json::Value) -> Option<Duration> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    Some(Duration::from_secs(number))
}

#[cfg(test)]
#[path = "send_tests.rs"]
pub(super) mod tests;
