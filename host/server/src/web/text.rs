//! Small readers of texts that several handlers use.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kassette_domain::key::Environment;
use kassette_domain::money::Currency;
use kassette_domain::order::{BadText, is_name};
use kassette_domain::text::is_bidi_control;
use kassette_domain::time::Time;

use crate::web::json::{Fields, Invalid, Value, Wrong};

/// A name, actor or reason of at most `MOST` characters.
pub(crate) fn plain<const MOST: usize>(text: &str) -> Result<String, BadText> {
    is_name(text, MOST).map(|()| text.to_owned())
}

/// Escapes characters that change the direction of text as in JSON (`\u202e`).
pub(crate) fn escape_directions(text: &str) -> Cow<'_, str> {
    if !text.contains(is_bidi_control) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_bidi_control(c) {
            escaped.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            escaped.push(c);
        }
    }
    escaped.into()
}

/// Parses `test` or `live`.
pub(crate) fn environment(text: &str) -> Result<Environment, &'static str> {
    match text {
        "test" => Ok(Environment::Test),
        "live" => Ok(Environment::Live),
        _ => Err("must be \"test\" or \"live\""),
    }
}

/// Parses an invoice currency.
pub(crate) fn currency(text: &str) -> Result<Currency, &'static str> {
    Currency::parse(text).ok_or("is not a supported invoice currency, written as in \"EUR\"")
}

/// Parses an RFC 3339 time in the future.
pub(crate) fn future(text: &str, now: Time) -> Result<Time, String> {
    match Time::parse_rfc3339(text) {
        Some(time) if time > now => Ok(time),
        Some(_) => Err("must lie in the future".into()),
        None => Err("must be an RFC 3339 time such as \"2030-01-31T12:00:00Z\"".into()),
    }
}

/// Parses an RFC 3339 time that is not in the future.
pub(crate) fn past(text: &str, now: Time) -> Result<Time, String> {
    match Time::parse_rfc3339(text) {
        Some(time) if time <= now => Ok(time),
        Some(_) => Err("must not lie in the future".into()),
        None => Err("must be an RFC 3339 time such as \"2030-01-31T12:00:00Z\"".into()),
    }
}

/// Minimum length of a digest's prefix that identifies a version.
pub(crate) const LEAST_DIGEST: usize = 8;

/// Checks a digest or its prefix, which people use to identify versions.
pub(crate) fn digest_begin(text: &str) -> Result<String, &'static str> {
    let is_hex = text
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hex && (LEAST_DIGEST..=64).contains(&text.len()) {
        Ok(text.to_owned())
    } else {
        Err("must be 8 to 64 lower-case hexadecimal characters")
    }
}

/// Reads `true` or `false`.
pub(crate) fn switch(value: Value) -> Result<bool, Wrong> {
    match value {
        Value::Bool(on) => Ok(on),
        _ => Err(Wrong::new("must be true or false")),
    }
}

/// Reads a whole number between two inclusive bounds.
pub(crate) fn whole(least: u64, most: u64) -> impl FnOnce(Value) -> Result<u64, Wrong> {
    move |value| match value {
        Value::Number(number) => number
            .as_u64()
            .filter(|number| (least..=most).contains(number))
            .ok_or_else(|| Wrong::new(format!("must be a whole number from {least} to {most}"))),
        _ => Err(Wrong::new("must be a whole number")),
    }
}

/// Reads a value as the named field, so that an error contains the name.
pub(crate) fn within<T>(
    field: &str,
    value: Value,
    read: impl FnOnce(Value) -> Result<T, Wrong>,
) -> Result<T, Invalid> {
    let one = BTreeMap::from([(field.to_owned(), value)]);
    Fields::read(Value::Object(one))?.required(field, read)
}
