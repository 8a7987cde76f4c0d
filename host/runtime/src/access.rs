//! What a provider's module may use in one call: its account's own hosts, secrets and tokens.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use kassette_domain::conversation::{Conversation, HostCall};
use kassette_domain::provider::{AccountFacts, Encoding};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use tokio::time::Instant;

use crate::error::CallError;
use crate::links::AllowedPages;
use crate::redact::Redactor;
use crate::tokens::TokenStore;

/// One account, as its module may use it. Made anew for each call, because it carries the time.
#[derive(Clone)]
pub struct AccountAccess {
    /// What the module is told.
    pub account: AccountFacts,
    /// Hosts that its requests may go to; none means nowhere.
    pub hosts: Vec<HostPattern>,
    /// Hosts that it may send a payer's browser to.
    pub redirect_hosts: Vec<HostPattern>,
    /// Secrets that it may name.
    pub secrets: Vec<SecretEntry>,
    /// A simulated account: loopback, over plain http too, for requests and payer links.
    pub plain_loopback: bool,
    /// Tokens obtained at run time; one store for the account's whole life.
    pub tokens: Arc<TokenStore>,
    /// Where the call reads a callback from an address that has proved none lately: that address.
    pub stranger: Option<IpAddr>,
    /// From then on nothing is sent: the caller's right to the call has ended, and another may have it. None where
    /// any may call.
    pub not_after: Option<Instant>,
    pub recording: Recording,
}

impl AccountAccess {
    pub(crate) fn pages(&self) -> AllowedPages<'_> {
        AllowedPages {
            hosts: &self.redirect_hosts,
            plain_loopback: self.plain_loopback,
        }
    }

    /// Redacts every secret of the account, tokens among them.
    pub(crate) fn redactor(&self) -> Redactor {
        let tokens = self.tokens.values();
        let secrets = self.secrets.iter().flat_map(|entry| &entry.values);
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
    /// The name by which the module knows it.
    pub name: String,
    /// The current value first; during a rotation the earlier ones after it, for `verify` alone.
    pub values: Vec<Secret>,
    /// How the vendor writes the key that signatures are computed with.
    pub encoding: Encoding,
    /// Hosts that it may be sent to; none means that it only serves for signatures.
    pub hosts: Vec<HostPattern>,
}

/// Whether the calls with an access are recorded.
#[derive(Clone, Default)]
pub enum Recording {
    /// Nothing is kept.
    #[default]
    Off,
    /// Each call that ends in time is told to this.
    On(Recorder),
    /// Nothing is sent: what a module asks its host is answered out of this, and the call told to that.
    Replay(Arc<[HostCall]>, Recorder),
}

/// Takes recorded calls.
#[derive(Clone)]
pub struct Recorder(Arc<dyn Fn(RecordedCall) + Send + Sync>);

impl Recorder {
    /// Tells this, which must not block.
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

/// A call that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedCall {
    /// It, without a payment.
    pub conversation: Conversation,
    /// Everything that the module asked had a recorded answer; so it is always where a host answers.
    pub is_complete: bool,
    /// Why the module gave no answer that counts.
    pub failure: Option<CallError>,
}
