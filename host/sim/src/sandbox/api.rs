//! The sandbox's endpoints.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    fault::Fault,
    http::{self, MOST_BODY},
    ids,
    refund::{Asked, Outcome},
    sandbox::{
        Sandbox,
        problem::Problem,
        tokens::LIFE_SECONDS,
        wire::{self, Create, GiveBack, Nothing, OfAmount},
    },
    session::{Opening, Session},
};

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) account: Arc<Account>,
    pub(crate) vendor: Arc<Sandbox>,
}

pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .route("/oauth/token", post(token))
        .route("/v1/account", get(account))
        .route("/v1/sessions", post(create).get(find))
        .route("/v1/sessions/{id}", get(read))
        .route("/v1/sessions/{id}/capture", post(capture))
        .route("/v1/sessions/{id}/close", post(close))
        .route("/v1/sessions/{id}/refunds", post(refund))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "not like that",
            )
        })
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(api)
}

/// Evidence of a valid access token: a handler with this parameter cannot be reached without.
struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let token = http::bearer(&parts.headers).ok_or(Problem::unauthorized("token_missing"))?;
        if api.vendor.tokens.accepts(token, api.account.now()) {
            Ok(Self)
        } else {
            Err(Problem::unauthorized("token_invalid"))
        }
    }
}

/// The `Idempotency-Key`, which every change requires.
struct Key(String);

impl FromRequestParts<Api> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
        let key = parts
            .headers
            .get("idempotency-key")
            .and_then(|value| value.to_str().ok());
        match key {
            Some(key) if (8..=64).contains(&key.len()) && key.bytes().all(plain) => {
                Ok(Self(key.to_owned()))
            }
            _ => Err(Problem::invalid(
                "Idempotency-Key: 8-64 of A-Z a-z 0-9 - _ . :",
            )),
        }
    }
}

async fn token(
    State(api): State<Api>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let settings = &api.account.settings;
    let (user, password) = http::basic(&headers).unwrap_or_default();
    let known = http::same(&user, &settings.client_id);
    if !(http::same(&password, &settings.api_key) && known) {
        return Err(Problem::unauthorized("client_invalid"));
    }
    let form = http::media_type(&headers) == Some("application/x-www-form-urlencoded");
    if !form || body.as_ref() != b"grant_type=client_credentials" {
        return Err(Problem::invalid(
            "the form grant_type=client_credentials is expected",
        ));
    }
    let token = api
        .vendor
        .tokens
        .issue(api.account.now())
        .map_err(|error| {
            tracing::error!(%error, "no token can be issued");
            Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
        })?;
    let answer =
        json!({ "access_token": token, "token_type": "bearer", "expires_in": LIFE_SECONDS });
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(answer)).into_response())
}

async fn account(State(api): State<Api>, _: Authorised) -> Json<Value> {
    let settings = &api.account.settings;
    Json(json!({
        "account": settings.provider_id,
        "environment": settings.environment,
        "status": "operational",
    }))
}

async fn create(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Create = json_body(&headers, &body)?;
    let fingerprint = http::fingerprint(&body);
    let now = api.account.now();
    if api.account.by_key(&key).is_none() {
        wire::check(&asked, now)?;
        let missing = asked.payer.lacks();
        if !missing.is_empty() && api.account.faults.take(Fault::Ask) {
            return Err(Problem::ask(missing));
        }
    }
    let session = session(asked, key, fingerprint, now)?;
    match api.account.create(session).await? {
        Created::New(session) => Ok((StatusCode::CREATED, api.tell(&session)).into_response()),
        Created::Replay(session) => Ok(api.tell(&session).into_response()),
        Created::Differs => Err(Problem::key_reused()),
    }
}

fn session(asked: Create, key: String, fingerprint: String, now: u64) -> Result<Session, Problem> {
    let opened = ids::random("sbx_").and_then(|reference| {
        Session::open(Opening {
            reference,
            attempt_id: asked.merchant_reference,
            key,
            fingerprint,
            due: asked.amount,
            method: asked.method,
            order: asked.order,
            merchant: asked.merchant,
            return_url: asked.return_url,
            cancel_url: asked.cancel_url,
            now,
            expires_at: asked.expires_at,
        })
    });
    opened.map_err(|error| {
        tracing::error!(%error, "no session can be made");
        Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    })
}

async fn find(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let reference = query
        .as_deref()
        .and_then(|query| query.strip_prefix("merchant_reference="))
        .filter(|reference| !reference.is_empty() && !reference.contains('&'))
        .ok_or_else(|| {
            Problem::invalid("exactly the query parameter merchant_reference is expected")
        })?;
    let now = api.account.now();
    let found = api.account.by_attempt(reference);
    let sessions: Vec<Value> = found
        .iter()
        .map(|session| wire::session(&api.account, session, now))
        .collect();
    Ok(Json(json!({ "sessions": sessions })))
}

async fn read(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api
        .account
        .by_reference(&id)
        .ok_or_else(Problem::not_found)?;
    Ok(api.tell(&session))
}

async fn capture(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: OfAmount = json_body(&headers, &body)?;
    let known = api
        .account
        .by_reference(&id)
        .ok_or_else(Problem::not_found)?;
    if asked.amount != known.due {
        return Err(Problem::refused(
            "the whole amount that was authorised is captured, or nothing",
        ));
    }
    let act = move |session: &mut Session, account: &Account, now| {
        if session.capture_key.as_ref() == Some(&key) {
            return Ok(None);
        }
        let happened = account.capture(session, now, session.due.clone())?;
        session.capture_key = Some(key);
        Ok(happened)
    };
    Ok(api.tell(&api.account.capturing(id, act).await?))
}

async fn close(
    State(api): State<Api>,
    _: Authorised,
    Key(_): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let Nothing {} = json_body(&headers, &body)?;
    // Without a callback: the merchant knows. Closing is idempotent.
    let act = |session: &mut Session, _: &Account, now| session.close(now).map(|()| None);
    Ok(api.tell(&api.account.change(id, act).await?))
}

async fn refund(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: GiveBack = json_body(&headers, &body)?;
    wire::check_refund(&asked)?;
    let known = api
        .account
        .by_reference(&id)
        .ok_or_else(Problem::not_found)?;
    let currency = known.received.as_ref().map(|money| money.currency.as_str());
    if currency.is_some_and(|currency| currency != asked.amount.currency) {
        return Err(Problem::refused(
            "refunds are made in the currency that was received",
        ));
    }
    let asked = Asked {
        amount: asked.amount.value,
        key: Some(key),
        fingerprint: http::fingerprint(&body),
        order: asked.merchant_reference,
        note: asked.reason,
    };
    match api.account.give_back(&id, asked, u64::MAX).await? {
        Outcome::Made(session, refund) => {
            let told = Json(wire::refund(&session, &refund));
            Ok((StatusCode::CREATED, told).into_response())
        }
        Outcome::Replayed(session, refund) => {
            Ok(Json(wire::refund(&session, &refund)).into_response())
        }
        Outcome::Differs => Err(Problem::key_reused()),
        Outcome::Unpaid => Err(Problem::wrong_state()),
        Outcome::Nothing | Outcome::TooMuch(_) => {
            Err(Problem::refused("more than is left to give back"))
        }
        Outcome::Refused => Err(Problem::refused("the refund was refused")),
    }
}

impl Api {
    fn tell(&self, session: &Session) -> Json<Value> {
        Json(wire::session(&self.account, session, self.account.now()))
    }
}

fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    http::json_body(headers, body).map_err(Problem::invalid)
}
