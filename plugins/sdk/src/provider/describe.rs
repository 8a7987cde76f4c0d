//! The parts of a description, each in one line.
use super::{Encoding, MethodSupport, Refundable, SecretSpec};

impl MethodSupport {
    /// A method in these currencies; in every currency where none is named.
    #[must_use]
    pub fn new(method: &str, currencies: &[&str]) -> Self {
        Self {
            method: method.to_owned(),
            currencies: currencies.iter().map(|&code| code.to_owned()).collect(),
        }
    }
}

impl Refundable {
    /// A method of whose payments all or parts can be given back, in as many refunds and as late as the vendor
    /// takes them: it tells no limit beforehand.
    #[must_use]
    pub fn in_parts(method: &str) -> Self {
        Self {
            method: method.to_owned(),
            parts: true,
            at_most: None,
            days: None,
        }
    }
}

impl SecretSpec {
    /// A secret that every account has to have, used as it is written.
    #[must_use]
    pub fn text(name: &str, help: &str) -> Self {
        Self::encoded(name, Encoding::Text, help)
    }

    /// A secret that every account has to have, written in that way.
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
