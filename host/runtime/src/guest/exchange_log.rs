//! Host calls of a provider module's call: recorded, or answered from a record.

use kassette_domain::conversation::{HostCall, HttpAnswer, HttpRequest, SendFailure};
use kassette_domain::id::Digest;

use super::secrets;
use crate::access::{AccountAccess, Recording};
use crate::redact::Redactor;
use crate::v0_2::bindings::provider::kassette::plugin::http as wit;
use crate::v0_2::bindings::provider::kassette::plugin::secrets::Algorithm;
use crate::v0_2::provider::verb_from;

/// Error text if a replayed version makes a host call that has no recorded answer.
const UNRECORDED: &str = "no answer to this was recorded";

#[derive(Default)]
pub(crate) struct ExchangeLog {
    /// Host calls of this call, with their answers.
    pub(crate) exchanges: Vec<HostCall>,
    /// Recorded answers not used by this call yet. `None` if the real host answers.
    unused: Option<Vec<HostCall>>,
    /// Whether a host call had no recorded answer.
    pub(crate) is_incomplete: bool,
}

/// A host call that uses a secret.
pub(super) enum SecretQuestion<'a> {
    Ready,
    Sign(Algorithm, &'a [u8]),
    Verify(Algorithm, &'a [u8], &'a [u8]),
}

impl ExchangeLog {
    /// The log of a call. `None` if calls are not recorded or replayed.
    pub(super) fn for_account(access: &AccountAccess) -> Option<Self> {
        let unused = match &access.recording {
            Recording::Off => return None,
            Recording::On(_) => None,
            Recording::Replay(exchanges, _) => Some(exchanges.to_vec()),
        };
        Some(Self {
            unused,
            ..Self::default()
        })
    }

    pub(super) const fn is_replay(&self) -> bool {
        self.unused.is_some()
    }

    /// Returns the recorded response to the same request, or else to a similar one (`HttpRequest::is_similar`). If
    /// there is none, returns `NotSent` and marks the log as incomplete.
    pub(super) fn play(
        &mut self,
        request: &HttpRequest,
    ) -> Result<wit::Response, wit::SendFailure> {
        let unused = self.unused.get_or_insert_default();
        let find = |is_it: fn(&HttpRequest, &HttpRequest) -> bool| {
            unused.iter().position(|exchange| match exchange {
                HostCall::Http { request: other, .. } => is_it(request, other),
                HostCall::Secret { .. } => false,
            })
        };
        let found = find(HttpRequest::is_same).or_else(|| find(HttpRequest::is_similar));
        let answer = match found.map(|at| unused.remove(at)) {
            Some(HostCall::Http { answer, .. }) => answer,
            _ => {
                self.is_incomplete = true;
                Err(SendFailure::NotSent(UNRECORDED.into()))
            }
        };
        self.keep(request.clone(), answer.clone());
        match answer {
            Ok(HttpAnswer {
                status,
                headers,
                body,
            }) => Ok(wit::Response {
                status,
                headers,
                body,
            }),
            Err(SendFailure::NotSent(why)) => Err(wit::SendFailure::NotSent(why)),
            Err(SendFailure::NoAnswer(why)) => Err(wit::SendFailure::NoAnswer(why)),
        }
    }

    fn keep(&mut self, request: HttpRequest, answer: Result<HttpAnswer, SendFailure>) {
        self.exchanges.push(HostCall::Http { request, answer });
    }

    /// Records a request that was sent and its outcome.
    pub(super) fn record(
        &mut self,
        request: HttpRequest,
        answer: &Result<wit::Response, wit::SendFailure>,
    ) {
        let answer = match answer {
            Ok(answer) => Ok(HttpAnswer {
                status: answer.status,
                headers: answer.headers.clone(),
                body: answer.body.clone(),
            }),
            Err(wit::SendFailure::NotSent(why)) => Err(SendFailure::NotSent(why.clone())),
            Err(wit::SendFailure::NoAnswer(why)) => Err(SendFailure::NoAnswer(why.clone())),
        };
        self.keep(request, answer);
    }

    /// Answers a host call that uses a secret, from the record in a replay, and records it.
    fn tell(
        &mut self,
        access: &AccountAccess,
        name: &str,
        question: &SecretQuestion<'_>,
    ) -> Option<Vec<u8>> {
        let asked = digest(&access.redactor(), name, question);
        let is_it = |exchange: &HostCall| matches!(exchange, HostCall::Secret { asked: other, .. } if *other == asked);
        let answer = match &mut self.unused {
            None => question.answer(access, name),
            Some(unused) => {
                let next = unused.iter().position(is_it).map(|at| unused.remove(at));
                // A version may repeat a host call.
                let known = next.or_else(|| self.exchanges.iter().rfind(|it| is_it(it)).cloned());
                match known {
                    Some(HostCall::Secret { answer, .. }) => answer,
                    _ => {
                        self.is_incomplete = true;
                        None
                    }
                }
            }
        };
        let told = answer.clone();
        self.exchanges.push(HostCall::Secret { asked, answer });
        told
    }
}

impl SecretQuestion<'_> {
    /// Returns a code, or a single byte for "yes". `None` for "no" or without the secret.
    fn answer(&self, access: &AccountAccess, name: &str) -> Option<Vec<u8>> {
        let yes = |it: bool| it.then(|| vec![1]);
        match *self {
            Self::Ready => yes(secrets::ready(access, name)),
            Self::Sign(algorithm, message) => secrets::sign(access, name, algorithm, message),
            Self::Verify(algorithm, message, code) => {
                yes(secrets::verify(access, name, algorithm, message, code))
            }
        }
    }

    /// Answers the host call, using the log of the call if it has one.
    pub(super) fn ask(
        &self,
        access: &AccountAccess,
        name: &str,
        log: &mut Option<ExchangeLog>,
    ) -> Option<Vec<u8>> {
        match log {
            None => self.answer(access, name),
            Some(log) => log.tell(access, name, self),
        }
    }
}

/// The digest of a host call that uses a secret. Quoted secrets are redacted first, so that a version that saw a
/// secret and one that saw only its redaction give the same digest.
fn digest(redactor: &Redactor, name: &str, question: &SecretQuestion<'_>) -> Digest {
    let (function, algorithm, message, code): (_, _, &[u8], &[u8]) = match *question {
        SecretQuestion::Ready => ("ready", None, &[], &[]),
        SecretQuestion::Sign(algorithm, message) => ("sign", Some(algorithm), message, &[]),
        SecretQuestion::Verify(algorithm, message, code) => {
            ("verify", Some(algorithm), message, code)
        }
    };
    let algorithm = match algorithm {
        None => "",
        Some(Algorithm::HmacSha256) => "hmac-sha256",
        Some(Algorithm::HmacSha512) => "hmac-sha512",
    };
    let (message, code) = (redactor.bytes(message), redactor.bytes(code));
    let mut text = Vec::new();
    for field in [
        function.as_bytes(),
        algorithm.as_bytes(),
        name.as_bytes(),
        &message,
        &code,
    ] {
        text.extend_from_slice(&(field.len() as u64).to_be_bytes());
        text.extend_from_slice(field);
    }
    Digest::hash(&text)
}

/// A request in its recorded form: without additions of the host, and with quoted secrets redacted.
pub(super) fn http_request(redactor: &Redactor, request: &wit::Request) -> HttpRequest {
    let credentials = request
        .credentials
        .iter()
        .map(|credential| match credential {
            wit::Credential::Bearer(secret) => format!("bearer {secret}"),
            wit::Credential::Basic(basic) => {
                let password = basic.password.as_deref().unwrap_or_default();
                format!("basic {}:{password}", basic.user)
            }
            wit::Credential::Header(header) => {
                format!("header {}: {}{}", header.name, header.prefix, header.secret)
            }
            wit::Credential::Field(field) => format!("field {}={}", field.name, field.secret),
        });
    let keep = request.keep.iter().map(|keep| {
        let life = keep.expires_in.as_deref().unwrap_or_default();
        format!("keep {} {} {life}", keep.token, keep.pointer)
    });
    HttpRequest {
        verb: verb_from(request.verb),
        url: redactor.text(&request.url),
        headers: redactor.pairs(&request.headers),
        body: redactor.bytes(&request.body),
        secrets: credentials.chain(keep).collect(),
    }
}
