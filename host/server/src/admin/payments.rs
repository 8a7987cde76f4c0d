//! Payments as operators see them, and what they decide about one.

use axum::Json;
use axum::extract::{RawQuery, State};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, AttemptId, MerchantId, PaymentId};
use kassette_domain::lifecycle::{NewDecision, Step};
use kassette_domain::operator::Role;
use kassette_domain::payment::{Resolution, Settlement, Status};
use kassette_gateway::operator_acts::Decided;
use kassette_store::{About, PaymentFilter, Stepped};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Caller, Changes, Viewer};
use super::payment_view;
use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::time::{UTC, utc};

/// `GET /payments`
pub(super) async fn list(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::of(query.as_deref())?;
    let filter = PaymentFilter {
        merchant: query
            .read(
                "merchant_id",
                |text| text.parse().ok(),
                "must be a merchant's number",
            )?
            .map(MerchantId),
        status: query.read("status", Status::parse, "is no status of a payment")?,
        order_id: query.take("order_id"),
        environment: query.read(
            "environment",
            |text| crate::web::text::environment(text).ok(),
            "must be \"test\" or \"live\"",
        )?,
        account: query.read(
            "provider_id",
            |text| AccountId::parse(text).ok(),
            "is no id of a provider account",
        )?,
        attempt: query.read(
            "attempt_id",
            |text| AttemptId::parse(text).ok(),
            "must be an attempt's id, 32 hexadecimal digits",
        )?,
        reference: query.read(
            "reference",
            |text| (!text.is_empty()).then(|| text.to_owned()),
            "must not be empty",
        )?,
        since: query.read("since", utc, UTC)?,
        until: query.read("until", utc, UTC)?,
    };
    let listed = state
        .gateway
        .store()
        .payments(filter, query.paging()?)
        .await;
    page("payments", listed, |payment| {
        payment_view::payment(&state.gateway, &payment, caller.follows_links())
    })
}

/// `GET /payments/{id}`
pub(super) async fn show(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    Query::of(query.as_deref())?.finish()?;
    whole(&state, payment_id(&id)?, &caller).await
}

/// `POST /payments/{id}/review`: 200 when the decision is carried out, 202 while it waits for the
/// vendor.
pub(super) async fn review(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let id = payment_id(&id)?;
    let attribution = Attribution::in_body(&mut fields)?;
    let resolution = fields.required("decision", text(resolution))?;
    let settlement = fields.optional("settlement", text(settlement))?;
    let vouch = fields
        .optional("vouch", crate::web::text::switch)?
        .unwrap_or(false);
    fields.finish()?;
    let only_approve = |field| ApiError::invalid(field, "goes with the decision \"approve\" alone");
    if resolution == Resolution::Decline {
        if settlement.is_some() {
            return Err(only_approve("settlement"));
        }
        if vouch {
            return Err(only_approve("vouch"));
        }
    }
    if vouch && !caller.is(Role::Admin) {
        return Err(ApiError::forbidden(
            Code::RoleTooLow,
            "\"vouch\" needs the role admin",
        ));
    }
    let audited =
        caller.audited_strictly(attribution, "payment.review", format!("payment/{id}"))?;
    let decision = NewDecision {
        resolution,
        settlement,
        vouch,
        operator: audited.operator.clone(),
        actor: audited.actor.clone(),
        reason: audited.reason.clone().unwrap_or_default(),
    };
    let after = json!({ "decision": resolution, "settlement": settlement, "vouch": vouch });
    let audited = Audited {
        after: Some(after.to_string()),
        ..audited
    };
    let status = match state.gateway.review(id, decision, audited).await? {
        Decided::Done => StatusCode::OK,
        Decided::Waiting => StatusCode::ACCEPTED,
    };
    Ok((status, whole(&state, id, &caller).await?))
}

/// `POST /payments/{id}/cancel`
pub(super) async fn cancel(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = payment_id(&id)?;
    let attribution = Attribution::alone(fields)?;
    let audited =
        caller.audited_strictly(attribution, "payment.cancel", format!("payment/{id}"))?;
    state.gateway.cancel(id, audited).await?;
    whole(&state, id, &caller).await
}

/// `POST /payments/{id}/query`: asks the vendor now.
pub(super) async fn query(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = payment_id(&id)?;
    let attribution = Attribution::alone(fields)?;
    let audited = caller.audited(attribution, "payment.query", format!("payment/{id}"));
    state.gateway.query(id, audited).await?;
    whole(&state, id, &caller).await
}

/// `POST /payments/{id}/to-review`: has an operator decide a payment that hangs.
pub(super) async fn to_review(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = payment_id(&id)?;
    let attribution = Attribution::alone(fields)?;
    let audited =
        caller.audited_strictly(attribution, "payment.to-review", format!("payment/{id}"))?;
    state.gateway.to_review(id, audited).await?;
    whole(&state, id, &caller).await
}

/// `POST /payments/{id}/redact`: erases personal data; money and timeline stay.
pub(super) async fn redact(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = payment_id(&id)?;
    let attribution = Attribution::alone(fields)?;
    let audited =
        caller.audited_strictly(attribution, "payment.redact", format!("payment/{id}"))?;
    let now = state.gateway.clock().now();
    let stepped = state
        .gateway
        .store()
        .step(About::Payment(id), Step::Redact, Some(audited), now)
        .await;
    match stepped.map_err(ApiError::from)? {
        Stepped::Done { .. } => whole(&state, id, &caller).await,
        Stepped::Refused { refusal, .. } => Err(ApiError::conflict(refusal.to_string())),
        Stepped::ReferenceTaken(_) | Stepped::Unknown => Err(not_found()),
    }
}

async fn whole(
    state: &AdminState,
    id: PaymentId,
    caller: &Caller,
) -> Result<Json<Value>, ApiError> {
    let history = state.gateway.store().history(id).await;
    let history = history.map_err(ApiError::from)?.ok_or_else(not_found)?;
    let links = caller.follows_links();
    Ok(Json(payment_view::whole(&state.gateway, &history, links)))
}

pub(super) const fn not_found() -> ApiError {
    ApiError::NotFound("payment not found")
}

pub(super) fn payment_id(text: &str) -> Result<PaymentId, ApiError> {
    PaymentId::parse(text).map_err(|_| not_found())
}

fn resolution(text: &str) -> Result<Resolution, &'static str> {
    match text {
        "approve" => Ok(Resolution::Approve),
        "decline" => Ok(Resolution::Decline),
        _ => Err("must be \"approve\" or \"decline\""),
    }
}

fn settlement(text: &str) -> Result<Settlement, &'static str> {
    match text {
        "confirmed" => Ok(Settlement::Confirmed),
        "pending" => Ok(Settlement::Pending),
        _ => Err("must be \"confirmed\" or \"pending\""),
    }
}
