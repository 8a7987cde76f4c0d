//! Authentication of callers by keys and operator tokens.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::key::{ApiKey, Environment, TokenHash, TokenKind, read_token};
use kassette_domain::merchant::Merchant;
use kassette_domain::operator::Operator;
use kassette_domain::reseller::Reseller;
use kassette_domain::time::Time;
use kassette_store::Fault;
use parking_lot::Mutex;

use crate::Gateway;
use crate::directory_cache::CachedKey;

/// Maximum age of a key's last-used time: a use is recorded and written at most this often.
pub(crate) const SEEN_EVERY: Duration = Duration::from_secs(60);
/// [`SEEN_EVERY`] in milliseconds.
const SEEN_EVERY_MS: u64 = SEEN_EVERY.as_secs() * 1000;
/// Maximum number of keys recorded between two writes. Further uses are not recorded, so that `last_used_at`
/// lags by up to a minute more.
const SEEN_MOST: usize = 100_000;

/// An authenticated merchant request: the key exists and is usable.
#[derive(Clone, Debug)]
pub struct MerchantCaller {
    pub key: Arc<ApiKey>,
    pub merchant: Arc<Merchant>,
}

/// An authenticated reseller request: the key exists and is usable.
#[derive(Clone, Debug)]
pub struct ResellerCaller {
    pub key: Arc<ApiKey>,
    pub reseller: Arc<Reseller>,
}

/// Reason why a credential is rejected.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The credential is missing, malformed, unknown, revoked, expired, or of another kind.
    #[error("the credential is missing, invalid, revoked or expired")]
    Refused,
    #[error(transparent)]
    Store(Fault),
}

impl From<Fault> for AuthError {
    /// A credential whose row is damaged or not authentic is rejected. The log names the row.
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Corrupt(_) => Self::Refused,
            fault => Self::Store(fault),
        }
    }
}

/// Keys used since the last write, with the time of use.
#[derive(Debug, Default)]
pub(crate) struct UsedKeys {
    keys: Mutex<HashMap<TokenHash, Time>>,
}

impl UsedKeys {
    fn note(&self, hash: TokenHash, now: Time) {
        let mut keys = self.keys.lock();
        if keys.len() < SEEN_MOST || keys.contains_key(&hash) {
            keys.insert(hash, now);
        }
    }

    pub(crate) fn take(&self) -> Vec<(TokenHash, Time)> {
        self.keys.lock().drain().collect()
    }
}

/// Whether this caller may create and start payments in its key's environment. A live key requires that the
/// merchant is approved for live.
pub fn live_allowed(caller: &MerchantCaller) -> bool {
    caller.merchant.may_use(caller.key.environment)
}

/// Whether a reseller's key is accepted in its environment. A live key requires that the reseller's live
/// rollout is on. `server` checks this before it verifies the signature.
pub fn rolled_out(caller: &ResellerCaller) -> bool {
    caller.reseller.may_use(caller.key.environment)
}

impl Gateway {
    /// Returns the reseller that a key belongs to.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for anything but a usable reseller key.
    pub async fn reseller_caller(&self, presented: &str) -> Result<ResellerCaller, AuthError> {
        let Some((TokenKind::Reseller(environment), hash)) = read_token(presented) else {
            return Err(AuthError::Refused);
        };
        let directory = &self.inner.directory;
        let known = directory.reseller_key(self.store().as_ref(), hash).await?;
        let known = known.ok_or(AuthError::Refused)?;
        self.use_key(&known, environment)?;
        Ok(ResellerCaller {
            key: Arc::clone(&known.key),
            reseller: Arc::clone(&known.owner),
        })
    }

    /// Returns the merchant that a key belongs to.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for anything but a usable merchant key.
    pub async fn merchant_caller(&self, presented: &str) -> Result<MerchantCaller, AuthError> {
        let Some((TokenKind::Merchant(environment), hash)) = read_token(presented) else {
            return Err(AuthError::Refused);
        };
        let known = self
            .inner
            .directory
            .key(self.store().as_ref(), hash)
            .await?;
        let known = known.ok_or(AuthError::Refused)?;
        self.use_key(&known, environment)?;
        Ok(MerchantCaller {
            key: Arc::clone(&known.key),
            merchant: Arc::clone(&known.owner),
        })
    }

    /// Rejects a key whose environment differs from its prefix or that is not usable now. Records its use.
    fn use_key<O>(&self, known: &CachedKey<O>, environment: Environment) -> Result<(), AuthError> {
        let now = self.now();
        if known.key.environment != environment || !known.key.usable(now) {
            return Err(AuthError::Refused);
        }
        if known.is_worth_a_note(now, SEEN_EVERY_MS) {
            self.inner.seen.note(known.key.hash, now);
        }
        Ok(())
    }

    /// Returns the operator that a token belongs to.
    ///
    /// # Errors
    /// [`AuthError::Refused`] for anything but a usable operator token.
    pub async fn operator(&self, presented: &str) -> Result<Operator, AuthError> {
        let Some((TokenKind::Operator, hash)) = read_token(presented) else {
            return Err(AuthError::Refused);
        };
        let operator = self.store().operator(hash).await?;
        let operator = operator.ok_or(AuthError::Refused)?;
        if operator.expires_at.is_some_and(|end| self.now() >= end) {
            return Err(AuthError::Refused);
        }
        Ok(operator)
    }

    /// Writes the recorded last-used times of keys to the store.
    pub(crate) async fn flush_seen(&self) -> Result<(), Fault> {
        let seen = self.inner.seen.take();
        if seen.is_empty() {
            return Ok(());
        }
        self.store().keys_seen(seen).await
    }
}
