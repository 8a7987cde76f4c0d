//! What a file of the cache looks like: a mark, the MAC, the machine code.
//!
//! The MAC covers the digest and the settings too, so that no artifact passes for another.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use kassette_domain::id::Digest;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use zeroize::Zeroizing;

use super::code::Code;

/// How a file begins; its last byte counts up when the layout changes.
const MAGIC: &[u8; 8] = b"kassAOT\x01";
const MAC_BYTES: usize = 32;
/// Bytes in front of the code.
pub(super) const HEADER_BYTES: usize = MAGIC.len() + MAC_BYTES;

/// The key of the MACs. Erased on drop, absent from `Debug`.
#[derive(Clone)]
pub struct CacheKey(Zeroizing<[u8; 32]>);

impl CacheKey {
    /// A key that is used for nothing else: derive it from the master key.
    pub const fn from_bytes(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CacheKey(***)")
    }
}

/// What machine code depends on beside the module: the compiler's version and settings, the
/// processor's abilities, the layout of our own files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings([u8; 16]);

impl Settings {
    pub(super) fn of(engine: &Engine) -> Self {
        let mut hash = Sha256Hasher(Sha256::new());
        hash.0.update(b"kassette compiled module 1\0");
        std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hash);
        let hash: [u8; 32] = hash.0.finalize().into();
        let mut settings = [0; 16];
        settings.copy_from_slice(&hash[..16]);
        Self(settings)
    }

    const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

/// Takes what a type hashes of itself into SHA-256, whose result means the same in every process.
struct Sha256Hasher(Sha256);

impl std::hash::Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Never called: the whole hash is taken.
    fn finish(&self) -> u64 {
        0
    }
}

/// Puts MACs on artifacts and checks them.
pub(super) struct Seal(Hmac<Sha256>);

impl Seal {
    pub(super) fn new(key: &CacheKey) -> Self {
        // HMAC pads a key to its block with zeros, so this is the HMAC under the 32 bytes.
        let mut block = Zeroizing::new([0; 64]);
        let (bytes, _) = block.split_at_mut(key.0.len());
        bytes.copy_from_slice(key.0.as_slice());
        Self(Hmac::new((&*block).into()))
    }

    /// What stands in front of the code in its file.
    pub(super) fn close(
        &self,
        digest: &Digest,
        settings: &Settings,
        code: &Code<'_>,
    ) -> [u8; HEADER_BYTES] {
        let mac = self.mac(digest, settings, code.bytes());
        let mut head = [0; HEADER_BYTES];
        let (magic, rest) = head.split_at_mut(MAGIC.len());
        magic.copy_from_slice(MAGIC);
        rest.copy_from_slice(&mac.finalize().into_bytes());
        head
    }

    /// The code of a file that was closed for this digest and these settings; compared in constant
    /// time.
    pub(super) fn open<'a>(
        &self,
        digest: &Digest,
        settings: &Settings,
        file: &'a [u8],
    ) -> Option<Code<'a>> {
        let (mac, bytes) = file.strip_prefix(MAGIC)?.split_at_checked(MAC_BYTES)?;
        self.mac(digest, settings, bytes).verify_slice(mac).ok()?;
        Some(Code::authentic(bytes))
    }

    fn mac(&self, digest: &Digest, settings: &Settings, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        // All of fixed length but the code, which comes last: no two inputs run together.
        mac.update(MAGIC);
        mac.update(&digest.0);
        mac.update(settings.as_bytes());
        mac.update(code);
        mac
    }
}
