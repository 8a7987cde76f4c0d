//! Checkout's endpoints for payment links and for payments made on any page.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    account::{Account, Created, Unchanged},
    adyen::{
        api_key, merchant_account,
        problem::Problem,
        sessions,
        wire::{self, Create, Methods, Modify, Update, Void},
    },
    config::SimError,
    http::{MOST_BODY, json_body, only, same},
    ids,
    money::Money,
    noise::extra_fields,
    refund::{Asked, Outcome},
    session::{Conflict, Opening, Session, State as Stands},
};

/// Maximum length of an idempotency key.
const KEY: usize = 64;

/// Lifetime of keys: seven days, the minimum in the document "API idempotency".
const KEY_LIFE_MS: u64 = 7 * 86_400_000;

/// Maximum lifetime of a link.
const LONGEST_LINK_MS: u64 = 70 * 86_400_000;

#[derive(Clone)]
pub(crate) struct Api(pub(crate) Arc<Account>);

pub(crate) fn routes(account: Arc<Account>) -> Router {
    Router::new()
        .route("/v72/sessions", post(sessions::create))
        .route("/v72/sessions/{id}", get(sessions::result))
        .route("/v72/cancels", post(void))
        .route("/v72/paymentLinks", post(create))
        .route("/v72/paymentLinks/{id}", get(read).patch(update))
        .route("/v72/payments/{payment}/captures", post(capture))
        .route("/v72/payments/{payment}/cancels", post(cancel))
        .route("/v72/payments/{payment}/refunds", post(refund))
        .route("/v72/paymentMethods", post(methods))
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::not_found())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(Api(account))
}

/// Evidence of a valid API key.
pub(crate) struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let given = only(&parts.headers, "x-api-key").unwrap_or_default();
        if same(given, &api_key(&api.0.settings)) {
            Ok(Self)
        } else {
            Err(Problem::unauthorized())
        }
    }
}

/// Idempotency key of a request. Keys are unique per company, so each is for one operation.
pub(crate) struct Key(pub(crate) String);

impl FromRequestParts<Api> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        match only(&parts.headers, "idempotency-key") {
            Some(key) if (1..=KEY).contains(&key.len()) => Ok(Self(key.to_owned())),
            Some(_) => Err(Problem::unreadable(
                "Idempotency-Key: at most 64 characters",
            )),
            // A request without a key is always a new one.
            None => id("").map(Self),
        }
    }
}

async fn create(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    // A repeated key results in the first answer, even for a different request.
    if let Some(known) = account.by_key(&key) {
        return Ok(answer(wire::created(&account, &known)));
    }
    let asked: Create = read_json(&headers, &body)?;
    let session = open(&account, asked, key, "PL", LONGEST_LINK_MS).await?;
    Ok(answer(wire::created(&account, &session)))
}

/// Adds a page, a link's or a session's, to the books.
pub(crate) async fn open(
    account: &Arc<Account>,
    asked: Create,
    key: String,
    prefix: &str,
    longest_ms: u64,
) -> Result<Session, Problem> {
    of_account(account, &asked.merchant_account)?;
    let now = account.now();
    let checked = wire::check(&asked, now, longest_ms)?;
    let opening = Opening {
        reference: id(prefix)?,
        attempt_id: asked.reference,
        key,
        fingerprint: String::new(),
        due: asked.amount.into(),
        method: checked.method.to_owned(),
        order: asked.merchant_order_reference.unwrap_or_default(),
        merchant: asked.description.unwrap_or_default(),
        cancel_url: checked.return_url.clone(),
        return_url: checked.return_url,
        now,
        expires_at: checked.expires_at,
    };
    let session = Session::open(opening).map_err(|error| no_randomness(&error))?;
    match account.create(session).await? {
        Created::New(session) | Created::Replay(session) => Ok(session),
        Created::Differs => Err(Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

async fn read(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = account.by_reference(&id).filter(is_link);
    let session = session.ok_or_else(Problem::not_found)?;
    Ok(Json(wire::link(&account, &session, account.now())))
}

fn is_link(session: &Session) -> bool {
    !session.reference.starts_with(sessions::PREFIX)
}

async fn update(
    State(Api(account)): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Update = read_json(&headers, &body)?;
    if asked.status != "expired" {
        return Err(Problem::invalid("29_001", "status can only become expired"));
    }
    let act = |session: &mut Session, _: &Account, now| {
        if !session.is_payable(now) || !is_link(session) {
            return Err(Conflict);
        }
        session.extra.insert(wire::EXPIRED.into(), String::new());
        // A payment that the payer has started continues at the bank.
        if !session.extra.contains_key(wire::UNDER_WAY) {
            session.close(now)?;
        }
        session.updated_at = now;
        Ok(None)
    };
    let session = account.change(id, act).await?;
    Ok(Json(wire::link(&account, &session, account.now())))
}

async fn capture(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(payment): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Modify = read_json(&headers, &body)?;
    let known = paid(&account, &asked, &payment)?;
    let fits = |amount: &Money| {
        let parts = 1..=known.due.value.0;
        amount.currency == known.due.currency && parts.contains(&amount.value.0)
    };
    let amount = asked.amount.clone().map(Money::from);
    let amount = amount
        .filter(fits)
        .ok_or_else(|| Problem::invalid("137", "Invalid amount specified"))?;
    let act = move |session: &mut Session, account: &Account, now| {
        // A second request is accepted too, and finds nothing to capture. A repeated key results in the first
        // answer and has no further effect.
        let used = format!("key {key}");
        let repeated = session.extra.contains_key(&used);
        if repeated || session.state != Stands::Authorised || session.is_asked() {
            return Ok(None);
        }
        let happened = account.capture(session, now, amount)?;
        session.extra.insert(used, String::new());
        session.capture_key = Some(key);
        Ok(happened)
    };
    match account.capturing(known.reference, act).await {
        // Voided before the request, which is accepted nevertheless.
        Ok(_) | Err(Unchanged::Conflict) => {}
        Err(unchanged) => return Err(unchanged.into()),
    }
    Ok(answer(wire::received(&payment, &id("")?, &asked)))
}

/// Accepts every refund of a known payment; a notification reports the outcome.
async fn refund(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(payment): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Modify = read_json(&headers, &body)?;
    let known = paid(&account, &asked, &payment)?;
    let due = known.received.as_ref().unwrap_or(&known.due);
    let amount = asked.amount.clone().map(Money::from);
    let amount = amount
        .filter(|amount| amount.value.0 > 0 && amount.currency == due.currency)
        .ok_or_else(|| Problem::invalid("137", "Invalid amount specified"))?;
    let order = |reference: &String| {
        let (_, order) = reference.rsplit_once('-')?;
        Some(order.to_owned())
    };
    let of_refund = Asked {
        amount: amount.value,
        order: asked.reference.as_ref().and_then(order),
        key: Some(key),
        // A repeated key results in the first answer, even for a different request.
        fingerprint: String::new(),
        note: asked.reference.clone(),
    };
    let outcome = account.give_back(&known.reference, of_refund, KEY_LIFE_MS);
    match outcome.await? {
        Outcome::Made(_, made) | Outcome::Replayed(_, made) => {
            Ok(answer(wire::received(&payment, &made.id, &asked)))
        }
        // The key belongs to another payment.
        _ => Err(Problem::invalid("29_001", "The status does not allow this")),
    }
}

async fn cancel(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(_): Key,
    Path(payment): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Modify = read_json(&headers, &body)?;
    if asked.amount.is_some() {
        return Err(Problem::unreadable("a cancellation has no amount"));
    }
    let known = paid(&account, &asked, &payment)?;
    let act = |session: &mut Session, account: &Account, now| {
        // A captured payment is not cancelled, but the request is accepted.
        if session.state != Stands::Authorised || session.is_asked() {
            return Ok(None);
        }
        account.cancel_later(session, now).map(|()| None)
    };
    account.change(known.reference, act).await?;
    Ok(answer(wire::received(&payment, &id("")?, &asked)))
}

/// A cancellation by merchant reference. It is accepted even if there is nothing to cancel.
async fn void(
    State(Api(account)): State<Api>,
    _: Authorised,
    Key(_): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: Void = read_json(&headers, &body)?;
    of_account(&account, &asked.merchant_account)?;
    let act = |session: &mut Session, account: &Account, now| {
        if session.state == Stands::Authorised && !session.is_asked() {
            account.cancel_later(session, now)?;
            session.extra.insert(wire::VOIDED.into(), String::new());
        }
        Ok(None)
    };
    for session in account.by_attempt(&asked.payment_reference) {
        account.change(session.reference, act).await?;
    }
    Ok(answer(wire::void_received(&id("")?, &asked)))
}

async fn methods(
    State(Api(account)): State<Api>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Methods = read_json(&headers, &body)?;
    of_account(&account, &asked.merchant_account)?;
    Ok(Json(
        json!({ "paymentMethods": [{ "name": "Cards", "type": "scheme" }] }),
    ))
}

/// The payment to be modified, which a payer has made on a page.
fn paid(account: &Account, asked: &Modify, payment: &str) -> Result<Session, Problem> {
    wire::only(&asked.others, &wire::MODIFIED_WITH)?;
    of_account(account, &asked.merchant_account)?;
    if asked
        .reference
        .as_ref()
        .is_some_and(|reference| reference.len() > 80)
    {
        return Err(Problem::invalid("702", "reference: at most 80 characters"));
    }
    ["PL", sessions::PREFIX]
        .into_iter()
        .find_map(|prefix| account.by_reference(&format!("{prefix}{payment}")))
        .filter(|session| session.extra.contains_key(wire::PAID))
        .ok_or_else(|| Problem::invalid("167", "Original pspReference required for this operation"))
}

fn of_account(account: &Account, named: &str) -> Result<(), Problem> {
    if named == merchant_account(&account.settings) {
        Ok(())
    } else {
        Err(Problem::wrong_account())
    }
}

pub(crate) fn answer(body: Value) -> Response {
    (StatusCode::CREATED, Json(body)).into_response()
}

/// An id in Adyen's format. A page's id is `PL` or `CS` and the id of the payment made there.
fn id(prefix: &str) -> Result<String, Problem> {
    let random = ids::random("").map_err(|error| no_randomness(&error))?;
    let short = random.get(..16).unwrap_or(&random);
    Ok(format!("{prefix}{}", short.to_uppercase()))
}

fn no_randomness(error: &SimError) -> Problem {
    tracing::error!(%error, "no id can be made");
    Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
}

pub(crate) fn read_json<T: DeserializeOwned>(
    headers: &HeaderMap,
    body: &[u8],
) -> Result<T, Problem> {
    json_body(headers, body).map_err(Problem::unreadable)
}
