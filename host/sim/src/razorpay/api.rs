//! Razorpay's endpoints, as far as a Payment Link needs them.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, request::Parts},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    http::{self, MOST_BODY},
    ids,
    money::{Amount, Money},
    razorpay::{
        key_id, payment,
        problem::Problem,
        wire::{self, Capture, Create, Nothing},
    },
    session::{Conflict, Opening, Session, State as Stands},
};

/// Most items of a collection.
const MOST_ITEMS: usize = 100;

/// One account's API.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) account: Arc<Account>,
}

pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .route("/v1/payment_links", post(create).get(find))
        .route("/v1/payment_links/{id}", get(read))
        .route("/v1/payment_links/{id}/cancel", post(cancel))
        .route("/v1/payments", get(payments))
        .route("/v1/payments/{id}", get(read_payment))
        .route("/v1/payments/{id}/capture", post(capture))
        .route("/v1/payments/{id}/refunds", get(refunds))
        .route("/v1/orders/{id}", get(read_order))
        .route("/v1/orders/{id}/payments", get(of_order))
        .route("/v1/disputes", get(disputes))
        .fallback(async || Problem::no_such_address())
        .method_not_allowed_fallback(async || Problem::no_such_address())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(api)
}

/// Proof of the API key: no handler that takes it can be reached without.
struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let settings = &api.account.settings;
        let (id, secret) = http::basic(&parts.headers).ok_or_else(Problem::unauthorized)?;
        let known = http::same(&id, &key_id(settings));
        if http::same(&secret, &settings.api_key) && known {
            Ok(Self)
        } else {
            Err(Problem::unauthorized())
        }
    }
}

async fn create(
    State(api): State<Api>,
    _: Authorised,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Create = http::json_body(&headers, &body).map_err(Problem::bad)?;
    let now = api.account.now();
    wire::check(&asked, api.account.settings.environment, now)?;
    let expires_at = wire::expires_at(&asked, now);
    let session = Session::open(Opening {
        reference: ids::random("plink_")?,
        // A reference is taken once, as a key would be.
        key: asked.reference_id.clone(),
        fingerprint: String::new(),
        attempt_id: asked.reference_id,
        due: Money {
            value: Amount(asked.amount),
            currency: asked.currency,
        },
        method: "upi_imps".to_owned(),
        order: asked.description,
        merchant: String::new(),
        return_url: asked.callback_url.clone(),
        // The page has no way back but the browser's.
        cancel_url: asked.callback_url,
        now,
        expires_at,
    })?;
    match api.account.create(session).await? {
        Created::New(session) => Ok(api.link(&session)),
        Created::Replay(_) | Created::Differs => Err(Problem::bad(
            "payment link creation failed: payment link with given reference_id already exists.",
        )
        .field("reference_id")),
    }
}

/// By the merchant's reference.
async fn find(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(query.as_deref().unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    let [(name, reference)] = pairs.as_slice() else {
        return Err(Problem::bad("reference_id is expected here"));
    };
    if name != "reference_id" {
        return Err(Problem::bad("reference_id is expected here"));
    }
    let found = api.account.by_attempt(reference);
    let links: Vec<Value> = found.iter().map(|session| api.link(session).0).collect();
    Ok(Json(json!({ "payment_links": links })))
}

async fn read(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let known = api.account.by_reference(&id);
    Ok(api.link(&known.ok_or_else(Problem::unknown_id)?))
}

async fn cancel(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    if !body.is_empty() {
        let Nothing {} = http::json_body(&headers, &body).map_err(Problem::bad)?;
    }
    let act = |session: &mut Session, _: &Account, now: u64| {
        if session.voided && now < session.expires_at {
            let marked = session.extra.insert(wire::CANCELLED.into(), String::new());
            return marked.map_or(Ok(None), |_| Err(Conflict));
        }
        // A link under which money is held or taken cannot be called off.
        let open = matches!(session.state, Stands::Open | Stands::Declined);
        if !open || !session.is_payable(now) {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    Ok(api.link(&api.account.change(id, act).await?))
}

/// The newest payments: as much as a probe needs.
async fn payments(State(api): State<Api>, _: Authorised) -> Json<Value> {
    let now = api.account.now();
    let newest = api
        .sessions()
        .find_map(|session| payment::newest(&session, now));
    let items: Vec<Value> = newest.into_iter().collect();
    Json(wire::collection(&items))
}

async fn read_payment(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.of(&id).ok_or_else(Problem::unknown_id)?;
    Ok(Json(api.payment(&session, &id)?))
}

async fn refunds(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let session = api.of(&id).ok_or_else(Problem::unknown_id)?;
    let page = page(query.as_deref())?;
    let refunds = payment::refunds(&session);
    let items: Vec<Value> = refunds.into_iter().take(page.count).collect();
    Ok(Json(wire::collection(&items)))
}

async fn read_order(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.of(&id).ok_or_else(Problem::unknown_id)?;
    let order = payment::order(&session, api.account.now());
    Ok(Json(order.ok_or_else(Problem::unknown_id)?))
}

async fn of_order(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.of(&id).ok_or_else(Problem::unknown_id)?;
    let payments = payment::all(&session, api.account.now());
    Ok(Json(wire::collection(&payments)))
}

async fn capture(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Capture = http::json_body(&headers, &body).map_err(Problem::bad)?;
    let session = api.of(&id).ok_or_else(Problem::unknown_id)?;
    if asked.amount != session.due.value.0 || asked.currency != session.due.currency {
        let description = "Capture amount must be equal to the amount authorized";
        return Err(Problem::bad(description).field("amount"));
    }
    let act = |session: &mut Session, account: &Account, now: u64| {
        let happened = account.capture(session, now, session.due.clone())?;
        session.capture_key = Some(String::new());
        Ok(happened)
    };
    let session = api.account.capturing(session.reference, act).await?;
    Ok(Json(api.payment(&session, &id)?))
}

/// Newest first.
async fn disputes(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let page = page(query.as_deref())?;
    let recent = |dispute: &Value| {
        let at = dispute["created_at"].as_u64();
        at.is_some_and(|at| at >= page.from)
    };
    let items: Vec<Value> = api
        .sessions()
        .flat_map(|session| payment::disputes(&session))
        .filter(recent)
        .skip(page.skip)
        .take(page.count)
        .collect();
    Ok(Json(wire::collection(&items)))
}

/// Which part of a collection is wanted.
struct Page {
    from: u64,
    skip: usize,
    count: usize,
}

fn page(query: Option<&str>) -> Result<Page, Problem> {
    let mut page = Page {
        from: 0,
        skip: 0,
        count: 10,
    };
    for (name, value) in url::form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        let bad = || Problem::bad(format!("{name} cannot be used like that"));
        let number: u64 = value.parse().map_err(|_| bad())?;
        let few = usize::try_from(number).map_err(|_| bad())?;
        match name.as_ref() {
            "from" => page.from = number,
            "skip" => page.skip = few,
            "count" if (1..=MOST_ITEMS).contains(&few) => page.count = few,
            _ => return Err(bad()),
        }
    }
    Ok(page)
}

impl Api {
    fn link(&self, session: &Session) -> Json<Value> {
        Json(wire::link(&self.account, session, self.account.now()))
    }

    /// The link that a payment or an order belongs to.
    fn of(&self, id: &str) -> Option<Session> {
        self.account.by_reference(&payment::link_id(id)?)
    }

    /// One of a link's payments.
    fn payment(&self, session: &Session, id: &str) -> Result<Value, Problem> {
        let mut all = payment::all(session, self.account.now()).into_iter();
        let found = all.find(|payment| payment["id"] == id);
        found.ok_or_else(Problem::unknown_id)
    }

    /// Newest first, one after the other.
    fn sessions(&self) -> impl Iterator<Item = Session> {
        let all = self.account.newest(None, usize::MAX);
        all.unwrap_or_default().into_iter()
    }
}

/// A failure of Razorpay's own.
pub(crate) fn failure(status: StatusCode) -> Response {
    Problem::of_vendor(status).into_response()
}
