//! API keys, tokens and one-time codes: their shown and their stored form.
//!
//! A shown key is `prefix + 32 base62 of randomness + 6 base62 of CRC-32`, so that a typo is rejected without a
//! lookup. Only its SHA-256 is stored: 190 random bits need no pepper.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::{KeyId, MerchantId, ResellerId};
use crate::secret::Secret;
use crate::time::Time;

/// Test or live. Data of one environment is never visible in the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Environment {
    /// Simulated or sandbox money only.
    Test,
    /// Real money.
    Live,
}

impl Environment {
    /// `test` or `live`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Live => "live",
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Kind of a shown token, identified by its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TokenKind {
    /// `kp_test_`, `kp_live_`
    Merchant(Environment),
    /// `kr_test_`, `kr_live_`
    Reseller(Environment),
    /// `ko_`
    Operator,
    /// `kc_`: one-time connect code.
    Connect,
    /// `km_`: one-time consent code.
    Consent,
}

/// The alphabet of shown keys.
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Number of random characters in a key.
const KEY_RANDOM: usize = 32;
/// Number of random characters in a one-time code.
const CODE_RANDOM: usize = 40;
/// Number of checksum characters in a key: 62^6 holds a CRC-32.
const CHECK: usize = 6;

/// Draws `length` characters of base62 without bias.
///
/// `random` fills a buffer with random bytes from the operating system.
pub fn base62<E>(
    length: usize,
    mut random: impl FnMut(&mut [u8]) -> Result<(), E>,
) -> Result<String, E> {
    /// Largest multiple of 62 in a byte. Bytes at or above it are skipped, because they would favor the first
    /// letters.
    const FAIR: u8 = 248;
    let mut text = String::with_capacity(length);
    let mut buffer = [0_u8; 64];
    while text.len() < length {
        random(&mut buffer)?;
        let fair = buffer.iter().filter(|byte| **byte < FAIR);
        text.extend(
            fair.take(length - text.len())
                .map(|byte| char::from(BASE62[usize::from(byte % 62)])),
        );
    }
    buffer.fill(0);
    Ok(text)
}

/// CRC-32 of a text as six base62 digits, most significant first.
fn check_digits(text: &str) -> [u8; CHECK] {
    let mut rest = crc32fast::hash(text.as_bytes()) as usize;
    let mut digits = [b'0'; CHECK];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[rest % 62];
        rest /= 62;
    }
    digits
}

impl TokenKind {
    /// Prefix of the token.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Merchant(Environment::Test) => "kp_test_",
            Self::Merchant(Environment::Live) => "kp_live_",
            Self::Reseller(Environment::Test) => "kr_test_",
            Self::Reseller(Environment::Live) => "kr_live_",
            Self::Operator => "ko_",
            Self::Connect => "kc_",
            Self::Consent => "km_",
        }
    }

    const ALL: [Self; 7] = [
        Self::Merchant(Environment::Test),
        Self::Merchant(Environment::Live),
        Self::Reseller(Environment::Test),
        Self::Reseller(Environment::Live),
        Self::Operator,
        Self::Connect,
        Self::Consent,
    ];

    /// Whether the token ends in a checksum; one-time codes do not (decisions, "Connect").
    const fn checked(self) -> bool {
        !matches!(self, Self::Connect | Self::Consent)
    }

    /// Generates a token from the operating system's randomness.
    ///
    /// # Errors
    /// Errors of `random`.
    pub fn generate<E>(self, random: impl FnMut(&mut [u8]) -> Result<(), E>) -> Result<Secret, E> {
        let prefix = self.prefix();
        let length = if self.checked() {
            KEY_RANDOM
        } else {
            CODE_RANDOM
        };
        let body = base62(length, random)?;
        let mut token = String::with_capacity(prefix.len() + body.len() + CHECK);
        token.push_str(prefix);
        token.push_str(&body);
        if self.checked() {
            let check = check_digits(&token);
            token.extend(check.map(char::from));
        }
        Ok(Secret::new(token))
    }
}

/// SHA-256 of a shown token, or of a consent code's handle, under which it is stored and found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// The hash of a shown text.
    pub fn hash(shown: &str) -> Self {
        Self(Sha256::digest(shown.as_bytes()).into())
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenHash({}…)", hex::encode(&self.0[..4]))
    }
}

/// Parses a presented token. `None` if its form or its checksum is wrong.
pub fn read_token(presented: &str) -> Option<(TokenKind, TokenHash)> {
    let kind = TokenKind::ALL
        .into_iter()
        .find(|kind| presented.starts_with(kind.prefix()))?;
    let body = &presented[kind.prefix().len()..];
    let length = if kind.checked() {
        KEY_RANDOM + CHECK
    } else {
        CODE_RANDOM
    };
    if body.len() != length || !body.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    if kind.checked() {
        let (said, check) = presented.split_at(presented.len() - CHECK);
        if check_digits(said) != check.as_bytes() {
            return None;
        }
    }
    Some((kind, TokenHash::hash(presented)))
}

/// A permission of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Create and start payments.
    #[serde(rename = "payments:create")]
    PaymentsCreate,
    /// Read payments and methods.
    #[serde(rename = "payments:read")]
    PaymentsRead,
    #[serde(rename = "reseller:invite")]
    ResellerInvite,
    /// Create and start delegated payments.
    #[serde(rename = "reseller:payments:create")]
    ResellerPaymentsCreate,
    /// Read delegated payments and merchants.
    #[serde(rename = "reseller:payments:read")]
    ResellerPaymentsRead,
    #[serde(rename = "payments:refund")]
    PaymentsRefund,
    /// Manage the owner's webhook endpoints, read its deliveries.
    #[serde(rename = "account:manage")]
    AccountManage,
    /// Refund delegated payments, if the merchant's delegation allows it.
    #[serde(rename = "reseller:refund")]
    ResellerRefund,
}

impl Scope {
    /// Default scopes of a merchant's key.
    pub const MERCHANT: [Self; 2] = [Self::PaymentsCreate, Self::PaymentsRead];
    /// All scopes that a merchant's key can have.
    pub const MERCHANT_ALL: [Self; 4] = [
        Self::PaymentsCreate,
        Self::PaymentsRead,
        Self::PaymentsRefund,
        Self::AccountManage,
    ];
    /// Default scopes of a reseller's key.
    pub const RESELLER: [Self; 3] = [
        Self::ResellerInvite,
        Self::ResellerPaymentsCreate,
        Self::ResellerPaymentsRead,
    ];
    /// All scopes that a reseller's key can have.
    pub const RESELLER_ALL: [Self; 5] = [
        Self::ResellerInvite,
        Self::ResellerPaymentsCreate,
        Self::ResellerPaymentsRead,
        Self::ResellerRefund,
        Self::AccountManage,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PaymentsCreate => "payments:create",
            Self::PaymentsRead => "payments:read",
            Self::ResellerInvite => "reseller:invite",
            Self::ResellerPaymentsCreate => "reseller:payments:create",
            Self::ResellerPaymentsRead => "reseller:payments:read",
            Self::PaymentsRefund => "payments:refund",
            Self::AccountManage => "account:manage",
            Self::ResellerRefund => "reseller:refund",
        }
    }
}

/// Owner of a key or a webhook endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyOwner {
    Merchant(MerchantId),
    Reseller(ResellerId),
}

/// Stored form of an API key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKey {
    /// Id by which operators refer to the key.
    pub id: KeyId,
    /// SHA-256 of the whole key.
    pub hash: TokenHash,
    pub owner: KeyOwner,
    pub environment: Environment,
    pub scopes: Vec<Scope>,
    /// The key's last four characters, by which people recognize it.
    pub hint: String,
    pub created_at: Time,
    /// Time at which the key expires; a rotation sets this too.
    pub expires_at: Option<Time>,
    /// Time at which the key was revoked.
    pub revoked_at: Option<Time>,
    /// Time of the last use, up to a minute old, because it is written only now and then.
    pub last_used_at: Option<Time>,
}

impl ApiKey {
    /// Stored form of a new key without an expiry. `shown` is its full text.
    pub fn new(
        id: KeyId,
        shown: &Secret,
        owner: KeyOwner,
        environment: Environment,
        scopes: Vec<Scope>,
        created_at: Time,
    ) -> Self {
        let shown = shown.expose();
        let hint = shown.get(shown.len().saturating_sub(4)..);
        Self {
            id,
            hash: TokenHash::hash(shown),
            owner,
            environment,
            scopes,
            hint: hint.unwrap_or_default().to_owned(),
            created_at,
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        }
    }

    /// Whether the key is neither revoked nor expired.
    pub fn usable(&self, now: Time) -> bool {
        self.revoked_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Whether the key is usable and belongs to this owner and environment.
    pub fn usable_by(&self, owner: KeyOwner, environment: Environment, now: Time) -> bool {
        self.usable(now) && self.owner == owner && self.environment == environment
    }

    /// Whether the key has a scope.
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::convert::Infallible;

    fn counting() -> impl FnMut(&mut [u8]) -> Result<(), Infallible> {
        let mut next = 0_u8;
        move |buffer| {
            for byte in buffer {
                *byte = next;
                next = next.wrapping_add(37);
            }
            Ok(())
        }
    }

    #[test]
    fn keys_have_the_decided_form_and_read_back() {
        for kind in TokenKind::ALL {
            let Ok(key) = kind.generate(counting());
            let (read, hash) = read_token(key.expose()).unwrap();
            assert_eq!((read, hash), (kind, TokenHash::hash(key.expose())));
            let body = if kind.checked() { 38 } else { 40 };
            assert_eq!(key.expose().len(), kind.prefix().len() + body);
        }
    }

    #[test]
    fn bytes_that_would_favour_letters_are_thrown_away() {
        let mut calls = 0;
        let text = base62(4, |buffer: &mut [u8]| {
            calls += 1;
            buffer.fill(if calls == 1 { 255 } else { 61 });
            Ok::<_, Infallible>(())
        });
        assert_eq!((text, calls), (Ok("zzzz".to_owned()), 2));
    }

    proptest! {
        #[test]
        fn any_single_typo_is_refused(at in 8_usize..46, letter in "[0-9A-Za-z]") {
            let Ok(key) = TokenKind::Merchant(Environment::Test).generate(counting());
            let mut typo = key.expose().to_owned();
            typo.replace_range(at..=at, &letter);
            prop_assert_eq!(read_token(&typo).is_some(), typo == key.expose());
        }

        #[test]
        fn reading_a_token_never_panics(text in "(kp_test_|kc_)?.{0,60}") {
            let _ = read_token(&text);
        }
    }
}
