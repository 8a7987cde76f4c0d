//! Ids: drawn where no caller may guess them, derived where nothing may fail.
use sha2::{Digest, Sha256};

use crate::config::SimError;

/// Random bytes of an id, each two hexadecimal characters.
const BYTES: usize = 16;

/// `prefix` and 32 hexadecimal characters of the operating system's randomness.
pub(crate) fn random(prefix: &str) -> Result<String, SimError> {
    let mut bytes = [0_u8; BYTES];
    getrandom::fill(&mut bytes).map_err(SimError::Randomness)?;
    Ok(format!("{prefix}{}", hex::encode(bytes)))
}

/// 32 hexadecimal characters that follow from `seed`.
pub(crate) fn derived(seed: &str) -> String {
    let mut hex = hex::encode(Sha256::digest(seed.as_bytes()));
    hex.truncate(2 * BYTES);
    hex
}
