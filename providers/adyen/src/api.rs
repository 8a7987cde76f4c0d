//! Requests to the Checkout API: address, credential, idempotency key.
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::{Answer, Broken, Call, base_url};
use kassette_plugin::provider::{Account, Environment, Setting, Verb, call};
use kassette_plugin::settings;

/// Setting: merchant account that receives the payments.
pub(crate) const MERCHANT_ACCOUNT: &str = "merchant-account";
/// Setting: company-specific prefix of the live addresses.
pub(crate) const LIVE_URL_PREFIX: &str = "live-url-prefix";
/// Secret: API key sent with every request.
pub(crate) const API_KEY: &str = "api-key";

const TEST: &str = "https://checkout-test.adyen.com";
const VERSION: &str = "v72";

/// Merchant account that every request names. Empty if the setting is missing; the host prevents this.
pub(crate) fn merchant_account(account: &Account) -> &str {
    settings::text(&account.settings, MERCHANT_ACCOUNT).unwrap_or_default()
}

pub(crate) fn get(account: &Account, path: &str) -> Result<Answer, Broken> {
    call(account, Verb::Get, path)?.send()
}

/// Sends a change that Adyen executes once per key. Keys are unique per company, so each operation has its own.
pub(crate) fn post(
    account: &Account,
    path: &str,
    key: &str,
    body: &Json,
) -> Result<Answer, Broken> {
    call(account, Verb::Post, path)?
        .header("idempotency-key", key)
        .json(body)
        .send()
}

/// Sends a POST that changes nothing, so it needs no idempotency key.
pub(crate) fn ask(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Post, path)?.json(body).send()
}

/// Sends a change that is idempotent without a key.
pub(crate) fn patch(account: &Account, path: &str, body: &Json) -> Result<Answer, Broken> {
    call(account, Verb::Patch, path)?.json(body).send()
}

fn call(account: &Account, verb: Verb, path: &str) -> Result<Call, Broken> {
    let url = format!("{}/{VERSION}{path}", base(account)?);
    Ok(Call::new(verb, url)
        .header("accept", "application/json")
        .secret_header("x-api-key", "", API_KEY))
}

/// Checks that a live account has an address: live addresses contain a prefix that differs for each company.
pub(crate) fn has_address(environment: Environment, settings: &[Setting]) -> Result<(), String> {
    let is_there = |name| settings::text(settings, name).is_some();
    let lacks =
        environment == Environment::Live && !is_there(LIVE_URL_PREFIX) && !is_there(call::BASE_URL);
    if lacks {
        return Err(format!(
            "the setting {LIVE_URL_PREFIX} is missing: a live account needs it"
        ));
    }
    Ok(())
}

fn base(account: &Account) -> Result<String, Broken> {
    has_address(account.environment, &account.settings).map_err(Broken::NotSent)?;
    let prefix = settings::text(&account.settings, LIVE_URL_PREFIX);
    let live = match (account.environment, prefix) {
        (Environment::Live, Some(prefix)) => {
            format!("https://{prefix}-checkout-live.adyenpayments.com/checkout")
        }
        _ => String::new(),
    };
    Ok(base_url(account, &live, TEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(environment: Environment, settings: &[(&str, &str)]) -> Account {
        Account {
            id: "adyen".into(),
            environment,
            now: 0,
            callback_url: String::new(),
            settings: settings
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn live_money_goes_to_the_companys_own_address() {
        let live = account(
            Environment::Live,
            &[(LIVE_URL_PREFIX, "1797a841fbb37ca7-Shop")],
        );
        assert_eq!(
            base(&live).unwrap(),
            "https://1797a841fbb37ca7-Shop-checkout-live.adyenpayments.com/checkout"
        );
        let test = account(
            Environment::Test,
            &[(LIVE_URL_PREFIX, "1797a841fbb37ca7-Shop")],
        );
        assert_eq!(base(&test).unwrap(), TEST);
    }

    #[test]
    fn without_an_address_nothing_is_sent() {
        let none = account(Environment::Live, &[]);
        assert!(matches!(base(&none), Err(Broken::NotSent(_))));
        let named = account(Environment::Live, &[("base-url", "http://127.0.0.1:9")]);
        assert_eq!(base(&named).unwrap(), "http://127.0.0.1:9");
    }
}
