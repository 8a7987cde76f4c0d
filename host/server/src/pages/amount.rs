//! Amounts in the payer's notation: grouping, decimal mark, and the currency sign with its position.
//!
//! | What | Source |
//! |---|---|
//! | digits, grouping, decimal mark | CLDR, by `icu_decimal` |
//! | signs and their place | CLDR, `currencies` and `currencyFormats` of each language, <https://github.com/unicode-org/cldr/tree/main/common/main> |
//!
//! icu4x's currency formatter is not used because it rounds forints to whole ones, whereas pages show the exact
//! amount.

use std::fmt;

use icu_decimal::DecimalFormatter;
use icu_decimal::input::Decimal;
use icu_locale_core::LanguageIdentifier;
use icu_locale_core::subtags::{Region, region};
use kassette_domain::money::{Currency, Minor, Money};

/// The region of the catalogue's Portuguese.
const PORTUGAL: Region = region!("PT");

const NO_BREAK: char = '\u{a0}';

/// An amount in two parts, so that a page can write the second smaller; [`fmt::Display`] joins them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Amount {
    /// `$49.90`, `49,90 €`, `CHF 49.90`
    pub(crate) text: String,
    /// The code after the amount, if the currency has no sign or shares it with others: `USD`.
    pub(crate) code: Option<&'static str>,
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.code {
            Some(code) => write!(f, "{NO_BREAK}{code}"),
            None => Ok(()),
        }
    }
}

/// Position of the currency sign.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SignPosition {
    Before,
    BeforeWithSpace,
    AfterWithSpace,
}

impl SignPosition {
    fn in_language(language: &str, region: Option<Region>) -> Self {
        let region = region.as_ref().map(Region::as_str);
        match (language, region) {
            ("en", _) | ("es", Some("MX")) => Self::Before,
            ("nl", _) | ("de", Some("AT" | "CH" | "LI")) | ("pt", Some("BR")) => {
                Self::BeforeWithSpace
            }
            _ => Self::AfterWithSpace,
        }
    }
}

/// Formats an amount for a language (a catalogue's tag) and, if known, a region.
pub(crate) fn written(money: Money, language: &str, region: Option<Region>) -> Amount {
    let region = region.or((language == "pt").then_some(PORTUGAL));
    let code = money.currency.code();
    let number = number(money.amount, language, region);
    let place = SignPosition::in_language(language, region);
    let (text, code) = match (place, sign(money.currency, language)) {
        (SignPosition::Before, Sign::Own(sign)) => (format!("{sign}{number}"), None),
        (SignPosition::Before, Sign::Dollar) => (format!("${number}"), Some(code)),
        (SignPosition::BeforeWithSpace, Sign::Own(sign)) => {
            (format!("{sign}{NO_BREAK}{number}"), None)
        }
        (SignPosition::AfterWithSpace, Sign::Own(sign)) => {
            (format!("{number}{NO_BREAK}{sign}"), None)
        }
        (SignPosition::Before, Sign::None)
        | (SignPosition::BeforeWithSpace, Sign::None | Sign::Dollar) => {
            (format!("{code}{NO_BREAK}{number}"), None)
        }
        (SignPosition::AfterWithSpace, Sign::None | Sign::Dollar) => (number, Some(code)),
    };
    Amount { text, code }
}

enum Sign {
    /// A sign that only this currency has.
    Own(&'static str),
    /// The sign of a dollar or peso: it precedes the amount, and the code identifies the currency.
    Dollar,
    /// No sign; the code is shown. The three crowns, which share `kr`, have none.
    None,
}

fn sign(currency: Currency, language: &str) -> Sign {
    use Currency as C;
    match (currency, language) {
        (C::EUR, _) => Sign::Own("€"),
        (C::GBP, _) => Sign::Own("£"),
        (C::PHP, _) => Sign::Own("₱"),
        (C::INR, _) => Sign::Own("₹"),
        (C::BRL, _) => Sign::Own("R$"),
        (C::PLN, "pl") => Sign::Own("zł"),
        (C::CZK, "cs") => Sign::Own("Kč"),
        (C::HUF, "hu") => Sign::Own("Ft"),
        (C::USD | C::CAD | C::AUD | C::SGD | C::NZD | C::MXN, _) => Sign::Dollar,
        (
            C::CHF | C::AED | C::ZAR | C::RON | C::SEK | C::NOK | C::DKK | C::PLN | C::CZK | C::HUF,
            _,
        ) => Sign::None,
    }
}

/// Always two decimals, regardless of the currency.
fn number(amount: Minor, language: &str, region: Option<Region>) -> String {
    let mut decimal = Decimal::from(amount.0);
    decimal.multiply_pow10(-2);
    let formatter = language.parse().ok().and_then(|language| {
        let locale = LanguageIdentifier::from((language, None, region));
        DecimalFormatter::try_new((&locale).into(), Default::default()).ok()
    });
    // The tags are constants and their data is compiled in; if one were missing, the wire form would be used.
    formatter.map_or_else(
        || amount.to_string(),
        |formatter| formatter.format_to_string(&decimal),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With ordinary spaces, for readable tests.
    fn say(amount: u64, code: &str, language: &str, region: Option<&str>) -> String {
        let money = Money {
            amount: Minor(amount),
            currency: Currency::parse(code).unwrap(),
        };
        let region = region.map(|region| region.parse().unwrap());
        let text = written(money, language, region).to_string();
        text.replace([NO_BREAK, '\u{202f}'], " ")
    }

    #[test]
    fn an_amount_is_written_as_in_the_payers_language() {
        for (code, language, written) in [
            ("EUR", "en", "€1,234,567.90"),
            ("EUR", "de", "1.234.567,90 €"),
            ("EUR", "fr", "1 234 567,90 €"),
            ("EUR", "es", "1.234.567,90 €"),
            ("EUR", "nl", "€ 1.234.567,90"),
            ("EUR", "pt", "1 234 567,90 €"),
            ("PLN", "pl", "1 234 567,90 zł"),
            ("SEK", "sv", "1 234 567,90 SEK"),
            ("DKK", "da", "1.234.567,90 DKK"),
            ("NOK", "nb", "1 234 567,90 NOK"),
            ("CZK", "cs", "1 234 567,90 Kč"),
            ("HUF", "hu", "1 234 567,90 Ft"),
            ("RON", "ro", "1.234.567,90 RON"),
            ("CHF", "en", "CHF 1,234,567.90"),
        ] {
            assert_eq!(
                say(123_456_790, code, language, None),
                written,
                "{language}"
            );
        }
        assert_eq!(say(5, "EUR", "de", None), "0,05 €");
        assert_eq!(say(4990, "EUR", "pl", None), "49,90 €");
    }

    #[test]
    fn a_sign_of_several_currencies_comes_with_its_code() {
        for (code, language, written) in [
            ("USD", "en", "$49.90 USD"),
            ("CAD", "en", "$49.90 CAD"),
            ("USD", "de", "49,90 USD"),
            ("MXN", "nl", "MXN 49,90"),
            ("AUD", "sv", "49,90 AUD"),
        ] {
            assert_eq!(say(4990, code, language, None), written);
        }
    }

    #[test]
    fn a_payers_region_counts_where_it_writes_otherwise() {
        for (code, language, region, written) in [
            ("INR", "en", "IN", "₹12,34,567.90"),
            ("MXN", "es", "MX", "$1,234,567.90 MXN"),
            ("EUR", "de", "AT", "€ 1 234 567,90"),
            ("BRL", "pt", "BR", "R$ 1.234.567,90"),
        ] {
            assert_eq!(say(123_456_790, code, language, Some(region)), written);
        }
        assert!(say(4990, "CHF", "de", Some("CH")).starts_with("CHF 49."));
    }

    #[test]
    fn no_currency_is_rounded_or_lost_in_any_language() {
        for (language, _) in super::super::texts::NAMES {
            for currency in Currency::ALL {
                let text = say(1_234_567, currency.code(), language, None);
                let digits: String = text.chars().filter(char::is_ascii_digit).collect();
                assert_eq!(digits, "1234567", "{language}: {text}");
                let rest = text.trim_matches(|c: char| !c.is_alphabetic() && !"€£₱₹".contains(c));
                assert!(!rest.is_empty(), "{language}: {text}");
            }
        }
    }
}
