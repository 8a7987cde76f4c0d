//! PayPal: a wallet with its own list of currencies.
//!
//! | Rule | Source |
//! |---|---|
//! | Currencies, of which HUF takes no decimals | "Currency codes", PayPal Developer, <https://developer.paypal.com/docs/api/reference/currency-codes/> |
//! | BRL for accounts in Brazil only, the payer's and the receiver's | the same page, note 2 |
//! | At most 60,000 USD a payment from a verified account | "What's the maximum amount I can send with my PayPal account?", PayPal Help Center (article 732; secondary: a page for payers, the API's documents name no figure) |
//!
//! Only PayPal refuses amounts for their form: it answers any fraction of HUF with an error, so an invoice of
//! 1,250.50 HUF cannot be paid. Amounts here have two decimals in every currency, so this method checks the rule.
use kassette_plugin::amount::{self, units};
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

/// The currencies of PayPal's list that invoices can have here.
const CURRENCIES: [&str; 17] = [
    "AUD", "BRL", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HUF", "MXN", "NOK", "NZD", "PHP",
    "PLN", "SEK", "SGD", "USD",
];

/// Currencies that PayPal accepts only in whole units.
const WITHOUT_DECIMALS: [&str; 1] = ["HUF"];

/// Largest payment, in US cents.
const MAXIMUM_USD: u64 = units(60_000);

const ICON: [&str; 2] = [
    "M18.5 8V6a1.5 1.5 0 0 0-1.8-1.5L5 6.6A2 2 0 0 0 3.5 8.5V18a2 2 0 0 0 2 2h13a2 2 0 0 0 2-2v-8a2 2 0 0 0-2-2H4",
    "M16.5 14v.1",
];

struct Paypal;

impl Method for Paypal {
    fn describe() -> Description {
        Description::new("paypal", "PayPal", env!("CARGO_PKG_VERSION"), &CURRENCIES)
            .drawn(&ICON)
            .with_settings([SettingSpec::optional(
                "brazilian-accounts",
                "Accounts registered in Brazil; with the setting no other takes BRL",
            )
            .form(SettingForm::Accounts)
            .or("all")])
            .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        require_whole_units(&context)?;
        let in_country = context.currency == "BRL";
        let presumed: &[&str] = if in_country { &["BR"] } else { &[] };
        ranking::require_country(&context, presumed, "PayPal takes BRL within Brazil only")?;
        ranking::require_usd(&context, None, Some(MAXIMUM_USD), "one PayPal payment")?;
        ranking::require_operator_limits(&context)?;
        let check = |candidate: &Candidate| match in_country {
            true => require_brazilian(&context, candidate),
            false => Ok(()),
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

fn require_whole_units(context: &Context) -> Result<(), Refusal> {
    let whole_only = WITHOUT_DECIMALS.contains(&context.currency.as_str());
    if whole_only
        && context
            .amount
            .is_some_and(|amount| !amount::is_whole(amount))
    {
        let detail = format!("PayPal takes {} without decimals", context.currency);
        return Err(ranking::refusal(Ground::Amount, detail));
    }
    Ok(())
}

fn require_brazilian(context: &Context, candidate: &Candidate) -> Result<(), Refusal> {
    let mut accounts = settings::list(&context.settings, "brazilian-accounts").peekable();
    if accounts.peek().is_some() && accounts.all(|id| id != candidate.id) {
        return Err(ranking::refusal(
            Ground::Currency,
            "BRL needs an account in Brazil",
        ));
    }
    Ok(())
}

kassette_plugin::method::export!(Paypal);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        Paypal::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Paypal>();
    }

    #[test]
    fn currencies_off_the_vendors_list_are_refused() {
        for currency in ["INR", "AED", "ZAR", "RON"] {
            assert_eq!(
                ground(context(currency, None)),
                Some(Ground::Currency),
                "{currency}"
            );
        }
    }

    #[test]
    fn forints_have_no_decimals() {
        assert_eq!(ground(context("HUF", Some("1250.00"))), None);
        assert_eq!(
            ground(context("HUF", Some("1250.50"))),
            Some(Ground::Amount)
        );
        assert_eq!(ground(context("HUF", None)), None);
        assert_eq!(ground(context("EUR", Some("1250.50"))), None);
    }

    #[test]
    fn reais_stay_within_brazil() {
        let from = |country: Option<&str>| Context {
            country: country.map(Into::into),
            ..context("BRL", Some("49.90"))
        };
        assert_eq!(ground(from(Some("BR"))), None);
        assert_eq!(ground(from(None)), None);
        assert_eq!(ground(from(Some("PT"))), Some(Ground::Country));
        let mut context = set(from(None), "brazilian-accounts", "br");
        context.candidates = vec![candidate("eu"), candidate("br")];
        let verdicts = Paypal::rank(context);
        assert_eq!(
            verdicts.map(|all| eligible(&all).join(" ")),
            Ok("br".into())
        );
    }

    #[test]
    fn one_payment_is_at_most_60000_dollars_at_the_merchants_rate() {
        let mut context = context("PHP", Some("3000000.00"));
        context.usd = Some(units(52_500));
        assert_eq!(ground(context.clone()), None);
        context.usd = Some(units(60_000) + 1);
        assert_eq!(ground(context), Some(Ground::Amount));
    }
}
