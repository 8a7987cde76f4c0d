//! Interac e-Transfer: between Canadian bank accounts, by e-mail or phone.
//!
//! | Rule | Source |
//! |---|---|
//! | CAD only, both sides with a Canadian bank account | "Interac e-Transfer", Interac Corp., <https://www.interac.ca> |
//! | A person sends at most 10,000.00 at once (banks set lower limits) | "e-Transfer limits", BlueShore Financial, <https://blueshorefinancial.com/personal-banking/help-centre/e-transfer-limits-and-fees> (secondary: one bank's page; each bank sets its own, Interac names no figure) |
//! | A business at most 25,000.00 | "Interac e-Transfer for Business", Interac Corp., <https://www.interac.ca> |
//! | Request Money reaches the payer by e-mail or phone | "Interac e-Transfer Request Money", Interac Corp. |
//!
//! Only Interac needs to reach the payer before the payment: an account that uses Request Money needs an address.
//! If the merchant gave none, the provider has to ask the payer, so such accounts rank after accounts that redirect,
//! but are not refused.
use kassette_plugin::amount::units;
use kassette_plugin::method::{
    Candidate, Context, Description, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

const CURRENCIES: [&str; 1] = ["CAD"];
const MINIMUM: u64 = 1;
const MAXIMUM_PEOPLE: u64 = units(10_000);
const MAXIMUM_BUSINESSES: u64 = units(25_000);

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    (
        "cs",
        "Interac e-Transfer",
        "Z\u{a0}vašeho kanadského bankovního účtu.",
    ),
    ("da", "Interac e-Transfer", "Fra din canadiske bankkonto."),
    (
        "de",
        "Interac e-Transfer",
        "Von Ihrem kanadischen Bankkonto.",
    ),
    (
        "en",
        "Interac e-Transfer",
        "From your Canadian bank account.",
    ),
    (
        "es",
        "Interac e-Transfer",
        "Desde su cuenta bancaria canadiense.",
    ),
    (
        "fr",
        "Virement Interac",
        "Depuis votre compte bancaire canadien.",
    ),
    ("hu", "Interac e-Transfer", "Az Ön kanadai bankszámlájáról."),
    (
        "nb",
        "Interac e-Transfer",
        "Fra den kanadiske bankkontoen din.",
    ),
    (
        "nl",
        "Interac e-Transfer",
        "Vanaf uw Canadese bankrekening.",
    ),
    (
        "pl",
        "Interac e-Transfer",
        "Z\u{a0}Twojego kanadyjskiego konta bankowego.",
    ),
    (
        "pt",
        "Interac e-Transfer",
        "Da sua conta bancária canadiana.",
    ),
    ("ro", "Interac e-Transfer", "Din contul bancar canadian."),
    (
        "sv",
        "Interac e-Transfer",
        "Från ditt kanadensiska bankkonto.",
    ),
];
const ICON: [&str; 2] = [
    "m3 9.5 9-5.5 9 5.5z",
    "M5.5 10v7m4.3-7v7m4.4-7v7m4.3-7v7M3 20h18",
];

struct Interac;

impl Method for Interac {
    fn describe() -> Description {
        Description::new(
            "interac",
            "Interac e-Transfer",
            env!("CARGO_PKG_VERSION"),
            &CURRENCIES,
        )
        .translated(&TRANSLATIONS)
        .drawn(&ICON)
        .with_settings([
            SettingSpec::optional(
                "payers",
                "Whose limit holds: 10,000.00 for people, 25,000.00 for businesses",
            )
            .among(&["people", "businesses"])
            .or("people"),
            SettingSpec::optional(
                "request-money-accounts",
                "Accounts that send a request by e-mail",
            )
            .form(SettingForm::Accounts)
            .or("none"),
        ])
        .with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        ranking::require_country(&context, &["CA"], "Interac needs a Canadian bank account")?;
        let limits = [
            ("people", MAXIMUM_PEOPLE),
            ("businesses", MAXIMUM_BUSINESSES),
        ];
        let maximum = settings::choice(&context.settings, "payers", &limits, MAXIMUM_PEOPLE)?;
        ranking::require_amount(&context, Some(MINIMUM), Some(maximum), "one e-Transfer")?;
        ranking::require_operator_limits(&context)?;
        let demotion = |candidate: &Candidate| {
            let mut asking = settings::list(&context.settings, "request-money-accounts");
            (!context.email_known && asking.any(|id| id == candidate.id))
                .then_some("it has to ask for an e-mail address")
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .demote(&demotion)
            .verdicts())
    }
}

kassette_plugin::method::export!(Interac);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::method::Ground;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        Interac::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Interac>();
    }

    #[test]
    fn takes_canadian_dollars_of_payers_in_canada() {
        assert_eq!(
            ground(context("USD", Some("49.90"))),
            Some(Ground::Currency)
        );
        let mut abroad = context("CAD", Some("49.90"));
        abroad.country = Some("US".into());
        assert_eq!(ground(abroad), Some(Ground::Country));
    }

    #[test]
    fn people_send_less_at_once_than_businesses() {
        assert_eq!(ground(context("CAD", Some("10000.00"))), None);
        assert_eq!(
            ground(context("CAD", Some("10000.01"))),
            Some(Ground::Amount)
        );
        let business = |amount| set(context("CAD", Some(amount)), "payers", "businesses");
        assert_eq!(ground(business("25000.00")), None);
        assert_eq!(ground(business("25000.01")), Some(Ground::Amount));
        assert_eq!(ground(context("CAD", None)), None);
    }

    #[test]
    fn without_an_address_accounts_that_send_requests_rank_later() {
        let order = |email_known| {
            let mut asking = candidate("asking");
            asking.priority = 9;
            let mut question = set(
                context("CAD", Some("49.90")),
                "request-money-accounts",
                "asking",
            );
            question.candidates = vec![asking, candidate("redirecting")];
            question.email_known = email_known;
            Interac::rank(question).map(|all| eligible(&all).join(" "))
        };
        assert_eq!(order(true), Ok("asking redirecting".into()));
        assert_eq!(order(false), Ok("redirecting asking".into()));
    }
}
