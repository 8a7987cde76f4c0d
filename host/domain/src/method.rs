//! The ten payment methods of the interface.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::money::Currency;

/// A payment method's wire id (spec, "Payment create request").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
}

impl MethodId {
    /// All of them, in the order of the specification.
    pub const ALL: [Self; 10] = [
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
    pub const fn as_str(self) -> &'static str {
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
        }
    }

    /// Reads a wire id.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.as_str() == text)
    }

    /// The one currency that the specification fixes for a method, whatever its module says.
    pub const fn fixed_currency(self) -> Option<Currency> {
        match self {
            Self::UpiImps => Some(Currency::INR),
            Self::Interac => Some(Currency::CAD),
            _ => None,
        }
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
        for method in MethodId::ALL {
            assert_eq!(MethodId::parse(method.as_str()), Some(method));
        }
        assert_eq!(MethodId::parse("Credit_Card"), None);
    }
}
