//! Consent codes: they prove at an invitation's page that the merchant itself accepts.
//!
//! An operator issues a code to one merchant. It is found by the hash of its first characters, so that a code with
//! a wrong end still identifies the intended code and counts as a wrong try for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::MerchantId;
use crate::key::TokenHash;
use crate::secret::Secret;
use crate::time::Time;

/// Number of leading characters by which a code is found: the prefix and 71 of its 238 random bits.
const HANDLE: usize = 15;

/// Stored form of a code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsentCode {
    /// Hash of the code's first characters, by which it is found.
    pub handle: TokenHash,
    /// SHA-256 of the whole code.
    pub hash: TokenHash,
    pub merchant: MerchantId,
    pub created_at: Time,
    /// Time at which the code expires.
    pub expires_at: Time,
    /// Number of times that a visitor presented the right beginning with a wrong end.
    pub wrong_tries: u8,
    pub used_at: Option<Time>,
}

impl ConsentCode {
    /// Time from creation to expiry.
    pub const LIFE: Duration = Duration::from_secs(24 * 3600);
    /// Number of wrong tries after which a code is unusable.
    pub const TRIES: u8 = 5;

    /// Stored form of a new code. `shown` is its full text.
    pub fn new(shown: &Secret, merchant: MerchantId, now: Time) -> Self {
        let shown = shown.expose();
        Self {
            handle: Self::handle(shown),
            hash: TokenHash::hash(shown),
            merchant,
            created_at: now,
            expires_at: now.after(Self::LIFE),
            wrong_tries: 0,
            used_at: None,
        }
    }

    /// Hash by which a presented text is found. A text that is too short is hashed whole, and matches no code.
    pub fn handle(presented: &str) -> TokenHash {
        TokenHash::hash(presented.get(..HANDLE).unwrap_or(presented))
    }

    /// Whether the code can still be used.
    pub fn usable(&self, now: Time) -> bool {
        self.used_at.is_none() && self.wrong_tries < Self::TRIES && now < self.expires_at
    }
}
