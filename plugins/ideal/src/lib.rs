//! iDEAL | Wero: a bank redirect of the Netherlands.
//!
//! | Rule | Source |
//! |---|---|
//! | EUR only, 0.01 to 50,000.00 a payment, payers in NL | "iDEAL", Mollie documentation, <https://docs.mollie.com/docs/ideal>; the same limits in "iDEAL", Worldpay developer documentation, <https://developer.worldpay.com/products/apms/ideal>; the scheme publishes none |
//! | With Wero, payers in BE, DE, FR and LU too | "iDEAL | Wero payments", Stripe documentation, <https://docs.stripe.com/payments/ideal>; "iDEAL | Wero", Paddle developer documentation, <https://developer.paddle.com/concepts/payment-methods/ideal/> |
//!
//! Only this method gets more countries from its scheme's successor: an account that was moved to Wero reaches
//! banks of five countries, other accounts reach only Dutch banks. Banks set their own lower limits, which are not
//! published.
//! lower limits of their own, which are not published.
use kassette_plugin::amount::units;
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

const CURRENCIES: [&str; 1] = ["EUR"];
const MINIMUM: u64 = 1;
const MAXIMUM: u64 = units(50_000);
const HOME: &str = "NL";
const WERO_COUNTRIES: [&str; 5] = [HOME, "BE", "DE", "FR", "LU"];

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    ("cs", "iDEAL | Wero", "Potvrďte v aplikaci své banky."),
    ("da", "iDEAL | Wero", "Bekræft i din banks app."),
    ("de", "iDEAL | Wero", "Bestätigen Sie in Ihrer Banking-App."),
    ("en", "iDEAL | Wero", "Confirm in your bank’s app."),
    (
        "es",
        "iDEAL | Wero",
        "Confírmelo en la aplicación de su banco.",
    ),
    (
        "fr",
        "iDEAL | Wero",
        "Confirmez dans l’application de votre banque.",
    ),
    ("hu", "iDEAL | Wero", "Hagyja jóvá a bankja alkalmazásában."),
    ("nb", "iDEAL | Wero", "Bekreft i bankens app."),
    ("nl", "iDEAL | Wero", "Bevestig in de app van uw bank."),
    ("pl", "iDEAL | Wero", "Potwierdź w aplikacji swojego banku."),
    ("pt", "iDEAL | Wero", "Confirme na aplicação do seu banco."),
    ("ro", "iDEAL | Wero", "Confirmați în aplicația băncii."),
    ("sv", "iDEAL | Wero", "Bekräfta i din banks app."),
];
const ICON: [&str; 2] = [
    "m3 9.5 9-5.5 9 5.5z",
    "M5.5 10v7m4.3-7v7m4.4-7v7m4.3-7v7M3 20h18",
];

struct Ideal;

impl Method for Ideal {
    fn describe() -> Description {
        Description::new(
            "ideal",
            "iDEAL | Wero",
            env!("CARGO_PKG_VERSION"),
            &CURRENCIES,
        )
        .translated(&TRANSLATIONS)
        .drawn(&ICON)
        .with_settings([
            SettingSpec::optional("wero", "Whether some account here is served by Wero")
                .form(SettingForm::Flag)
                .or("false"),
            SettingSpec::optional(
                "wero-accounts",
                "Which accounts are, where wero is set; the others take payers in NL alone",
            )
            .form(SettingForm::Accounts)
            .or("all"),
        ])
        .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        let wero = settings::flag(&context.settings, "wero", false)?;
        if wero {
            let why = "Wero needs a bank account in NL, BE, DE, FR or LU";
            ranking::require_country(&context, &WERO_COUNTRIES, why)?;
        } else {
            ranking::require_country(&context, &[HOME], "iDEAL needs a Dutch bank account")?;
        }
        ranking::require_amount(&context, Some(MINIMUM), Some(MAXIMUM), "one iDEAL payment")?;
        ranking::require_operator_limits(&context)?;
        let check = |candidate: &Candidate| reaches_payer(&context, wero, candidate);
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

/// An account that Wero does not serve reaches only Dutch banks.
fn reaches_payer(context: &Context, wero: bool, candidate: &Candidate) -> Result<(), Refusal> {
    let abroad = context
        .country
        .as_deref()
        .is_some_and(|country| country != HOME);
    let mut accounts = settings::list(&context.settings, "wero-accounts").peekable();
    let not_moved = accounts.peek().is_some() && accounts.all(|id| id != candidate.id);
    if wero && abroad && not_moved {
        return Err(ranking::refusal(
            Ground::Country,
            "not served by Wero: Dutch banks only",
        ));
    }
    Ok(())
}

kassette_plugin::method::export!(Ideal);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        Ideal::rank(context).err().map(|refusal| refusal.ground)
    }

    fn from(country: &str) -> Context {
        Context {
            country: Some(country.into()),
            ..context("EUR", Some("49.90"))
        }
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Ideal>();
    }

    #[test]
    fn takes_euros_alone() {
        assert_eq!(
            ground(context("USD", Some("49.90"))),
            Some(Ground::Currency)
        );
    }

    #[test]
    fn one_payment_is_at_most_50000() {
        assert_eq!(ground(context("EUR", Some("50000.00"))), None);
        assert_eq!(
            ground(context("EUR", Some("50000.01"))),
            Some(Ground::Amount)
        );
        assert_eq!(ground(context("EUR", None)), None);
    }

    #[test]
    fn presumes_a_dutch_bank_account_unless_wero_serves_it() {
        assert_eq!(ground(from("NL")), None);
        assert_eq!(ground(from("DE")), Some(Ground::Country));
        assert_eq!(ground(set(from("DE"), "wero", "true")), None);
        assert_eq!(
            ground(set(from("ES"), "wero", "true")),
            Some(Ground::Country)
        );
        assert_eq!(ground(set(from("ES"), "countries", "any")), None);
    }

    #[test]
    fn abroad_only_accounts_moved_to_wero_are_eligible() {
        let moved = |country: &str| {
            let mut context = set(set(from(country), "wero", "true"), "wero-accounts", "b, c");
            context.candidates = vec![candidate("a"), candidate("b")];
            Ideal::rank(context)
        };
        assert_eq!(
            moved("BE").map(|verdicts| eligible(&verdicts).join(" ")),
            Ok("b".into())
        );
        assert_eq!(
            moved("NL").map(|verdicts| eligible(&verdicts).join(" ")),
            Ok("a b".into())
        );
    }

    #[test]
    fn a_misspelt_switch_is_refused() {
        assert_eq!(ground(set(from("NL"), "wero", "yes")), Some(Ground::Policy));
    }
}
