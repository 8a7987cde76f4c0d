//! redb with the same operation: the work on the caller's side (hashing, sealing, encoding) and the rows that the
//! store writes. These are one per payment, and per group one of the register, one due time, and the group's
//! number. It looks up only the payment's id and keeps no register in memory, so the comparison favors redb.

use std::path::Path;

use chacha20poly1305::aead::{Aead as _, Payload};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};
use hmac::{Hmac, Mac as _};
use kassette_domain::payment::{NewPayment, Payment};
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use redb::{Database, ReadableTable as _, TableDefinition};
use sha2::Sha256;

use super::group::Group;

const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
/// Bytes of a payment in the register.
const REGISTERED: usize = 33;

/// Row of a payment.
pub(crate) struct Row {
    pub(crate) key: [u8; 20],
    pub(crate) value: Vec<u8>,
}

/// Prepares rows on the caller's side.
pub(crate) struct Preparer {
    cipher: XChaCha20Poly1305,
    mac: Hmac<Sha256>,
}

impl Preparer {
    pub(crate) fn new() -> Self {
        Self {
            cipher: XChaCha20Poly1305::new(&[7; 32].into()),
            mac: <Hmac<Sha256> as hmac::KeyInit>::new_from_slice(&[7; 32]).unwrap(),
        }
    }

    fn hash(&self, text: &str) -> [u8; 32] {
        let mut mac = self.mac.clone();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// Encodes the row of a payment.
    pub(crate) fn row(&self, new: NewPayment, now: Time) -> Row {
        let email = new
            .request
            .email
            .as_ref()
            .map(|email| self.hash(email.expose()));
        let mut payment = Payment::new(new, email, now);
        let found_by = [payment.order_id.as_str(), payment.token.expose()].map(|by| self.hash(by));
        assert_ne!(found_by[0], found_by[1]);
        let token = std::mem::replace(&mut payment.token, Secret::new(""));
        let secrets = postcard::to_stdvec(&(payment.email.take(), token)).unwrap();
        let mut key = *b"pay/----------------";
        key[4..].copy_from_slice(payment.id.as_bytes());
        let nonce: [u8; 24] = super::work::random();
        let sealed = Payload {
            msg: &secrets,
            aad: &key,
        };
        let sealed = self.cipher.encrypt(&nonce.into(), sealed).unwrap();
        let value = postcard::to_stdvec(&(payment, nonce, sealed)).unwrap();
        Row { key, value }
    }
}

/// Starts a thread that writes each group of payments in one durable transaction.
pub(crate) fn start(path: &Path) -> Group<Row> {
    let database = Database::builder()
        .set_cache_size(super::work::CACHE_BYTES as usize)
        .create(path)
        .unwrap();
    let mut number = 0_u64;
    Group::start(move |rows: Vec<Row>| {
        number += 1;
        let transaction = database.begin_write().unwrap();
        {
            let mut table = transaction.open_table(ROWS).unwrap();
            for row in &rows {
                assert!(table.get(&row.key[..]).unwrap().is_none());
                table.insert(&row.key[..], &row.value[..]).unwrap();
            }
            let register = vec![7; rows.len() * REGISTERED];
            let key = |kind: &[u8]| [kind, &number.to_be_bytes()].concat();
            table.insert(&key(b"reg/")[..], &register[..]).unwrap();
            table.insert(&key(b"due/0123456")[..], &[][..]).unwrap();
            let group = number.to_be_bytes();
            table.insert(&b"meta/group"[..], &group[..]).unwrap();
        }
        transaction.commit().unwrap();
    })
}
