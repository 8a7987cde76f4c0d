//! PayPal's endpoints.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    http::{self, MOST_BODY},
    paypal::{
        PayPal, ids,
        problem::Problem,
        webhook,
        wire::{self, Asked, Create, Nothing, Patch},
    },
    sandbox::tokens::LIFE_SECONDS,
    session::{Conflict, Happened, Opening, Phase, Session, State as Stands},
};

/// How long an order can be approved, in milliseconds.
const LIFE_MS: u64 = 3 * 3_600_000;

/// Longest request id.
const LONGEST_KEY: usize = 108;

/// The only path that is patched: a merchant's own reference.
const CUSTOM_ID: &str = "/purchase_units/@reference_id=='default'/custom_id";

/// One account's API.
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
        .route("/v1/notifications/webhooks-events/{id}", get(read_event))
        .route("/v1/notifications/webhooks", get(webhooks))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::not_allowed())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(api)
}

/// Proof of a good access token: no handler that takes it can be reached without.
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

/// The `PayPal-Request-Id`, which a creation with a payment source needs.
struct Key(String);

impl FromRequestParts<Api> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        http::only(&parts.headers, "paypal-request-id")
            .filter(|key| (1..=LONGEST_KEY).contains(&key.len()))
            .map(|key| Self(key.to_owned()))
            .ok_or_else(|| Problem::invalid("PAYPAL_REQUEST_ID_REQUIRED", "1-108 characters"))
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
        // The request id answers with the order as it stands now.
        Created::Replay(session) => Ok(api.tell(&headers, &session).into_response()),
        Created::Differs => Err(Problem::refused("DUPLICATE_REQUEST_ID")),
    }
}

fn session(asked: Asked, key: String, body: &[u8], now: u64) -> Result<Session, Problem> {
    let opened = ids::order().and_then(|reference| {
        Session::open(Opening {
            reference,
            attempt_id: asked.custom_id,
            key,
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
    let [patch] = <[Patch; 1]>::try_from(patches)
        .map_err(|_| Problem::invalid("INVALID_PATCH_OPERATION", "one operation is simulated"))?;
    if !matches!(patch.op.as_str(), "replace" | "add") {
        return Err(Problem::invalid("INVALID_PATCH_OPERATION", "op"));
    }
    if patch.path != CUSTOM_ID {
        return Err(Problem::invalid("FIELD_NOT_PATCHABLE", "path"));
    }
    if !(1..=127).contains(&patch.value.chars().count()) {
        return Err(Problem::invalid("INVALID_STRING_LENGTH", "value"));
    }
    let act = move |session: &mut Session, _: &Account, now| match session.phase(now) {
        Phase::Open | Phase::Authorised => {
            session
                .extra
                .insert(wire::CUSTOM_ID.to_owned(), patch.value);
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
    let Nothing {} = json_body(&headers, &body)?;
    let known = api.living(&id)?;
    if known.capture_key.as_ref() == Some(&key) {
        return Ok(api.tell(&headers, &known).into_response());
    }
    let conflict = match known.state {
        Stands::Captured | Stands::Refunded => "ORDER_ALREADY_CAPTURED",
        _ => "ORDER_NOT_APPROVED",
    };
    let act = move |session: &mut Session, account: &Account, now| {
        if session.state != Stands::Authorised {
            return Err(Conflict);
        }
        let happened = session.capture(now, account.taken(session))?;
        session.capture_key = Some(key);
        session.held = session.extra.contains_key(wire::TO_BE_HELD);
        Ok(Some(if session.held {
            Happened::InReview
        } else {
            happened
        }))
    };
    let changed = api.account.change(id, act).await;
    let session = changed.map_err(|unchanged| unchanged.told(conflict))?;
    Ok((StatusCode::CREATED, api.tell(&headers, &session)).into_response())
}

async fn read_capture(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let order = ids::captured_order(&id).ok_or(Problem::not_found())?;
    let session = api.account.by_reference(&order);
    let captured = session.filter(|session| session.received.is_some());
    let session = captured.ok_or(Problem::not_found())?;
    Ok(Json(wire::capture(&session)))
}

async fn read_event(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let event = webhook::of_id(&api.account, &id);
    event.map(Json).ok_or(Problem::not_found())
}

async fn webhooks(State(api): State<Api>, _: Authorised) -> Json<Value> {
    let webhook = api.account.callback_url().map(|url| {
        json!({
            "id": "1JE4291016473214C",
            "url": String::from(url),
            "event_types": [{ "name": "*" }],
        })
    });
    let webhooks: Vec<Value> = webhook.into_iter().collect();
    Json(json!({ "webhooks": webhooks }))
}

impl Api {
    /// An order that PayPal still knows: one that nobody approved in time is forgotten.
    fn living(&self, id: &str) -> Result<Session, Problem> {
        let session = self.account.by_reference(id).ok_or(Problem::not_found())?;
        if session.phase(self.account.now()) == Phase::Expired {
            return Err(Problem::not_found());
        }
        Ok(session)
    }

    /// The order, as much of it as was asked for.
    fn tell(&self, headers: &HeaderMap, session: &Session) -> Json<Value> {
        let whole = wire::order(&self.account, session, self.account.now());
        Json(match http::only(headers, "prefer") {
            Some("return=representation") => whole,
            _ => wire::minimal(&whole),
        })
    }
}

fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    http::json_body(headers, body).map_err(|why| Problem::invalid("MALFORMED_REQUEST_JSON", why))
}
