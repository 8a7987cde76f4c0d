//! What a file of the cache looks like: a mark, the MAC, the machine code.
//!
//! The MAC covers the digest and the settings too, so that no artifact passes for another.

use hmac::{Hmac, KeyInit as _, Mac as _};
use kassette_domain::id::Digest;
use sha2::Sha256;
use zeroize::Zeroizing;

use super::{CacheKey, Code, Settings};

/// How a file begins; its last byte counts up when the layout changes.
const MAGIC: &[u8; 8] = b"kassAOT\x01";
/// Bytes of the MAC.
const MAC: usize = 32;
/// Bytes in front of the code.
pub(super) const HEAD: usize = MAGIC.len() + MAC;

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
    ) -> [u8; HEAD] {
        let mac = self.mac(digest, settings, code.bytes());
        let mut head = [0; HEAD];
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
        let (mac, bytes) = file.strip_prefix(MAGIC)?.split_at_checked(MAC)?;
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
