//! Revolut's endpoints.
use std::{collections::HashMap, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, Query, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    afterwards::Part,
    capture::Denied,
    http::{self, MOST_BODY},
    ids,
    money::{Amount, Money},
    noise::extra_fields,
    refund::{Asked, Outcome},
    revolut::{
        problem::Problem,
        secret_key,
        wire::{self, Capture, Create, GiveBack, Kin},
    },
    session::{Conflict, Happened, Opening, Session, State as Stands},
};

/// Lifetime of an idempotency key, in milliseconds. Revolut does not document it, so it is short here.
const KEY_MS: u64 = 86_400_000;

/// Orders per list: default and maximum.
const PAGE: usize = 100;
const MOST_PAGE: usize = 500;

pub(crate) fn routes(account: Arc<Account>) -> Router {
    Router::new()
        .route("/api/orders", post(create).get(list))
        .route("/api/orders/{id}", get(read))
        .route("/api/orders/{id}/capture", post(capture))
        .route("/api/orders/{id}/cancel", post(cancel))
        .route("/api/orders/{id}/refund", post(refund))
        .route("/api/disputes", get(disputes))
        .route("/api/disputes/{id}", get(dispute))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(account)
}

/// Evidence of a valid key and version: a handler with this parameter cannot be reached without.
struct Authorised;

impl FromRequestParts<Arc<Account>> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        account: &Arc<Account>,
    ) -> Result<Self, Problem> {
        let given = http::bearer(&parts.headers).unwrap_or_default();
        if !http::same(given, &secret_key(&account.settings)) {
            return Err(Problem::unauthorised());
        }
        let version = http::only(&parts.headers, "revolut-api-version");
        if version == Some(wire::VERSION) {
            Ok(Self)
        } else {
            let message = format!("Revolut-Api-Version: {} is simulated", wire::VERSION);
            Err(Problem::bad_request(message))
        }
    }
}

async fn create(
    State(account): State<Arc<Account>>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Create = http::json_body(&headers, &body).map_err(Problem::bad_request)?;
    let life = wire::check(&asked)?;
    let reference = wire::order_id(&ids::random("")?);
    let now = account.now();
    let mut session = Session::open(Opening {
        // Creations are not idempotent: a repeated request creates another order.
        key: reference.clone(),
        reference,
        attempt_id: asked.merchant_order_data.reference,
        fingerprint: http::fingerprint(&body),
        due: Money {
            value: Amount(asked.amount),
            currency: asked.currency,
        },
        method: "revolut".to_owned(),
        order: asked.description,
        merchant: account.settings.provider_id.clone(),
        cancel_url: asked.redirect_url.clone(),
        return_url: asked.redirect_url,
        now,
        expires_at: now.saturating_add(life),
    })?;
    let mode = asked.capture_mode.unwrap_or_else(|| "automatic".to_owned());
    session.extra.insert(wire::CAPTURE_MODE.to_owned(), mode);
    match account.create(session).await? {
        Created::New(session) | Created::Replay(session) => {
            let order = wire::order(&account, &session, account.now());
            Ok((StatusCode::CREATED, Json(order)).into_response())
        }
        Created::Differs => Err(Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

async fn list(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Problem> {
    let mut most = PAGE;
    let mut reference = None;
    let mut since = jiff::Timestamp::UNIX_EPOCH;
    for (name, value) in &query {
        match name.as_str() {
            "limit" => {
                most = value
                    .parse()
                    .ok()
                    .filter(|most| (1..=MOST_PAGE).contains(most))
                    .ok_or_else(|| Problem::validation("limit: 1 to 500"))?;
            }
            "merchant_order_data_reference" => reference = Some(value),
            "from" => {
                let time: Option<jiff::Timestamp> = value.parse().ok();
                since = time.ok_or_else(|| Problem::validation("from: a date-time"))?;
            }
            _ => return Err(Problem::bad_request(format!("{name} is not simulated"))),
        }
    }
    let found = match reference {
        Some(reference) => {
            let mut found = account.by_attempt(reference);
            found.reverse();
            found
        }
        None => account.newest(None, most).unwrap_or_default(),
    };
    let now = account.now();
    // A refund has the reference of its request, which may be the one searched for.
    let named = |order: &Value| {
        reference.is_none_or(|name| order["merchant_order_data"]["reference"] == **name)
    };
    let recent = |order: &Value| {
        let created = order["created_at"].as_str().unwrap_or_default();
        created
            .parse::<jiff::Timestamp>()
            .is_ok_and(|at| at >= since)
    };
    let orders: Vec<Value> = found
        .iter()
        .flat_map(|session| {
            let order = wire::simplified(&account, session, now);
            wire::refunds(session).chain([order])
        })
        .filter(|order| named(order) && recent(order))
        .take(most)
        .collect();
    Ok(Json(json!({ "orders": orders })))
}

async fn refund(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: GiveBack = http::json_body(&headers, &body).map_err(Problem::bad_request)?;
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    let asked = Asked {
        key: http::only(&headers, "idempotency-key").map(str::to_owned),
        fingerprint: http::fingerprint(&body),
        ..wire::refund_of(asked, &session)?
    };
    let made = match account.give_back(&id, asked.clone(), KEY_MS).await? {
        Outcome::Made(session, refund) | Outcome::Replayed(session, refund) => {
            wire::refund(&session, &refund)
        }
        Outcome::Differs => return Err(Problem::conflict()),
        Outcome::Unpaid => return Err(Problem::bad_state()),
        Outcome::Nothing | Outcome::TooMuch(_) => {
            return Err(Problem::validation("amount: more than was not refunded"));
        }
        Outcome::Refused => {
            account
                .alter(id, |session, account, now| {
                    declined(session, account, asked, now)
                })
                .await?;
            return Err(Problem::bad_request("the refund was declined"));
        }
    };
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// "Refund an order": a declined refund has an order too.
fn declined(
    session: &mut Session,
    account: &Account,
    asked: Asked,
    now: u64,
) -> Result<Option<Happened>, Denied> {
    let id = account.part_id(session, Part::Refund);
    let happened = session.refuse_refund(id, now, asked.amount)?;
    if let Some(made) = session.refunds.last_mut() {
        made.asked = Some(asked);
    }
    Ok(Some(happened))
}

async fn read(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let now = account.now();
    if let Some(session) = account.by_part(&id) {
        let refund = session.refund_of(&id).ok_or_else(Problem::not_found)?;
        return Ok(Json(wire::refund(&session, refund)));
    }
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    Ok(Json(wire::order(&account, &session, now)))
}

async fn capture(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Capture = http::json_body(&headers, &body).map_err(Problem::bad_request)?;
    let known = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    if asked
        .amount
        .is_some_and(|amount| amount != known.due.value.0)
    {
        let message = "the whole amount that was authorised is captured, or nothing";
        return Err(Problem::validation(message));
    }
    let act = |session: &mut Session, account: &Account, now| {
        // Repeated request: nothing more is captured.
        if session.taken().is_some() {
            return Ok(None);
        }
        account.capture(session, now, session.due.clone())
    };
    let session = account.capturing(id, act).await?;
    Ok(Json(wire::order(&account, &session, account.now())))
}

async fn cancel(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    // Without a webhook: the merchant knows.
    let act = |session: &mut Session, _: &Account, now| {
        if !session.is_payable(now) && session.state != Stands::Authorised {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    let session = account.change(id, act).await?;
    Ok(Json(wire::order(&account, &session, account.now())))
}

async fn disputes(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Value>, Problem> {
    let payment = query
        .get("payment_id")
        .filter(|_| query.len() == 1)
        .ok_or_else(|| Problem::bad_request("exactly payment_id is simulated"))?;
    let session = of_kin(&account, payment, Kin::Payment);
    let disputes = session.map(|session| wire::disputes(&session));
    Ok(Json(disputes.unwrap_or_default().into()))
}

async fn dispute(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let of_inquiry = || of_kin(&account, &id, Kin::Dispute);
    let session = account.by_part(&id).or_else(of_inquiry);
    let disputes = session.map(|session| wire::disputes(&session));
    let mut disputes = disputes.unwrap_or_default().into_iter();
    let dispute = disputes.find(|dispute| dispute["id"] == *id);
    dispute.map(Json).ok_or_else(Problem::not_found)
}

/// The order to whose payment, refund or dispute an id belongs.
fn of_kin(account: &Account, id: &str, kin: Kin) -> Option<Session> {
    account.by_reference(&wire::order_of(id, kin)?)
}
