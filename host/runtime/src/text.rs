//! Text that a guest wrote: limits, and what is taken out before a person sees it.

use kassette_domain::money::Currency;

use crate::error::CallError;

/// Longest reason or detail for operators, in bytes (the contract's limit).
pub(crate) const DETAIL: usize = 200;
/// Longest label, in bytes (the contract's limit).
const LABEL: usize = 40;
/// Longest version; the contract sets none.
const VERSION: usize = 40;
/// Most currencies in a list; ISO 4217 has fewer than 200.
const CURRENCIES: usize = 256;

/// Text without what could forge a line, hide or reorder what follows: control characters and the
/// invisible ones that steer direction.
pub(crate) fn clean(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' | '\u{2028}' | '\u{2029}' => clean.push(' '),
            c if c.is_control() || is_steering(c) => {}
            c => clean.push(c),
        }
    }
    clean
}

/// Bidirectional controls, invisible separators and the byte order mark.
fn is_steering(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Clean text, cut to a number of bytes at a character's end.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let mut clean = clean(text);
    clean.truncate(clean.floor_char_boundary(most));
    clean
}

/// Clean text that must keep a limit of the contract.
pub(crate) fn within(
    text: String,
    most: usize,
    otherwise: &'static str,
) -> Result<String, CallError> {
    if text.len() > most {
        return Err(CallError::BadReply(otherwise));
    }
    // Most texts need no change; then nothing is copied.
    // All bytes are looked at whatever the first ones are: many at once.
    let plain = text
        .bytes()
        .fold(true, |plain, b| plain & (b' '..=b'~').contains(&b));
    Ok(if plain { text } else { clean(&text) })
}

/// A label: shown to the payer, never empty.
pub(crate) fn label(text: String) -> Result<String, CallError> {
    let label = within(text, LABEL, "a label is over 40 bytes")?;
    if label.trim().is_empty() {
        Err(CallError::BadReply("a label is empty"))
    } else {
        Ok(label)
    }
}

/// A module's own version.
pub(crate) fn version(text: String) -> Result<String, CallError> {
    within(text, VERSION, "the version is over 40 bytes")
}

/// A list of currency codes; those that no invoice can have are left out.
///
/// None where nothing is left of a list: empty would mean any currency.
pub(crate) fn currencies(codes: &[String]) -> Result<Option<Vec<Currency>>, CallError> {
    if codes.len() > CURRENCIES {
        return Err(CallError::BadReply("too many currencies"));
    }
    if !codes.iter().all(|code| is_currency(code)) {
        return Err(CallError::BadReply(
            "a currency is not three capital letters",
        ));
    }
    let known: Vec<_> = codes
        .iter()
        .filter_map(|code| Currency::parse(code))
        .collect();
    Ok((codes.is_empty() || !known.is_empty()).then_some(known))
}

/// Three capital letters.
pub(crate) fn is_currency(code: &str) -> bool {
    code.len() == 3 && code.bytes().all(|b| b.is_ascii_uppercase())
}

/// Lower-case letters, digits and single hyphens, beginning with a letter; at most 64 bytes.
pub(crate) fn is_kebab(name: &str) -> bool {
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
    fn what_could_forge_or_reorder_text_is_taken_out() {
        assert_eq!(
            clean("pay\u{202e}dlog\u{0} \u{1b}[31mnow\nnext"),
            "paydlog [31mnow next"
        );
        assert_eq!(clean("Überweisung 支払い ✓"), "Überweisung 支払い ✓");
    }

    #[test]
    fn cutting_keeps_whole_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
    }

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
