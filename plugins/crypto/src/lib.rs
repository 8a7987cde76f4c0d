//! Cryptocurrencies: any invoice currency, paid on a chain at the vendor's rate.
//!
//! | Rule | Source |
//! |---|---|
//! | At least 1.00 USD: outputs below a chain's dust limit are not relayed | Bitcoin Core, `GetDustThreshold` (546 satoshi for a P2PKH output); "Prevent creation of on-chain invoices below the dust limit", BTCPay Server, <https://github.com/btcpayserver/btcpayserver/pull/3082> |
//! | Over 1,000 the sender must be identified | Regulation (EU) 2023/1113, Articles 14 and 16 (1,000 EUR); FATF Recommendation 16 (1,000 USD/EUR) |
//!
//! Only on a chain does the payer bear a fee that does not depend on the amount. If the operator sets the current
//! cost of a transfer, payments for which the fee would be too large a share are refused before the payer sees
//! them.
use kassette_plugin::amount::{self, units};
use kassette_plugin::method::{
    Candidate, Context, Description, Ground, Method, Refusal, SettingForm, SettingSpec, Verdict,
};
use kassette_plugin::ranking::{self, Order, Ranking};
use kassette_plugin::settings;

/// Smallest payment, in US cents: 546 satoshi with a margin for a rise of the price.
const MINIMUM_USD: u64 = units(1);

/// Maximum share of the network fee, in percent.
const FEE_SHARE: u64 = 20;

/// Default of `travel-rule-usd`, in US cents.
const TRAVEL_RULE_USD: u64 = units(1_000);

const TRANSLATIONS: [(&str, &str, &str); 13] = [
    ("cs", "Bitcoin / krypto", "Zaplaťte ze své peněženky."),
    ("da", "Bitcoin / krypto", "Betal fra din egen wallet."),
    (
        "de",
        "Bitcoin / Krypto",
        "Zahlen Sie aus Ihrer eigenen Wallet.",
    ),
    ("en", "Bitcoin / crypto", "Pay from your own wallet."),
    ("es", "Bitcoin / cripto", "Pague desde su monedero."),
    ("fr", "Bitcoin / crypto", "Payez depuis votre portefeuille."),
    ("hu", "Bitcoin / kripto", "Fizessen a saját tárcájából."),
    ("nb", "Bitcoin / krypto", "Betal fra din egen lommebok."),
    ("nl", "Bitcoin / crypto", "Betaal vanuit uw eigen wallet."),
    ("pl", "Bitcoin / krypto", "Zapłać z\u{a0}własnego portfela."),
    ("pt", "Bitcoin / cripto", "Pague a partir da sua carteira."),
    ("ro", "Bitcoin / cripto", "Plătiți din propriul portofel."),
    ("sv", "Bitcoin / krypto", "Betala från din egen plånbok."),
];
const ICON: [&str; 2] = [
    "M12 2.5 20.2 7.2v9.6L12 21.5l-8.2-4.7V7.2z",
    "M12 7.5 16 12l-4 4.5L8 12z",
];

struct Crypto;

impl Method for Crypto {
    fn describe() -> Description {
        Description::new("crypto", "Cryptocurrency", env!("CARGO_PKG_VERSION"), &[])
            .translated(&TRANSLATIONS)
            .drawn(&ICON).with_settings([SettingSpec::optional("network-fee-usd", "What one transfer costs the payer now, in US dollars").form(SettingForm::Amount).or("none"),SettingSpec::optional("network-fee-share", "The largest fee, in per cent of the payment").form(SettingForm::Number((0, 100))).or("20"),SettingSpec::optional("travel-rule-accounts", "Accounts that identify the sender; with the setting no other takes more than travel-rule-usd").form(SettingForm::Accounts).or("all"),SettingSpec::optional("travel-rule-usd", "Above how many US dollars the sender has to be identified").form(SettingForm::Amount).or("1000.00"),]).with_settings(ranking::settings())
    }

    fn rank(context: Context) -> Result<Vec<Verdict>, Refusal> {
        ranking::require_country(&context, &[], "not among the operator's countries")?;
        ranking::require_usd(&context, Some(MINIMUM_USD), None, "the chains' dust limit")?;
        ranking::require_operator_limits(&context)?;
        require_bearable_fee(&context)?;
        let threshold = settings::amount(&context.settings, "travel-rule-usd")?;
        let threshold = threshold.unwrap_or(TRAVEL_RULE_USD);
        let identify = context.usd.is_some_and(|usd| usd > threshold);
        let check = |candidate: &Candidate| {
            let mut accounts = settings::list(&context.settings, "travel-rule-accounts").peekable();
            if identify && accounts.peek().is_some() && accounts.all(|id| id != candidate.id) {
                let threshold = amount::format(threshold, "USD");
                let detail = format!("over {threshold} the sender must be identified");
                return Err(ranking::refusal(Ground::Policy, detail));
            }
            Ok(())
        };
        Ok(Ranking::start(&context, Order::Priority)?
            .check(&check)
            .verdicts())
    }
}

/// Checks that the network fee is an acceptable share of the payment.
fn require_bearable_fee(context: &Context) -> Result<(), Refusal> {
    let share = settings::number(&context.settings, "network-fee-share")?.unwrap_or(FEE_SHARE);
    let fee = settings::amount(&context.settings, "network-fee-usd")?;
    let Some((fee, usd)) = fee.zip(context.usd) else {
        return Ok(());
    };
    // With 128 bits, the products cannot overflow.
    if u128::from(fee) * 100 > u128::from(usd) * u128::from(share) {
        let fee = amount::format(fee, "USD");
        let detail = format!("the network's fee of {fee} is over {share} % of it");
        return Err(ranking::refusal(Ground::Amount, detail));
    }
    Ok(())
}

kassette_plugin::method::export!(Crypto);

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_plugin::testing::{assert_sound, candidate, context, eligible, set};

    fn ground(context: Context) -> Option<Ground> {
        Crypto::rank(context).err().map(|refusal| refusal.ground)
    }

    #[test]
    fn answers_as_the_host_demands() {
        assert_sound::<Crypto>();
    }

    #[test]
    fn dust_is_refused_by_its_value_in_dollars() {
        let mut context = context("HUF", Some("300.00"));
        context.usd = Some(99);
        assert_eq!(ground(context.clone()), Some(Ground::Amount));
        context.usd = Some(100);
        assert_eq!(ground(context), None);
    }

    #[test]
    fn the_networks_fee_is_at_most_its_share() {
        let question = |amount| set(context("USD", Some(amount)), "network-fee-usd", "2.00");
        assert_eq!(ground(question("10.00")), None);
        assert_eq!(ground(question("9.99")), Some(Ground::Amount));
        assert_eq!(
            ground(set(question("9.99"), "network-fee-share", "25")),
            None
        );
        assert_eq!(ground(context("USD", Some("9.99"))), None);
    }

    #[test]
    fn over_the_travel_rules_threshold_only_identifying_accounts_serve() {
        let order = |amount| {
            let mut question = context("USD", Some(amount));
            question.candidates = vec![candidate("plain"), candidate("known")];
            let question = set(question, "travel-rule-accounts", "known");
            Crypto::rank(question).map(|all| eligible(&all).join(" "))
        };
        assert_eq!(order("1000.00"), Ok("known plain".into()));
        assert_eq!(order("1000.01"), Ok("known".into()));
    }

    #[test]
    fn a_fee_that_cannot_be_read_is_refused() {
        let question = set(context("USD", Some("49.90")), "network-fee-usd", "2");
        assert_eq!(ground(question), Some(Ground::Policy));
    }
}
