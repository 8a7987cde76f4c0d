//! Revolut Pay: a wallet that also takes the cards of people without it.
//!
//! | Rule | Source |
//! |---|---|
//! | Currencies | "Cards and contactless payments with Revolut Terminal" (Revolut Pay included), Revolut Business Help (secondary: for terminals; the Merchant API refers to its own help page, <https://help.revolut.com/business/help/merchant-accounts/payments/in-which-currencies-can-i-accept-payments>) |
//! | Wallets in the European Economic Area and the United Kingdom; others may check out with a card | "Revolut Pay payments", Stripe documentation, <https://docs.stripe.com/payments/revolut-pay> |
//!
//! Only Revolut Pay serves payers who are not its customers: outside of its home markets it works as a card
//! payment. A merchant who offers cards anyway can turn that off. Then payers known to be elsewhere do not get it.
use kassette_plugin::countries::EEA_AND_UK;
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

/// The currencies of Revolut's list that invoices can have here.
const CURRENCIES: [&str; 14] = [
    "AUD", "CAD", "CHF", "DKK", "EUR", "GBP", "HUF", "NOK", "NZD", "PLN", "RON", "SEK", "USD",
    "ZAR",
];

const ICON: [&str; 2] = [
    "M5 3.5h14a1.5 1.5 0 0 1 1.5 1.5v14a1.5 1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 19V5A1.5 1.5 0 0 1 5 3.5z",
    "M9 17V7h3.7a3 3 0 0 1 0 6H9m3.4 0 3.1 4",
];

struct Revolut;

impl Method for Revolut {
    fn describe() -> Description {
        Description::new(
            "revolut",
            "Revolut Pay",
            env!("CARGO_PKG_VERSION"),
            &CURRENCIES,
        )
        .drawn(&ICON)
        .with_settings([
            SettingSpec::optional(
                "guest-cards",
                "Whether it is offered to payers outside of the home markets",
            )
            .form(SettingForm::Flag)
            .or("true"),
            SettingSpec::optional(
                "wallet-only-accounts",
                "Accounts without guest cards: for payers of the home markets alone",
            )
            .form(SettingForm::Accounts)
            .or("none"),
        ])
        .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        let guests = settings::flag(&context.settings, "guest-cards", true)?;
        let presumed: &[&str] = if guests { &[] } else { &EEA_AND_UK };
        ranking::require_country(
            &context,
            presumed,
            "no Revolut account there, guests are off",
        )?;
        ranking::require_operator_limits(&context)?;
        let abroad = context
            .country
            .as_deref()
            .is_some_and(|country| !EEA_AND_UK.contains(&country));
        let check = |candidate: &Candidate| {
            let mut wallet_only = settings::list(&context.settings, "wallet-only-accounts");
            if abroad && wallet_only.any(|id| id == candidate.id) {
                return Err(ranking::refusal(Ground::Country, "takes no guests' cards"));
            }
            Ok(())
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

kassette_plugin::method::export!(Revolut);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        Revolut::rank(context).err().map(|refusal| refusal.ground)
    }

    fn from(country: Option<&str>) -> Context {
        Context {
            country: country.map(Into::into),
            ..context("EUR", Some("49.90"))
        }
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Revolut>();
    }

    #[test]
    fn currencies_off_the_vendors_list_are_refused() {
        for currency in ["INR", "BRL", "PHP", "MXN"] {
            assert_eq!(
                ground(context(currency, None)),
                Some(Ground::Currency),
                "{currency}"
            );
        }
    }

    #[test]
    fn guests_elsewhere_pay_by_card_unless_switched_off() {
        assert_eq!(ground(from(Some("BR"))), None);
        let off = |country| set(from(country), "guest-cards", "false");
        assert_eq!(ground(off(Some("BR"))), Some(Ground::Country));
        assert_eq!(ground(off(Some("LT"))), None);
        assert_eq!(ground(off(None)), None);
    }

    #[test]
    fn accounts_without_guest_cards_serve_the_home_markets() {
        let order = |country| {
            let mut question = set(from(country), "wallet-only-accounts", "wallet");
            question.candidates = vec![candidate("wallet"), candidate("both")];
            Revolut::rank(question).map(|all| eligible(&all).join(" "))
        };
        assert_eq!(order(Some("BR")), Ok("both".into()));
        assert_eq!(order(Some("GB")), Ok("both wallet".into()));
        assert_eq!(order(None), Ok("both wallet".into()));
    }
}
