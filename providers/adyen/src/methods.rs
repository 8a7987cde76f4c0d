//! The methods: Adyen's names for them, and how each is captured.
use kassette_plugin::provider::Service;

/// What is to be known of a method.
pub(crate) struct Method {
    /// Our wire id.
    pub(crate) id: &'static str,
    /// Adyen's types; the payer sees those that the merchant account has.
    pub(crate) types: &'static [&'static str],
    /// Whether an authorisation waits for our capture. The others take the money when the payer
    /// approves, so that their authorisation proves it taken.
    pub(crate) captured_by_us: bool,
    /// Empty: any.
    pub(crate) currencies: &'static [&'static str],
}

pub(crate) const METHODS: [Method; 5] = [
    Method {
        id: "credit_card",
        types: &["scheme"],
        captured_by_us: true,
        currencies: &[],
    },
    Method {
        id: "ideal",
        types: &["ideal"],
        captured_by_us: false,
        currencies: &["EUR"],
    },
    Method {
        id: "klarna",
        types: &["klarna", "klarna_account", "klarna_paynow"],
        captured_by_us: true,
        currencies: &[
            "AUD", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "NOK", "NZD", "PLN", "RON", "SEK",
            "USD",
        ],
    },
    Method {
        id: "paypal",
        types: &["paypal"],
        captured_by_us: true,
        // PayPal takes forints without decimals alone, and reais only inside Brazil.
        currencies: &[
            "AUD", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "MXN", "NOK", "NZD", "PHP", "PLN",
            "SEK", "SGD", "USD",
        ],
    },
    Method {
        id: "upi_imps",
        types: &["upi_intent", "upi_qr", "upi_collect"],
        captured_by_us: false,
        currencies: &["INR"],
    },
];

/// The method of that wire id.
pub(crate) fn of(id: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.id == id)
}

/// For the module's description.
pub(crate) fn services() -> Vec<Service> {
    let service = |method: &Method| Service {
        method: method.id.into(),
        currencies: method.currencies.iter().map(|&code| code.into()).collect(),
    };
    METHODS.iter().map(service).collect()
}
