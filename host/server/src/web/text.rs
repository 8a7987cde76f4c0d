//! Small readers of texts that several handlers take.

use std::collections::BTreeMap;

use kassette_domain::key::Environment;
use kassette_domain::money::Currency;
use kassette_domain::text::shows;
use kassette_domain::time::Time;

use crate::web::json::{Fields, Invalid, Value, Wrong};

/// A name, actor or reason: 1-`MOST` characters of which at least one shows, and none is a control
/// character.
pub(crate) fn plain<const MOST: usize>(text: &str) -> Result<String, String> {
    let fits = (1..=MOST).contains(&text.chars().count());
    if fits && shows(text) && !text.chars().any(char::is_control) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "must be 1-{MOST} printable characters of which at least one shows"
        ))
    }
}

/// `test` or `live`.
pub(crate) fn environment(text: &str) -> Result<Environment, &'static str> {
    match text {
        "test" => Ok(Environment::Test),
        "live" => Ok(Environment::Live),
        _ => Err("must be \"test\" or \"live\""),
    }
}

/// A currency that payments may be in.
pub(crate) fn currency(text: &str) -> Result<Currency, &'static str> {
    Currency::parse(text).ok_or("is not a supported invoice currency, written as in \"EUR\"")
}

/// A time to come, RFC 3339.
pub(crate) fn future(text: &str, now: Time) -> Result<Time, String> {
    match Time::parse_rfc3339(text) {
        Some(time) if time > now => Ok(time),
        Some(_) => Err("must lie in the future".into()),
        None => Err("must be an RFC 3339 time such as \"2030-01-31T12:00:00Z\"".into()),
    }
}

/// A time that has been, RFC 3339.
pub(crate) fn past(text: &str, now: Time) -> Result<Time, String> {
    match Time::parse_rfc3339(text) {
        Some(time) if time <= now => Ok(time),
        Some(_) => Err("must not lie in the future".into()),
        None => Err("must be an RFC 3339 time such as \"2030-01-31T12:00:00Z\"".into()),
    }
}

/// `true` or `false`.
pub(crate) fn switch(value: Value) -> Result<bool, Wrong> {
    match value {
        Value::Bool(on) => Ok(on),
        _ => Err(Wrong::new("must be true or false")),
    }
}

/// A whole number between two bounds, both inclusive.
pub(crate) fn whole(least: u64, most: u64) -> impl FnOnce(Value) -> Result<u64, Wrong> {
    move |value| match value {
        Value::Number(number) => number
            .as_u64()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| Wrong::new(format!("must be a whole number from {least} to {most}"))),
        _ => Err(Wrong::new("must be a whole number")),
    }
}

/// Reads a value as the field of that name, so that what is wrong with it is told with the name.
pub(crate) fn within<T>(
    field: &str,
    value: Value,
    read: impl FnOnce(Value) -> Result<T, Wrong>,
) -> Result<T, Invalid> {
    let one = BTreeMap::from([(field.to_owned(), value)]);
    Fields::of(Value::Object(one))?.required(field, read)
}
