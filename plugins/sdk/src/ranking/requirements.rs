//! Requirements on the payment as a whole.
use super::refusal;
use crate::amount;
use crate::method::{Context, Ground, Refusal};
use crate::settings;

/// Requires that the scheme supports the invoice currency.
///
/// # Errors [`Ground::Currency`] if it does not.
pub fn require_currency(context: &Context, currencies: &[&str]) -> Result<(), Refusal> {
    if currencies.contains(&context.currency.as_str()) {
        return Ok(());
    }
    let detail = match currencies {
        [only] => format!("only {only}, not {}", context.currency),
        _ => format!("the scheme has no {}", context.currency),
    };
    Err(refusal(Ground::Currency, detail))
}

/// Requires that the amount is within limits in minor units of the invoice currency, both inclusive. `whose` names
/// their source: "one UPI payment".
///
/// # Errors [`Ground::Amount`] if it is outside; never for a context without an amount.
pub fn require_amount(
    context: &Context,
    minimum: Option<u64>,
    maximum: Option<u64>,
    whose: &str,
) -> Result<(), Refusal> {
    within(context.amount, minimum, maximum, &context.currency, whose)
}

/// Like [`require_amount`], with limits in US cents for the amount at the merchant's rate.
///
/// # Errors [`Ground::Amount`] if it is outside; never for a context without an amount.
pub fn require_usd(
    context: &Context,
    minimum: Option<u64>,
    maximum: Option<u64>,
    whose: &str,
) -> Result<(), Refusal> {
    within(context.usd, minimum, maximum, "USD", whose)
}

/// Requires that the amount is within the operator's settings `minimum-usd` and `maximum-usd`.
///
/// # Errors [`Ground::Amount`] if the amount is outside, [`Ground::Policy`] if a setting cannot be parsed.
pub fn require_operator_limits(context: &Context) -> Result<(), Refusal> {
    let minimum = settings::amount(&context.settings, "minimum-usd")?;
    let maximum = settings::amount(&context.settings, "maximum-usd")?;
    require_usd(context, minimum, maximum, "the operator's limit")
}

/// Requires that the payer's country is one of `presumed`, where an empty list means any. The settings `countries`
/// and `blocked-countries` take precedence. `why` completes "payer in DE: …".
///
/// # Errors [`Ground::Country`] if it is not; never if the country is unknown.
pub fn require_country(context: &Context, presumed: &[&str], why: &str) -> Result<(), Refusal> {
    let Some(country) = context.country.as_deref() else {
        return Ok(());
    };
    let listed = |name| settings::list(&context.settings, name).any(|entry| entry == country);
    if listed("blocked-countries") {
        let detail = format!("payer in {country}: blocked by the operator");
        return Err(refusal(Ground::Country, detail));
    }
    let allowed = match settings::text(&context.settings, "countries") {
        Some("any") => true,
        Some(_) => listed("countries"),
        None => presumed.is_empty() || presumed.contains(&country),
    };
    if allowed {
        return Ok(());
    }
    Err(refusal(
        Ground::Country,
        format!("payer in {country}: {why}"),
    ))
}

fn within(
    amount: Option<u64>,
    minimum: Option<u64>,
    maximum: Option<u64>,
    currency: &str,
    whose: &str,
) -> Result<(), Refusal> {
    let Some(amount) = amount else {
        return Ok(());
    };
    let (word, limit) = match (minimum, maximum) {
        (Some(minimum), _) if amount < minimum => ("below", minimum),
        (_, Some(maximum)) if amount > maximum => ("above", maximum),
        _ => return Ok(()),
    };
    let limit = amount::format(limit, currency);
    Err(refusal(Ground::Amount, format!("{word} {limit}, {whose}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, set};

    fn ground(outcome: Result<(), Refusal>) -> Option<Ground> {
        outcome.err().map(|refusal| refusal.ground)
    }

    #[test]
    fn limits_are_inclusive_and_need_an_amount() {
        let limits = |context: Context| {
            ground(require_amount(
                &context,
                Some(100),
                Some(200),
                "the scheme's limit",
            ))
        };
        for (amount, refused) in [
            ("0.99", true),
            ("1.00", false),
            ("2.00", false),
            ("2.01", true),
        ] {
            let expected = refused.then_some(Ground::Amount);
            assert_eq!(limits(context("EUR", Some(amount))), expected, "{amount}");
        }
        assert_eq!(limits(context("EUR", None)), None);
    }

    #[test]
    fn operators_limits_are_in_dollars() {
        let mut context = set(context("HUF", Some("10000.00")), "maximum-usd", "30.00");
        context.usd = Some(2_800);
        assert_eq!(require_operator_limits(&context), Ok(()));
        context.usd = Some(3_001);
        let refusal = require_operator_limits(&context).unwrap_err();
        assert_eq!(refusal.detail, "above 30.00 USD, the operator's limit");
    }

    #[test]
    fn an_unknown_country_is_never_refused() {
        let context = set(context("EUR", None), "blocked-countries", "NL");
        assert_eq!(require_country(&context, &["NL"], "elsewhere"), Ok(()));
    }

    #[test]
    fn the_operator_widens_and_narrows_the_countries() {
        let from = |country: &str| Context {
            country: Some(country.into()),
            ..context("EUR", None)
        };
        let judge = |context: &Context| ground(require_country(context, &["NL"], "elsewhere"));
        assert_eq!(judge(&from("NL")), None);
        assert_eq!(judge(&from("DE")), Some(Ground::Country));
        assert_eq!(judge(&set(from("DE"), "countries", "any")), None);
        assert_eq!(judge(&set(from("DE"), "countries", "NL, DE")), None);
        assert_eq!(
            judge(&set(from("FR"), "countries", "NL, DE")),
            Some(Ground::Country)
        );
        assert_eq!(
            judge(&set(from("NL"), "blocked-countries", "NL")),
            Some(Ground::Country)
        );
    }

    #[test]
    fn a_foreign_currency_is_named() {
        let refusal = require_currency(&context("USD", None), &["EUR"]).unwrap_err();
        assert_eq!(
            (refusal.ground, refusal.detail.as_str()),
            (Ground::Currency, "only EUR, not USD")
        );
    }
}
