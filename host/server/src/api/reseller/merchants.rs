//! The merchants of a reseller.

use std::borrow::Cow;

use axum::extract::State;
use axum::response::Response;
use kassette_domain::delegation::DelegatedMerchant;
use kassette_domain::key::Scope;
use kassette_domain::time::Time;
use kassette_store::Paging;
use serde::Serialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{PartialSchema as _, ToSchema};

use super::signed::{Permission, Read, SignedReseller};
use crate::api::document::Authenticated;
use crate::api::state::ApiState;
use crate::api::{answer, formats, query};
use crate::web::error::{ApiError, ErrorBody};

/// Maximum and default number of merchants per page.
const MAX_PAGE: usize = 1000;
/// Number of rows that cost as much as a small request.
const ROWS_FOR_A_TOKEN: usize = 100;

/// A merchant for its reseller.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DelegatedMerchant)]
pub(super) struct MerchantBody {
    /// Null until the merchant has accepted.
    #[schema(value_type = Option<formats::MerchantId>, required)]
    merchant_id: Option<u64>,
    /// The name in the invitation.
    #[schema(value_type = String, example = "Shop Seven")]
    business_name: String,
    #[schema(value_type = formats::DelegationStatus)]
    status: &'static str,
    /// Time since which the merchant authorizes the reseller; null before.
    #[schema(value_type = Option<formats::Instant>, required)]
    authorized_at: Option<String>,
    /// The invitation's reference; null if an operator authorized without one.
    #[schema(value_type = Option<formats::ClientRef>, required)]
    client_ref: Option<String>,
}

impl MerchantBody {
    fn new(merchant: DelegatedMerchant) -> Self {
        Self {
            merchant_id: merchant.merchant.map(|id| id.0),
            business_name: merchant.business_name,
            status: merchant.status.as_str(),
            authorized_at: merchant.authorized_at.map(Time::rfc3339),
            client_ref: merchant
                .client_ref
                .map(|client_ref| client_ref.as_str().to_owned()),
        }
    }
}

/// A page of a reseller's merchants.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DelegatedMerchants, example = json!({ "merchants": [{
    "merchant_id": 1, "business_name": "Shop Seven", "status": "authorized",
    "authorized_at": "2026-03-01T09:30:00.000Z", "client_ref": "shop-7"
}], "next_cursor": null }))]
pub(super) struct MerchantsBody {
    /// Newest first.
    merchants: Vec<MerchantBody>,
    /// `cursor` of the next page; null on the last. Remains valid while merchants are invited.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Permission to read merchants. Costs depend on the requested number.
#[derive(Debug)]
pub(super) struct ReadMerchants;

impl Permission for ReadMerchants {
    const SCOPE: Scope = Read::SCOPE;

    fn cost(query: Option<&str>) -> u32 {
        // An invalid limit is refused later, which costs little.
        let limit = asked(query).map_or(1, |(limit, _)| limit);
        u32::try_from(limit.div_ceil(ROWS_FOR_A_TOKEN)).unwrap_or(u32::MAX)
    }
}

/// Parses a query: size and start of the page.
fn asked(query: Option<&str>) -> Result<(usize, Option<Cow<'_, str>>), ApiError> {
    let [limit, cursor] = query::read(query, ["limit", "cursor"])?;
    let limit = match limit {
        None => MAX_PAGE,
        Some(text) => query::limit_of(&text, MAX_PAGE)
            .ok_or_else(|| ApiError::invalid("limit", "must be a number from 1 to 1000"))?,
    };
    Ok((limit, cursor))
}

/// The query's parameters for the document; [`asked`] parses them.
pub(super) struct MerchantsQuery;

impl utoipa::IntoParams for MerchantsQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        vec![
            query::parameter(
                "limit",
                Required::False,
                formats::MerchantsLimit::schema(),
                "Most merchants of a page; 1,000 where it is absent.",
            ),
            query::cursor_parameter(),
        ]
    }
}

/// Lists the merchants that the reseller has invited or that authorize it.
///
/// For each 100 merchants requested, or part of them, a page counts as one request against the key's rate.
#[utoipa::path(
    get, path = "/api/v1/reseller/merchants", tag = "Resellers", operation_id = "listMerchants",
    params(MerchantsQuery),
    responses(
        (status = 200, description = "A page of merchants.", body = MerchantsBody),
        (status = 409, description = "The nonce was used before.", body = ErrorBody),
        Authenticated,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<ReadMerchants>,
) -> Result<Response, ApiError> {
    let (limit, cursor) = asked(arrived.parts.uri.query())?;
    let paging = Paging {
        limit,
        cursor: cursor.map(Cow::into_owned),
    };
    let page = state.gateway().reseller_merchants(&caller, paging).await?;
    let merchants: Vec<_> = page.items.into_iter().map(MerchantBody::new).collect();
    let room = 192 * merchants.len() + 64;
    let body = MerchantsBody {
        merchants,
        next_cursor: page.next,
    };
    answer::json(&body, room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_costs_a_token_for_each_hundred_rows_that_are_asked_for() {
        for (query, cost) in [
            (None, 10),
            (Some("limit=1000"), 10),
            (Some("limit=100&cursor=x"), 1),
            (Some("limit=101"), 2),
            (Some("limit=1"), 1),
            (Some("limit=1001"), 1),
            (Some("unknown=1"), 1),
        ] {
            assert_eq!(ReadMerchants::cost(query), cost, "{query:?}");
        }
    }
}
