//! Amounts in PayPal's notation: decimal text, without decimals in some currencies.
use kassette_plugin::amount::{self, MINOR_UNITS};
use kassette_plugin::json::{Json, object};
use kassette_plugin::provider::Money;

/// The gateway's currencies that PayPal supports ("Currency codes"); not AED, INR, RON, ZAR.
pub(crate) const CURRENCIES: [&str; 17] = [
    "USD", "EUR", "GBP", "PHP", "CAD", "AUD", "CHF", "SGD", "NZD", "BRL", "MXN", "PLN", "SEK",
    "NOK", "DKK", "CZK", "HUF",
];

/// Currencies in which PayPal accepts only whole units.
pub(crate) const WHOLE: [&str; 3] = ["HUF", "JPY", "TWD"];

/// An amount for a request. `None` if the currency allows no decimals and the amount has some.
pub(crate) fn written(money: &Money) -> Option<Json> {
    let units = money.amount / MINOR_UNITS;
    let value = if WHOLE.contains(&money.currency.as_str()) {
        amount::is_whole(money.amount).then(|| units.to_string())?
    } else {
        format!("{units}.{:02}", money.amount % MINOR_UNITS)
    };
    Some(object([
        ("currency_code", money.currency.as_str().into()),
        ("value", value.into()),
    ]))
}

/// Reads an amount. `None` if it is negative, more precise than minor units, or malformed.
pub(crate) fn read(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("value").and_then(written_amount)?,
        currency: value.get("currency_code")?.text()?.to_ascii_uppercase(),
    })
}

/// Reads an amount that is text or a number, in minor units.
fn written_amount(value: &Json) -> Option<u64> {
    minor_units(value.text().or_else(|| value.number())?)
}

/// Converts `49.90`, `49.9` or `49` to minor units. `None` with more than two decimals.
fn minor_units(text: &str) -> Option<u64> {
    let (units, decimals) = text.split_once('.').unwrap_or((text, "00"));
    match decimals.len() {
        1 => amount::parse(&format!("{units}.{decimals}0")),
        2 => amount::parse(&format!("{units}.{decimals}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn money(amount: u64, currency: &str) -> Money {
        Money {
            amount,
            currency: currency.into(),
        }
    }

    fn value(amount: u64, currency: &str) -> Option<String> {
        let json = written(&money(amount, currency))?;
        Some(json.get("value")?.text()?.to_owned())
    }

    #[test]
    fn forints_are_written_without_decimals_or_not_at_all() {
        assert_eq!(value(499_000, "HUF").as_deref(), Some("4990"));
        assert_eq!(value(499_050, "HUF"), None);
        assert_eq!(value(4_990, "EUR").as_deref(), Some("49.90"));
        assert_eq!(value(5, "PHP").as_deref(), Some("0.05"));
    }

    #[test]
    fn amounts_are_read_with_as_many_decimals_as_they_have() {
        for (text, amount) in [
            ("4990", Some(499_000)),
            ("49.90", Some(4_990)),
            ("49.9", Some(4_990)),
            ("0.05", Some(5)),
            ("49.", None),
            (".50", None),
            ("49.901", None),
            ("-1.00", None),
            ("1e2", None),
            ("", None),
        ] {
            let told = object([("currency_code", "EUR".into()), ("value", text.into())]);
            assert_eq!(read(&told).map(|money| money.amount), amount, "{text:?}");
        }
    }
}
