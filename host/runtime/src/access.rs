//! What a provider's module may use in one call: its account's own hosts, secrets and tokens.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::provider::{Account, Encoding, Verb};
use kassette_domain::secret::Secret;
use kassette_http::HostPattern;
use tokio::time::Instant;

use crate::links::AllowedPages;
use crate::tokens::TokenStore;

/// One account, as its module may use it. Made anew for each call, because it carries the time.
#[derive(Clone)]
pub struct AccountAccess {
    /// What the module is told.
    pub account: Account,
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
    /// Who is told of each request.
    pub recorder: Option<Arc<dyn Recorder>>,
}

impl AccountAccess {
    pub(crate) fn pages(&self) -> AllowedPages<'_> {
        AllowedPages {
            hosts: &self.redirect_hosts,
            plain_loopback: self.plain_loopback,
        }
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

/// Is told of every request that a module sends. Must not block.
pub trait Recorder: Send + Sync {
    /// One request and how it ended.
    fn record(&self, exchange: &Exchange<'_>);
}

/// A request as it is recorded: nothing in it identifies a payer or opens anything.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The account it was sent for.
    pub account: &'a str,
    /// HTTP method.
    pub verb: Verb,
    /// Host and port.
    pub host: &'a str,
    /// The path, with every part that looks like an id replaced by `*`.
    pub path: &'a str,
    /// The answer's status; none where there was no whole answer.
    pub status: Option<u16>,
    /// How long it took.
    pub took: Duration,
}
