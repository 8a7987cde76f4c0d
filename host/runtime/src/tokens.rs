//! What the host keeps of an account between calls: tokens that its module obtained at run time, and answers
//! to requests without credentials. In memory only: a restart obtains them anew.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_http::HostPattern;
use parking_lot::Mutex;

use crate::response_cache::ResponseCache;

/// Forgotten this much before the vendor says, so that none expires on its way.
const MARGIN: Duration = Duration::from_secs(60);
/// Forgotten after this in any case.
const MAX_LIFE: Duration = Duration::from_secs(24 * 60 * 60);
/// Life of a token whose answer does not tell one.
const DEFAULT_LIFE: Duration = Duration::from_secs(5 * 60);

/// The tokens of one account, and the answers that are kept for it.
#[derive(Default)]
pub struct TokenStore {
    /// Bounded by the names that the module's description lists.
    tokens: Mutex<HashMap<String, Token>>,
    pub(crate) responses: ResponseCache,
}

/// A token that is still good.
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

    /// Forgets everything, as when an account's credentials change.
    pub fn clear(&self) {
        self.tokens.lock().clear();
        self.responses.clear();
    }

    /// Keeps a token for `life` as the vendor tells it, or for the default.
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

    /// A token that is good at `now`.
    pub(crate) fn get(&self, name: &str, now: Time) -> Option<Token> {
        self.tokens
            .lock()
            .get(name)
            .filter(|token| now < token.expires_at)
            .cloned()
    }

    /// Every value held, expired ones too: an answer must not show those either.
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
