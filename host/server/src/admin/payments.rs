//! Payments for operators, and the operators' decisions about them.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{RawQuery, State};
use http::StatusCode;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, AttemptId, MerchantId, PaymentId};
use kassette_domain::lifecycle::{NewDecision, Step};
use kassette_domain::money::Minor;
use kassette_domain::operator::Role;
use kassette_domain::order::Email;
use kassette_domain::payment::{Accepted, Resolution, Settlement, Status};
use kassette_gateway::operator_acts::Decided;
use kassette_store::{About, DeliveryFilter, Listed, Paging, PaymentFilter, SearchKey, Stepped};
use serde_json::{Value, json};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::{Caller, Changes, Viewer};
use super::{finance, payment_view};
use crate::api::webhooks::deliveries::view as delivery_view;
use crate::web::ApiError;
use crate::web::code::Code;
use crate::web::json::{Fields, Invalid, Value as Json_, Wrong, text};
use crate::web::path::At;
use crate::web::query::{Query, page};
use crate::web::time::{INSTANT, instant};

/// Maximum number of ids in an approval's `despite`, and maximum bytes of each. An attempt has no more refunds
/// and disputes.
const MOST_IDS: usize = 320;
const LONGEST_ID: usize = 200;

/// `GET /payments`
pub(super) async fn list(
    Viewer(caller): Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let mut query = Query::parse(query.as_deref())?;
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
        search: None,
        since: query.read("since", instant, INSTANT)?,
        until: query.read("until", instant, INSTANT)?,
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
    Query::parse(query.as_deref())?.finish()?;
    whole(&state, payment_id(&id)?, &caller).await
}

/// `POST /payments/{id}/review`: 200 if the decision was carried out, 202 while it waits for the provider.
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
    let accept = fields.optional("accept", accepted)?;
    let despite = fields.optional("despite", ids)?.unwrap_or_default();
    fields.finish()?;
    let only_approve = |field| ApiError::invalid(field, "goes with the decision \"approve\" alone");
    if resolution == Resolution::Decline {
        if settlement.is_some() {
            return Err(only_approve("settlement"));
        }
        if accept.is_some() {
            return Err(only_approve("accept"));
        }
        if !despite.is_empty() {
            return Err(only_approve("despite"));
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
        accept,
        despite,
        operator: audited.operator.clone(),
        actor: audited.actor.clone(),
        reason: audited.reason.clone().unwrap_or_default(),
    };
    let shown = decision.accept.as_ref();
    let shown = shown.map(|accept| format!("{} {}", accept.amount, accept.currency));
    let after = json!({
        "decision": resolution, "settlement": settlement, "vouch": vouch,
        "accept": shown, "despite": decision.despite,
    });
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

/// `POST /payments/{id}/query`: queries the provider now.
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

/// `POST /payments/{id}/to-review`: moves a stuck payment to review, for an operator's decision.
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

/// `POST /payments/{id}/redact`: erases personal data; money and timeline remain.
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
    erase(&state, id, audited).await?;
    whole(&state, id, &caller).await
}

async fn erase(state: &AdminState, id: PaymentId, audited: Audited) -> Result<(), ApiError> {
    let now = state.gateway.clock().now();
    let step = Step::Redact;
    let stepped = state.gateway.store();
    let stepped = stepped.step(About::Payment(id), step, Some(audited), now);
    match stepped.await.map_err(ApiError::from)? {
        Stepped::Done { .. } => Ok(()),
        Stepped::Refused { refusal, .. } => Err(ApiError::conflict(refusal.to_string())),
        Stepped::ReferenceTaken(_) | Stepped::Unknown => Err(not_found()),
    }
}

/// Maximum number of payments that one call erases. The response reports whether more remain.
const MOST_ERASED: usize = 1000;

/// `POST /payments/redact`: erases the personal data of all payments with an e-mail address, without regard to case.
/// Payments whose address differs in its `+…` part are listed but not changed. `preview` changes nothing.
pub(super) async fn redact_address(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    JsonBody(mut fields): JsonBody,
) -> Result<Json<Value>, ApiError> {
    let attribution = Attribution::in_body(&mut fields)?;
    let email = fields.required("email", text(Email::parse))?;
    let preview = fields.optional("preview", crate::web::text::switch)?;
    fields.finish()?;
    let preview = preview.unwrap_or(false);
    if !preview {
        caller.require(&attribution)?;
    }
    let filter = PaymentFilter {
        search: Some(SearchKey::Email(email.clone())),
        ..PaymentFilter::default()
    };
    let address = email.expose().to_ascii_lowercase();
    let (mut own, mut variants) = (Vec::new(), BTreeMap::<String, Vec<String>>::new());
    let mut cursor = None;
    let more = loop {
        let paging = Paging { limit: 100, cursor };
        let listed = state.gateway.store().payments(filter.clone(), paging);
        let Listed::Page(page) = listed.await.map_err(ApiError::from)? else {
            break false;
        };
        for payment in page.items {
            let of = payment
                .email
                .as_ref()
                .map(|email| email.expose().to_ascii_lowercase());
            match of {
                Some(of) if of == address => own.push(payment.id),
                Some(of) => variants.entry(of).or_default().push(payment.id.to_string()),
                None => {}
            }
        }
        cursor = page.next;
        if cursor.is_none() || own.len() >= MOST_ERASED {
            break cursor.is_some();
        }
    };
    let mut erased = Vec::with_capacity(own.len());
    for id in own {
        if !preview {
            let of = attribution.clone();
            let audited = caller.audited(of, "payment.redact", format!("payment/{id}"));
            erase(&state, id, audited).await?;
        }
        erased.push(id.to_string());
    }
    let variants: Vec<_> = variants
        .into_iter()
        .map(|(email, payments)| json!({ "email": email, "payments": payments }))
        .collect();
    Ok(Json(
        json!({ "payments": erased, "variants": variants, "more": more }),
    ))
}

async fn whole(
    state: &AdminState,
    id: PaymentId,
    caller: &Caller,
) -> Result<Json<Value>, ApiError> {
    let history = state.gateway.store().history(id).await;
    let history = history.map_err(ApiError::from)?.ok_or_else(not_found)?;
    let movements = finance::newest(state, id).await?;
    let filter = DeliveryFilter {
        payment: Some(id),
        ..DeliveryFilter::default()
    };
    let newest = Paging {
        limit: 100,
        cursor: None,
    };
    let deliveries = state.gateway.deliveries(filter, newest).await;
    let deliveries = match deliveries.map_err(ApiError::from)? {
        Listed::Page(page) => page.items,
        Listed::BadCursor => Vec::new(),
    };
    let possible = state.gateway.possible(&history.aggregate).await;
    let possible = possible.map_err(ApiError::from)?;
    let links = caller.follows_links();
    let gateway = &state.gateway;
    let mut view = payment_view::whole(gateway, &history, movements, &possible, links);
    view["deliveries"] = deliveries.iter().map(delivery_view).collect();
    Ok(Json(view))
}

/// Parses the amount that an operator accepts instead of the amount due.
fn accepted(value: Json_) -> Result<Accepted, Wrong> {
    let read = |value| -> Result<Accepted, Invalid> {
        let mut fields = Fields::read(value)?;
        let accept = Accepted {
            amount: fields.required("amount", text(Minor::parse_positive))?,
            currency: fields.required("currency", text(finance::currency))?,
            usd: None,
        };
        fields.finish()?;
        Ok(accept)
    };
    match value {
        Json_::Object(_) => read(value).map_err(Wrong::new),
        _ => Err(Wrong::new("must be an object with amount and currency")),
    }
}

/// Parses a list of ids of refunds and disputes.
fn ids(value: Json_) -> Result<Vec<String>, Wrong> {
    let wrong = || Wrong::new("must be a list of ids of refunds and disputes");
    let Json_::List(list) = value else {
        return Err(wrong());
    };
    let read = |value| match value {
        Json_::Text(id) if !id.is_empty() && id.len() <= LONGEST_ID => Ok(id),
        _ => Err(wrong()),
    };
    if list.len() > MOST_IDS {
        return Err(wrong());
    }
    let mut ids = list.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
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
