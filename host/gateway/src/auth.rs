//! Who is calling: keys and operator tokens.

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

/// How old a key's last-used time may get: it is noted and written at most this often.
pub(crate) const SEEN_EVERY: Duration = Duration::from_secs(60);
/// The same in milliseconds.
const SEEN_EVERY_MS: u64 = SEEN_EVERY.as_secs() * 1000;
/// Keys noted between two writes; beyond it a note is dropped, which costs a minute's accuracy.
const SEEN_MOST: usize = 100_000;

/// A merchant's request whose key is known and usable.
#[derive(Clone, Debug)]
pub struct MerchantCaller {
    /// The key that was presented.
    pub key: Arc<ApiKey>,
    pub merchant: Arc<Merchant>,
}

/// A reseller's request whose key is known and usable.
#[derive(Clone, Debug)]
pub struct ResellerCaller {
    /// The key that was presented.
    pub key: Arc<ApiKey>,
    pub reseller: Arc<Reseller>,
}

/// Why a credential opens nothing.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// Missing, malformed, unknown, revoked, expired, or of another kind.
    #[error("the credential is missing, invalid, revoked or expired")]
    Refused,
    #[error(transparent)]
    Store(#[from] Fault),
}

/// Keys that were used since they were last written.
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

    /// Takes everything noted.
    pub(crate) fn take(&self) -> Vec<(TokenHash, Time)> {
        self.keys.lock().drain().collect()
    }
}

/// Whether live payments may be created and started by this caller: the merchant must be approved
/// for live while its key is a live one.
pub fn live_allowed(caller: &MerchantCaller) -> bool {
    caller.key.environment == Environment::Test || caller.merchant.live_approved
}

/// Whether a reseller's key opens anything in its environment: a live one only while the reseller's
/// live rollout is on. The edge asks before the signature is looked at.
pub fn rolled_out(caller: &ResellerCaller) -> bool {
    caller.reseller.may_use(caller.key.environment)
}

impl Gateway {
    /// The caller behind a reseller's key.
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

    /// The caller behind a merchant's key.
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

    /// Refuses a key that is not of the environment that it says, or not usable now; notes its use.
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

    /// The operator behind a token.
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

    /// Writes down when keys were last used.
    pub(crate) async fn flush_seen(&self) -> Result<(), Fault> {
        let seen = self.inner.seen.take();
        if seen.is_empty() {
            return Ok(());
        }
        self.store().keys_seen(seen).await
    }
}
