//! The Greenfield API's endpoints for invoices and their refunds.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::map_response,
    routing::{delete, get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    btcpay::{
        problem::Problem,
        store_id,
        wire::{self, Create, GiveBack, MarkInvoice},
    },
    config::SimError,
    http::{MOST_BODY, json_body, only, same},
    ids,
    noise::extra_fields,
    refund::{Asked, Outcome, Refund},
    session::{Conflict, Happened, Opening, Session},
};

#[derive(Clone)]
struct Api(Arc<Account>);

/// Routes of the store's invoices and pull payments. Servers before 2.4 have no others.
pub(crate) fn routes(account: Arc<Account>) -> Router {
    const STORE: &str = "/api/v1/stores/{store}";
    let of_store = |path: &str| format!("{STORE}/{path}");
    Router::new()
        .route("/api/v1/server/info", get(server))
        .route(&of_store("invoices"), post(create).get(find))
        .route(&of_store("invoices/{id}"), get(read))
        .route(&of_store("invoices/{id}/status"), post(mark))
        .route(&of_store("invoices/{id}/payment-methods"), get(coins))
        .route(&of_store("invoices/{id}/refund"), post(refund))
        .route(&of_store("pull-payments"), get(pull_payments))
        .route(&of_store("pull-payments/{id}"), delete(archive))
        .route("/api/v1/pull-payments/{id}", get(pull_payment))
        .route("/api/v1/pull-payments/{id}/payouts", get(payouts))
        .fallback(async || Problem::no_address())
        .method_not_allowed_fallback(async || Problem::no_address())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(Api(account))
}

async fn server(_: Authorised) -> Json<Value> {
    Json(json!({ "version": wire::VERSION, "onion": null, "fullySynched": true }))
}

/// Evidence of a valid API key.
struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let given = only(&parts.headers, "authorization")
            .and_then(|value| value.strip_prefix("token "))
            .unwrap_or_default();
        if same(given, &api.0.settings.api_key) {
            Ok(Self)
        } else {
            Err(Problem::unauthenticated())
        }
    }
}

async fn create(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(store): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let now = account.now();
    let mut asked: Create = read_json(&headers, &body)?;
    let checkout = asked.checkout.take().unwrap_or_default();
    let metadata = asked.metadata.take().unwrap_or_default();
    let (due, attempt_id) = wire::check(asked)?;
    let random = ids::random("").map_err(|error| no_randomness(&error))?;
    let opening = Opening {
        reference: random.get(..22).unwrap_or(&random).to_owned(),
        attempt_id,
        // The server does not support idempotency keys: every creation is a new one.
        key: random,
        fingerprint: String::new(),
        due,
        method: "crypto".to_owned(),
        order: wire::item(&metadata).to_owned(),
        merchant: store,
        return_url: checkout.redirect_url.clone().unwrap_or_default(),
        cancel_url: checkout.redirect_url.unwrap_or_default(),
        now,
        expires_at: now.saturating_add(wire::LIFE_MS),
    };
    let mut session = Session::open(opening).map_err(|error| no_randomness(&error))?;
    // Without a return address, or without an automatic redirect, the checkout ends on its own page.
    if session.return_url.is_empty() || checkout.redirect_automatically != Some(true) {
        session.return_url = account.page_url(&session);
        session.cancel_url = session.return_url.clone();
    }
    let kept = Value::Object(metadata).to_string();
    session.extra.insert(wire::METADATA.into(), kept);
    match account.create(session).await? {
        Created::New(session) | Created::Replay(session) => {
            Ok(Json(wire::invoice(&account, &session, now)))
        }
        Created::Differs => Err(Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

/// Finds invoices, newest first, as the server lists them.
async fn find(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(store): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let now = account.now();
    let query = query.unwrap_or_default();
    let found = match query.split_once('=') {
        Some(("textSearch", term)) if !term.is_empty() && !term.contains('&') => {
            account.by_attempt(term)
        }
        // A health check, which ignores the invoices in the answer.
        Some(("take", "1")) => Vec::new(),
        _ => return Err(Problem::field("query", "textSearch or take=1 is expected")),
    };
    let found = found.iter().rev();
    let invoices = found.map(|session| wire::invoice(&account, session, now));
    Ok(Json(invoices.collect()))
}

async fn read(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path((store, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    Ok(Json(wire::invoice(&account, &session, account.now())))
}

async fn coins(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path((store, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    Ok(Json(wire::coins(&session)))
}

async fn mark(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path((store, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let asked: MarkInvoice = read_json(&headers, &body)?;
    if asked.status != "Invalid" {
        return Err(Problem::field("status", "only Invalid is played here"));
    }
    let act = |session: &mut Session, _: &Account, now| {
        if !session.is_payable(now) {
            return Err(Conflict);
        }
        session.close(now)?;
        Ok(Some(Happened::Declined))
    };
    let session = account.change(id, act).await?;
    Ok(Json(wire::invoice(&account, &session, account.now())))
}

async fn refund(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path((store, id)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let asked: GiveBack = read_json(&headers, &body)?;
    let session = account.by_reference(&id).ok_or_else(Problem::not_found)?;
    let money = wire::check_refund(&asked, &session)?;
    let name = asked.name.unwrap_or_else(|| format!("Refund {id}"));
    let asked = Asked {
        amount: money,
        order: wire::order(&name).map(str::to_owned),
        note: Some(wire::note(&name, &asked.description)),
        // The server does not support idempotency keys.
        ..Asked::default()
    };
    match account.give_back(&id, asked, 0).await? {
        Outcome::Made(session, made) | Outcome::Replayed(session, made) => {
            Ok(Json(wire::pull_payment(&account, &session, &made)))
        }
        Outcome::Unpaid | Outcome::Differs => Err(Problem::non_refundable()),
        Outcome::Nothing | Outcome::TooMuch(_) | Outcome::Refused => {
            Err(Problem::field("customAmount", "more than is left here"))
        }
    }
}

/// Lists pull payments, newest first, as the server lists them.
async fn pull_payments(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(store): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    of_store(&account, &store)?;
    let archived = match query.as_deref() {
        None | Some("includeArchived=false") => false,
        Some("includeArchived=true") => true,
        Some(_) => return Err(Problem::field("query", "includeArchived is expected")),
    };
    let refunded = account.refunded();
    let all = refunded.iter().rev().flat_map(|session| {
        let made = session.refunds.iter().rev();
        made.map(move |made| (session, made))
    });
    let shown = all.filter(|(_, made)| archived || !made.has_failed());
    let told = shown.map(|(session, made)| wire::pull_payment(&account, session, made));
    Ok(Json(told.collect()))
}

/// Ends a refund that the payer has not claimed.
async fn archive(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path((store, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    of_store(&account, &store)?;
    let session = account.by_part(&id).ok_or_else(Problem::no_pull_payment)?;
    let made = session.refund_of(&id);
    if made.is_some_and(Refund::waits_for_claim) {
        let act = move |session: &mut Session, _: &Account, now| {
            session.cancel_refund(&id, now)?;
            Ok(None)
        };
        account.change(session.reference, act).await?;
    }
    Ok(StatusCode::OK)
}

/// A pull payment. The server requires only its id, no key.
async fn pull_payment(
    State(Api(account)): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let (session, made) = given_back(&account, &id)?;
    Ok(Json(wire::pull_payment(&account, &session, &made)))
}

/// The payouts of a pull payment. The server requires only its id, no key.
async fn payouts(
    State(Api(account)): State<Api>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let (session, made) = given_back(&account, &id)?;
    Ok(Json(wire::payouts(&session, &made)))
}

fn given_back(account: &Account, id: &str) -> Result<(Session, Refund), Problem> {
    let session = account.by_part(id).ok_or_else(Problem::no_pull_payment)?;
    let made = session.refund_of(id).cloned();
    let made = made.ok_or_else(Problem::no_pull_payment)?;
    Ok((session, made))
}

fn of_store(account: &Account, store: &str) -> Result<(), Problem> {
    if store == store_id(&account.settings) {
        Ok(())
    } else {
        Err(Problem::forbidden())
    }
}

fn no_randomness(error: &SimError) -> Problem {
    tracing::error!(%error, "no id can be made");
    Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
}

fn read_json<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    json_body(headers, body).map_err(|why| Problem::unreadable(&why))
}
