//! Explains why a method is available or not.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::money::{Currency, Minor};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use super::merchants;
use crate::web::ApiError;
use crate::web::query::Query;
use crate::web::text::{currency, environment};

/// `GET /explain`
pub(super) async fn show(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
    let required = |name| ApiError::invalid(name, "is required");
    let merchant = query.take("merchant_id");
    let merchant = merchant.ok_or_else(|| required("merchant_id"))?;
    let world = query.read(
        "environment",
        |text| environment(text).ok(),
        "must be \"test\" or \"live\"",
    )?;
    let world = world.ok_or_else(|| required("environment"))?;
    let amount = query.read(
        "amount",
        |text| Minor::parse_positive(text).ok(),
        "must be a positive decimal with exactly two decimal places",
    )?;
    let currency = query.read(
        "currency",
        |text| currency(text).ok(),
        "is not a supported invoice currency, written as in \"EUR\"",
    )?;
    query.finish()?;
    let merchant = merchants::find(&state, &merchant).await?;
    let explanations = state
        .gateway
        .explain(&merchant, world, amount, currency.unwrap_or(Currency::USD))
        .await
        .map_err(ApiError::from)?;
    let methods = explanations.into_iter().map(|method| {
        let accounts = method.accounts.into_iter().map(|account| {
            json!({
                "provider_id": account.id,
                "eligible": account.is_eligible,
                "reason": account.reason,
            })
        });
        json!({
            "method_id": method.method,
            "offered": method.is_offered,
            "reason": method.reason,
            "accounts": accounts.collect::<Vec<_>>(),
        })
    });
    Ok(Json(json!({ "methods": methods.collect::<Vec<_>>() })))
}
