//! Klarna: pay later, in markets that each have one currency.
//!
//! | Rule | Source |
//! |---|---|
//! | A market takes its local currency only | "Purchase country, locale, and currency", Klarna Docs, <https://docs.klarna.com/klarna-payments/in-depth-knowledge/puchase-countries-currencies-locales/>; HUF and MXN in "Supported settlement currencies", Klarna Docs |
//! | From 1.00 EUR or its equivalent; largest payment by market | "Klarna", Mollie documentation, <https://docs.mollie.com/docs/klarna> (secondary: another vendor's; Klarna names no figures) |
//!
//! Only Klarna ties the payer's country to the currency: a payer in Germany pays in EUR and not in SEK, even
//! though Klarna supports both. If the country is unknown, only the currency decides, with the largest limit of
//! its markets. Klarna checks each payer and may refuse payments below all limits.
//!
//! The setting `countries` of [`kassette_plugin::ranking`] narrows the markets.
use kassette_plugin::amount::units;
use kassette_plugin::method::{Context, Description, Ground, Method, Refusal, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};

/// Smallest payment, in US cents, for 1.00 EUR or its equivalent.
const MINIMUM_USD: u64 = units(1);

/// Country, its currency and the largest payment in minor units. `None` if no maximum is published.
const MARKETS: [(&str, &str, Option<u64>); 26] = [
    ("AT", "EUR", Some(units(10_000))),
    ("AU", "AUD", None),
    ("BE", "EUR", Some(units(10_000))),
    ("CA", "CAD", None),
    ("CH", "CHF", Some(units(5_000))),
    ("CZ", "CZK", Some(units(100_000))),
    ("DE", "EUR", Some(units(10_000))),
    ("DK", "DKK", Some(units(100_000))),
    ("ES", "EUR", Some(units(4_000))),
    ("FI", "EUR", Some(units(10_000))),
    ("FR", "EUR", Some(units(10_000))),
    ("GB", "GBP", Some(units(4_000))),
    ("GR", "EUR", Some(units(4_000))),
    ("HU", "HUF", Some(units(1_000_000))),
    ("IE", "EUR", Some(units(4_000))),
    ("IT", "EUR", Some(units(4_000))),
    ("MX", "MXN", None),
    ("NL", "EUR", Some(units(14_000))),
    ("NO", "NOK", Some(units(100_000))),
    ("NZ", "NZD", None),
    ("PL", "PLN", Some(units(20_000))),
    ("PT", "EUR", Some(units(4_000))),
    ("RO", "RON", Some(units(20_000))),
    ("SE", "SEK", Some(units(150_000))),
    ("SK", "EUR", Some(units(4_000))),
    ("US", "USD", None),
];

const ICON: [&str; 3] = [
    "M6 5h12a2.5 2.5 0 0 1 2.5 2.5V18a2.5 2.5 0 0 1-2.5 2.5H6A2.5 2.5 0 0 1 3.5 18V7.5A2.5 2.5 0 0 1 6 5z",
    "M3.5 10h17M8 2.5v4m8-4v4",
    "m9 15.2 2.2 2.2 4-3.9",
];

struct Klarna;

impl Method for Klarna {
    fn describe() -> Description {
        Description::new("klarna", "Klarna", env!("CARGO_PKG_VERSION"), &currencies())
            .drawn(&ICON)
            .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &currencies())?;
        let countries = MARKETS.map(|(country, ..)| country);
        ranking::require_country(&context, &countries, "no market of Klarna's")?;
        let maximum = require_market(&context)?;
        ranking::require_usd(
            &context,
            Some(MINIMUM_USD),
            None,
            "Klarna's smallest payment",
        )?;
        ranking::require_amount(&context, None, maximum, "Klarna's market")?;
        ranking::require_operator_limits(&context)?;
        Ok(Ranking::start(&context, Order::Priority)?.verdicts())
    }
}

fn currencies() -> Vec<&'static str> {
    let mut currencies = Vec::with_capacity(MARKETS.len());
    for (_, currency, _) in MARKETS {
        if !currencies.contains(&currency) {
            currencies.push(currency);
        }
    }
    currencies
}

/// Returns the largest payment of the markets that the payer may be in. `None` if a market does not have a limit.
/// Refuses a country with another currency.
fn require_market(context: &Context) -> Result<Option<u64>, Refusal> {
    let country = context.country.as_deref();
    if let Some((country, local, _)) = MARKETS.iter().find(|(of, ..)| Some(*of) == country)
        && *local != context.currency
    {
        let detail = format!("in {country} Klarna takes {local} only");
        return Err(ranking::refusal(Ground::Country, detail));
    }
    let limits: Option<Vec<u64>> = MARKETS
        .iter()
        .filter(|(_, currency, _)| *currency == context.currency)
        .filter(|(of, ..)| country.is_none_or(|country| country == *of))
        .map(|(.., maximum)| *maximum)
        .collect();
    Ok(limits.and_then(|limits| limits.into_iter().max()))
}

kassette_plugin::method::export!(Klarna);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, context, set};

    fn ground(context: Context) -> Option<Ground> {
        Klarna::rank(context).err().map(|refusal| refusal.ground)
    }

    fn from(country: &str, currency: &str, amount: &str) -> Context {
        Context {
            country: Some(country.into()),
            ..context(currency, Some(amount))
        }
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Klarna>();
    }

    #[test]
    fn currencies_without_a_market_are_refused() {
        for currency in ["INR", "AED", "SGD", "ZAR", "BRL", "PHP"] {
            assert_eq!(
                ground(context(currency, None)),
                Some(Ground::Currency),
                "{currency}"
            );
        }
    }

    #[test]
    fn a_country_pays_in_its_own_currency() {
        assert_eq!(ground(from("DE", "EUR", "49.90")), None);
        assert_eq!(ground(from("SE", "SEK", "499.00")), None);
        assert_eq!(ground(from("DE", "SEK", "499.00")), Some(Ground::Country));
        assert_eq!(ground(from("SE", "EUR", "49.90")), Some(Ground::Country));
        assert_eq!(ground(from("JP", "USD", "49.90")), Some(Ground::Country));
    }

    #[test]
    fn the_limit_is_the_markets() {
        assert_eq!(ground(from("ES", "EUR", "4000.00")), None);
        assert_eq!(ground(from("ES", "EUR", "4000.01")), Some(Ground::Amount));
        assert_eq!(ground(from("NL", "EUR", "14000.00")), None);
        assert_eq!(ground(from("NL", "EUR", "14000.01")), Some(Ground::Amount));
        assert_eq!(ground(from("US", "USD", "14000.01")), None);
    }

    #[test]
    fn an_unknown_country_has_the_largest_limit_of_its_currency() {
        assert_eq!(ground(context("EUR", Some("14000.00"))), None);
        assert_eq!(
            ground(context("EUR", Some("14000.01"))),
            Some(Ground::Amount)
        );
        assert_eq!(ground(context("EUR", None)), None);
    }

    #[test]
    fn the_smallest_payment_is_one_euro_or_so() {
        assert_eq!(ground(context("EUR", Some("0.99"))), Some(Ground::Amount));
        assert_eq!(ground(context("EUR", Some("1.00"))), None);
    }

    #[test]
    fn an_agreement_narrows_the_markets() {
        let narrowed = |country| set(from(country, "EUR", "49.90"), "countries", "DE,AT");
        assert_eq!(ground(narrowed("AT")), None);
        assert_eq!(ground(narrowed("FR")), Some(Ground::Country));
    }
}
