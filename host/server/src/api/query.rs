//! Query parameters: only known ones, without repetition; and paging.

use std::borrow::Cow;

use kassette_domain::id::PaymentId;
use kassette_domain::order::OrderId;
use kassette_store::Paging;
use utoipa::PartialSchema as _;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};

use super::formats;
use crate::web::code::Code;
use crate::web::error::ApiError;
use crate::web::json::{echo, short};

/// Maximum number of payments per page.
const MAX_PAGE: usize = 100;

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

/// Parses the parameters `limit` and `cursor`.
///
/// # Errors
/// 422 for an invalid limit.
pub(super) fn paging(
    limit: Option<Cow<'_, str>>,
    cursor: Option<Cow<'_, str>>,
) -> Result<Paging, ApiError> {
    let limit = match limit {
        None => formats::PAGE,
        Some(text) => limit_of(&text, MAX_PAGE)
            .ok_or_else(|| ApiError::invalid("limit", "must be a number from 1 to 100"))?,
    };
    let cursor = cursor.map(Cow::into_owned);
    Ok(Paging { limit, cursor })
}

/// Parses the parameter `payment_id`.
///
/// # Errors
/// 422 for an invalid payment id.
pub(super) fn payment(id: Option<Cow<'_, str>>) -> Result<Option<PaymentId>, ApiError> {
    let payment = id.map(|id| PaymentId::parse(&id)).transpose();
    payment.map_err(|_| ApiError::invalid("payment_id", "is no payment's id"))
}

/// Parses the parameter `order_id`.
///
/// # Errors
/// 422 for an invalid order id.
pub(super) fn order(id: Option<Cow<'_, str>>) -> Result<Option<OrderId>, ApiError> {
    let order = id.map(|id| OrderId::parse(&id)).transpose();
    order.map_err(|why| ApiError::invalid("order_id", why))
}

/// Parses the size of a page. `None` if it is invalid.
pub(in crate::api) fn limit_of(text: &str, most: usize) -> Option<usize> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let limit = text.parse().ok().filter(|_| is_canonical);
    limit.filter(|limit| (1..=most).contains(limit))
}

/// A query parameter for the document.
pub(super) fn parameter(
    name: &str,
    required: Required,
    schema: RefOr<Schema>,
    description: &str,
) -> Parameter {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .schema(Some(schema))
        .description(Some(description))
        .build()
}

/// `limit` of [`paging`].
pub(super) fn limit_parameter() -> Parameter {
    let about = "Most payments of a page; 50 where it is absent.";
    parameter("limit", Required::False, formats::Limit::schema(), about)
}

/// `cursor` of a list.
pub(super) fn cursor_parameter() -> Parameter {
    let about = "`next_cursor` of the page before.";
    parameter("cursor", Required::False, formats::Cursor::schema(), about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pages_size_has_one_form() {
        assert_eq!(
            (limit_of("1", 100), limit_of("100", 100)),
            (Some(1), Some(100))
        );
        for wrong in [
            "",
            "0",
            "07",
            "+7",
            "-7",
            "7.0",
            " 7",
            "x",
            "101",
            "99999999999999999999",
        ] {
            assert_eq!(limit_of(wrong, 100), None, "{wrong:?}");
        }
    }

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
