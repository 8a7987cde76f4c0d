//! UPI and IMPS: India's two instant rails, one choice to the payer.
//!
//! | Rule | Source |
//! |---|---|
//! | INR only, from 1.00; payers with an Indian bank account | "UPI product overview", National Payments Corporation of India, <https://www.npci.org.in> |
//! | UPI: 1 lakh (100,000.00) a payment, 5 lakh to verified merchants | "Review of UPI transaction limit for specific categories", NPCI, circulars of December 2023 and August 2025 |
//! | IMPS: 5 lakh (500,000.00) a payment | "Statement on Developmental and Regulatory Policies", Reserve Bank of India, 8 October 2021 |
//!
//! Only this method has two rails with different limits under one id: a payment above UPI's limit needs an account
//! that also offers IMPS, and a payment above both limits is refused. The question does not contain which accounts
//! offer IMPS, so the operator sets it; by default none does.
use kassette_plugin::amount::{self, units};
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

const CURRENCIES: [&str; 1] = ["INR"];
const MINIMUM: u64 = units(1);
const UPI_MAXIMUM: u64 = units(100_000);
const UPI_VERIFIED_MAXIMUM: u64 = units(500_000);
const IMPS_MAXIMUM: u64 = units(500_000);

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    (
        "cs",
        "UPI / IMPS",
        "Z\u{a0}vašeho indického bankovního účtu.",
    ),
    ("da", "UPI / IMPS", "Fra din indiske bankkonto."),
    ("de", "UPI / IMPS", "Von Ihrem indischen Bankkonto."),
    ("en", "UPI / IMPS", "From your Indian bank account."),
    ("es", "UPI / IMPS", "Desde su cuenta bancaria india."),
    ("fr", "UPI / IMPS", "Depuis votre compte bancaire indien."),
    ("hu", "UPI / IMPS", "Az Ön indiai bankszámlájáról."),
    ("nb", "UPI / IMPS", "Fra den indiske bankkontoen din."),
    ("nl", "UPI / IMPS", "Vanaf uw Indiase bankrekening."),
    (
        "pl",
        "UPI / IMPS",
        "Z\u{a0}Twojego indyjskiego konta bankowego.",
    ),
    ("pt", "UPI / IMPS", "Da sua conta bancária indiana."),
    ("ro", "UPI / IMPS", "Din contul bancar indian."),
    ("sv", "UPI / IMPS", "Från ditt indiska bankkonto."),
];
const ICON: [&str; 2] = [
    "M4 8V5.5A1.5 1.5 0 0 1 5.5 4H8m8 0h2.5A1.5 1.5 0 0 1 20 5.5V8m0 8v2.5a1.5 1.5 0 0 1-1.5 1.5H16m-8 0H5.5A1.5 1.5 0 0 1 4 18.5V16",
    "M8 8h3v3H8zM13.5 13.5H16V16h-2.5zM14 8h2M8 14.5V16h1.5",
];

struct UpiImps;

impl Method for UpiImps {
    fn describe() -> Description {
        Description::new(
            "upi_imps",
            "UPI / IMPS",
            env!("CARGO_PKG_VERSION"),
            &CURRENCIES,
        )
        .translated(&TRANSLATIONS)
        .drawn(&ICON).with_settings([SettingSpec::optional("verified-merchant", "Whether the merchant is on its acquirer's list of verified merchants: UPI up to 5 lakh").form(SettingForm::Flag).or("false"),SettingSpec::optional("imps-accounts", "Accounts that also offer IMPS").form(SettingForm::Accounts).or("none"),]).with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_currency(&context, &CURRENCIES)?;
        ranking::require_country(&context, &["IN"], "UPI needs an Indian bank account")?;
        let verified = settings::flag(&context.settings, "verified-merchant", false)?;
        let upi_maximum = if verified {
            UPI_VERIFIED_MAXIMUM
        } else {
            UPI_MAXIMUM
        };
        let offers_imps = |candidate: &Candidate| {
            settings::list(&context.settings, "imps-accounts").any(|id| id == candidate.id)
        };
        let imps = context.candidates.iter().any(offers_imps);
        let (maximum, rail) = if imps {
            (upi_maximum.max(IMPS_MAXIMUM), "one UPI or IMPS payment")
        } else {
            (upi_maximum, "one UPI payment")
        };
        ranking::require_amount(&context, Some(MINIMUM), Some(maximum), rail)?;
        ranking::require_operator_limits(&context)?;
        let needs_imps = context.amount.is_some_and(|amount| amount > upi_maximum);
        let check = |candidate: &Candidate| {
            if needs_imps && !offers_imps(candidate) {
                let limit = amount::format(upi_maximum, "INR");
                let detail = format!("above UPI's {limit} and without IMPS");
                return Err(ranking::refusal(Ground::Amount, detail));
            }
            Ok(())
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

kassette_plugin::method::export!(UpiImps);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        UpiImps::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<UpiImps>();
    }

    #[test]
    fn takes_rupees_of_payers_in_india() {
        assert_eq!(
            ground(context("USD", Some("49.90"))),
            Some(Ground::Currency)
        );
        let mut abroad = context("INR", Some("49.90"));
        abroad.country = Some("NP".into());
        assert_eq!(ground(abroad), Some(Ground::Country));
    }

    #[test]
    fn upi_carries_one_lakh_and_five_to_verified_merchants() {
        assert_eq!(ground(context("INR", Some("100000.00"))), None);
        assert_eq!(
            ground(context("INR", Some("100000.01"))),
            Some(Ground::Amount)
        );
        let verified = |amount| set(context("INR", Some(amount)), "verified-merchant", "true");
        assert_eq!(ground(verified("500000.00")), None);
        assert_eq!(ground(verified("500000.01")), Some(Ground::Amount));
        assert_eq!(ground(context("INR", None)), None);
    }

    #[test]
    fn above_upis_limit_only_accounts_with_imps_serve_up_to_its_own() {
        let order = |amount| {
            let mut question = set(context("INR", Some(amount)), "imps-accounts", "both");
            question.candidates = vec![candidate("upi"), candidate("both")];
            UpiImps::rank(question).map(|all| eligible(&all).join(" "))
        };
        assert_eq!(order("100000.00"), Ok("both upi".into()));
        assert_eq!(order("100000.01"), Ok("both".into()));
        assert_eq!(order("500000.00"), Ok("both".into()));
        assert_eq!(
            order("500000.01").map_err(|no| no.ground),
            Err(Ground::Amount)
        );
    }

    #[test]
    fn imps_of_an_account_that_is_no_candidate_raises_no_limit() {
        let question = set(
            context("INR", Some("100000.01")),
            "imps-accounts",
            "elsewhere",
        );
        assert_eq!(ground(question), Some(Ground::Amount));
    }

    #[test]
    fn the_smallest_payment_is_one_rupee() {
        assert_eq!(ground(context("INR", Some("0.99"))), Some(Ground::Amount));
    }
}
