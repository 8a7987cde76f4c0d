//! Mollie's endpoints.
use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, Query, RawQuery, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::json;

use crate::{
    account::{Account, Created},
    http::{self, MOST_BODY},
    ids,
    mollie::{
        api_key, belongings,
        problem::{Problem, hal},
        refunds,
        wire::{self, Capture, Create, Nothing},
    },
    noise::extra_fields,
    session::{Conflict, Opening, Session, State as Stands},
};

/// Items per page: default and maximum.
const PAGE: usize = 50;
const MOST_PAGE: usize = 250;

pub(crate) fn routes(account: Arc<Account>) -> Router {
    Router::new()
        .route("/v2/profiles/me", get(profile))
        .route("/v2/payments", post(create).get(list))
        .route("/v2/payments/{id}", get(read).delete(cancel))
        .route("/v2/payments/{id}/captures", post(capture).get(captures))
        .route("/v2/payments/{id}/release-authorization", post(release))
        .merge(refunds::routes())
        .fallback(async || Problem::not_found("no such endpoint"))
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(account)
}

/// Evidence of a valid API key: a handler with this parameter cannot be reached without.
pub(crate) struct Authorised;

impl FromRequestParts<Arc<Account>> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        account: &Arc<Account>,
    ) -> Result<Self, Problem> {
        let given = http::bearer(&parts.headers).unwrap_or_default();
        if http::same(given, &api_key(&account.settings)) {
            Ok(Self)
        } else {
            Err(Problem::unauthorized())
        }
    }
}

/// The idempotency key, or a random one if the request has none.
pub(crate) fn key(headers: &HeaderMap) -> Result<String, Problem> {
    if !headers.contains_key("idempotency-key") {
        return Ok(ids::random("none-")?);
    }
    http::only(headers, "idempotency-key")
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .ok_or_else(|| Problem::bad_request("Idempotency-Key is expected once"))
}

async fn profile(State(account): State<Arc<Account>>, _: Authorised) -> Response {
    let mode = account.settings.environment.as_str();
    let body = json!({
        "resource": "profile",
        "id": wire::PROFILE,
        "mode": mode,
        "name": account.settings.provider_id,
        "website": "https://shop.example",
        "email": "shop@shop.example",
        "phone": "+31208202070",
        "businessCategory": "OTHER_MERCHANDISE",
        "status": "verified",
        "createdAt": wire::time(0),
        "_links": { "self": { "href": "https://api.mollie.com/v2/profiles/me", "type": "application/hal+json" } },
    });
    hal(StatusCode::OK, &body)
}

async fn create(
    State(account): State<Arc<Account>>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let key = key(&headers)?;
    let fingerprint = http::fingerprint(&body);
    let asked: Create = http::json_body(&headers, &body).map_err(Problem::unprocessable)?;
    let now = account.now();
    let method = match account.by_key(&key) {
        Some(known) => known.method,
        None => wire::check(&asked)?.to_owned(),
    };
    let mut session = Session::open(Opening {
        reference: ids::random("tr_")?,
        // The books distinguish payments by the merchant's reference, if the metadata is text.
        attempt_id: asked.metadata.as_str().unwrap_or_default().to_owned(),
        key,
        fingerprint,
        due: asked.amount,
        expires_at: now.saturating_add(wire::life_ms(&method)),
        method,
        order: asked.description,
        merchant: account.settings.provider_id.clone(),
        cancel_url: asked
            .cancel_url
            .unwrap_or_else(|| asked.redirect_url.clone()),
        return_url: asked.redirect_url,
        now,
    })?;
    if !asked.metadata.is_string() {
        let kept = asked.metadata.to_string();
        session.extra.insert(wire::METADATA_KEPT.to_owned(), kept);
    }
    if let Some(mode) = asked.capture_mode {
        session.extra.insert(wire::CAPTURE_MODE.to_owned(), mode);
    }
    if let Some(address) = asked.webhook_url {
        session.extra.insert(wire::WEBHOOK_URL.to_owned(), address);
    }
    match account.create(session).await? {
        Created::New(session) => Ok(tell(&account, StatusCode::CREATED, &session)),
        Created::Replay(session) => {
            // Repeats the first answer, even if the payment has changed.
            let first = wire::at_creation(&session);
            let body = wire::payment(&account, &first, first.created_at);
            Ok(replayed(hal(StatusCode::CREATED, &body)))
        }
        Created::Differs => Err(Problem::bad_request(
            "this Idempotency-Key was used with other parameters",
        )),
    }
}

/// Marks an answer as a repetition of an earlier one.
pub(crate) fn replayed(answer: Response) -> Response {
    let replayed = (
        HeaderName::from_static("idempotent-replayed"),
        HeaderValue::from_static("true"),
    );
    ([replayed], answer).into_response()
}

async fn list(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let mut most = PAGE;
    let mut from = None;
    for (name, value) in &query {
        match name.as_str() {
            "limit" => {
                most = value
                    .parse()
                    .ok()
                    .filter(|most| (1..=MOST_PAGE).contains(most))
                    .ok_or_else(|| Problem::bad_request("limit: 1 to 250"))?;
            }
            "from" => from = Some(value.as_str()),
            _ => return Err(Problem::bad_request(format!("{name}: unknown parameter"))),
        }
    }
    let mut found = account
        .newest(from, most + 1)
        .ok_or_else(|| Problem::not_found("from: no such payment"))?;
    let next = (found.len() > most).then(|| found.pop()).flatten();
    let now = account.now();
    let payments: Vec<_> = found
        .iter()
        .map(|session| wire::payment(&account, session, now))
        .collect();
    let link = |from: &str| {
        let href = format!("https://api.mollie.com/v2/payments?from={from}&limit={most}");
        json!({ "href": href, "type": "application/hal+json" })
    };
    let body = json!({
        "count": payments.len(),
        "_embedded": { "payments": payments },
        "_links": {
            "self": link(from.unwrap_or_default()),
            "previous": null,
            "next": next.map(|session| link(&session.reference)),
        },
    });
    Ok(hal(StatusCode::OK, &body))
}

async fn read(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let asked = belongings::asked(query.as_deref())?;
    let session = known(&account, &id)?;
    let mut told = wire::payment(&account, &session, account.now());
    if !asked.is_empty() {
        told["_embedded"] = belongings::embedded(&account, &session, &asked);
    }
    Ok(hal(StatusCode::OK, &told))
}

async fn cancel(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    // Without a callback: the merchant knows.
    let act = |session: &mut Session, _: &Account, now| {
        if !wire::is_cancelable(session, now) {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    let session = account.change(id, act).await?;
    Ok(tell(&account, StatusCode::OK, &session))
}

async fn capture(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let key = key(&headers)?;
    let asked: Capture = http::json_body(&headers, &body).map_err(Problem::unprocessable)?;
    let known = known(&account, &id)?;
    if asked.amount.is_some_and(|amount| amount != known.due) {
        let detail = "the whole amount that was authorized is captured, or nothing";
        return Err(Problem::field("amount", detail));
    }
    let act = move |session: &mut Session, account: &Account, now| {
        if session.capture_key.as_ref() == Some(&key) {
            return Ok(None);
        }
        let happened = account.capture(session, now, session.due.clone())?;
        session.capture_key = Some(key);
        belongings::begin_anew(session);
        Ok(happened)
    };
    let session = account.capturing(id, act).await?;
    let body = belongings::capture(&account, &session);
    Ok(hal(StatusCode::CREATED, &body))
}

async fn captures(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Response, Problem> {
    let session = known(&account, &id)?;
    Ok(hal(StatusCode::OK, &belongings::listed(&account, &session)))
}

async fn release(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    key(&headers)?;
    let Nothing {} = http::json_body(&headers, &body).map_err(Problem::unprocessable)?;
    let act = |session: &mut Session, _: &Account, now| {
        if session.state != Stands::Authorised {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    account.change(id, act).await?;
    Ok(StatusCode::ACCEPTED.into_response())
}

pub(crate) fn known(account: &Account, id: &str) -> Result<Session, Problem> {
    account
        .by_reference(id)
        .ok_or_else(|| Problem::not_found(format!("No payment exists with token '{id}'")))
}

fn tell(account: &Account, status: StatusCode, session: &Session) -> Response {
    hal(status, &wire::payment(account, session, account.now()))
}
