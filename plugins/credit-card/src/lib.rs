//! Cards of the international networks.
//!
//! | Rule | Source |
//! |---|---|
//! | Any currency | Networks convert between ISO 4217 currencies; accounts narrow the list |
//! | At most 12 digits of minor units | ISO 8583, data element 4 (amount, transaction: n 12) |
//! | Up to EUR 30 (GBP 25) a payment may go without strong authentication | Commission Delegated Regulation (EU) 2018/389, Article 16, <https://www.legislation.gov.uk/eur/2018/389/article/16>; for GBP 25 the same article as the FCA has it, <https://handbook.fca.org.uk/technical-standards/provision/s140c1226s444p1832> |
//!
//! Only cards have the low-value exemption. Under it no bank challenges the payer, so accounts of equal priority
//! differ only by cost. Above it the payment depends on the challenge, so the rate of successful starts takes
//! precedence over cost. Outside of the European Economic Area and the United Kingdom, cost decides. If the
//! payer's country is unknown, the currency decides instead.
//!
//! The setting `order` replaces the rule above.
use kassette_plugin::amount::units;
use kassette_plugin::countries::EEA_AND_UK;
use kassette_plugin::method::{
    Context, Description, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

/// Maximum amount: ISO 8583 has twelve digits.
const MAXIMUM: u64 = 999_999_999_999;

/// Currencies of countries in which banks must use strong authentication, for payers without a known country.
const STRONG_CURRENCIES: [&str; 9] = [
    "EUR", "GBP", "CZK", "DKK", "HUF", "NOK", "PLN", "RON", "SEK",
];

/// Limits of the exemption in minor units. No equivalents are published for other currencies.
const LOW_VALUE: [(&str, u64); 2] = [("EUR", units(30)), ("GBP", units(25))];

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    ("cs", "Karta", "Visa, Mastercard a\u{a0}další."),
    ("da", "Kort", "Visa, Mastercard og andre."),
    ("de", "Karte", "Visa, Mastercard und weitere."),
    ("en", "Card", "Visa, Mastercard and others."),
    ("es", "Tarjeta", "Visa, Mastercard y otras."),
    ("fr", "Carte", "Visa, Mastercard et autres."),
    ("hu", "Bankkártya", "Visa, Mastercard és mások."),
    ("nb", "Kort", "Visa, Mastercard og andre."),
    ("nl", "Kaart", "Visa, Mastercard en andere."),
    ("pl", "Karta", "Visa, Mastercard i\u{a0}inne."),
    ("pt", "Cartão", "Visa, Mastercard e outros."),
    ("ro", "Card", "Visa, Mastercard și altele."),
    ("sv", "Kort", "Visa, Mastercard och andra."),
];
const ICON: [&str; 2] = [
    "M5 5h14a2.5 2.5 0 0 1 2.5 2.5v9a2.5 2.5 0 0 1-2.5 2.5H5a2.5 2.5 0 0 1-2.5-2.5v-9A2.5 2.5 0 0 1 5 5z",
    "M2.5 9.5h19M6 15h4",
];

struct CreditCard;

impl Method for CreditCard {
    fn describe() -> Description {
        Description::new("credit_card", "Card", env!("CARGO_PKG_VERSION"), &[])
            .translated(&TRANSLATIONS)
            .drawn(&ICON).with_settings([SettingSpec::optional("low-value-exemption", "Whether providers here ask for the exemption of low values from strong authentication").form(SettingForm::Flag).or("true"),]).with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_country(&context, &[], "not among the operator's countries")?;
        ranking::require_amount(&context, None, Some(MAXIMUM), "one card payment")?;
        ranking::require_operator_limits(&context)?;
        let order = if may_be_challenged(&context)? {
            Order::PrioritySuccess
        } else {
            Order::Priority
        };
        Ok(Ranking::start(&context, order)?.verdicts())
    }
}

/// Whether the payer's bank may interrupt the payment to authenticate the payer.
fn may_be_challenged(context: &Context) -> Result<bool, Refusal> {
    let exemption = settings::flag(&context.settings, "low-value-exemption", true)?;
    let currency = context.currency.as_str();
    let strong = match context.country.as_deref() {
        Some(country) => EEA_AND_UK.contains(&country),
        None => STRONG_CURRENCIES.contains(&currency),
    };
    let low_value = LOW_VALUE
        .iter()
        .find(|(of, _)| *of == currency)
        .zip(context.amount)
        .is_some_and(|((_, limit), amount)| amount <= *limit);
    Ok(strong && context.amount.is_some() && !(exemption && low_value))
}

kassette_plugin::method::export!(CreditCard);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::method::{Candidate, Ground};
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    /// Order of a cheap account and of an account whose starts succeed more often.
    fn order(mut context: Context) -> Result<String, Refusal> {
        let of = |id: &str, fee, success| {
            let mut candidate = Candidate {
                fee: Some(fee),
                ..candidate(id)
            };
            candidate.health.success = Some(success);
            candidate
        };
        context.candidates = vec![of("steady", 60, 990), of("cheap", 20, 930)];
        Ok(eligible(&CreditCard::rank(context)?).join(" "))
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<CreditCard>();
    }

    #[test]
    fn a_low_value_payment_goes_where_it_is_cheap() {
        assert_eq!(
            order(context("EUR", Some("30.00"))),
            Ok("cheap steady".into())
        );
        assert_eq!(
            order(context("GBP", Some("25.00"))),
            Ok("cheap steady".into())
        );
    }

    #[test]
    fn a_payment_that_may_be_challenged_goes_where_it_works() {
        assert_eq!(
            order(context("EUR", Some("30.01"))),
            Ok("steady cheap".into())
        );
        assert_eq!(
            order(context("GBP", Some("25.01"))),
            Ok("steady cheap".into())
        );
        let small = set(context("EUR", Some("5.00")), "low-value-exemption", "false");
        assert_eq!(order(small), Ok("steady cheap".into()));
    }

    #[test]
    fn outside_of_europe_cost_decides() {
        assert_eq!(
            order(context("USD", Some("300.00"))),
            Ok("cheap steady".into())
        );
        let mut visitor = context("EUR", Some("300.00"));
        visitor.country = Some("US".into());
        assert_eq!(order(visitor), Ok("cheap steady".into()));
    }

    #[test]
    fn priority_comes_before_both() {
        let mut context = context("EUR", Some("300.00"));
        let wanted = Candidate {
            priority: 1,
            fee: Some(900),
            ..candidate("wanted")
        };
        context.candidates = vec![candidate("other"), wanted];
        let verdicts = CreditCard::rank(context);
        assert_eq!(
            verdicts.map(|all| eligible(&all).join(" ")),
            Ok("wanted other".into())
        );
    }

    #[test]
    fn an_amount_has_at_most_twelve_digits() {
        assert!(order(context("USD", Some("9999999999.99"))).is_ok());
        let refusal = order(context("USD", Some("10000000000.00"))).err();
        assert_eq!(refusal.map(|refusal| refusal.ground), Some(Ground::Amount));
    }
}
