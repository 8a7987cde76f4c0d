//! Refunds ordered by operators.

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{RefundId, WorkId};
use kassette_domain::money::Minor;
use kassette_domain::order::IdempotencyKey;
use kassette_gateway::refunds::{RefundAsked, RefundError, RefundOf, RefundOutcome, given_refunds};
use kassette_store::About;
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Admin, Caller, Changes, Viewer};
use super::payment_view;
use super::payments::{not_found, payment_id};
use super::work;
use crate::web::ApiError;
use crate::web::json::{Fields, text};
use crate::web::path::At;
use crate::web::query::{Query, named};

const NO_REFUND: ApiError = ApiError::NotFound("refund not found");

/// `POST /payments/{id}/refunds`: refunds the payment's own money.
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let id = payment_id(&id)?;
    let (of, object) = (RefundOf::Payment(id), format!("payment/{id}"));
    let given = give(&caller, &state, of, ("payment.refund", object), fields).await;
    given.map_err(|error| match error {
        Refused::NotFound => not_found(),
        Refused::Other(error) => error,
    })
}

/// `POST /work/{id}/refund`: refunds the money of a work item, which closes once the refund has succeeded.
pub(super) async fn of_line(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(fields): JsonBody,
) -> Result<Response, ApiError> {
    let id = WorkId::parse(&id).map_err(|_| work::not_found())?;
    let (of, object) = (RefundOf::Work(id), format!("work/{id}"));
    let given = give(&caller, &state, of, ("work.refund", object), fields).await;
    given.map_err(|error| match error {
        Refused::NotFound => work::not_found(),
        Refused::Other(error) => error,
    })
}

enum Refused {
    NotFound,
    Other(ApiError),
}

impl<E: Into<ApiError>> From<E> for Refused {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

async fn give(
    caller: &Caller,
    state: &AdminState,
    of: RefundOf,
    (action, object): (&str, String),
    mut fields: Fields,
) -> Result<Response, Refused> {
    let attribution = Attribution::in_body(&mut fields)?;
    let amount = fields.optional("amount", text(Minor::parse_positive))?;
    let key = fields.optional("idempotency_key", text(IdempotencyKey::parse))?;
    fields.finish()?;
    let audited = caller.audited_strictly(attribution, action, object)?;
    let after = json!({
        "amount": amount.map(|amount| amount.to_string()),
        "idempotency_key": key.as_ref().map(IdempotencyKey::as_str),
    });
    let audited = Audited {
        after: Some(after.to_string()),
        ..audited
    };
    let asked = RefundAsked {
        amount,
        key,
        reason: None,
    };
    let outcome = state.gateway.refund_by_operator(of, asked, audited).await;
    let outcome = outcome.map_err(|error| match error {
        RefundError::NotFound => Refused::NotFound,
        error => Refused::Other(ApiError::of_refund(error, amount.is_some())),
    })?;
    let links = caller.follows_links();
    Ok(match outcome {
        RefundOutcome::Created(given) => (
            StatusCode::CREATED,
            Json(payment_view::given_refund(&given, links)),
        )
            .into_response(),
        RefundOutcome::Replayed(given) => {
            crate::api::replayed(Json(payment_view::given_refund(&given, links)))
        }
    })
}

/// `POST /refunds/{id}/settle`: records the outcome of a refund that remained unknown.
pub(super) async fn settle(
    Admin(caller): Admin,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let id = RefundId::parse(&id).map_err(|_| NO_REFUND)?;
    let attribution = Attribution::in_body(&mut fields)?;
    let is_made = fields.required("outcome", text(outcome))?;
    let amount = fields.optional("amount", text(Minor::parse_positive))?;
    fields.finish()?;
    if amount.is_some() && !is_made {
        return Err(ApiError::invalid(
            "amount",
            "goes with the outcome \"made\" alone",
        ));
    }
    let audited = caller.audited_strictly(attribution, "refund.settle", format!("refund/{id}"))?;
    let word = if is_made { "made" } else { "not_made" };
    let after = json!({ "outcome": word, "amount": amount.map(|amount| amount.to_string()) });
    let audited = Audited {
        after: Some(after.to_string()),
        ..audited
    };
    let made = match is_made {
        true => amount,
        false => Some(Minor::ZERO),
    };
    let settled = state.gateway.settle_refund(id, made, audited).await;
    let given = settled.map_err(|error| match error {
        RefundError::NotFound => NO_REFUND,
        error => error.into(),
    })?;
    let links = caller.follows_links();
    Ok(Json(payment_view::given_refund(&given, links)))
}

fn outcome(text: &str) -> Result<bool, &'static str> {
    match text {
        "made" => Ok(true),
        "not_made" => Ok(false),
        _ => Err("must be \"made\" or \"not_made\""),
    }
}

/// `GET /payments/{id}/refunds`
pub(super) async fn list(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    At(id): At<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::parse(query.as_deref())?.paging()?;
    let about = About::Payment(payment_id(&id)?);
    let aggregate = state.gateway.store().aggregate(about).await;
    let aggregate = aggregate.map_err(ApiError::from)?.ok_or_else(not_found)?;
    let refunds = given_refunds(&aggregate);
    let views: Vec<Value> = refunds
        .iter()
        .map(|given| payment_view::given_refund(given, caller.follows_links()))
        .collect();
    named("refunds", &views, id_of, Value::clone, &paging)
}

fn id_of(view: &Value) -> &str {
    view["refund_id"].as_str().unwrap_or_default()
}
