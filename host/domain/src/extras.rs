//! Optional fields of a payment request beyond the specification.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::order::{BadText, is_name, within};

/// Values of these fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    pub lifetime: Lifetime,
    /// Language of the payer's page, unless the payer chooses another.
    pub locale: Option<Locale>,
    pub notes: Notes,
}

/// Time from a payment's creation to its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime {
    pub seconds: u32,
    /// Whether the request set it. If not, it is the configured lifetime.
    pub is_asked: bool,
}

impl Lifetime {
    /// Minimum in a request, in seconds.
    pub const LEAST: u32 = 300;

    /// The configured lifetime, for a request without one.
    pub fn configured(life: Duration) -> Self {
        Self {
            seconds: u32::try_from(life.as_secs()).unwrap_or(u32::MAX),
            is_asked: false,
        }
    }

    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.seconds as u64)
    }
}

impl Default for Lifetime {
    /// A day, like the default of the setting.
    fn default() -> Self {
        Self::configured(Duration::from_secs(24 * 3600))
    }
}

/// A merchant's notes on a payment. They may contain personal data, so they are encrypted at rest, never printed, and
/// erased with the payer's data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notes {
    pub metadata: Metadata,
    pub description: Option<Description>,
}

impl Notes {
    pub fn is_empty(&self) -> bool {
        self.metadata.is_empty() && self.description.is_none()
    }
}

/// Data about notes in the payment's own record. The notes themselves are in a separate record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotesKept {
    /// Keyed hash of the metadata, for the idempotency comparison. It is not erased.
    pub metadata_mark: Option<[u8; 16]>,
    /// The same for the description.
    pub description_mark: Option<[u8; 16]>,
    pub is_erased: bool,
}

/// The merchant's values by key. Modules and providers never get them.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Metadata(BTreeMap<String, String>);

/// Reason why metadata is rejected, as a message for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadMetadata {
    #[error("must have at most {} keys", Metadata::MOST)]
    TooMany,
    #[error(
        "a key must have 1-{} letters, digits or the characters . _ -",
        Metadata::KEY
    )]
    Key,
    #[error("must be at most {} characters long", Metadata::VALUE)]
    Value,
}

impl Metadata {
    /// Maximum number of keys.
    pub const MOST: usize = 20;
    /// Maximum length of a key, in characters.
    pub const KEY: usize = 40;
    /// Maximum length of a value, in Unicode scalar values.
    pub const VALUE: usize = 500;

    /// Adds a value. `key` must be new.
    ///
    /// # Errors
    /// See [`BadMetadata`].
    pub fn add(&mut self, key: String, value: String) -> Result<(), BadMetadata> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        if !(1..=Self::KEY).contains(&key.len()) || !key.bytes().all(plain) {
            return Err(BadMetadata::Key);
        }
        within(&value, 0, Self::VALUE).map_err(|_| BadMetadata::Value)?;
        if self.0.len() == Self::MOST {
            return Err(BadMetadata::TooMany);
        }
        self.0.insert(key, value);
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Keys and values, in order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Metadata({} keys)", self.0.len())
    }
}

/// One line for the payer that describes the order.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Description(String);

impl Description {
    /// Maximum length, in Unicode scalar values.
    pub const MAX: usize = 200;

    /// Parses a description.
    ///
    /// # Errors
    /// See [`is_name`].
    pub fn parse(text: &str) -> Result<Self, BadText> {
        is_name(text, Self::MAX)?;
        Ok(Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Description(***)")
    }
}

/// A BCP 47 language tag of 2-35 characters, unchanged from the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Locale(String);

/// The text is not a language tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("must be a BCP 47 language tag such as de or pt-BR, of at most 35 characters")]
pub struct NotALocale;

impl Locale {
    /// Maximum length in characters (RFC 5646, 4.4.1).
    pub const MAX: usize = 35;

    /// Parses a tag: a language of 2-8 letters, then subtags of 1-8 letters or digits.
    ///
    /// # Errors
    /// [`NotALocale`]
    pub fn parse(text: &str) -> Result<Self, NotALocale> {
        let mut parts = text.split('-');
        let language = parts.next().unwrap_or_default();
        let is_language =
            (2..=8).contains(&language.len()) && language.bytes().all(|b| b.is_ascii_alphabetic());
        let is_subtag = |part: &str| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        };
        if text.len() <= Self::MAX && is_language && parts.all(is_subtag) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotALocale)
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Locale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_has_few_short_keys_and_values() {
        let mut metadata = Metadata::default();
        for number in 0..Metadata::MOST {
            let key = format!("{number:0>40}");
            assert_eq!(metadata.add(key, "é".repeat(500)), Ok(()));
        }
        let refused = |key: &str, value: &str| {
            let added = Metadata::default().add(key.to_owned(), value.to_owned());
            added.unwrap_err()
        };
        assert_eq!(
            metadata.add("one-more".into(), String::new()),
            Err(BadMetadata::TooMany)
        );
        for key in ["", "a b", "ä", "a:b", &"k".repeat(41)] {
            assert_eq!(refused(key, ""), BadMetadata::Key, "{key:?}");
        }
        assert_eq!(refused("key", &"é".repeat(501)), BadMetadata::Value);
        let mut one = Metadata::default();
        assert_eq!(one.add("a.B_c-9".into(), "line\nline".into()), Ok(()));
        assert_eq!(one.iter().collect::<Vec<_>>(), [("a.B_c-9", "line\nline")]);
        assert_eq!(format!("{one:?}"), "Metadata(1 keys)");
    }

    #[test]
    fn a_locale_is_a_language_with_subtags() {
        for tag in ["de", "pt-BR", "zh-Hant-TW", "sr-Latn", "de-1996", "en-u-ca"] {
            assert_eq!(
                Locale::parse(tag).map(|locale| locale.to_string()),
                Ok(tag.into())
            );
        }
        for text in [
            "",
            "d",
            "de_DE",
            "de-",
            "-de",
            "1de",
            "de-toolongpart",
            "dé",
            "en; q=1",
            "de--AT",
        ] {
            assert_eq!(Locale::parse(text), Err(NotALocale), "{text:?}");
        }
        assert!(Locale::parse(&format!("de{}", "-abcdefgh".repeat(4))).is_err());
    }
}
