//! Ids that nobody can guess.
use crate::config::SimError;

/// `prefix` and 32 hexadecimal characters of the operating system's randomness.
pub(crate) fn random(prefix: &str) -> Result<String, SimError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(SimError::Randomness)?;
    Ok(format!("{prefix}{}", hex::encode(bytes)))
}
