//! The part of an account that its provider module may use in one call: hosts, secrets and tokens.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kassette_domain::conversation::{Conversation, HostCall};
use kassette_domain::provider::{AccountFacts, Encoding};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use tokio::time::Instant;

use crate::contact::Contact;
use crate::error::CallError;
use crate::links::AllowedPages;
use crate::redact::{MIN_SECRET, Redactor};
use crate::tokens::TokenStore;

/// An account's access for one call. Created for each call, because it contains the time.
#[derive(Clone)]
pub struct AccountAccess {
    /// Facts that the module receives.
    pub account: AccountFacts,
    /// Hosts that its requests may go to. Empty allows none.
    pub hosts: Vec<HostPattern>,
    /// Hosts that it may send a payer's browser to.
    pub redirect_hosts: Vec<HostPattern>,
    /// Secrets that the module may name.
    pub secrets: Vec<SecretEntry>,
    /// Whether the account is simulated: requests and payer links may then go to loopback, also over plain http.
    pub plain_loopback: bool,
    /// Tokens obtained at run time. All calls of the account share one store.
    pub tokens: Arc<TokenStore>,
    /// Sender's address, if the call reads a callback from an unverified address.
    pub stranger: Option<IpAddr>,
    /// Time after which nothing is sent, because another caller may then hold the attempt claim. `None` if
    /// the call needs no claim.
    pub not_after: Option<Instant>,
    /// The provider's responses and failures during the call.
    pub contact: Contact,
    pub recording: Recording,
}

impl AccountAccess {
    pub(crate) fn pages(&self) -> AllowedPages<'_> {
        AllowedPages {
            hosts: &self.redirect_hosts,
            plain_loopback: self.plain_loopback,
        }
    }

    /// Redacts the tokens, and every secret of the account that has at least [`MIN_SECRET`] characters.
    pub(crate) fn redactor(&self) -> Redactor {
        let tokens = self.tokens.values();
        let secrets = self.secrets.iter().flat_map(|entry| &entry.values);
        let secrets = secrets.filter(|secret| secret.expose().chars().count() >= MIN_SECRET);
        Redactor::new(secrets.chain(&tokens))
    }
}

impl fmt::Debug for AccountAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountAccess")
            .field("account", &self.account.id)
            .finish_non_exhaustive()
    }
}

/// A secret of an account.
#[derive(Clone, Debug)]
pub struct SecretEntry {
    /// Name by which the module refers to it.
    pub name: String,
    /// The current value, and during a rotation the earlier ones after it, which only `verify` uses.
    pub values: Vec<Secret>,
    /// Encoding in which the provider issues the key for signatures.
    pub encoding: Encoding,
    /// Hosts that the secret may be sent to. Empty if it only serves for signatures.
    pub hosts: Vec<HostPattern>,
}

/// Whether calls are recorded or replayed.
#[derive(Clone, Default)]
pub enum Recording {
    /// Calls are not recorded.
    #[default]
    Off,
    /// Passes each call that ends in time to the recorder.
    On(Recorder),
    /// Sends nothing. The recorded host calls answer the module's requests, and the recorder receives the call.
    Replay(Arc<[HostCall]>, Recorder),
}

/// Receives recorded calls.
#[derive(Clone)]
pub struct Recorder(Arc<dyn Fn(RecordedCall) + Send + Sync>);

impl Recorder {
    /// `takes` must not block.
    pub fn new(takes: impl Fn(RecordedCall) + Send + Sync + 'static) -> Self {
        Self(Arc::new(takes))
    }

    pub(crate) fn tell(&self, recorded: RecordedCall) {
        (self.0)(recorded);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Recorder")
    }
}

/// A recorded call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// The conversation, without a payment.
    pub conversation: Conversation,
    /// Whether every host call of the module had a recorded answer. Always true if the host answered.
    pub is_complete: bool,
    /// Reason why the module gave no valid answer.
    pub failure: Option<CallError>,
}
