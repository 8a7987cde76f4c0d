//! Query parameters: each known, each at most once.

use std::borrow::Cow;

use crate::web::code::Code;
use crate::web::error::ApiError;
use crate::web::json::{echo, short};

/// The values of the parameters that an endpoint knows, in the order of `known`.
///
/// # Errors
/// 422 for an unknown or repeated parameter, naming it.
pub(super) fn read<'q, const N: usize>(
    query: Option<&'q str>,
    known: [&str; N],
) -> Result<[Option<Cow<'q, str>>; N], ApiError> {
    let mut values = [const { None }; N];
    let pairs = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    for (name, value) in pairs {
        let refuse = |code: Code, what: &str| {
            let message = format!("{what} query parameter {}", echo(&name));
            ApiError::invalid_of(code, message, short(&name))
        };
        let Some(at) = known.iter().position(|known| *known == name) else {
            return Err(refuse(Code::UnknownField, "unknown"));
        };
        if values[at].replace(value).is_some() {
            return Err(refuse(Code::InvalidField, "repeated"));
        }
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_parameters_are_read_once() {
        let [amount, currency] = read(Some("currency=E%55R"), ["amount", "currency"]).unwrap();
        assert_eq!((amount, currency.as_deref()), (None, Some("EUR")));
        assert!(read(None, []).is_ok() && read(Some(""), []).is_ok());
    }

    #[test]
    fn unknown_and_repeated_parameters_are_named() {
        for (query, name) in [
            ("x=1", "\"x\""),
            ("amount=1&amount=1", "\"amount\""),
            ("a%6Dount=1&amount=", "\"amount\""),
            ("=1", "\"\""),
            ("Amount=1", "\"Amount\""),
        ] {
            let refused = read(Some(query), ["amount"]).unwrap_err();
            let told = format!("{refused:?}");
            assert!(told.contains(&format!("{name:?}")[1..]), "{query}: {told}");
        }
    }
}
