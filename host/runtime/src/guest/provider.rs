//! The host's side of the world `provider`: one call, one account.

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

/// The data of one provider's call.
pub(crate) struct ProviderState {
    meter: Meter,
    log: LogBudget,
    pub(super) identity: Arc<Identity>,
    /// None in `describe`, which is about no account.
    pub(super) call: Option<CallState>,
}

/// What belongs to a call for an account.
pub(crate) struct CallState {
    pub(super) access: AccountAccess,
    pub(super) description: Arc<ProviderDescription>,
    pub(super) host: Arc<Host>,
    /// When the call's wall-clock time is over.
    pub(super) ends: Instant,
    pub(super) requests: u32,
    /// How many of them left. Raised before the wait: the alarm must know that the thread may be
    /// another one afterwards. A request that is refused waits for nothing, and must not stop the
    /// clock: a module could go on asking for ever.
    pub(super) waits: u32,
    pub(super) sent_requests: SentRequests,
    /// Where calls are recorded or replayed: what this one asked so far.
    pub(super) exchange_log: Option<ExchangeLog>,
}

/// The requests that left this host during a call, and whether the caller proved who it is: the host's own
/// knowledge, whatever the module says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentRequests {
    /// Whether a request that may change something left, or may have.
    pub(crate) any_sent: bool,
    /// Whether a code was right under a secret of the account, or a certificate was there to check one by.
    pub(crate) proved: bool,
    /// Those of them that got no whole answer, unless the same request did later.
    unanswered: Vec<u64>,
}

/// A request that may change something, while it is under way.
pub(crate) struct Sending {
    fingerprint: u64,
    /// Whether one had left before it.
    any_sent: bool,
}

impl SentRequests {
    /// Whether something may have happened at the vendor that no answer told of.
    pub(crate) fn any_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Notes a request before it is handed over, because the call may end while it is under way.
    pub(crate) fn sending(&mut self, fingerprint: u64) -> Sending {
        let any_sent = std::mem::replace(&mut self.any_sent, true);
        self.unanswered.push(fingerprint);
        Sending {
            fingerprint,
            any_sent,
        }
    }

    /// It got a whole answer, and with it every earlier try of the same.
    pub(crate) fn answered(&mut self, sending: &Sending) {
        self.unanswered
            .retain(|&other| other != sending.fingerprint);
    }

    /// It never left. An earlier try of the same that did is as open as before.
    pub(crate) fn refused(&mut self, sending: &Sending) {
        self.unanswered.pop();
        self.any_sent = sending.any_sent;
    }
}

/// Tells requests apart; a repeated one (same method, address, body) has the same.
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
            exchange_log: ExchangeLog::of(&access),
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
