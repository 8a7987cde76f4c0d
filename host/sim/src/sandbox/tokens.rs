//! Access tokens: short-lived and only in memory, so that a restarted provider forgets them.
use parking_lot::Mutex;
use sha2::{Digest, Sha256};

use crate::{config::SimError, ids};

/// Lifetime of a token, in seconds of the injected clock.
pub(crate) const LIFE_SECONDS: u64 = 900;

/// Maximum number of valid tokens; the oldest is removed. A gateway needs one per node.
const MOST: usize = 64;

/// The tokens of one account, as hashes.
#[derive(Default)]
pub(crate) struct Tokens(Mutex<Vec<Token>>);

struct Token {
    hash: [u8; 32],
    until_ms: u64,
}

impl Tokens {
    /// Creates a token.
    pub(crate) fn issue(&self, now_ms: u64) -> Result<String, SimError> {
        let token = ids::random("sbt_")?;
        let mut tokens = self.0.lock();
        tokens.retain(|token| now_ms < token.until_ms);
        if tokens.len() >= MOST {
            tokens.remove(0);
        }
        let until_ms = now_ms.saturating_add(LIFE_SECONDS.saturating_mul(1_000));
        tokens.push(Token {
            hash: hash(&token),
            until_ms,
        });
        Ok(token)
    }

    /// Whether the token is valid now.
    pub(crate) fn accepts(&self, token: &str, now_ms: u64) -> bool {
        let hash = hash(token);
        self.0
            .lock()
            .iter()
            .any(|known| now_ms < known.until_ms && known.hash == hash)
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_ends_with_its_life() {
        let tokens = Tokens::default();
        let token = tokens.issue(1_000).unwrap();
        assert!(tokens.accepts(&token, 900_999));
        assert!(!tokens.accepts(&token, 901_000));
        assert!(!tokens.accepts("sbt_0", 1_000));
    }

    #[test]
    fn the_oldest_token_gives_way() {
        let tokens = Tokens::default();
        let first = tokens.issue(0).unwrap();
        let later: Vec<_> = (0..MOST).map(|_| tokens.issue(0).unwrap()).collect();
        assert!(!tokens.accepts(&first, 0));
        assert!(later.iter().all(|token| tokens.accepts(token, 0)));
    }
}
