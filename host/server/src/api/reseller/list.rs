//! The payments that a reseller made, in pages.

use std::borrow::Cow;

use axum::extract::State;
use axum::response::Response;
use kassette_domain::id::MerchantId;
use kassette_store::Paging;
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema as _, ToSchema};

use super::payments::DelegatedBody;
use super::signed::{Read, SignedReseller};
use crate::api::document::Authenticated;
use crate::api::state::ApiState;
use crate::api::{answer, formats, query};
use crate::web::error::{ApiError, ErrorBody};

/// Payments of a page where `limit` is absent.
const PAGE: usize = 50;
/// Most payments of a page.
const MAX_PAGE: usize = 100;

/// A query's parameter, for the document.
pub(in crate::api) fn parameter(
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

/// The query's parameters, for the document; [`list`] reads them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            parameter(
                "merchant_id",
                Required::True,
                formats::MerchantId::schema(),
                "A merchant that has authorized the reseller.",
            ),
            parameter(
                "limit",
                Required::False,
                formats::Limit::schema(),
                "Most payments of a page; 50 where it is absent.",
            ),
            parameter(
                "cursor",
                Required::False,
                formats::Cursor::schema(),
                "`next_cursor` of the page before.",
            ),
        ]
    }
}

/// A page of payments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResellerPayments)]
pub(super) struct ListBody<'a> {
    /// The newest first.
    payments: Vec<DelegatedBody<'a>>,
    /// `cursor` of the next page; null on the last. Stays good while payments are made.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the payments that the reseller made for one merchant in the key's environment.
///
/// The newest first. Payments that the merchant or another reseller made are not among them.
#[utoipa::path(
    get, path = "/api/v1/reseller/payments", tag = "Resellers", operation_id = "listResellerPayments",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of payments.", body = ListBody),
        (status = 409, description = "The nonce was used before.", body = ErrorBody),
        Authenticated,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Read>,
) -> Result<Response, ApiError> {
    let query = arrived.parts.uri.query();
    let [merchant, limit, cursor] = query::read(query, ["merchant_id", "limit", "cursor"])?;
    let of = |what| ApiError::invalid("merchant_id", what);
    let merchant = merchant.ok_or_else(|| of("is required"))?;
    let merchant = merchant_text(&merchant)
        .ok_or_else(|| of("must be a merchant's number, a positive integer"))?;
    let limit = match limit {
        None => PAGE,
        Some(text) => limit_of(&text, MAX_PAGE)
            .ok_or_else(|| ApiError::invalid("limit", "must be a number from 1 to 100"))?,
    };
    let paging = Paging {
        limit,
        cursor: cursor.map(Cow::into_owned),
    };
    let gateway = state.gateway();
    let page = gateway.reseller_payments(&caller, merchant, paging).await?;
    let payments = page.items.iter();
    let payments: Result<_, _> = payments
        .map(|payment| DelegatedBody::of(payment, gateway))
        .collect();
    let body = ListBody {
        payments: payments?,
        next_cursor: page.next,
    };
    answer::json(&body, 512 * page.items.len() + 64)
}

/// A page's size in a query.
pub(in crate::api) fn limit_of(text: &str, most: usize) -> Option<usize> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let limit = text.parse().ok().filter(|_| is_canonical);
    limit.filter(|limit| (1..=most).contains(limit))
}

/// A merchant's number in a query.
fn merchant_text(text: &str) -> Option<MerchantId> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let number = text.parse().ok().filter(|_| is_canonical);
    number
        .filter(|number| (1..=formats::MOST_MERCHANT).contains(number))
        .map(MerchantId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_query_have_one_form() {
        assert_eq!(merchant_text("7"), Some(MerchantId(7)));
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
            "99999999999999999999",
        ] {
            assert_eq!(merchant_text(wrong), None, "{wrong:?}");
            assert_eq!(limit_of(wrong, 100), None, "{wrong:?}");
        }
        assert_eq!(limit_of("101", 100), None);
    }
}
