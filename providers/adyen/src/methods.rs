//! The methods: Adyen's names, the way of capture, and how long an authorization lasts.
//!
//! Methods that need a capture are paid on a session's hosted page. No money moves before this module's capture,
//! so the page need not be closed, and its result contains the payment. Methods that capture on approval are paid
//! by a payment link, because the API returns a link's status at any time. A session's status is only available
//! with the result that the payer's browser brings back.
use kassette_plugin::provider::MethodSupport;

/// A payment method at Adyen.
pub(crate) struct Method {
    /// Wire id of the method in this gateway.
    pub(crate) id: &'static str,
    /// Adyen's types. The payer sees the types that the merchant account supports.
    pub(crate) types: &'static [&'static str],
    /// Whether an authorization waits for this module's capture. The other methods capture when the payer
    /// approves, so their authorization proves the capture.
    pub(crate) captured_by_us: bool,
    /// Supported currencies; empty for any.
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
        // PayPal accepts forints only without decimals, and reais only inside Brazil.
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

/// The method with this wire id.
pub(crate) fn find(id: &str) -> Option<&'static Method> {
    METHODS.iter().find(|method| method.id == id)
}

/// Whether attempts of this method need a capture. True for an unknown method.
pub(crate) fn is_captured_by_us(id: &str) -> bool {
    find(id).is_none_or(|method| method.captured_by_us)
}

/// The method for a notification's `paymentMethod`. Card payments contain the brand, so every unknown type counts
/// as a card.
pub(crate) fn of_type(name: &str) -> &'static Method {
    let [card, ..] = &METHODS;
    METHODS
        .iter()
        .find(|method| method.types.contains(&name))
        .unwrap_or(card)
}

const DAY_MS: u64 = 86_400_000;

/// Period in which Adyen or the method allows the capture ("Which payment methods support separate authorisation
/// and capture?"), in milliseconds: 28 days, 12 for Cartes Bancaires; PayPal guarantees three. `None` for methods
/// without a separate capture.
pub(crate) fn capturable_ms(name: &str) -> Option<u64> {
    let days = match name {
        "cartebancaire" => 12,
        "paypal" => 3,
        _ if of_type(name).captured_by_us => 28,
        _ => return None,
    };
    Some(days * DAY_MS)
}

/// Methods for the module's description.
pub(crate) fn supported() -> Vec<MethodSupport> {
    let support = |method: &Method| MethodSupport::new(method.id, method.currencies);
    METHODS.iter().map(support).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_approval_lasts_as_long_as_the_method_lets_it() {
        for (name, days) in [
            ("visa", Some(28)),
            ("mc", Some(28)),
            ("cartebancaire", Some(12)),
            ("klarna_account", Some(28)),
            ("paypal", Some(3)),
            ("ideal", None),
            ("upi_qr", None),
        ] {
            let days = days.map(|days: u64| days * DAY_MS);
            assert_eq!(capturable_ms(name), days, "{name}");
        }
    }
}
