//! Amounts: whole minor units in memory, `"49.90"` on the wire.
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Maximum number of digits before the point, as on the gateway's own wire.
const MOST_DIGITS: usize = 10;

/// A number of minor units, written with two decimals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Amount(pub(crate) u64);

impl Amount {
    /// Parses exactly `^(0|[1-9][0-9]{0,9})\.[0-9]{2}$`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, cents) = text.split_once('.')?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        let leading_zero = whole.len() > 1 && whole.starts_with('0');
        if !digits(whole) || !digits(cents) || cents.len() != 2 || leading_zero {
            return None;
        }
        if whole.len() > MOST_DIGITS {
            return None;
        }
        let whole: u64 = whole.parse().ok()?;
        let cents: u64 = cents.parse().ok()?;
        Some(Self(whole.checked_mul(100)?.checked_add(cents)?))
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| de::Error::custom("not an amount such as 49.90"))
    }
}

/// An amount of one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Money {
    pub(crate) value: Amount,
    /// ISO 4217, three capital letters.
    pub(crate) currency: String,
}

impl Money {
    /// Whether the currency has the form of a code.
    pub(crate) fn has_currency_code(&self) -> bool {
        self.currency.len() == 3 && self.currency.bytes().all(|b| b.is_ascii_uppercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_reads_back_as_it_was_written() {
        for text in ["0.01", "49.90", "9999999999.99"] {
            assert_eq!(Amount::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn other_spellings_of_an_amount_are_refused() {
        for text in [
            "",
            "1",
            "1.0",
            "01.00",
            "1.000",
            "-1.00",
            "+1.00",
            " 1.00",
            "1,00",
            "10000000000.00",
            ".50",
        ] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }
}
