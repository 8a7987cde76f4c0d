//! Sealing of secrets and personal data under the master key, and the mark of an e-mail address.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305, XNonce};
use hmac::{Hmac, Mac as _};
use kassette_domain::extras::{Notes, NotesKept};
use kassette_domain::id::MerchantId;
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::Money;
use kassette_domain::order::Email;
use kassette_domain::payment::{Origin, Payment, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::{Fault, SearchKey};

/// Part of a hash, used to find payments.
pub(crate) type Fingerprint = [u8; 4];
/// Part of a keyed hash that finds payments, long enough to be unique in a store.
pub(crate) type SearchMark = [u8; 8];

/// Sealed in every store, so that a wrong master key is detected immediately.
pub(crate) const CANARY_TEXT: &str = "kassette";
/// Bytes of a key's id, at the start of every sealed value.
pub(crate) const KEY_ID: usize = 8;
/// Bytes of a row's MAC. Guessing one of 2^128 is not feasible.
pub(crate) const ROW_MAC: usize = 16;
/// Bytes of XChaCha20's nonce: enough for random nonces without a limit.
const NONCE: usize = 24;
/// The row key under which cursors are sealed. No row has it.
const CURSOR: &[u8] = b"cursor";
/// Maximum length of a cursor, in characters. The longest place of a list has about 60 bytes, its seal 40.
const MAX_CURSOR: usize = 256;

/// The key under which everything secret in the store is sealed. Erased on drop, absent from `Debug`.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

/// Error for a text that is not a master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a master key is 32 bytes in base64; make one with `openssl rand -base64 32`")]
pub struct NotAMasterKey;

impl MasterKey {
    /// A key from random bytes.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Parses 32 bytes of base64. Surrounding white space is ignored.
    ///
    /// # Errors
    /// [`NotAMasterKey`] for anything else. The text is not repeated.
    pub fn parse(text: &str) -> Result<Self, NotAMasterKey> {
        let bytes = Zeroizing::new(STANDARD.decode(text.trim()).map_err(|_| NotAMasterKey)?);
        let bytes = bytes.as_slice().try_into().map_err(|_| NotAMasterKey)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Derives a key for one purpose. It reveals neither the master key nor keys for other purposes.
    pub fn derive(&self, purpose: &str) -> Zeroizing<[u8; 32]> {
        let mut mac = keyed(&self.0);
        mac.update(b"kassette key for ");
        mac.update(purpose.as_bytes());
        Zeroizing::new(mac.finalize().into_bytes().into())
    }

    /// Whether it is the same key.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.id() == other.id()
    }

    /// Identifies the key without revealing anything about it.
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

/// HMAC state under a key, without input.
fn keyed(key: &[u8; 32]) -> Hmac<Sha256> {
    // HMAC pads a key to its block with zeros.
    let mut block = Zeroizing::new([0; 64]);
    block[..32].copy_from_slice(key);
    <Hmac<Sha256> as hmac::KeyInit>::new((&*block).into())
}

/// Reason why a sealed value cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unopened {
    /// It was sealed under another key.
    OtherKey,
    /// It is damaged, or belongs to another row.
    Damaged,
}

/// Seals values, each bound to the key of its row: a value that is moved to another row cannot be opened.
///
/// A sealed value is the key's id, the nonce, and the ciphertext with its tag. The sealer also computes the
/// MACs of whole rows.
#[derive(Clone)]
pub(crate) struct Sealer {
    cipher: XChaCha20Poly1305,
    id: [u8; KEY_ID],
    /// Key for the authentication codes of backups.
    backups: Zeroizing<[u8; 32]>,
    /// HMAC state for the MAC of a row, without input.
    rows: Hmac<Sha256>,
}

impl Sealer {
    /// Creates a sealer with a key.
    pub(crate) fn new(key: &MasterKey) -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(key.0.as_slice().into()),
            id: key.id(),
            backups: key.derive("backups"),
            rows: keyed(&key.derive("rows")),
        }
    }

    /// MAC of a row: the first bytes of HMAC-SHA256 over the length of its key, its key, and its payload.
    pub(crate) fn row_mac(&self, key: &[u8], payload: &[u8]) -> [u8; ROW_MAC] {
        let full = self.over_row(key, payload).finalize().into_bytes();
        let mut mac = [0; ROW_MAC];
        mac.copy_from_slice(&full[..ROW_MAC]);
        mac
    }

    /// Verifies a row's MAC, in constant time.
    pub(crate) fn is_row_mac(&self, key: &[u8], payload: &[u8], mac: &[u8]) -> bool {
        mac.len() == ROW_MAC
            && self
                .over_row(key, payload)
                .verify_truncated_left(mac)
                .is_ok()
    }

    fn over_row(&self, key: &[u8], payload: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.rows.clone();
        mac.update(&(key.len() as u64).to_be_bytes());
        mac.update(key);
        mac.update(payload);
        mac
    }

    pub(crate) const fn key_id(&self) -> [u8; KEY_ID] {
        self.id
    }

    /// HMAC state for the authentication code of a backup.
    pub(crate) fn backup_code(&self) -> Result<Hmac<Sha256>, Fault> {
        // HMAC accepts keys of any length.
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

    /// The cursor of a list that continues after a place. It reveals neither the place nor the number of
    /// rows.
    pub(crate) fn seal_cursor(&self, place: &[u8]) -> Result<String, Fault> {
        let sealed = self.seal(CURSOR, &place)?;
        Ok(URL_SAFE_NO_PAD.encode(&sealed[KEY_ID..]))
    }

    /// The place in a cursor. `None` if [`Sealer::seal_cursor`] did not create it.
    pub(crate) fn open_cursor(&self, cursor: &str) -> Option<Vec<u8>> {
        if cursor.len() > MAX_CURSOR {
            return None;
        }
        let sealed = URL_SAFE_NO_PAD.decode(cursor).ok()?;
        self.open(CURSOR, &[&self.id[..], &sealed].concat()).ok()
    }

    /// Opens a value that [`Sealer::seal`] created for the same row.
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

/// Fills a buffer with random bytes from the operating system.
pub(crate) fn fill(buffer: &mut [u8]) -> Result<(), Fault> {
    getrandom::fill(buffer)
        .map_err(|error| Fault::Unavailable(format!("the system has no randomness: {error}")))
}

/// Returns a random id of 16 bytes.
pub(crate) fn random_id() -> Result<[u8; 16], Fault> {
    let mut bytes = [0; 16];
    fill(&mut bytes)?;
    Ok(bytes)
}

/// Stored bytes of an e-mail mark.
pub(crate) const EMAIL_MARK: usize = 16;

/// The first bytes of a hash. A checkout token needs no keyed hash, because callers do not choose it.
pub(crate) fn fingerprint(hash: [u8; 32]) -> Fingerprint {
    let [a, b, c, d, ..] = hash;
    [a, b, c, d]
}

/// The key of the e-mail mark and of the payment index's hashes: created with the store and sealed in it, so
/// that a mark has no meaning elsewhere and stays valid after a change of the master key and after redaction.
#[derive(Clone)]
pub(crate) struct Marker(Hmac<Sha256>);

impl Marker {
    /// A marker with a key.
    pub(crate) fn new(key: &[u8; 32]) -> Result<Self, Fault> {
        // HMAC accepts keys of any length.
        <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(key)
            .map(Self)
            .map_err(|_| Fault::Corrupt("the key of the e-mail mark".into()))
    }

    /// HMAC-SHA256 of an address exactly as sent: the first 128 bits, followed by zeros.
    pub(crate) fn email(&self, email: &Email) -> [u8; 32] {
        let hash = self.hash(b"e-mail\0", email.expose().as_bytes());
        let mut mark = [0; 32];
        mark[..EMAIL_MARK].copy_from_slice(&hash[..EMAIL_MARK]);
        mark
    }

    /// The first 128 bits of a text's HMAC-SHA256, for comparison.
    fn note(&self, kind: &[u8], text: &[u8]) -> [u8; EMAIL_MARK] {
        let hash = self.hash(kind, text);
        let mut mark = [0; EMAIL_MARK];
        mark.copy_from_slice(&hash[..EMAIL_MARK]);
        mark
    }

    /// Fingerprint of a request's reference, in the scope of its merchant or reseller.
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

    /// Fingerprint of an order.
    pub(crate) fn order(&self, order: &str) -> Fingerprint {
        fingerprint(self.hash(b"order\0", order.as_bytes()))
    }

    /// Fingerprint of an amount with its currency.
    pub(crate) fn amount(&self, due: Money) -> Fingerprint {
        fingerprint(self.hash(b"amount\0", due.to_string().as_bytes()))
    }

    /// Mark of a search key. `None` for `client_ref`, which has a separate index.
    pub(crate) fn search(&self, key: &SearchKey) -> Option<SearchMark> {
        let hash = match key {
            SearchKey::Email(email) => self.hash(b"mailbox\0", email.mailbox().as_bytes()),
            SearchKey::LastFour(digits) => self.hash(b"last four\0", digits.as_bytes()),
            SearchKey::Dispute(id) => self.hash(b"dispute\0", id.as_bytes()),
            SearchKey::Amount(due) => self.hash(b"amount\0", due.to_string().as_bytes()),
            SearchKey::ClientRef(_) => return None,
        };
        let [a, b, c, d, e, f, g, h, ..] = hash;
        Some([a, b, c, d, e, f, g, h])
    }

    fn hash(&self, of: &[u8], text: &[u8]) -> [u8; 32] {
        let mut mac = self.0.clone();
        mac.update(of);
        mac.update(text);
        mac.finalize().into_bytes().into()
    }
}

/// The sealer and the marker of a store.
pub(crate) struct Secrets {
    pub(crate) sealer: Sealer,
    pub(crate) marker: Marker,
}

impl Secrets {
    /// Mark of a request's e-mail address. `None` without an address.
    pub(crate) fn email_mark(&self, request: &Request) -> Option<[u8; 32]> {
        request.email.as_ref().map(|email| self.marker.email(email))
    }

    /// Hashes of notes for the payment's record. `None` if the notes are empty.
    pub(crate) fn notes_kept(&self, notes: &Notes) -> Option<NotesKept> {
        let metadata = || postcard::to_stdvec(&notes.metadata).unwrap_or_default();
        let is_there = !notes.metadata.is_empty();
        let description = notes.description.as_ref();
        (!notes.is_empty()).then(|| NotesKept {
            metadata_mark: is_there.then(|| self.marker.note(b"metadata\0", &metadata())),
            description_mark: description
                .map(|text| self.marker.note(b"description\0", text.as_str().as_bytes())),
            is_erased: false,
        })
    }

    /// Fingerprints that find a payment: of its reference, token, order and amount.
    pub(crate) fn marks(&self, payment: &Payment) -> [Fingerprint; 4] {
        [
            self.marker.reference(payment.merchant, &payment.origin),
            fingerprint(TokenHash::hash(payment.token.expose()).0),
            self.marker.order(payment.order_id.as_str()),
            self.marker.amount(payment.due),
        ]
    }

    /// Search marks of a payment with its attempts. Erasing personal data removes all but those of disputes.
    /// Amounts are not among them: the embedded store finds them through its payment index.
    pub(crate) fn search_marks(&self, aggregate: &PaymentAggregate) -> BTreeSet<SearchMark> {
        let email = aggregate.payment.email.clone().map(SearchKey::Email);
        let of_attempts = aggregate.attempts.iter().flat_map(|attempt| {
            let digits = attempt.particulars.last_four();
            let disputes = attempt.funds.disputes.iter();
            let disputes = disputes.map(|each| SearchKey::Dispute(each.dispute.id.clone()));
            let digits = digits.map(|digits| SearchKey::LastFour(digits.to_owned()));
            digits.into_iter().chain(disputes)
        });
        let keys = email.into_iter().chain(of_attempts);
        keys.filter_map(|key| self.marker.search(&key)).collect()
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
    fn a_cursor_reveals_neither_its_place_nor_whether_two_are_of_one_place() {
        let sealer = Sealer::new(&MasterKey::from_bytes([1; 32]));
        let place = b"pay/a\0\0\0\0\0\0\0\x07";
        let cursor = sealer.seal_cursor(place).unwrap();
        assert_eq!(sealer.open_cursor(&cursor).as_deref(), Some(&place[..]));
        assert_ne!(sealer.seal_cursor(place).unwrap(), cursor);
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        assert!(!bytes.windows(4).any(|part| part == b"pay/"));
        let other = Sealer::new(&MasterKey::from_bytes([2; 32]));
        assert_eq!(other.open_cursor(&cursor), None);
        for wrong in ["", "AAAA", &URL_SAFE_NO_PAD.encode(place), &"A".repeat(300)] {
            assert_eq!(sealer.open_cursor(wrong), None, "{wrong:.20}");
        }
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
