//! Sealing of secrets and personal data under the master key, and the mark of an e-mail address.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use kassette_domain::id::MerchantId;
use kassette_domain::key::TokenHash;
use kassette_domain::order::Email;
use kassette_domain::payment::{Origin, Payment, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::Fault;

/// A part of a hash, by which something is found.
pub(crate) type Fingerprint = [u8; 4];

/// Sealed in every store, so that a wrong master key is known at once.
pub(crate) const CANARY_TEXT: &str = "kassette";
/// Bytes of a key's id, in front of every sealed value.
pub(crate) const KEY_ID: usize = 8;
/// Bytes of XChaCha20's nonce: long enough to be drawn at random for ever.
const NONCE: usize = 24;

/// The key that everything secret in the store is sealed under. Erased on drop, absent from `Debug`.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

/// The text is no master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 32 bytes in base64; make one with `openssl rand -base64 32`")]
pub struct NotAMasterKey;

impl MasterKey {
    /// A key from bytes that the caller drew at random.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads 32 bytes of base64; white space around it is left out.
    ///
    /// # Errors
    /// [`NotAMasterKey`] for anything else. The text is not repeated.
    pub fn parse(text: &str) -> Result<Self, NotAMasterKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| NotAMasterKey)?);
        let bytes = bytes.as_slice().try_into().map_err(|_| NotAMasterKey)?;
        Ok(Self::from_bytes(bytes))
    }

    /// A key for one purpose: it leads neither to the master key nor to a key for another one.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut block = Zeroizing::new([0; 64]);
        block[..32].copy_from_slice(self.0.as_slice());
        let mut mac = <Hmac<Sha256> as hmac::KeyInit>::new((&*block).into());
        mac.update(b"kassette key for ");
        mac.update(purpose.as_bytes());
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// Whether it is the same key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id() == other.id()
    }

    /// Tells keys apart without telling anything of them.
    fn id(&self) -> [u8; KEY_ID] {
        let mut hash = Sha256::new();
        hash.update(b"kassette master key id\0");
        hash.update(self.0.as_slice());
        let hash: [u8; 32] = hash.finalize().into();
        let mut id = [0; KEY_ID];
        id.copy_from_slice(&hash[..KEY_ID]);
        id
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(***)")
    }
}

/// Why a sealed value does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It was sealed under another key.
    OtherKey,
    /// It is not as it was written, or belongs to another row.
    Damaged,
}

/// Seals values, each bound to the key of its row: a value that is moved to another row does not open.
///
/// A sealed value is the key's id, the nonce, and the cipher text with its tag.
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    id: [u8; KEY_ID],
    /// For the authentication codes of backups alone.
    backups: Zeroizing<[u8; 32]>,
}

impl Sealer {
    /// A sealer under a key.
    pub(crate) fn new(key: &MasterKey) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(key.0.as_slice().into()),
            id: key.id(),
            backups: key.derive("backups"),
        }
    }

    pub(crate) const fn key_id(&self) -> [u8; KEY_ID] {
        self.id
    }

    /// What makes and checks the authentication code of a backup.
    pub(crate) fn backup_code(&self) -> Result<Hmac<Sha256>, Fault> {
        // HMAC takes keys of any length.
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(self.backups.as_slice())
            .map_err(|_| Fault::Unavailable("the key of the backup's code".into()))
    }

    /// Seals a value for a row.
    pub(crate) fn seal<T: Serialize>(&self, row: &[u8], value: &T) -> Result<Vec<u8>, Fault> {
        let plain = postcard::to_stdvec(value)
            .map(Zeroizing::new)
            .map_err(|error| Fault::Unavailable(format!("a value cannot be encoded: {error}")))?;
        let mut nonce = [0; NONCE];
        fill(&mut nonce)?;
        let payload = Payload {
            msg: &plain,
            aad: row,
        };
        let sealed = self
            .cipher
            .encrypt(XNonce::from_slice(&nonce), payload)
            .map_err(|_| Fault::Unavailable("a value cannot be sealed".into()))?;
        Ok([&self.id[..], &nonce, &sealed].concat())
    }

    /// Opens what [`Sealer::seal`] made for the same row.
    pub(crate) fn open<T: DeserializeOwned>(
        &self,
        row: &[u8],
        sealed: &[u8],
    ) -> Result<T, Unopened> {
        let (id, rest) = sealed.split_at_checked(KEY_ID).ok_or(Unopened::Damaged)?;
        if id != self.id {
            return Err(Unopened::OtherKey);
        }
        let (nonce, msg) = rest.split_at_checked(NONCE).ok_or(Unopened::Damaged)?;
        let plain = self
            .cipher
            .decrypt(XNonce::from_slice(nonce), Payload { msg, aad: row })
            .map(Zeroizing::new)
            .map_err(|_| Unopened::Damaged)?;
        postcard::from_bytes(&plain).map_err(|_| Unopened::Damaged)
    }
}

/// Fills a buffer from the operating system's randomness.
pub(crate) fn fill(buffer: &mut [u8]) -> Result<(), Fault> {
    getrandom::fill(buffer)
        .map_err(|error| Fault::Unavailable(format!("the system has no randomness: {error}")))
}

/// Sixteen random bytes: an id.
pub(crate) fn random_id() -> Result<[u8; 16], Fault> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Bytes of an e-mail mark that are kept.
pub(crate) const EMAIL_MARK: usize = 16;

/// The first bytes of a hash. A checkout token's is of its own hash: callers do not choose tokens.
pub(crate) fn fingerprint(hash: [u8; 32]) -> Fingerprint {
    let [a, b, c, d, ..] = hash;
    [a, b, c, d]
}

/// The key of the e-mail mark and of the payment index's hashes: drawn once when the store is made and sealed
/// in it, so that a mark means nothing elsewhere and survives another master key and the erasure of the
/// address.
#[derive(Clone)]
pub(crate) struct Marker(Hmac<Sha256>);

impl Marker {
    /// A marker with a key.
    pub(crate) fn new(key: &[u8; 32]) -> Result<Self, Fault> {
        // HMAC takes keys of any length.
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key)
            .map(Self)
            .map_err(|_| Fault::Corrupt("the key of the e-mail mark".into()))
    }

    /// HMAC-SHA256 of an address exactly as it was sent; 128 bits of it, then zeros.
    pub(crate) fn email(&self, email: &Email) -> [u8; 32] {
        let hash = self.hash(b"e-mail\0", email.expose().as_bytes());
        let mut mark = [0; 32];
        mark[..EMAIL_MARK].copy_from_slice(&hash[..EMAIL_MARK]);
        mark
    }

    /// What a request's reference is found by: one space per merchant, or per reseller.
    pub(crate) fn reference(&self, merchant: MerchantId, origin: &Origin) -> Fingerprint {
        let (tag, number, text) = match origin {
            Origin::Merchant { idempotency_key } => (b'm', merchant.0, idempotency_key.as_str()),
            Origin::Reseller {
                reseller,
                client_ref,
            } => (b'r', reseller.0, client_ref.as_str()),
        };
        let mut of = [b"reference\0".as_slice(), &[0; 9]].concat();
        of[10] = tag;
        of[11..].copy_from_slice(&number.to_be_bytes());
        fingerprint(self.hash(&of, text.as_bytes()))
    }

    /// What an order is found by.
    pub(crate) fn order(&self, order: &str) -> Fingerprint {
        fingerprint(self.hash(b"order\0", order.as_bytes()))
    }

    fn hash(&self, of: &[u8], text: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(of);
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

/// What seals and marks.
pub(crate) struct Secrets {
    pub(crate) sealer: Sealer,
    pub(crate) marker: Marker,
}

impl Secrets {
    /// The keyed hash of a request's address.
    pub(crate) fn email_mark(&self, request: &Request) -> Option<[u8; 32]> {
        request.email.as_ref().map(|email| self.marker.email(email))
    }

    /// By what a payment is found.
    pub(crate) fn marks(&self, payment: &Payment) -> [Fingerprint; 3] {
        [
            self.marker.reference(payment.merchant, &payment.origin),
            fingerprint(TokenHash::of(payment.token.expose()).0),
            self.marker.order(payment.order_id.as_str()),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_derived_key_depends_on_the_master_key_and_the_purpose() {
        let derive = |byte, purpose| *MasterKey::from_bytes([byte; 32]).derive(purpose);
        assert_eq!(derive(1, "a"), derive(1, "a"));
        assert_ne!(derive(1, "a"), derive(2, "a"));
        assert_ne!(derive(1, "a"), derive(1, "b"));
        assert_ne!(derive(1, "a"), [1; 32]);
    }

    #[test]
    fn a_master_key_is_32_bytes_of_base64_and_is_not_printed() {
        let text = STANDARD.encode([7; 32]);
        let key = MasterKey::parse(&format!(" {text}\n")).unwrap();
        assert_eq!(format!("{key:?}"), "MasterKey(***)");
        for wrong in ["", "short", &STANDARD.encode([7; 31]), &text[1..]] {
            assert_eq!(MasterKey::parse(wrong).err(), Some(NotAMasterKey));
        }
    }

    #[test]
    fn a_sealed_value_opens_only_in_its_row_under_its_key_and_unchanged() {
        let sealer = Sealer::new(&MasterKey::from_bytes([1; 32]));
        let sealed = sealer.seal(b"row", &"secret".to_owned()).unwrap();
        assert_eq!(sealer.open::<String>(b"row", &sealed).unwrap(), "secret");
        assert_eq!(
            sealer.open::<String>(b"other", &sealed),
            Err(Unopened::Damaged)
        );
        let other = Sealer::new(&MasterKey::from_bytes([2; 32]));
        assert_eq!(
            other.open::<String>(b"row", &sealed),
            Err(Unopened::OtherKey)
        );
        for at in KEY_ID..sealed.len() {
            let mut flipped = sealed.clone();
            flipped[at] ^= 1;
            assert_eq!(
                sealer.open::<String>(b"row", &flipped),
                Err(Unopened::Damaged)
            );
        }
        assert_eq!(
            sealer.open::<String>(b"row", &sealed[..KEY_ID + 3]),
            Err(Unopened::Damaged)
        );
    }

    #[test]
    fn a_value_sealed_twice_looks_different() {
        let sealer = Sealer::new(&MasterKey::from_bytes([1; 32]));
        assert_ne!(
            sealer.seal(b"row", &1_u8).unwrap(),
            sealer.seal(b"row", &1_u8).unwrap()
        );
    }

    #[test]
    fn a_mark_depends_on_address_and_key() {
        let mark = |key, text| {
            Marker::new(&[key; 32])
                .unwrap()
                .email(&Email::parse(text).unwrap())
        };
        assert_eq!(mark(1, "a@b.example"), mark(1, "a@b.example"));
        assert_ne!(mark(1, "a@b.example"), mark(1, "A@b.example"));
        assert_ne!(mark(1, "a@b.example"), mark(2, "a@b.example"));
    }
}
