//! PayPal's endpoints.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, Query, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    http::{self, MOST_BODY},
    noise::extra_fields,
    paypal::{
        PayPal,
        authority::Authority,
        ids,
        problem::Problem,
        returns, webhook,
        wire::{self, Create, GiveBack, NewOrder, Paid, Patch},
    },
    refund::{Asked, Outcome, Refund},
    sandbox::tokens::LIFE_SECONDS,
    session::{Conflict, Happened, Opening, Phase, Session, State as Stands},
};

/// Time in which an order can be approved, in milliseconds.
const LIFE_MS: u64 = 3 * 3_600_000;

/// Lifetime of a refund's request id, in milliseconds.
const REFUND_KEY_MS: u64 = 45 * 86_400_000;

/// Maximum length of a request id.
const LONGEST_KEY: usize = 108;

/// Prefix of the paths of patched fields: the order's only unit.
const UNIT: &str = "/purchase_units/@reference_id=='default'/";

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) account: Arc<Account>,
    pub(crate) vendor: Arc<PayPal>,
}

pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .route("/v1/oauth2/token", post(token))
        .route("/v2/checkout/orders", post(create))
        .route("/v2/checkout/orders/{id}", get(read).patch(patch))
        .route("/v2/checkout/orders/{id}/capture", post(capture))
        .route("/v2/payments/captures/{id}", get(read_capture))
        .route("/v2/payments/captures/{id}/refund", post(refund))
        .route("/v2/payments/refunds/{id}", get(read_refund))
        .route("/v1/customer/disputes", get(disputes))
        .route("/v1/customer/disputes/{id}", get(read_dispute))
        .route("/v1/notifications/webhooks", get(webhooks))
        .route("/v1/notifications/certs/{name}", get(certificate))
        .route(
            "/v1/notifications/verify-webhook-signature",
            post(verify_signature),
        )
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::not_allowed())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(api)
}

/// Evidence of a valid access token: a handler with this parameter cannot be reached without.
struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let token = http::bearer(&parts.headers).ok_or(Problem::unauthorized())?;
        if api.vendor.tokens.accepts(token, api.account.now()) {
            Ok(Self)
        } else {
            Err(Problem::unauthorized())
        }
    }
}

/// The `PayPal-Request-Id`, which is optional for wallet payments.
struct Key(Option<String>);

impl FromRequestParts<Api> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        if !parts.headers.contains_key("paypal-request-id") {
            return Ok(Self(None));
        }
        http::only(&parts.headers, "paypal-request-id")
            .filter(|key| (1..=LONGEST_KEY).contains(&key.len()))
            .map(|key| Self(Some(key.to_owned())))
            .ok_or_else(|| {
                Problem::invalid(
                    "INVALID_STRING_LENGTH",
                    "PayPal-Request-Id: 1-108 characters",
                )
            })
    }
}

async fn token(State(api): State<Api>, headers: HeaderMap, body: Bytes) -> Response {
    let settings = &api.account.settings;
    let (user, password) = http::basic(&headers).unwrap_or_default();
    let known = http::same(&user, &settings.client_id);
    let refused = |status, error| (status, Json(json!({ "error": error }))).into_response();
    if !(http::same(&password, &settings.api_key) && known) {
        return refused(StatusCode::UNAUTHORIZED, "invalid_client");
    }
    let wanted = ("grant_type".to_owned(), "client_credentials".to_owned());
    if !http::form_body(&headers, &body).is_ok_and(|fields| fields == [wanted]) {
        return refused(StatusCode::BAD_REQUEST, "unsupported_grant_type");
    }
    match api.vendor.tokens.issue(api.account.now()) {
        Ok(token) => {
            let answer = json!({
                "scope": "https://uri.paypal.com/services/payments/payment",
                "access_token": token,
                "token_type": "Bearer",
                "app_id": "APP-80W284485P519543T",
                "expires_in": LIFE_SECONDS,
            });
            ([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "no token can be issued");
            Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR).into_response()
        }
    }
}

async fn create(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Create = json_body(&headers, &body)?;
    let session = session(wire::check(asked)?, key, &body, api.account.now())?;
    let created = api.account.create(session).await;
    match created.map_err(|unchanged| unchanged.told("NOT_SUPPORTED"))? {
        Created::New(session) => {
            Ok((StatusCode::CREATED, api.tell(&headers, &session)).into_response())
        }
        // A repeated request id results in the current order.
        Created::Replay(session) => Ok(api.tell(&headers, &session).into_response()),
        Created::Differs => Err(Problem::refused("DUPLICATE_REQUEST_ID")),
    }
}

fn session(
    asked: NewOrder,
    key: Option<String>,
    body: &[u8],
    now: u64,
) -> Result<Session, Problem> {
    let opened = ids::order().and_then(|reference| {
        Session::open(Opening {
            // Without a request id every request creates an order.
            key: key.unwrap_or_else(|| reference.clone()),
            reference,
            attempt_id: asked.custom_id,
            fingerprint: http::fingerprint(body),
            due: asked.due,
            method: asked.method.to_owned(),
            order: asked.order,
            merchant: asked.merchant,
            return_url: asked.return_url,
            cancel_url: asked.cancel_url,
            now,
            expires_at: now.saturating_add(LIFE_MS),
        })
    });
    let mut session = opened.map_err(|error| {
        tracing::error!(%error, "no order can be made");
        Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    })?;
    wire::remember(&mut session, asked.invoice_id);
    Ok(session)
}

async fn read(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.living(&id)?;
    Ok(Json(wire::order(&api.account, &session, api.account.now())))
}

async fn patch(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<StatusCode, Problem> {
    let patches: Vec<Patch> = json_body(&headers, &body)?;
    api.living(&id)?;
    for patch in &patches {
        if !matches!(patch.op.as_str(), "replace" | "add") {
            return Err(Problem::invalid("INVALID_PATCH_OPERATION", "op"));
        }
        let name = patch.path.strip_prefix(UNIT).unwrap_or_default();
        if !["custom_id", "invoice_id", "description"].contains(&name) {
            return Err(Problem::invalid("FIELD_NOT_PATCHABLE", "path"));
        }
        if !(1..=127).contains(&patch.value.chars().count()) {
            return Err(Problem::invalid("INVALID_STRING_LENGTH", "value"));
        }
    }
    let act = move |session: &mut Session, _: &Account, now| match session.phase(now) {
        Phase::Open | Phase::Authorised => {
            for patch in patches {
                match patch.path.strip_prefix(UNIT) {
                    Some("description") => session.order = patch.value,
                    Some(name) => drop(session.extra.insert(name.to_owned(), patch.value)),
                    None => {}
                }
            }
            Ok(None)
        }
        _ => Err(Conflict),
    };
    let changed = api.account.change(id, act).await;
    changed.map_err(|unchanged| unchanged.told("ORDER_ALREADY_COMPLETED"))?;
    Ok(StatusCode::NO_CONTENT)
}

async fn capture(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let Paid { .. } = optional(&headers, &body)?.unwrap_or_default();
    let known = api.living(&id)?;
    if key.is_some() && known.capture_key == key {
        return Ok(api.tell(&headers, &known).into_response());
    }
    let conflict = match known.state {
        Stands::Captured | Stands::Refunded => "ORDER_ALREADY_CAPTURED",
        _ if known.capturing().is_some() => "ORDER_ALREADY_CAPTURED",
        _ => "ORDER_NOT_APPROVED",
    };
    let act = move |session: &mut Session, account: &Account, now| {
        let happened = account.capture(session, now, session.due.clone())?;
        session.capture_key = key;
        // A pending capture is reported too.
        Ok(happened.or(Some(Happened::InReview)))
    };
    let changed = api.account.capturing(id, act).await;
    let session = changed.map_err(|unchanged| unchanged.told(conflict))?;
    Ok((StatusCode::CREATED, api.tell(&headers, &session)).into_response())
}

async fn read_capture(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    Ok(Json(wire::capture(&api.captured(&id)?)))
}

async fn refund(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: GiveBack = optional(&headers, &body)?.unwrap_or_default();
    let session = api.captured(&id)?;
    let now = api.account.now();
    let asked = Asked {
        key: key.clone(),
        fingerprint: http::fingerprint(&body),
        ..wire::refund_of(asked, &session)?
    };
    let same = |refund: &Refund| {
        let known = refund.asked.as_ref().and_then(|asked| asked.key.as_ref());
        known.is_some() && known == key.as_ref() && now < refund.created_at + REFUND_KEY_MS
    };
    if !session.refunds.iter().any(same) {
        wire::check_refund(&asked, &session, now)?;
    }
    let given = api
        .account
        .give_back(&session.reference, asked, REFUND_KEY_MS);
    let given = given
        .await
        .map_err(|unchanged| unchanged.told("REFUND_NOT_ALLOWED"))?;
    let (status, session, refund) = match given {
        Outcome::Made(session, refund) => (StatusCode::CREATED, session, refund),
        Outcome::Replayed(session, refund) => (StatusCode::OK, session, refund),
        Outcome::Differs => return Err(Problem::refused("DUPLICATE_REQUEST_ID")),
        Outcome::Unpaid => return Err(Problem::refused("REFUND_NOT_ALLOWED")),
        Outcome::Nothing => return Err(Problem::refused("CAPTURE_FULLY_REFUNDED")),
        Outcome::TooMuch(_) => return Err(Problem::refused("REFUND_AMOUNT_EXCEEDED")),
        Outcome::Refused => return Err(Problem::refused("REFUND_FAILED_INSUFFICIENT_FUNDS")),
    };
    let whole = returns::refund(&session, &refund);
    Ok((status, shown(&headers, whole)).into_response())
}

async fn read_refund(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.account.by_part(&id).ok_or(Problem::not_found())?;
    let refund = session.refund_of(&id).ok_or(Problem::not_found())?;
    Ok(Json(returns::refund(&session, refund)))
}

#[derive(Deserialize)]
struct Disputes {
    disputed_transaction_id: String,
}

/// The disputes about a capture. A list does not contain outcomes.
async fn disputes(
    State(api): State<Api>,
    _: Authorised,
    Query(asked): Query<Disputes>,
) -> Result<Json<Value>, Problem> {
    let session = api.captured(&asked.disputed_transaction_id)?;
    let disputes = session.disputes.iter().map(|dispute| {
        let mut told = returns::dispute(&session, dispute);
        if let Some(fields) = told.as_object_mut() {
            fields.remove("dispute_outcome");
            fields.remove("disputed_transactions");
        }
        told
    });
    let disputes: Vec<Value> = disputes.collect();
    Ok(Json(json!({ "items": disputes, "links": [] })))
}

async fn read_dispute(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.account.by_part(&id).ok_or(Problem::not_found())?;
    let dispute = session.disputes.iter().find(|dispute| dispute.id == id);
    let dispute = dispute.ok_or(Problem::not_found())?;
    Ok(Json(returns::dispute(&session, dispute)))
}

async fn webhooks(State(api): State<Api>, _: Authorised) -> Json<Value> {
    let webhook = api.account.callback_url().map(|url| {
        json!({
            "id": webhook::ID,
            "url": String::from(url),
            "event_types": [{ "name": "*" }],
        })
    });
    let webhooks: Vec<Value> = webhook.into_iter().collect();
    Json(json!({ "webhooks": webhooks }))
}

/// The public certificates: that of the webhooks' key, and its issuer's.
async fn certificate(State(api): State<Api>, Path(name): Path<String>) -> Result<String, Problem> {
    let authority = api.authority()?;
    let signer = authority.signer().map_err(|_| api.broken())?;
    if signer.name == name {
        Ok(signer.chain.clone())
    } else {
        Err(Problem::not_found())
    }
}

/// The request of a receiver that does not verify webhooks itself.
#[derive(Deserialize)]
struct Delivered {
    auth_algo: String,
    cert_url: String,
    transmission_id: String,
    transmission_sig: String,
    transmission_time: String,
    webhook_id: String,
    webhook_event: Value,
}

async fn verify_signature(
    State(api): State<Api>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Delivered = json_body(&headers, &body)?;
    // The checksum covers the event's own bytes, so it has to be the last field.
    let marker = br#""webhook_event":"#;
    let at = body.windows(marker.len()).position(|part| part == marker);
    let event = at.and_then(|at| body.get(at + marker.len()..body.len() - 1));
    let event = event.filter(|_| asked.webhook_event.is_object());
    let event =
        event.ok_or_else(|| Problem::invalid("MISSING_REQUIRED_PARAMETER", "webhook_event"))?;
    let authority = api.authority()?;
    let signer = authority.signer().map_err(|_| api.broken())?;
    let message = webhook::message(&asked.transmission_id, &asked.transmission_time, event);
    let right = signer.sign(&message).map_err(|_| api.broken())?;
    let genuine = asked.auth_algo == webhook::ALGORITHM
        && asked.webhook_id == webhook::ID
        && asked
            .cert_url
            .ends_with(&format!("{}{}", webhook::CERTIFICATES, signer.name))
        && asked.transmission_sig == right;
    let word = if genuine { "SUCCESS" } else { "FAILURE" };
    Ok(Json(json!({ "verification_status": word })))
}

impl Api {
    fn authority(&self) -> Result<Arc<Authority>, Problem> {
        let settings = &self.account.settings;
        Authority::derive(&settings.callback_secret, settings.environment)
            .map_err(|_| self.broken())
    }

    /// The simulator cannot sign webhooks.
    fn broken(&self) -> Problem {
        tracing::error!(
            provider_id = self.account.settings.provider_id,
            "webhooks cannot be signed"
        );
        Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// An order that PayPal still knows: PayPal forgets an order that the payer did not approve in time.
    fn living(&self, id: &str) -> Result<Session, Problem> {
        let session = self.account.by_reference(id).ok_or(Problem::not_found())?;
        if session.phase(self.account.now()) == Phase::Expired {
            return Err(Problem::not_found());
        }
        Ok(session)
    }

    /// The order to which a capture's id belongs.
    fn captured(&self, id: &str) -> Result<Session, Problem> {
        let order = ids::captured_order(id).ok_or(Problem::not_found())?;
        let session = self.account.by_reference(&order);
        let captured = session.filter(|session| session.taken().is_some());
        captured.ok_or(Problem::not_found())
    }

    /// The order, complete or minimal as the request prefers.
    fn tell(&self, headers: &HeaderMap, session: &Session) -> Json<Value> {
        shown(
            headers,
            wire::order(&self.account, session, self.account.now()),
        )
    }
}

/// A complete or minimal object, as the request prefers.
fn shown(headers: &HeaderMap, whole: Value) -> Json<Value> {
    Json(match http::only(headers, "prefer") {
        Some("return=representation") => whole,
        _ => wire::minimal(&whole),
    })
}

/// Parses an optional body.
fn optional<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<Option<T>, Problem> {
    if body.is_empty() {
        return Ok(None);
    }
    json_body(headers, body).map(Some)
}

fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    http::json_body(headers, body).map_err(|why| Problem::invalid("MALFORMED_REQUEST_JSON", why))
}
