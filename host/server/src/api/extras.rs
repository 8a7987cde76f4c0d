//! Readers of fields that several kinds of requests share.

use std::time::Duration;

use http::HeaderMap;
use kassette_domain::extras::{BadMetadata, Lifetime, Metadata};
use kassette_domain::order::IdempotencyKey;

use crate::web::json::{Fields, Invalid, Value, Wrong, short, text};

/// Reads a payment's lifetime, in seconds. The gateway checks the maximum, which is a setting.
pub(super) fn expires_in(value: Value) -> Result<u32, Wrong> {
    let seconds = match value {
        Value::Number(number) => number.as_u64(),
        _ => None,
    };
    let seconds = seconds.and_then(|seconds| u32::try_from(seconds).ok());
    let least = Lifetime::LEAST;
    seconds.filter(|seconds| *seconds >= least).ok_or_else(|| {
        Wrong::new(format_args!(
            "must be a whole number of seconds, at least {least}"
        ))
    })
}

/// Reads the metadata of a request. Empty if absent.
pub(super) fn metadata(fields: &mut Fields) -> Result<Metadata, Invalid> {
    let mut metadata = Metadata::default();
    let object = fields.optional("metadata", |value| match value {
        Value::Object(object) => Ok(object),
        _ => Err(Wrong::new("must be an object of strings")),
    });
    for (key, value) in object?.unwrap_or_default() {
        let field = format!("metadata.{}", short(&key));
        let Value::Text(value) = value else {
            return Err(Invalid::new(&field, "must be a string"));
        };
        metadata.add(key, value).map_err(|bad| match bad {
            BadMetadata::TooMany => Invalid::new("metadata", bad),
            BadMetadata::Key | BadMetadata::Value => Invalid::new(&field, bad),
        })?;
    }
    Ok(metadata)
}

/// The lifetime in a request, else the configured one.
pub(super) fn lifetime(expires_in: Option<u32>, configured: Duration) -> Lifetime {
    match expires_in {
        Some(seconds) => Lifetime {
            seconds,
            is_asked: true,
        },
        None => Lifetime::configured(configured),
    }
}

/// Header with the idempotency key, for requests without one in the body.
const IDEMPOTENCY_KEY: &str = "Idempotency-Key";

/// Reads the idempotency key from the body, else from the header, which must not be repeated.
pub(super) fn idempotency_key(
    fields: &mut Fields,
    headers: &HeaderMap,
) -> Result<IdempotencyKey, Invalid> {
    let sent = fields.optional("idempotency_key", text(IdempotencyKey::parse))?;
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let header = match (sent, values.next(), values.next()) {
        (Some(key), ..) => return Ok(key),
        (None, None, _) => return Err(Invalid::new("idempotency_key", "is required")),
        (None, Some(header), None) => header.to_str().unwrap_or_default().trim(),
        (None, Some(_), Some(_)) => "",
    };
    // A structured header's value is in quotation marks.
    let quoted = header
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    IdempotencyKey::parse(quoted.unwrap_or(header))
        .map_err(|bad| Invalid::new(IDEMPOTENCY_KEY, bad))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    #[test]
    fn the_header_counts_where_the_body_has_no_idempotency_key() {
        let read = |body: &str, headers: &[&str]| {
            let mut fields = Fields::read(parse(body.as_bytes()).unwrap()).unwrap();
            let mut sent = HeaderMap::new();
            for value in headers {
                sent.append("idempotency-key", value.parse().unwrap());
            }
            let key = idempotency_key(&mut fields, &sent);
            fields.finish().unwrap();
            key.map(|key| key.to_string())
                .map_err(|invalid| invalid.field.unwrap())
        };
        let body = r#"{"idempotency_key":"of-the-body"}"#;
        assert_eq!(read(body, &["of-the-header"]).unwrap(), "of-the-body");
        assert_eq!(read(body, &["bad", "bad"]).unwrap(), "of-the-body");
        for header in ["of-the-header", "\"of-the-header\"", " of-the-header"] {
            assert_eq!(read("{}", &[header]).unwrap(), "of-the-header", "{header}");
        }
        let null = r#"{"idempotency_key":null}"#;
        assert_eq!(read(null, &["of-the-header"]).unwrap(), "of-the-header");
        let short = r#"{"idempotency_key":"short"}"#;
        assert_eq!(
            read(short, &["of-the-header"]).unwrap_err(),
            "idempotency_key"
        );
        assert_eq!(read("{}", &[]).unwrap_err(), "idempotency_key");
        for headers in [
            &["short"][..],
            &["has a blank"],
            &["of-the-header", "of-the-header"],
        ] {
            assert_eq!(read("{}", headers).unwrap_err(), IDEMPOTENCY_KEY);
        }
    }
}
