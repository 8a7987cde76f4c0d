//! The merchants of a reseller.

use axum::Json;
use axum::extract::State;
use kassette_domain::delegation::DelegatedMerchant;
use kassette_domain::time::Time;
use serde::Serialize;
use utoipa::ToSchema;

use super::signed::{Read, SignedReseller};
use crate::api::document::Authenticated;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::formats;
use crate::api::state::ApiState;

/// A merchant as its reseller sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DelegatedMerchant)]
pub(super) struct MerchantBody {
    /// Null until the merchant has accepted.
    #[schema(value_type = Option<formats::MerchantId>, required)]
    merchant_id: Option<u64>,
    /// What the invitation called it.
    #[schema(value_type = String, example = "Shop Seven")]
    business_name: String,
    #[schema(value_type = formats::DelegationStatus)]
    status: &'static str,
    /// Since when the merchant authorizes the reseller; null before.
    #[schema(value_type = Option<formats::Instant>, required)]
    authorized_at: Option<String>,
    /// That of the invitation; null where an operator authorized without one.
    #[schema(value_type = Option<formats::ClientRef>, required)]
    client_ref: Option<String>,
}

impl MerchantBody {
    fn of(merchant: DelegatedMerchant) -> Self {
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

/// All merchants of a reseller.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DelegatedMerchants, example = json!({ "merchants": [{
    "merchant_id": 1, "business_name": "Shop Seven", "status": "authorized",
    "authorized_at": "2026-03-01T09:30:00.000Z", "client_ref": "shop-7"
}] }))]
pub(super) struct MerchantsBody {
    /// The newest first.
    merchants: Vec<MerchantBody>,
}

/// Lists the merchants that the reseller has invited or that authorize it.
#[utoipa::path(
    get, path = "/api/v1/reseller/merchants", tag = "Resellers", operation_id = "listMerchants",
    responses(
        (status = 200, description = "The merchants.", body = MerchantsBody),
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
) -> Result<Json<MerchantsBody>, ApiError> {
    arrived.no_query()?;
    let merchants = state.gateway().reseller_merchants(&caller).await?;
    Ok(Json(MerchantsBody {
        merchants: merchants.into_iter().map(MerchantBody::of).collect(),
    }))
}
