//! Payment methods: the ten of the specification, and any other that has a module.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::money::Currency;

/// A payment method's wire id (spec, "Payment create request").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub enum MethodId {
    /// `credit_card`
    CreditCard,
    /// `paypal`
    Paypal,
    /// `ideal`
    Ideal,
    /// `cash_app`
    CashApp,
    /// `crypto`
    Crypto,
    /// `venmo`
    Venmo,
    /// `revolut`
    Revolut,
    /// `klarna`
    Klarna,
    /// `upi_imps`
    UpiImps,
    /// `interac`
    Interac,
    /// A method that the specification does not name; available if it has a module.
    Other(OtherId),
}

/// Maximum length of a wire id, in bytes.
const LONGEST: usize = 32;

/// Wire id of a method outside the specification: 2 to 32 lower-case letters, digits and underscores, starting
/// with a letter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OtherId {
    /// Padded with zero bytes.
    text: [u8; LONGEST],
}

impl OtherId {
    fn parse(text: &str) -> Option<Self> {
        let is_word = |byte: &u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        let begins = text.starts_with(|first: char| first.is_ascii_lowercase());
        if !begins || !(2..=LONGEST).contains(&text.len()) || !text.as_bytes().iter().all(is_word) {
            return None;
        }
        let mut other = [0; LONGEST];
        other[..text.len()].copy_from_slice(text.as_bytes());
        Some(Self { text: other })
    }

    fn as_str(&self) -> &str {
        let text = self.text.split(|byte| *byte == 0).next();
        text.and_then(|text| str::from_utf8(text).ok())
            .unwrap_or_default()
    }
}

impl TryFrom<String> for OtherId {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("no method's id")
    }
}

impl From<OtherId> for String {
    fn from(id: OtherId) -> Self {
        id.as_str().to_owned()
    }
}

impl fmt::Debug for OtherId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl MethodId {
    /// The methods of the specification, in its order.
    pub const SPECIFIED: [Self; 10] = [
        Self::CreditCard,
        Self::Paypal,
        Self::Ideal,
        Self::CashApp,
        Self::Crypto,
        Self::Venmo,
        Self::Revolut,
        Self::Klarna,
        Self::UpiImps,
        Self::Interac,
    ];

    /// The wire id.
    pub fn as_str(&self) -> &str {
        match self {
            Self::CreditCard => "credit_card",
            Self::Paypal => "paypal",
            Self::Ideal => "ideal",
            Self::CashApp => "cash_app",
            Self::Crypto => "crypto",
            Self::Venmo => "venmo",
            Self::Revolut => "revolut",
            Self::Klarna => "klarna",
            Self::UpiImps => "upi_imps",
            Self::Interac => "interac",
            Self::Other(other) => other.as_str(),
        }
    }

    /// Parses the wire id of a method in the specification or of any other.
    pub fn parse(text: &str) -> Option<Self> {
        let specified = Self::SPECIFIED.into_iter();
        let mut specified = specified.filter(|method| method.as_str() == text);
        specified
            .next()
            .or_else(|| OtherId::parse(text).map(Self::Other))
    }

    /// Whether the specification names the method.
    pub const fn is_specified(self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// The only currency that the specification allows for the method, regardless of its module. `None` if it does
    /// not fix one.
    pub const fn fixed_currency(self) -> Option<Currency> {
        match self {
            Self::UpiImps => Some(Currency::INR),
            Self::Interac => Some(Currency::CAD),
            _ => None,
        }
    }
}

/// Serializes the wire id in human-readable formats. Stored rows contain one of the ten as its number, as they did
/// before other methods existed.
impl Serialize for MethodId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(self.as_str()),
            // The derived function.
            false => Self::serialize(self, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for MethodId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return Self::deserialize(deserializer);
        }
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| D::Error::custom("no payment method's id"))
    }
}

impl fmt::Display for MethodId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_reads_back() {
        for method in MethodId::SPECIFIED {
            assert_eq!(MethodId::parse(method.as_str()), Some(method));
            assert!(method.is_specified());
        }
        let longest = "a".repeat(32);
        for other in ["blik", "p24", "a_b", longest.as_str()] {
            let method = MethodId::parse(other).unwrap();
            assert_eq!(method.as_str(), other);
            assert!(!method.is_specified());
        }
    }

    #[test]
    fn what_is_no_id_of_a_method_is_none() {
        let long = "a".repeat(33);
        for text in [
            "",
            "a",
            "Credit_Card",
            "2c2p",
            "_a",
            "a-b",
            "a.b",
            "zł",
            "a\0",
            long.as_str(),
        ] {
            assert_eq!(MethodId::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn the_ten_come_first_and_in_the_order_of_the_specification() {
        let mut methods: Vec<_> = ["zip", "blik", "interac", "ideal", "credit_card"]
            .map(|text| MethodId::parse(text).unwrap())
            .into();
        methods.sort();
        let ids: Vec<_> = methods.iter().map(MethodId::as_str).collect();
        assert_eq!(ids, ["credit_card", "ideal", "interac", "blik", "zip"]);
    }

    #[test]
    fn rows_keep_the_ten_by_number_and_others_by_name() {
        let row = |method| postcard::to_allocvec(&method).unwrap();
        for (number, method) in (0..).zip(MethodId::SPECIFIED) {
            assert_eq!(row(method), [number]);
        }
        let blik = MethodId::parse("blik").unwrap();
        assert_eq!(row(blik), b"\x0a\x04blik");
        assert_eq!(postcard::from_bytes(&row(blik)), Ok(blik));
        assert!(postcard::from_bytes::<MethodId>(b"\x0a\x04BLIK").is_err());
        let text = serde_json::to_string(&[blik, MethodId::CashApp]).unwrap();
        assert_eq!(text, r#"["blik","cash_app"]"#);
        let read: [MethodId; 2] = serde_json::from_str(&text).unwrap();
        assert_eq!(read, [blik, MethodId::CashApp]);
    }
}
