//! The payment methods, with the gateway's and Mollie's names.

/// A payment method that Mollie supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    CreditCard,
    Ideal,
    Klarna,
    Paypal,
}

impl Method {
    pub(crate) const ALL: [Self; 4] = [Self::CreditCard, Self::Ideal, Self::Klarna, Self::Paypal];

    /// The gateway's id.
    pub(crate) const fn wire_id(self) -> &'static str {
        match self {
            Self::CreditCard => "credit_card",
            Self::Ideal => "ideal",
            Self::Klarna => "klarna",
            Self::Paypal => "paypal",
        }
    }

    /// Mollie's id.
    pub(crate) const fn mollie_id(self) -> &'static str {
        match self {
            Self::CreditCard => "creditcard",
            Self::Ideal => "ideal",
            Self::Klarna => "klarna",
            Self::Paypal => "paypal",
        }
    }

    /// Supported currencies: those of the documents "Multicurrency" and "Klarna" that the gateway supports too.
    /// PayPal's forints are omitted, because Mollie rounds them to whole units.
    pub(crate) const fn currencies(self) -> &'static [&'static str] {
        match self {
            Self::CreditCard => &[
                "AED", "AUD", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "NOK", "NZD", "PHP",
                "PLN", "RON", "SEK", "SGD", "USD", "ZAR",
            ],
            Self::Ideal => &["EUR"],
            Self::Klarna => &[
                "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "NOK", "PLN", "RON", "SEK",
            ],
            Self::Paypal => &[
                "AUD", "BRL", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "MXN", "NOK", "NZD", "PHP",
                "PLN", "SEK", "SGD", "USD",
            ],
        }
    }

    /// Whether the merchant can capture later than the payer's approval.
    pub(crate) const fn can_be_held(self) -> bool {
        matches!(self, Self::CreditCard | Self::Klarna)
    }

    pub(crate) fn find(wire_id: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|method| method.wire_id() == wire_id)
    }
}
