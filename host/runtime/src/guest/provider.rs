//! The host side of the world `provider`: one call for one account.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio::time::Instant;
use tracing::Level;

use kassette_domain::provider::ProviderDescription;

use super::exchange_log::{ExchangeLog, SecretQuestion};
use super::log::LogBudget;
use crate::access::AccountAccess;
use crate::host::{Host, Identity};
use crate::meter::{Meter, Metered};
use crate::v0_2::bindings::provider::kassette::plugin as wit;

/// State of one call of a provider module.
pub(crate) struct ProviderState {
    meter: Meter,
    log: LogBudget,
    pub(super) identity: Arc<Identity>,
    /// `None` during `describe`, which is not about an account.
    pub(super) call: Option<CallState>,
}

/// State of a call for an account.
pub(crate) struct CallState {
    pub(super) access: AccountAccess,
    pub(super) description: Arc<ProviderDescription>,
    pub(super) host: Arc<Host>,
    /// Time at which the call must have ended.
    pub(super) ends: Instant,
    pub(super) requests: u32,
    /// Number of waits for the network. Increased before each wait, because the thread may be another one
    /// afterwards and the CPU meter must know. Refused requests do not count: otherwise a module could stop the
    /// clock by repeating them.
    pub(super) waits: u32,
    pub(super) sent_requests: SentRequests,
    /// Host calls so far. `None` if calls are not recorded or replayed.
    pub(super) exchange_log: Option<ExchangeLog>,
}

/// Facts about a call that the host knows independently of the module: requests that were sent, and proof of the
/// caller's identity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentRequests {
    /// Whether a request that may change something was sent, or may have been.
    pub(crate) any_sent: bool,
    /// Whether a code was valid for a secret of the account, or `get-cached` returned a response, such as a
    /// certificate.
    pub(crate) proved: bool,
    /// Fingerprints of these requests without a complete response, unless a retry of the same request got one.
    unanswered: Vec<u64>,
}

/// A request in flight that may change something.
pub(crate) struct Sending {
    fingerprint: u64,
    /// Whether an earlier request had been sent.
    any_sent: bool,
}

impl SentRequests {
    /// Whether the provider may have executed a request without a response.
    pub(crate) fn any_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Records a request before it is sent, because the call may end while it is in flight.
    pub(crate) fn sending(&mut self, fingerprint: u64) -> Sending {
        let any_sent = std::mem::replace(&mut self.any_sent, true);
        self.unanswered.push(fingerprint);
        Sending {
            fingerprint,
            any_sent,
        }
    }

    /// Records a complete response, also for earlier tries of the same request.
    pub(crate) fn answered(&mut self, sending: &Sending) {
        self.unanswered
            .retain(|&other| other != sending.fingerprint);
    }

    /// Records that the request was not sent. Earlier tries of the same request remain unanswered.
    pub(crate) fn refused(&mut self, sending: &Sending) {
        self.unanswered.pop();
        self.any_sent = sending.any_sent;
    }
}

/// Fingerprint of a request. Requests with the same method, URL and body have the same.
pub(super) fn fingerprint(request: &wit::http::Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (request.verb as u8).hash(&mut hasher);
    request.url.hash(&mut hasher);
    request.body.hash(&mut hasher);
    hasher.finish()
}

impl ProviderState {
    pub(crate) fn new(identity: Arc<Identity>, call: Option<CallState>) -> Self {
        Self {
            meter: Meter::new(&identity.limits),
            log: LogBudget::default(),
            identity,
            call,
        }
    }

    pub(crate) fn sent_requests(&self) -> SentRequests {
        self.call
            .as_ref()
            .map(|call| call.sent_requests.clone())
            .unwrap_or_default()
    }

    pub(crate) fn take_exchange_log(&mut self) -> Option<ExchangeLog> {
        self.call.as_mut()?.exchange_log.take()
    }
}

impl CallState {
    pub(crate) fn new(
        access: AccountAccess,
        description: Arc<ProviderDescription>,
        host: Arc<Host>,
        ends: Instant,
    ) -> Self {
        let ends = access
            .not_after
            .map_or(ends, |not_after| ends.min(not_after));
        Self {
            exchange_log: ExchangeLog::for_account(&access),
            access,
            description,
            host,
            ends,
            requests: 0,
            waits: 0,
            sent_requests: SentRequests::default(),
        }
    }
}

impl CallState {
    fn ask(&mut self, name: &str, question: &SecretQuestion<'_>) -> Option<Vec<u8>> {
        question.ask(&self.access, name, &mut self.exchange_log)
    }
}

impl Metered for ProviderState {
    fn meter(&mut self) -> &mut Meter {
        &mut self.meter
    }

    fn waits(&self) -> u32 {
        self.call.as_ref().map_or(0, |call| call.waits)
    }
}

impl wit::types::Host for ProviderState {}

impl wit::log::Host for ProviderState {
    fn write(&mut self, level: wit::log::Level, message: String) {
        let level = match level {
            wit::log::Level::Debug => Level::DEBUG,
            wit::log::Level::Info => Level::INFO,
            wit::log::Level::Warn => Level::WARN,
            wit::log::Level::Error => Level::ERROR,
        };
        self.log.write(&self.identity, level, &message);
    }
}

impl wit::http::Host for ProviderState {
    async fn send(
        &mut self,
        request: wit::http::Request,
    ) -> Result<wit::http::Response, wit::http::SendFailure> {
        let Some(call) = &mut self.call else {
            return Err(wit::http::SendFailure::NotSent(
                "`describe` sends nothing".into(),
            ));
        };
        call.send(&self.identity, request).await
    }

    async fn get_cached(
        &mut self,
        url: String,
        life: u32,
    ) -> Result<wit::http::Response, wit::http::SendFailure> {
        let Some(call) = &mut self.call else {
            return Err(wit::http::SendFailure::NotSent(
                "`describe` sends nothing".into(),
            ));
        };
        let answer = call.get_cached(&self.identity, url, life).await;
        call.sent_requests.proved |= answer.as_ref().is_ok_and(|answer| answer.status == 200);
        answer
    }
}

impl wit::secrets::Host for ProviderState {
    fn ready(&mut self, name: String) -> bool {
        let call = self.call.as_mut();
        call.is_some_and(|call| call.ask(&name, &SecretQuestion::Ready).is_some())
    }

    fn sign(
        &mut self,
        name: String,
        algorithm: wit::secrets::Algorithm,
        message: Vec<u8>,
    ) -> Option<Vec<u8>> {
        let question = SecretQuestion::Sign(algorithm, &message);
        self.call.as_mut()?.ask(&name, &question)
    }

    fn verify(
        &mut self,
        name: String,
        algorithm: wit::secrets::Algorithm,
        message: Vec<u8>,
        code: Vec<u8>,
    ) -> bool {
        self.call.as_mut().is_some_and(|call| {
            let question = SecretQuestion::Verify(algorithm, &message, &code);
            let right = call.ask(&name, &question).is_some();
            call.sent_requests.proved |= right;
            right
        })
    }
}
