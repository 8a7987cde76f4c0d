//! The contract's limits on answers of guests.

use kassette_domain::money::Currency;

use crate::error::CallError;
use crate::text;

/// Maximum length of a reason or detail for operators, in bytes, from the contract.
pub(super) const DETAIL: usize = 200;
/// Maximum length of a label, in bytes, from the contract.
const LABEL: usize = 40;
/// Maximum length of a version, in bytes. The contract does not limit it.
const VERSION: usize = 40;
/// Maximum number of currencies in a list. ISO 4217 has fewer than 200.
const CURRENCIES: usize = 256;

pub(super) fn bad_reply<T>(what: &'static str) -> Result<T, CallError> {
    Err(CallError::BadReply(what))
}

pub(super) fn at_most<T>(
    list: Vec<T>,
    most: usize,
    otherwise: &'static str,
) -> Result<Vec<T>, CallError> {
    if list.len() > most {
        return bad_reply(otherwise);
    }
    Ok(list)
}

/// Sanitizes text. Fails if it exceeds a limit of the contract.
pub(super) fn within(
    text: String,
    most: usize,
    otherwise: &'static str,
) -> Result<String, CallError> {
    if text.len() > most {
        return bad_reply(otherwise);
    }
    // Most texts need no change and are not copied. Without an early exit, the loop checks many bytes at once.
    let plain = text
        .bytes()
        .fold(true, |plain, b| plain & (b' '..=b'~').contains(&b));
    Ok(if plain { text } else { text::clean(&text) })
}

/// Checks a label, which payers see and which must not be empty.
pub(super) fn label(text: String) -> Result<String, CallError> {
    let label = within(text, LABEL, "a label is over 40 bytes")?;
    if label.trim().is_empty() {
        bad_reply("a label is empty")
    } else {
        Ok(label)
    }
}

pub(super) fn version(text: String) -> Result<String, CallError> {
    within(text, VERSION, "the version is over 40 bytes")
}

/// Parses currency codes and leaves out all that an invoice cannot have.
///
/// `None` if this removes all of them, because an empty list means any currency.
pub(super) fn currencies(codes: &[String]) -> Result<Option<Vec<Currency>>, CallError> {
    if codes.len() > CURRENCIES {
        return bad_reply("too many currencies");
    }
    if !codes.iter().all(|code| is_currency(code)) {
        return bad_reply("a currency is not three capital letters");
    }
    let known: Vec<_> = codes
        .iter()
        .filter_map(|code| Currency::parse(code))
        .collect();
    Ok((codes.is_empty() || !known.is_empty()).then_some(known))
}

/// Whether a code has three capital letters.
pub(super) fn is_currency(code: &str) -> bool {
    code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase())
}

/// Whether a tag has the form of BCP 47: parts of 1 to 8 letters and digits with hyphens between them, the first
/// of 2 or 3 letters, at most 35 bytes in total.
pub(super) fn is_language(tag: &str) -> bool {
    let mut parts = tag.split('-');
    let first = parts.next().unwrap_or_default();
    (2..=3).contains(&first.len())
        && first.bytes().all(|b| b.is_ascii_alphabetic())
        && tag.len() <= 35
        && parts.all(|part| {
            (1..=8).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

/// Whether a name is kebab-case: lower-case letters, digits and single hyphens, starting with a letter, at most 64
/// bytes.
pub(super) fn is_kebab(name: &str) -> bool {
    name.len() <= 64
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && !name.contains("--")
        && name
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_foreign_currencies_is_not_any_currency() {
        assert_eq!(currencies(&[]), Ok(Some(vec![])));
        assert_eq!(
            currencies(&["JPY".into(), "EUR".into()]),
            Ok(Some(vec![Currency::EUR]))
        );
        assert_eq!(currencies(&["JPY".into()]), Ok(None));
        assert!(currencies(&["eur".into()]).is_err());
    }

    #[test]
    fn names_are_kebab_case() {
        assert!(is_kebab("base-url") && is_kebab("token2"));
        for wrong in ["", "A", "a_b", "-a", "a-", "a--b", "2a"] {
            assert!(!is_kebab(wrong), "{wrong}");
        }
    }
}
