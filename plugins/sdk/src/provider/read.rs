//! Parses values of providers' responses in all common notations: numbers and times as text or numbers, currencies
//! in either case, amounts with any number of decimals.
use crate::json::Json;
use crate::time;

/// Limit for seconds since 1970. Numbers from here on are milliseconds.
const MOST_SECONDS: u64 = 100_000_000_000;

/// A non-empty text, or a number as written. `None` for other values.
#[must_use]
pub fn word(value: &Json) -> Option<&str> {
    let word = value.text().or_else(|| value.number())?;
    Some(word).filter(|word| !word.is_empty())
}

/// A non-empty text or number in a field. `None` if it is absent, null or empty.
#[must_use]
pub fn field<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    word(value.get(name)?)
}

/// The items of the list at a path. Empty if it is absent, null or not a list.
#[must_use]
pub fn items<'a>(value: &'a Json, path: &[&str]) -> &'a [Json] {
    value.path(path).map_or(&[], Json::items)
}

/// A currency code, converted to capital letters. `None` if it does not have three letters.
#[must_use]
pub fn currency(value: &Json) -> Option<String> {
    let code = value.text()?.trim();
    let letters = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_alphabetic());
    letters.then(|| code.to_ascii_uppercase())
}

/// A decimal number without its sign, scaled by this many decimal places and rounded to the nearest: `49.90`,
/// `-13`, `6.15`. `None` for any other value.
#[must_use]
pub fn decimal(value: &Json, places: usize) -> Option<u128> {
    let text = word(value)?;
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let digit = |place: usize| {
        let byte = fraction.as_bytes().get(place).copied().unwrap_or(b'0');
        u128::from(byte - b'0')
    };
    let add = |number: u128, place| number.checked_mul(10)?.checked_add(digit(place));
    let number = (0..places).try_fold(whole.parse().ok()?, add)?;
    number.checked_add(u128::from(digit(places) >= 5))
}

/// An amount written in units, as minor units without its sign: `49.90` is 4990.
#[must_use]
pub fn units(value: &Json) -> Option<u64> {
    decimal(value, 2)?.try_into().ok()
}

/// An amount written in minor units, without its sign: `4990`, `"4990"`, `4990.0`, `-4990`.
#[must_use]
pub fn minor(value: &Json) -> Option<u64> {
    decimal(value, 0)?.try_into().ok()
}

/// A time as milliseconds since 1970, from RFC 3339, seconds or milliseconds. `None` for any other value.
#[must_use]
pub fn time(value: &Json) -> Option<u64> {
    if let Some(number) = value.whole() {
        return if number < MOST_SECONDS {
            number.checked_mul(1_000)
        } else {
            Some(number)
        };
    }
    time::parse_rfc3339(value.text()?)
}

/// Sentences about the unreadable parts of a response, within the limits of `particulars.unreadable`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unreadable(Vec<String>);

impl Unreadable {
    /// Maximum number of sentences in a report, and maximum length of each in bytes.
    const MOST: usize = 8;
    const LENGTH: usize = 200;

    /// Adds a sentence about a part, such as `chargeback chb_1 has no amount`. Keeps only printable ASCII, drops
    /// duplicates and sentences beyond the limit.
    pub fn note(&mut self, sentence: &str) {
        let printable = sentence.chars().filter(|c| matches!(c, ' '..='~'));
        let sentence: String = printable.take(Self::LENGTH).collect();
        if self.0.len() < Self::MOST && !self.0.contains(&sentence) {
            self.0.push(sentence);
        }
    }

    /// Notes that the module does not know the status of a part.
    pub fn unknown_status(&mut self, part: &str, id: &str, status: &str) {
        self.note(&[part, " ", id, " has the unknown status ", status].concat());
    }

    /// Adds the sentences of another value.
    pub fn extend(&mut self, other: Self) {
        other.0.iter().for_each(|sentence| self.note(sentence));
    }

    /// Returns the sentences for a report.
    #[must_use]
    pub fn into_sentences(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Json {
        Json::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn amounts_are_read_in_every_spelling() {
        for (text, amount) in [
            ("\"49.90\"", Some(4990)),
            ("49.9", Some(4990)),
            ("\"49.89999999\"", Some(4990)),
            ("\"49.8949\"", Some(4989)),
            ("\"-13.00\"", Some(1300)),
            ("12", Some(1200)),
            ("\"\"", None),
            ("\"49,90\"", None),
            ("\"1e3\"", None),
            ("null", None),
            ("184467440737095517", None),
        ] {
            assert_eq!(units(&read(text)), amount, "{text}");
        }
        for text in ["4990", "\"4990\"", "4990.0", "-4990"] {
            assert_eq!(minor(&read(text)), Some(4990), "{text}");
        }
    }

    #[test]
    fn times_are_read_in_every_spelling() {
        for text in [
            "1800000000",
            "\"1800000000\"",
            "1800000000000",
            "\"2027-01-15T08:00:00.000Z\"",
            "\"2027-01-15T10:12:00+02:12\"",
        ] {
            assert_eq!(time(&read(text)), Some(1_800_000_000_000), "{text}");
        }
        assert_eq!(time(&read("\"tomorrow\"")), None);
    }

    #[test]
    fn words_and_currencies_are_read_in_every_spelling() {
        assert_eq!(word(&read("7")), Some("7"));
        assert_eq!((word(&read("\"\"")), word(&read("null"))), (None, None));
        assert_eq!(currency(&read("\"eur\"")).as_deref(), Some("EUR"));
        assert_eq!(currency(&read("\"EURO\"")), None);
    }

    #[test]
    fn sentences_about_unreadable_parts_are_short_few_and_printable() {
        let mut unreadable = Unreadable::default();
        unreadable.unknown_status("refund", "re_1", "fro\nzen\u{e9}");
        unreadable.unknown_status("refund", "re_1", "frozen");
        for number in 0..20 {
            unreadable.note(&format!("{number}{}", "x".repeat(300)));
        }
        let sentences = unreadable.into_sentences();
        assert_eq!(sentences[0], "refund re_1 has the unknown status frozen");
        assert_eq!(sentences.len(), 8);
        assert!(sentences.iter().all(|sentence| sentence.len() <= 200));
    }
}
