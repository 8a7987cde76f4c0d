//! Data of an account kept between calls: tokens that its module obtained, and cached responses to requests
//! without credentials. Only in memory: after a restart they are obtained again.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_http::HostPattern;
use parking_lot::Mutex;

use crate::response_cache::ResponseCache;

/// Margin by which a token expires early, so that it does not expire in flight.
const MARGIN: Duration = Duration::from_secs(60);
/// Maximum lifetime of a token.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Lifetime of a token if the response does not specify one.
const DEFAULT_LIFE: Duration = Duration::from_secs(5 * 60);

/// The tokens and cached responses of one account.
#[derive(Default)]
pub struct TokenStore {
    /// Bounded by the names in the module's description.
    tokens: Mutex<HashMap<String, Token>>,
    pub(crate) responses: ResponseCache,
}

/// An unexpired token.
#[derive(Clone)]
pub(crate) struct Token {
    pub(crate) value: Secret,
    pub(crate) hosts: Vec<HostPattern>,
    expires_at: Time,
}

impl TokenStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Removes everything, for example when the account's credentials change.
    pub fn clear(&self) {
        self.tokens.lock().clear();
        self.responses.clear();
    }

    /// Keeps a token for the provider's `life`, or the default lifetime.
    pub(crate) fn keep(
        &self,
        name: &str,
        value: Secret,
        hosts: Vec<HostPattern>,
        life: Option<Duration>,
        now: Time,
    ) {
        let life = life
            .map_or(DEFAULT_LIFE, |life| life.saturating_sub(MARGIN))
            .min(MAX_LIFE);
        self.tokens.lock().insert(
            name.to_owned(),
            Token {
                value,
                hosts,
                expires_at: now.after(life),
            },
        );
    }

    /// Returns a token unless it is expired at `now`.
    pub(crate) fn get(&self, name: &str, now: Time) -> Option<Token> {
        self.tokens
            .lock()
            .get(name)
            .filter(|token| now < token.expires_at)
            .cloned()
    }

    /// All values, including expired ones, which must also be redacted.
    pub(crate) fn values(&self) -> Vec<Secret> {
        self.tokens
            .lock()
            .values()
            .map(|token| token.value.clone())
            .collect()
    }
}

impl fmt::Debug for TokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenStore(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good_for(life: Option<Duration>, after: Duration) -> bool {
        let (store, now) = (TokenStore::new(), Time::from_secs(1_000_000));
        store.keep("token", Secret::new("x"), vec![], life, now);
        store.get("token", now.after(after)).is_some()
    }

    #[test]
    fn a_token_is_forgotten_a_minute_early() {
        let hour = Some(Duration::from_secs(3600));
        assert!(good_for(hour, Duration::from_secs(3539)));
        assert!(!good_for(hour, Duration::from_secs(3540)));
        assert!(!good_for(Some(Duration::from_secs(60)), Duration::ZERO));
    }

    #[test]
    fn a_life_that_is_untold_is_short_and_an_endless_one_is_cut() {
        assert!(good_for(None, Duration::from_secs(299)));
        assert!(!good_for(None, Duration::from_secs(300)));
        assert!(!good_for(
            Some(Duration::MAX),
            Duration::from_secs(24 * 3600)
        ));
    }
}
