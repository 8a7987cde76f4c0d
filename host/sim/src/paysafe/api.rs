//! Paysafe's endpoints.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    capture::Denied,
    config::SimError,
    http::{self, MOST_BODY},
    ids,
    money::Amount,
    noise::extra_fields,
    paysafe::{
        problem::Problem,
        wire::{self, CreateHandle, CreatePayment, CreateRefund},
    },
    refund::{Asked, Outcome, Refund},
    session::{Happened, Opening, Session},
};

type Api = Arc<Account>;

pub(crate) fn routes(account: Api) -> Router {
    let hub = Router::new()
        .route("/paymenthandles", post(create_handle).get(find_handles))
        .route("/payments", post(create_payment).get(find_payments))
        .route("/settlements", get(find_settlements))
        .route("/settlements/{id}/refunds", post(refund))
        .route("/refunds", get(find_refunds))
        .route("/refunds/{id}", get(read_refund))
        .route("/paymentmethods", get(methods));
    Router::new()
        .nest("/paymenthub/v1", hub)
        .fallback(async || Problem::not_found())
        .method_not_allowed_fallback(async || Problem::not_allowed())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(account)
}

/// Evidence of a valid API key: a handler with this parameter cannot be reached without.
struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, account: &Api) -> Result<Self, Problem> {
        let (user, password) = http::basic(&parts.headers).unwrap_or_default();
        let known = http::same(&user, &account.settings.client_id);
        if http::same(&password, &account.settings.api_key) && known {
            Ok(Self)
        } else {
            Err(Problem::unauthorized())
        }
    }
}

async fn create_handle(
    State(account): State<Api>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: CreateHandle = json_body(&headers, &body)?;
    wire::check(&asked)?;
    let session = session(&asked, &body, account.now()).map_err(|error| {
        tracing::error!(%error, "no handle can be made");
        Problem::of_vendor(StatusCode::INTERNAL_SERVER_ERROR)
    })?;
    match account.create(session).await? {
        Created::New(session) => {
            let told = wire::handle(&account, &session, account.now());
            Ok((StatusCode::CREATED, Json(told)).into_response())
        }
        // The first answer is never repeated.
        Created::Replay(_) | Created::Differs => Err(Problem::repeated()),
    }
}

fn session(asked: &CreateHandle, body: &[u8], now: u64) -> Result<Session, SimError> {
    // Without the check, duplicates of the handle are possible.
    let key = if asked.dup_check == Some(true) {
        asked.merchant_ref_num.clone()
    } else {
        ids::random("unchecked_")?
    };
    let mut session = Session::open(Opening {
        reference: ids::random("")?,
        attempt_id: asked.merchant_ref_num.clone(),
        key,
        fingerprint: http::fingerprint(body),
        due: asked.due(),
        method: "interac".to_owned(),
        order: asked.merchant_ref_num.clone(),
        merchant: "Merchant of the Paysafe account".to_owned(),
        return_url: asked.link("on_completed"),
        cancel_url: asked.link("on_failed"),
        now,
        expires_at: now.saturating_add(wire::LIFE_MS),
    })?;
    wire::set_token(&mut session, ids::random("PH")?);
    Ok(session)
}

async fn create_payment(
    State(account): State<Api>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: CreatePayment = json_body(&headers, &body)?;
    let made = account.by_attempt(&asked.merchant_ref_num);
    let paid = made.iter().any(|session| wire::payment(session).is_some());
    if asked.dup_check == Some(true) && paid {
        return Err(Problem::repeated());
    }
    let handle = made
        .into_iter()
        .find(|session| http::same(wire::token(session), &asked.payment_handle_token));
    let handle = handle.ok_or_else(|| Problem::invalid("paymentHandleToken"))?;
    if handle.due.value.0 != asked.amount {
        return Err(Problem::invalid("amount: another than the handle's"));
    }
    if handle.due.currency != asked.currency_code {
        return Err(Problem::invalid("currencyCode: another than the handle's"));
    }
    if !asked.settle_with_auth {
        return Err(Problem::invalid("settleWithAuth: Interac settles at once"));
    }
    let act = |session: &mut Session, account: &Account, now| {
        if now >= session.expires_at {
            return Err(Denied::Conflict);
        }
        account.capture(session, now, session.due.clone())
    };
    let session = account.capturing(handle.reference, act).await?;
    // The webhook and later queries report the result.
    let told = wire::payment(&session).unwrap_or_default();
    Ok((StatusCode::CREATED, Json(told)).into_response())
}

async fn find_handles(
    State(account): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let now = account.now();
    let tell = |session: &Session| Some(wire::handle(&account, session, now));
    listed(&account, query.as_deref(), "paymentHandles", tell).await
}

async fn find_payments(
    State(account): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    listed(&account, query.as_deref(), "payments", wire::payment).await
}

async fn find_settlements(
    State(account): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    listed(&account, query.as_deref(), "settlements", wire::settlement).await
}

async fn refund(
    State(account): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let asked: CreateRefund = json_body(&headers, &body)?;
    wire::check_refund(&asked)?;
    let reference = wire::settled(&id).ok_or_else(Problem::not_found)?;
    let known = account
        .by_reference(reference)
        .ok_or_else(Problem::not_found)?;
    if known.held || known.disputed {
        return Err(Problem::no_refund(
            "3406",
            "the settlement is not completed",
        ));
    }
    let unchecked = asked.dup_check == Some(false);
    let key = asked.merchant_ref_num;
    // The refund order's id for the books: the last part of its reference.
    let order = key.rsplit('-').next().map(str::to_owned);
    let asked = Asked {
        amount: Amount(asked.amount),
        key: (!unchecked).then_some(key),
        order,
        ..Asked::default()
    };
    match account
        .give_back(reference, asked, wire::DUP_CHECK_MS)
        .await?
    {
        Outcome::Made(session, refund) => {
            let told = Json(wire::refund(&session, &refund));
            Ok((StatusCode::CREATED, told).into_response())
        }
        // The first answer is never repeated.
        Outcome::Replayed(..) | Outcome::Differs => Err(Problem::repeated()),
        Outcome::Unpaid => Err(Problem::no_refund(
            "3406",
            "the settlement is not completed",
        )),
        Outcome::Nothing => Err(Problem::no_refund("3404", "refunded before")),
        Outcome::TooMuch(_) => Err(Problem::no_refund("3402", "more than is left")),
        Outcome::Refused => Err(Problem::no_refund("3022", "declined")),
    }
}

async fn read_refund(
    State(account): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = account.by_part(&id);
    let told = session
        .as_ref()
        .and_then(|session| Some(wire::refund(session, session.refund_of(&id)?)));
    told.map(Json).ok_or_else(Problem::not_found)
}

async fn find_refunds(
    State(account): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let now = account.now();
    let (reference, since) = wire::refund_search(query.as_deref(), now)?;
    // Refunds requested with this reference, and refunds that the Business Portal made of the payment with it.
    let mut sessions = account.by_attempt(&reference);
    sessions.extend(account.by_refund_key(&reference));
    let made = sessions.iter().flat_map(|session| {
        let ours = |refund: &&Refund| {
            let named = match &refund.asked {
                Some(asked) => asked.key.as_ref() == Some(&reference),
                None => session.attempt_id == reference,
            };
            named && (since..=now).contains(&refund.created_at)
        };
        let ours = session.refunds.iter().filter(ours);
        ours.map(|refund| wire::refund(session, refund))
    });
    let made: Vec<Value> = made.collect();
    let meta = json!({ "numberOfRecords": made.len(), "limit": 10, "page": 1 });
    Ok(Json(json!({ "refunds": made, "meta": meta })))
}

async fn listed(
    account: &Api,
    query: Option<&str>,
    name: &str,
    tell: impl Fn(&Session) -> Option<Value>,
) -> Result<Json<Value>, Problem> {
    let reference = query
        .and_then(|query| query.strip_prefix("merchantRefNum="))
        .filter(|reference| !reference.is_empty() && !reference.contains('&'))
        .ok_or_else(|| Problem::invalid("merchantRefNum"))?;
    let now = account.now();
    let mut found = account.by_attempt(reference);
    for session in found
        .iter_mut()
        .filter(|session| wire::is_left(session, now))
    {
        *session = account.alter(session.reference.clone(), take_left).await?;
    }
    let items: Vec<Value> = found.iter().filter_map(tell).collect();
    let meta = json!({ "numberOfRecords": items.len(), "limit": 10, "page": 1 });
    Ok(Json(json!({ name: items, "meta": meta })))
}

/// Makes the payment with a handle whose payer has paid, and that the shop did not use in time.
fn take_left(
    session: &mut Session,
    account: &Account,
    now: u64,
) -> Result<Option<Happened>, Denied> {
    if !wire::is_left(session, now) {
        return Ok(None);
    }
    let money = account.taken(session);
    session.capture(now, money)?;
    Ok(Some(account.vendor.captured(session)))
}

async fn methods(_: Authorised, RawQuery(query): RawQuery) -> Result<Json<Value>, Problem> {
    if query.as_deref() != Some("currencyCode=CAD") {
        return Err(Problem::invalid("currencyCode"));
    }
    Ok(Json(json!({
        "paymentMethods": [{
            "paymentMethod": "INTERAC_ETRANSFER",
            "currencyCode": "CAD",
            "accountId": "1002786770",
        }],
    })))
}

fn json_body<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T, Problem> {
    http::json_body(headers, body).map_err(Problem::invalid)
}
