//! Short constructors for the parts of a description.
use super::{Encoding, MethodSupport, Money, Refundable, SecretSpec};

impl MethodSupport {
    /// A method with these currencies. An empty list means every currency.
    #[must_use]
    pub fn new(method: &str, currencies: &[&str]) -> Self {
        Self {
            method: method.to_owned(),
            currencies: currencies.iter().map(|&code| code.to_owned()).collect(),
            minimums: Vec::new(),
        }
    }

    /// Adds the smallest payments that the provider documents, in minor units.
    #[must_use]
    pub fn at_least(self, minimums: &[(&str, u64)]) -> Self {
        let minimums = minimums.iter().map(|&(currency, amount)| Money {
            amount,
            currency: currency.to_owned(),
        });
        Self {
            minimums: minimums.collect(),
            ..self
        }
    }
}

impl Refundable {
    /// A method with full and partial refunds, whose number and time the provider does not limit in its documents.
    #[must_use]
    pub fn in_parts(method: &str) -> Self {
        Self {
            method: method.to_owned(),
            parts: true,
            at_most: None,
            days: None,
            whole_units: Vec::new(),
        }
    }
}

impl SecretSpec {
    /// A secret that every account must have, used as written.
    #[must_use]
    pub fn text(name: &str, help: &str) -> Self {
        Self::encoded(name, Encoding::Text, help)
    }

    /// A secret that every account must have, in this encoding.
    #[must_use]
    pub fn encoded(name: &str, encoding: Encoding, help: &str) -> Self {
        Self {
            name: name.to_owned(),
            help: help.to_owned(),
            required: true,
            encoding,
        }
    }
}
