//! The methods: Adyen's names for them, how each is captured, and how long an approval of each lasts.
//!
//! What is captured by us is paid on a session's hosted page: nothing moves before our capture, so that
//! such a page needs no closing, and its result tells the payment that was made there. What takes the
//! money at once is paid by a payment link, because a link can be asked at any time, by itself, whether
//! it was paid: a session tells that only to who holds what the payer's browser brought back.
use kassette_plugin::provider::MethodSupport;

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

/// Whether attempts of that method wait for our capture. One that is not known is taken to.
pub(crate) fn is_captured_by_us(id: &str) -> bool {
    of(id).is_none_or(|method| method.captured_by_us)
}

/// The method that a notification's payment method belongs to: for cards it names the brand.
pub(crate) fn of_type(name: &str) -> &'static Method {
    let [card, ..] = &METHODS;
    METHODS
        .iter()
        .find(|method| method.types.contains(&name))
        .unwrap_or(card)
}

const DAY_MS: u64 = 86_400_000;

/// For how long Adyen, or the method's own rules, let an approval be captured ("Which payment methods
/// support separate authorisation and capture?"): 28 days, 12 for Cartes Bancaires; PayPal guarantees
/// three. None where there is nothing to capture.
pub(crate) fn capturable_ms(name: &str) -> Option<u64> {
    let days = match name {
        "cartebancaire" => 12,
        "paypal" => 3,
        _ if of_type(name).captured_by_us => 28,
        _ => return None,
    };
    Some(days * DAY_MS)
}

/// For the module's description.
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
