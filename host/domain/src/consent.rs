//! A consent code: what proves at an invitation's page that the merchant itself accepts.
//!
//! An operator issues it to one merchant. It is looked up by the hash of its first characters, so
//! that a code with a wrong end still names the one that it was meant for, and counts against it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::MerchantId;
use crate::key::TokenHash;
use crate::secret::Secret;
use crate::time::Time;

/// Characters of a code that it is found by: the prefix and 71 of its 238 random bits.
const HANDLE: usize = 15;

/// What is kept of a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentCode {
    /// The hash of its first characters: what it is found by.
    pub handle: TokenHash,
    /// SHA-256 of the whole code.
    pub hash: TokenHash,
    pub merchant: MerchantId,
    pub created_at: Time,
    /// From when on it is refused.
    pub expires_at: Time,
    /// How often a visitor presented its beginning with another end.
    pub wrong_tries: u8,
    pub used_at: Option<Time>,
}

impl ConsentCode {
    /// How long a code lives.
    pub const LIFE: Duration = Duration::from_secs(24 * 3600);
    /// Wrong tries that burn a code.
    pub const TRIES: u8 = 5;

    /// A new code, as it is shown.
    pub fn new(shown: &Secret, merchant: MerchantId, now: Time) -> Self {
        let shown = shown.expose();
        Self {
            handle: Self::handle(shown),
            hash: TokenHash::of(shown),
            merchant,
            created_at: now,
            expires_at: now.after(Self::LIFE),
            wrong_tries: 0,
            used_at: None,
        }
    }

    /// What a presented text would be found by; a short one by all of it, which finds nothing.
    pub fn handle(presented: &str) -> TokenHash {
        TokenHash::of(presented.get(..HANDLE).unwrap_or(presented))
    }

    /// Whether the code still opens anything.
    pub fn usable(&self, now: Time) -> bool {
        self.used_at.is_none() && self.wrong_tries < Self::TRIES && now < self.expires_at
    }
}
