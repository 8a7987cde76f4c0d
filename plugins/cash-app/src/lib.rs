//! Cash App Pay: a wallet of the United States.
//!
//! | Rule | Source |
//! |---|---|
//! | USD only, payers in US, accounts in US territories excluded | "Cash App Pay payments", Stripe documentation, <https://docs.stripe.com/payments/cash-app-pay> |
//! | From 0.01; goods of restricted categories need an indicator on the payment | "FAQ: Transaction Limits and Payment Processing", Cash App Developers, <https://developers.cash.app/cash-app-pay-partner-api/guides/resources/frequently-asked-questions/transaction-limits-and-payment-processing> |
//! | At most 7,500 USD: the limit of a verified account for sending in seven days | "Sending limits", Cash App Support (secondary: a page for payers; the partners' documents name no figure) |
//!
//! Merchants do not know the limit of a payer; only amounts above every payer's limit are refused here. Only Cash
//! App Pay asks merchants to mark restricted goods (such as alcohol, gambling or prescriptions), to protect
//! sponsored accounts of minors. If the merchant sells such goods, only accounts that send the mark are eligible.
use kassette_plugin::amount::units;
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

const CURRENCIES: [&str; 1] = ["USD"];
const MINIMUM: u64 = 1;
const MAXIMUM: u64 = units(7_500);

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    ("cs", "Cash App Pay", "Potvrďte v aplikaci Cash App."),
    ("da", "Cash App Pay", "Bekræft i Cash App."),
    ("de", "Cash App Pay", "Bestätigen Sie in der Cash App."),
    ("en", "Cash App Pay", "Confirm in Cash App."),
    ("es", "Cash App Pay", "Confírmelo en Cash App."),
    ("fr", "Cash App Pay", "Confirmez dans Cash App."),
    (
        "hu",
        "Cash App Pay",
        "Hagyja jóvá a Cash App alkalmazásban.",
    ),
    ("nb", "Cash App Pay", "Bekreft i Cash App."),
    ("nl", "Cash App Pay", "Bevestig in Cash App."),
    ("pl", "Cash App Pay", "Potwierdź w Cash App."),
    ("pt", "Cash App Pay", "Confirme na Cash App."),
    ("ro", "Cash App Pay", "Confirmați în Cash App."),
    ("sv", "Cash App Pay", "Bekräfta i Cash App."),
];
const ICON: [&str; 2] = [
    "M9 2.5h6A2.5 2.5 0 0 1 17.5 5v14a2.5 2.5 0 0 1-2.5 2.5H9A2.5 2.5 0 0 1 6.5 19V5A2.5 2.5 0 0 1 9 2.5z",
    "M10.5 18.5h3M12 6.5v7m2-5.5c-.5-1-3.8-1.1-3.8.5 0 1.9 3.9.8 3.9 2.8 0 1.7-3.5 1.6-4.1.4",
];

struct CashApp;

impl Method for CashApp {
    fn describe() -> Description {
        Description::new(
            "cash_app",
            "Cash App Pay",
            env!("CARGO_PKG_VERSION"),
            &CURRENCIES,
        )
        .translated(&TRANSLATIONS)
        .drawn(&ICON)
        .with_settings([
            SettingSpec::optional(
                "restricted-goods",
                "Whether the merchant sells goods of a restricted category",
            )
            .form(SettingForm::Flag)
            .or("false"),
            SettingSpec::optional(
                "restricted-goods-accounts",
                "Accounts that send the restricted goods indicator",
            )
            .form(SettingForm::Accounts)
            .or("none"),
        ])
        .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        let why = "Cash App Pay needs an account in the US, territories excluded";
        ranking::require_country(&context, &["US"], why)?;
        ranking::require_amount(
            &context,
            Some(MINIMUM),
            Some(MAXIMUM),
            "one Cash App payment",
        )?;
        ranking::require_operator_limits(&context)?;
        let restricted = settings::flag(&context.settings, "restricted-goods", false)?;
        let check = |candidate: &Candidate| {
            let mut marking = settings::list(&context.settings, "restricted-goods-accounts");
            if restricted && !marking.any(|id| id == candidate.id) {
                let detail = "does not mark restricted goods";
                return Err(ranking::refusal(Ground::Policy, detail));
            }
            Ok(())
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

kassette_plugin::method::export!(CashApp);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        CashApp::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<CashApp>();
    }

    #[test]
    fn takes_dollars_alone() {
        assert_eq!(
            ground(context("CAD", Some("49.90"))),
            Some(Ground::Currency)
        );
    }

    #[test]
    fn presumes_a_payer_in_the_states_not_in_their_territories() {
        for (country, refusal) in [
            ("US", None),
            ("PR", Some(Ground::Country)),
            ("CA", Some(Ground::Country)),
        ] {
            let mut context = context("USD", Some("49.90"));
            context.country = Some(country.into());
            assert_eq!(ground(context), refusal, "{country}");
        }
    }

    #[test]
    fn one_payment_is_at_most_a_weeks_limit() {
        assert_eq!(ground(context("USD", Some("7500.00"))), None);
        assert_eq!(
            ground(context("USD", Some("7500.01"))),
            Some(Ground::Amount)
        );
        assert_eq!(ground(context("USD", None)), None);
    }

    #[test]
    fn restricted_goods_go_where_they_are_marked() {
        let mut question = context("USD", Some("49.90"));
        question.candidates = vec![candidate("plain"), candidate("marking")];
        let question = set(question, "restricted-goods-accounts", "marking");
        let order = |context| CashApp::rank(context).map(|all| eligible(&all).join(" "));
        assert_eq!(order(question.clone()), Ok("marking plain".into()));
        assert_eq!(
            order(set(question, "restricted-goods", "true")),
            Ok("marking".into())
        );
    }
}
