//! Texts of a payment request: order reference, idempotency key, payer's e-mail address.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::secret::Secret;
use crate::text::{is_blank, shows, steers};

/// Reason why a text of a request is rejected; the messages are for the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadText {
    /// Too short or too long, counted in Unicode scalar values.
    #[error("must be {least}-{most} characters long")]
    Length {
        /// Minimum.
        least: usize,
        /// Maximum.
        most: usize,
    },
    /// No visible character.
    #[error("must have a character that shows")]
    Blank,
    /// A blank character at the start or end.
    #[error("must begin and end with a character that shows")]
    Surrounded,
    /// A control or text-direction character.
    #[error("must not contain control or text-direction characters")]
    Control,
    /// A character outside the pattern.
    #[error("may only contain letters, digits and the characters . _ : -")]
    Pattern,
    #[error("must be a valid e-mail address of at most 254 characters")]
    Email,
}

pub(crate) fn within(text: &str, least: usize, most: usize) -> Result<(), BadText> {
    // A scalar value takes at most four bytes: the first test bounds the second's work.
    let fits = text.len() <= most * 4 && (least..=most).contains(&text.chars().count());
    if fits {
        Ok(())
    } else {
        Err(BadText::Length { least, most })
    }
}

macro_rules! text {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The text as sent.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text! {
    /// The merchant's order reference, shown to the customer: 1-150 characters, not normalized.
    OrderId
}
text! {
    /// The merchant's idempotency key: 8-190 of `[A-Za-z0-9._:-]`.
    IdempotencyKey
}
text! {
    /// A reseller's own reference: 1-190 of `[A-Za-z0-9._:-]`.
    ClientRef
}

/// Checks that a text of 1 to `most` characters can be shown to a payer on one line.
///
/// # Errors
/// The text is blank, too long, or contains control or bidi characters.
pub fn shown_in_a_line(text: &str, most: usize) -> Result<(), BadText> {
    within(text, 1, most)?;
    if text.chars().any(steers) {
        return Err(BadText::Control);
    }
    if !shows(text) {
        return Err(BadText::Blank);
    }
    Ok(())
}

/// Checks that a text of 1 to `most` characters can be a name, an actor or a reason: it can be shown on one line,
/// and blanks around it cannot make it differ from a text that looks the same.
///
/// # Errors
/// The text is blank, too long, contains control or bidi characters, or has blanks around it.
pub fn is_name(text: &str, most: usize) -> Result<(), BadText> {
    shown_in_a_line(text, most)?;
    // An emoji may end with a character that selects its glyph.
    let ends_emoji = |c: char| matches!(c, '\u{FE0F}' | '\u{E007F}');
    let begins_blank = text.starts_with(is_blank);
    let ends_blank = text.ends_with(|c| is_blank(c) && !ends_emoji(c));
    if begins_blank || ends_blank {
        return Err(BadText::Surrounded);
    }
    Ok(())
}

impl OrderId {
    /// Parses an order reference.
    ///
    /// # Errors
    /// See [`shown_in_a_line`].
    pub fn parse(text: &str) -> Result<Self, BadText> {
        shown_in_a_line(text, 150)?;
        Ok(Self(text.to_owned()))
    }
}

fn plain(text: &str) -> Result<(), BadText> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    if text.bytes().all(allowed) {
        Ok(())
    } else {
        Err(BadText::Pattern)
    }
}

impl IdempotencyKey {
    /// Parses a key.
    ///
    /// # Errors
    /// Wrong length or a character outside the pattern.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        within(text, 8, 190)?;
        plain(text)?;
        Ok(Self(text.to_owned()))
    }
}

impl ClientRef {
    /// Parses a reference.
    ///
    /// # Errors
    /// Wrong length or a character outside the pattern.
    pub fn parse(text: &str) -> Result<Self, BadText> {
        within(text, 1, 190)?;
        plain(text)?;
        Ok(Self(text.to_owned()))
    }
}

/// A payer's e-mail address: personal data, so it is encrypted at rest and never printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Email(Secret);

impl Email {
    /// Maximum length of an address, in bytes (RFC 5321, 4.5.3.1.3, without the brackets).
    pub const MAX: usize = 254;

    /// Parses an address by the WHATWG's rule ("valid e-mail address").
    ///
    /// # Errors
    /// [`BadText::Email`].
    pub fn parse(text: &str) -> Result<Self, BadText> {
        let (local, host) = text.split_once('@').ok_or(BadText::Email)?;
        let atom = |b: u8| b.is_ascii_alphanumeric() || b".!#$%&'*+/=?^_`{|}~-".contains(&b);
        let local_fits = !local.is_empty() && local.bytes().all(atom);
        if text.len() > Self::MAX || !local_fits || !host.split('.').all(is_label) {
            return Err(BadText::Email);
        }
        Ok(Self(Secret::new(text)))
    }

    /// Returns the address, for the one place that needs it.
    pub fn expose(&self) -> &str {
        self.0.expose()
    }

    /// The address's mailbox at most e-mail providers: in lower case, without `+…` before the `@`.
    pub fn mailbox(&self) -> String {
        let address = self.expose().to_ascii_lowercase();
        match address.split_once('@') {
            Some((local, host)) => {
                let name = local.split('+').next().filter(|name| !name.is_empty());
                format!("{}@{host}", name.unwrap_or(local))
            }
            None => address,
        }
    }
}

/// A label of a host name: 1-63 letters, digits and inner hyphens.
pub(crate) fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_begins_and_ends_with_what_shows() {
        for name in ["a", "Shop Seven", "Zoë's", "日本", "Shop ❤\u{FE0F}", "-"] {
            assert_eq!(is_name(name, 20), Ok(()), "{name:?}");
        }
        for name in [
            " root",
            "root ",
            "\u{A0}root",
            "root\u{200B}",
            "\u{3164}root",
            "root\u{2800}",
        ] {
            assert_eq!(is_name(name, 20), Err(BadText::Surrounded), "{name:?}");
        }
        for name in ["a\nb", "a\u{202E}b", "\u{2066}a", "a\u{7}"] {
            assert_eq!(is_name(name, 20), Err(BadText::Control), "{name:?}");
        }
        assert_eq!(is_name(" ", 20), Err(BadText::Blank));
        assert!(is_name("", 20).is_err() && is_name("aa", 1).is_err());
    }

    #[test]
    fn an_order_reference_is_kept_exactly() {
        assert_eq!(
            OrderId::parse(" Nº 7 \u{1F600}").unwrap().as_str(),
            " Nº 7 \u{1F600}"
        );
        assert!(OrderId::parse(&"é".repeat(150)).is_ok());
    }

    #[test]
    fn order_references_that_mislead_are_refused() {
        for (text, why) in [
            (
                "",
                BadText::Length {
                    least: 1,
                    most: 150,
                },
            ),
            ("  \u{2003}", BadText::Blank),
            ("\u{200B}", BadText::Blank),
            ("\u{AD} \u{FE0F}", BadText::Blank),
            ("\u{3164}\u{115F}", BadText::Blank),
            ("\u{2800}", BadText::Blank),
            ("a\nb", BadText::Control),
            ("a\u{202E}b", BadText::Control),
            ("a\u{0085}b", BadText::Control),
        ] {
            assert_eq!(OrderId::parse(text), Err(why), "{text:?}");
        }
        assert!(OrderId::parse(&"é".repeat(151)).is_err());
    }

    #[test]
    fn idempotency_keys_follow_length_and_pattern() {
        assert!(IdempotencyKey::parse("order:1_a.b-C").is_ok());
        for text in ["short12", "has space", "ümlaut-key", &"k".repeat(191)] {
            assert!(IdempotencyKey::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn emails_follow_the_form_rule_of_browsers() {
        for text in ["a@b", "first.last+tag@mail.example.co.uk", "!#$%@x-y.z"] {
            assert!(Email::parse(text).is_ok(), "{text:?}");
        }
        let long = format!("{}@example.com", "a".repeat(243));
        for text in [
            "", "a", "@b", "a@", "a@b..c", "a@-b", "a@b-", "a b@c", "a@b@c", "ä@b.de", &long,
        ] {
            assert!(Email::parse(text).is_err(), "{text:?}");
        }
    }
}
