//! Ids: random if callers must not guess them, derived if the creation must not fail.
use sha2::{Digest, Sha256};

use crate::config::SimError;

/// Number of random bytes in an id; each results in two hexadecimal digits.
const BYTES: usize = 16;

/// `prefix` and 32 random hexadecimal digits.
pub(crate) fn random(prefix: &str) -> Result<String, SimError> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(SimError::Randomness)?;
    Ok(format!("{prefix}{}", hex::encode(bytes)))
}

/// 32 hexadecimal digits derived from `seed`.
pub(crate) fn derived(seed: &str) -> String {
    let mut hex = hex::encode(Sha256::digest(seed.as_bytes()));
    hex.truncate(2 * BYTES);
    hex
}
