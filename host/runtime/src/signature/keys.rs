//! Keys in the format of the signing tools, a type byte and the key, and the slots that a key is for.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kassette_domain::id::Slot;
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use serde::Deserialize;
use zeroize::Zeroizing;

/// First byte of a public key file. 32 bytes follow.
const PUBLIC: u8 = 0x01;
/// First byte of a secret key file. The seed and the public key follow, with 32 bytes each.
const SECRET: u8 = 0x81;
/// Length of a key and of its seed, in bytes.
const KEY: usize = 32;
/// Length of a secret key file, in bytes.
const SECRET_FILE: usize = 1 + 2 * KEY;

/// Reason why a key or a slot pattern is not valid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The text is not the base64 of a public key file.
    #[error(
        "is no public key: write the line that `kassette plugin keygen` printed, which is the base64 of the public key's file"
    )]
    NotPublic,
    /// The bytes are not a secret key file.
    #[error("holds no secret key; `kassette plugin keygen` and `wasmsign2 keygen` write one")]
    NotSecret,
    /// The text is not a slot pattern.
    #[error(
        "is no slot: write one as \"provider.stripe\", or the beginning of some with \"*\" at its end, as \"method.*\""
    )]
    NotSlots,
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness; try again")]
    Random,
}

/// A key that verifies signatures. Its text form is the base64 of its file.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicKey([u8; KEY]);

impl PublicKey {
    /// Content of the key file.
    pub fn to_bytes(&self) -> Vec<u8> {
        [&[PUBLIC], self.0.as_slice()].concat()
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(message, signature).is_ok()
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let bytes = BASE64_STANDARD.decode(text.trim()).ok();
        let key = bytes
            .as_deref()
            .and_then(|file| file.strip_prefix(&[PUBLIC]));
        let key = key.and_then(|key| key.try_into().ok());
        key.map(Self).ok_or(KeyError::NotPublic)
    }
}

impl TryFrom<String> for PublicKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map_err(|error| format!("public_key = {text:?} {error}"))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&BASE64_STANDARD.encode(self.to_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({self})")
    }
}

/// A key that creates signatures.
pub struct SecretKey {
    file: Zeroizing<[u8; SECRET_FILE]>,
    pair: Ed25519KeyPair,
}

impl SecretKey {
    /// Generates a key.
    ///
    /// # Errors [`KeyError::Random`]
    pub fn draw() -> Result<Self, KeyError> {
        let mut file = Zeroizing::new([SECRET; SECRET_FILE]);
        let (_, rest) = file.split_at_mut(1);
        let (seed, public) = rest.split_at_mut(KEY);
        SystemRandom::new()
            .fill(seed)
            .map_err(|_| KeyError::Random)?;
        let pair = Ed25519KeyPair::from_seed_unchecked(seed);
        let pair = pair.map_err(|_| KeyError::NotSecret)?;
        public.copy_from_slice(pair.public_key().as_ref());
        Ok(Self { file, pair })
    }

    /// Parses the content of a secret key file.
    ///
    /// # Errors [`KeyError::NotSecret`]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let file = <[u8; SECRET_FILE]>::try_from(bytes).map(Zeroizing::new);
        let file = file.map_err(|_| KeyError::NotSecret)?;
        let both = file.strip_prefix(&[SECRET]).ok_or(KeyError::NotSecret)?;
        let (seed, public) = both.split_at(KEY);
        let pair = Ed25519KeyPair::from_seed_and_public_key(seed, public);
        let pair = pair.map_err(|_| KeyError::NotSecret)?;
        Ok(Self { file, pair })
    }

    /// Content of the key file.
    pub fn as_bytes(&self) -> &[u8] {
        self.file.as_slice()
    }

    /// The key that verifies signatures of this one.
    pub fn public_key(&self) -> PublicKey {
        let mut key = [0; KEY];
        key.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey(key)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.pair.sign(message).as_ref().to_vec()
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey(of {})", self.public_key())
    }
}

/// The name of a slot, or a prefix followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SlotPattern(String);

impl SlotPattern {
    /// Whether the pattern matches a slot.
    pub fn matches(&self, slot: &Slot) -> bool {
        match self.0.strip_suffix('*') {
            Some(start) => slot.as_str().starts_with(start),
            None => slot.as_str() == self.0,
        }
    }
}

impl FromStr for SlotPattern {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fits = match text.strip_suffix('*') {
            Some("") => true,
            // With one more letter, the prefix must be a valid slot name.
            Some(start) => Slot::parse(&format!("{start}x")).is_some(),
            None => Slot::parse(text).is_some(),
        };
        fits.then(|| Self(text.to_owned()))
            .ok_or(KeyError::NotSlots)
    }
}

impl TryFrom<String> for SlotPattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
            .map_err(|error| format!("slots = {text:?} {error}"))
    }
}

impl fmt::Display for SlotPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
