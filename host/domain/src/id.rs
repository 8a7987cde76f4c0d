//! Identifiers. Each kind has its own type, so that one cannot be used in place of another.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Time;

/// The text is not 32 lower-case hexadecimal characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an identifier: expected 32 lower-case hexadecimal characters")]
pub struct NotAnId;

/// Parses 32 lower-case hexadecimal characters.
fn parse_hex(text: &str) -> Result<[u8; 16], NotAnId> {
    if text.bytes().any(|b| b.is_ascii_uppercase()) {
        return Err(NotAnId);
    }
    let mut bytes = [0; 16];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| NotAnId)?;
    Ok(bytes)
}

fn write_hex(bytes: [u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0; 32];
    hex::encode_to_slice(bytes, &mut text).map_err(|_| fmt::Error)?;
    f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
}

macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        /// Sixteen random bytes from the operating system, shown as 32 lower-case hexadecimal characters.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name([u8; 16]);

        impl $name {
            /// An id from bytes that the caller drew at random.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(bytes)
            }

            /// The bytes, for keys of the store.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                &self.0
            }

            /// Parses the wire form.
            ///
            /// # Errors
            /// [`NotAnId`] for anything but 32 lower-case hexadecimal characters.
            pub fn parse(text: &str) -> Result<Self, NotAnId> {
                parse_hex(text).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_hex(self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
    };
}

random_id! {
    /// A payment. An id from [`PaymentId::made_at`] starts with its time, so that rows of payments are sorted by
    /// time of creation.
    PaymentId
}

impl PaymentId {
    /// Id of a new payment: 48 bits of milliseconds since the Unix epoch, then 80 random bits from the caller.
    pub fn made_at(now: Time, random: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&now.as_millis().to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&random);
        Self(bytes)
    }

    /// Time of creation in an id from [`PaymentId::made_at`]. Meaningless for other ids.
    pub fn time(&self) -> Time {
        let mut millis = [0; 8];
        millis[2..].copy_from_slice(&self.0[..6]);
        Time::from_millis(u64::from_be_bytes(millis))
    }
}
random_id! {
    /// An attempt; at the provider, its idempotency key and reference.
    AttemptId
}
impl AttemptId {
    /// Id for a work item that is not about an attempt: the same name gives the same id on every node.
    pub fn of_name(name: &str) -> Self {
        let mut id = [0; 16];
        id.copy_from_slice(&Digest::hash(name.as_bytes()).0[..16]);
        Self(id)
    }
}
random_id! {
    /// A refund; at the provider, its idempotency key and reference.
    RefundId
}

random_id! {
    /// A ledger movement; derived from its subject, see [`MovementId::derived`].
    MovementId
}

impl RefundId {
    /// Id of a refund that was not ordered here. `unique` identifies it within the attempt, usually by the
    /// provider's refund id, so that repeated reports of a refund give the same id.
    pub fn derived(attempt: AttemptId, unique: &[u8]) -> Self {
        use sha2::Digest as _;
        let hash: [u8; 32] = sha2::Sha256::new()
            .chain_update(attempt.as_bytes())
            .chain_update(unique)
            .finalize()
            .into();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        Self(id)
    }
}
random_id! {
    /// A webhook event; the same in header and body (spec, "Events" 3).
    EventId
}
random_id! {
    /// The delivery of one event to one endpoint.
    DeliveryId
}
random_id! {
    /// A connect code, as operators refer to it.
    ConnectCodeId
}
random_id! {
    /// A merchant's webhook endpoint.
    EndpointId
}
random_id! {
    /// An API key, as operators refer to it. Not the key.
    KeyId
}
random_id! {
    /// A person or script with an operator token.
    OperatorId
}
random_id! {
    /// An item of the operators' work list.
    WorkId
}
random_id! {
    /// A reseller's invitation.
    InvitationId
}

macro_rules! counted_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }
    };
}

counted_id! {
    /// A merchant, numbered from 1.
    MerchantId
}
counted_id! {
    /// A reseller, numbered from 1.
    ResellerId
}

/// A configured provider account, for example `paypal-live`; `provider_id` on the wire. Not a module's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct AccountId(String);

impl AccountId {
    /// Maximum length of an account id, in bytes.
    pub const MAX: usize = 64;

    /// Parses an account id: 1-64 of `a-z`, `0-9` and `-`, starting with a letter.
    ///
    /// # Errors
    /// [`NotAnAccountId`] for any other text.
    pub fn parse(text: &str) -> Result<Self, NotAnAccountId> {
        Self::try_from(text.to_owned())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AccountId {
    type Error = NotAnAccountId;

    fn try_from(text: String) -> Result<Self, NotAnAccountId> {
        let fits = text.len() <= Self::MAX
            && text.starts_with(|c: char| c.is_ascii_lowercase())
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
        if fits {
            Ok(Self(text))
        } else {
            Err(NotAnAccountId)
        }
    }
}

impl<'de> Deserialize<'de> for AccountId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::try_from(text).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for AccountId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The text is not the id of a provider account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a provider account id: 1-64 of a-z, 0-9 and '-', beginning with a letter")]
pub struct NotAnAccountId;

/// SHA-256 of a module's file, which identifies its version. Shown in hexadecimal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of a file's bytes.
    pub fn hash(bytes: &[u8]) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Parses 64 lower-case hexadecimal characters. `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// Digests as hexadecimal text in JSON: `#[serde(with = "digest_text")]`.
pub mod digest_text {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use super::Digest;

    /// Writes 64 hexadecimal characters.
    ///
    /// # Errors
    /// Errors of the serializer.
    pub fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    /// Reads 64 lower-case hexadecimal characters.
    ///
    /// # Errors
    /// The text is not a digest.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(from)?;
        Digest::parse(&text).ok_or_else(|| de::Error::custom("not a digest"))
    }
}

/// A slot's name: `method.<method_id>` or `provider.<module>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Slot(String);

/// WIT world that a slot's module implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlotKind {
    /// World `method`.
    Method,
    /// World `provider`.
    Provider,
}

impl Slot {
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('.')?;
        let named = !name.is_empty()
            && name.len() <= 40
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        (matches!(kind, "method" | "provider") && named).then(|| Self(text.to_owned()))
    }

    /// The slot of a payment method.
    pub fn of_method(method: crate::method::MethodId) -> Self {
        Self(format!("method.{method}"))
    }

    /// The slot of a provider module. `None` if the name is not 1-40 of `a-z`, `0-9` and `_`.
    pub fn of_provider(module: &str) -> Option<Self> {
        Self::parse(&format!("provider.{module}"))
    }

    /// WIT world that the slot's module implements.
    pub fn kind(&self) -> SlotKind {
        if self.0.starts_with("method.") {
            SlotKind::Method
        } else {
            SlotKind::Provider
        }
    }

    /// The part after the kind: `ideal`, `sandbox`.
    pub fn name(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, name)| name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Slot {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not a slot"))
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payment_ids_are_lower_case_hex_only() {
        let id = PaymentId::from_bytes([0xab; 16]);
        assert_eq!(PaymentId::parse(&id.to_string()), Ok(id));
        assert!(PaymentId::parse(&id.to_string().to_uppercase()).is_err());
        assert!(PaymentId::parse("abc").is_err());
    }

    #[test]
    fn ids_of_payments_stand_in_order_of_time() {
        let (early, late) = (Time::from_millis(255), Time::from_millis(256));
        let first = PaymentId::made_at(early, [0xff; 10]);
        let second = PaymentId::made_at(late, [0; 10]);
        assert!(first < second);
        assert_eq!((first.time(), second.time()), (early, late));
    }

    #[test]
    fn slots_name_a_world_and_a_module() {
        let slot = Slot::parse("method.credit_card").unwrap();
        assert_eq!(
            (slot.kind(), slot.name()),
            (SlotKind::Method, "credit_card")
        );
        for wrong in ["method", "method.", "other.x", "method.../x", "provider.A"] {
            assert_eq!(Slot::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn account_ids_are_plain() {
        assert!(AccountId::parse("paypal-live").is_ok());
        for wrong in ["", "9x", "A", "a b", "a/b"] {
            assert!(AccountId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
