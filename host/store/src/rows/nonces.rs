//! What is kept of a nonce: half of a SHA-256 over reseller and nonce. No reseller can take another's, and one that
//! finds two of its own that collide gains nothing.

use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::signing::Nonce;
use sha2::{Digest as _, Sha256};

/// Requests made together may arrive out of order by this much.
pub(crate) const OVERTAKEN: Duration = Duration::from_secs(1);
/// What is kept of a nonce.
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
