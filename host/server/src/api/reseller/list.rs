//! The payments that a reseller made, in pages.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::id::MerchantId;
use serde::Serialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{PartialSchema as _, ToSchema};

use super::payments::DelegatedBody;
use super::signed::{Read, SignedReseller};
use crate::api::document::Authenticated;
use crate::api::state::ApiState;
use crate::api::{answer, formats, query};
use crate::web::error::{ApiError, ErrorBody};

/// The query's parameters, for the document; [`list`] reads them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            query::parameter(
                "merchant_id",
                Required::True,
                formats::MerchantId::schema(),
                "A merchant that has authorized the reseller.",
            ),
            query::limit_parameter(),
            query::cursor_parameter(),
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
    let paging = query::paging(limit, cursor)?;
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
        }
    }
}
