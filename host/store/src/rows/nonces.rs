//! Stored data of a nonce: half of a SHA-256 over reseller and nonce. No reseller can use up another's
//! nonces, and a reseller that finds a collision between its own nonces gains nothing.

use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::signing::Nonce;
use sha2::{Digest as _, Sha256};

/// How much later than others a concurrent request may arrive.
pub(crate) const OVERTAKEN: Duration = Duration::from_secs(1);
/// The stored data of a nonce.
pub(crate) type NonceDigest = [u8; 16];

pub(crate) fn mark(reseller: ResellerId, nonce: &Nonce) -> NonceDigest {
    let mut hash = Sha256::new();
    hash.update(reseller.0.to_be_bytes());
    hash.update(nonce.as_str().as_bytes());
    let hash: [u8; 32] = hash.finalize().into();
    let mut half = NonceDigest::default();
    half.copy_from_slice(&hash[..16]);
    half
}
