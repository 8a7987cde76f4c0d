//! Venmo: a wallet of the United States.
//!
//! | Rule | Source |
//! |---|---|
//! | USD only, payers and merchants in US | "Pay with Venmo", PayPal Developer, <https://developer.paypal.com/docs/checkout/pay-with-venmo/> |
//! | 299.99 a week for payers whose identity is not verified, 7,000 a week for purchases of the others | "Personal Profile Payment Limits", Venmo Help Center (secondary: a page for payers; the API's documents name no figure) |
//!
//! Only Venmo publishes two limits that depend on whether the payer is verified, and no provider reports that. A
//! merchant with mostly unverified customers (`payers = any`) gets the lower limit, so that Venmo is not offered
//! if it would fail at the last step.
use kassette_plugin::amount::units;
use kassette_plugin::method::{Context, Description, Method, Refusal, SettingSpec, Verdict};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

const CURRENCIES: [&str; 1] = ["USD"];
const MAXIMUM_VERIFIED: u64 = units(7_000);
const MAXIMUM_ANY: u64 = units(299) + 99;

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    ("cs", "Venmo", "Potvrďte v aplikaci Venmo."),
    ("da", "Venmo", "Bekræft i Venmo-appen."),
    ("de", "Venmo", "Bestätigen Sie in der Venmo-App."),
    ("en", "Venmo", "Confirm in the Venmo app."),
    ("es", "Venmo", "Confírmelo en la aplicación de Venmo."),
    ("fr", "Venmo", "Confirmez dans l’application Venmo."),
    ("hu", "Venmo", "Hagyja jóvá a Venmo alkalmazásban."),
    ("nb", "Venmo", "Bekreft i Venmo-appen."),
    ("nl", "Venmo", "Bevestig in de Venmo-app."),
    ("pl", "Venmo", "Potwierdź w aplikacji Venmo."),
    ("pt", "Venmo", "Confirme na aplicação Venmo."),
    ("ro", "Venmo", "Confirmați în aplicația Venmo."),
    ("sv", "Venmo", "Bekräfta i Venmo-appen."),
];
const ICON: [&str; 2] = [
    "M4.5 8a3.5 3.5 0 1 0 7 0 3.5 3.5 0 1 0-7 0z",
    "M2 19.5c.3-3.5 2.7-5.5 6-5.5 1.5 0 2.7.4 3.7 1.1M14 17.5h7m-2.8-2.8 2.8 2.8-2.8 2.8",
];

struct Venmo;

impl Method for Venmo {
    fn describe() -> Description {
        Description::new("venmo", "Venmo", env!("CARGO_PKG_VERSION"), &CURRENCIES)
            .translated(&TRANSLATIONS)
            .drawn(&ICON)
            .with_settings([SettingSpec::optional(
                "payers",
                "Whose limit holds: 7,000.00 for verified payers, 299.99 for any",
            )
            .among(&["verified", "any"])
            .or("verified")])
            .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        ranking::require_country(&context, &["US"], "Venmo needs an account in the US")?;
        let limits = [
            ("verified", (MAXIMUM_VERIFIED, "a verified payer's week")),
            ("any", (MAXIMUM_ANY, "an unverified payer's week")),
        ];
        let (_, verified) = limits[0];
        let (maximum, whose) = settings::choice(&context.settings, "payers", &limits, verified)?;
        ranking::require_amount(&context, None, Some(maximum), whose)?;
        ranking::require_operator_limits(&context)?;
        Ok(Ranking::start(&context, Order::Priority)?.verdicts())
    }
}

kassette_plugin::method::export!(Venmo);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::method::Ground;
    use kassette_plugin::testing::{assert_sound, context, set};

    fn ground(context: Context) -> Option<Ground> {
        Venmo::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Venmo>();
    }

    #[test]
    fn takes_dollars_of_payers_in_the_states() {
        assert_eq!(
            ground(context("EUR", Some("49.90"))),
            Some(Ground::Currency)
        );
        let mut abroad = context("USD", Some("49.90"));
        abroad.country = Some("MX".into());
        assert_eq!(ground(abroad), Some(Ground::Country));
    }

    #[test]
    fn the_limit_hangs_on_the_payers_verification() {
        assert_eq!(ground(context("USD", Some("7000.00"))), None);
        assert_eq!(
            ground(context("USD", Some("7000.01"))),
            Some(Ground::Amount)
        );
        let any = |amount| set(context("USD", amount), "payers", "any");
        assert_eq!(ground(any(Some("299.99"))), None);
        assert_eq!(ground(any(Some("300.00"))), Some(Ground::Amount));
        assert_eq!(ground(any(None)), None);
    }

    #[test]
    fn an_unknown_kind_of_payers_is_refused() {
        let question = set(context("USD", Some("49.90")), "payers", "all");
        assert_eq!(ground(question), Some(Ground::Policy));
    }
}
