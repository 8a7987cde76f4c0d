//! Format of a cache file: a mark, the MAC, the machine code.
//!
//! The MAC also covers digest and settings, so that one artifact cannot replace another.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use kassette_domain::id::Digest;
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use zeroize::Zeroizing;

use super::code::Code;

/// First bytes of a file. The last byte is the version of the format.
const MAGIC: &[u8; 8] = b"kassAOT\x01";
const MAC_BYTES: usize = 32;
/// Bytes before the code.
pub(super) const HEADER_BYTES: usize = MAGIC.len() + MAC_BYTES;

/// A MAC key for files of the gateway. Erased on drop and not shown by `Debug`.
#[derive(Clone)]
pub struct MacKey(Zeroizing<[u8; 32]>);

impl MacKey {
    /// Use the key for one purpose only: derive it from the master key.
    pub const fn from_bytes(bytes: Zeroizing<[u8; 32]>) -> Self {
        Self(bytes)
    }

    /// A MAC with this key, without input.
    pub(crate) fn mac(&self) -> Hmac<Sha256> {
        // HMAC pads a key with zeros to the block size, so this equals the HMAC with the 32 bytes.
        let mut block = Zeroizing::new([0; 64]);
        let (bytes, _) = block.split_at_mut(self.0.len());
        bytes.copy_from_slice(self.0.as_slice());
        Hmac::new((&*block).into())
    }
}

impl fmt::Debug for MacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MacKey(***)")
    }
}

/// Everything that machine code depends on except the module: version and settings of the compiler, features of
/// the processor, format of the cache files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings([u8; 16]);

impl Settings {
    pub(super) fn new(engine: &Engine) -> Self {
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

/// Feeds a type's `Hash` into SHA-256, whose result is the same in every process.
struct Sha256Hasher(Sha256);

impl std::hash::Hasher for Sha256Hasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Never called: `Settings::new` uses the SHA-256 result.
    fn finish(&self) -> u64 {
        0
    }
}

/// Creates and checks the MACs of artifacts.
pub(super) struct Seal(Hmac<Sha256>);

impl Seal {
    pub(super) fn new(key: &MacKey) -> Self {
        Self(key.mac())
    }

    /// Returns the header to write before the code.
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

    /// Returns the code if the file's MAC is valid for this digest and these settings. Compares in constant time.
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
        // All parts except the last have a fixed length, so two different inputs cannot give the same bytes.
        mac.update(MAGIC);
        mac.update(&digest.0);
        mac.update(settings.as_bytes());
        mac.update(code);
        mac
    }
}
