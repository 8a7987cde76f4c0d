//! Razorpay's endpoints for Payment Links.
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
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    http::{self, MOST_BODY},
    ids,
    money::{Amount, Money},
    noise::extra_fields,
    razorpay::{
        key_id, payment,
        problem::Problem,
        wire::{self, Capture, Create, Edit, GiveBack, Nothing},
    },
    refund::{Asked, Outcome},
    session::{Conflict, Opening, Session, State as Stands},
};

/// Lifetime of an idempotency key, in milliseconds. Razorpay does not document it, so it is short here.
const KEY_MS: u64 = 86_400_000;

/// Time in which banks accept a refund, in milliseconds: six months.
const REFUNDABLE_MS: u64 = 183 * 86_400_000;

/// Maximum number of items in a collection.
const MOST_ITEMS: usize = 100;

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
        .route("/v1/payments/{id}/refund", post(refund))
        .route("/v1/payments/{id}/refunds", get(refunds))
        .route("/v1/payments/{id}/refunds/{refund}", get(refund_of_payment))
        .route("/v1/refunds", get(all_refunds))
        .route("/v1/refunds/{id}", get(read_refund).patch(edit_refund))
        .route("/v1/orders/{id}", get(read_order))
        .route("/v1/orders/{id}/payments", get(of_order))
        .route("/v1/disputes", get(disputes))
        .fallback(async || Problem::no_such_address())
        .method_not_allowed_fallback(async || Problem::no_such_address())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(api)
}

/// Evidence of a valid API key: a handler with this parameter cannot be reached without.
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
    let reference = ids::random("plink_")?;
    let mut session = Session::open(Opening {
        // A reference is unique, like an idempotency key.
        key: if asked.reference_id.is_empty() {
            reference.clone()
        } else {
            asked.reference_id.clone()
        },
        reference,
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
        // The page can only be left by the browser.
        cancel_url: asked.callback_url,
        now,
        expires_at,
    })?;
    let notes = asked.notes.told()?.to_string();
    session.extra.insert(wire::NOTES.to_owned(), notes);
    match api.account.create(session).await? {
        Created::New(session) => Ok(api.link(&session)),
        Created::Replay(_) | Created::Differs => Err(Problem::bad(
            "payment link creation failed: payment link with given reference_id already exists.",
        )
        .field("reference_id")),
    }
}

/// Finds links by merchant reference or by payment, or lists the newest.
async fn find(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let query = query.unwrap_or_default();
    let pairs = url::form_urlencoded::parse(query.as_bytes()).into_owned();
    let (named, paged): (Vec<_>, Vec<_>) =
        pairs.partition(|(name, _)| matches!(name.as_str(), "reference_id" | "payment_id"));
    let page = page(
        paged
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    )?;
    let found = match named.as_slice() {
        [] => api.sessions().collect(),
        [(name, id)] if name == "payment_id" => api.session(id).into_iter().collect(),
        [(_, reference)] => api.account.by_attempt(reference),
        _ => return Err(Problem::bad("one of reference_id and payment_id")),
    };
    let links = found.iter().map(|session| api.link(session).0);
    let links: Vec<Value> = page.items(links).collect();
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
        // A link with an authorized or captured payment cannot be cancelled.
        let open = matches!(session.state, Stands::Open | Stands::Declined);
        if !open || !session.is_payable(now) {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    Ok(api.link(&api.account.change(id, act).await?))
}

/// The newest payment, which is sufficient for a health check.
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
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
    Ok(Json(api.payment(&session, &id)?))
}

async fn refund(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: GiveBack = if body.is_empty() {
        GiveBack::default()
    } else {
        http::json_body(&headers, &body).map_err(Problem::bad)?
    };
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
    // A try without money has a separate id.
    if payment::id(&session) != id {
        return Err(not_captured());
    }
    let asked = Asked {
        key: refund_key(&headers)?,
        fingerprint: http::fingerprint(&body),
        ..wire::refund_of(&asked, &session)?
    };
    let captured = session.captured_at.unwrap_or(session.created_at);
    if api.account.now() > captured.saturating_add(REFUNDABLE_MS) {
        let why =
            "Refund is not supported by the bank because the payment is more than 6 months old";
        return Err(Problem::bad(why));
    }
    match api
        .account
        .give_back(&session.reference, asked, KEY_MS)
        .await?
    {
        Outcome::Made(session, refund) | Outcome::Replayed(session, refund) => {
            Ok(Json(payment::refund(&session, &refund)))
        }
        Outcome::Differs => Err(Problem::bad(
            "Different request with the same idempotency key has already been processed.",
        )),
        Outcome::Unpaid => Err(not_captured()),
        Outcome::Nothing => Err(Problem::bad("The payment has been fully refunded already")),
        Outcome::TooMuch(_) => Err(Problem::bad(
            "The total refund amount is greater than the refund payment amount",
        )),
        Outcome::Refused => Err(Problem::bad(
            "Your account does not have enough balance to carry out the refund operation.",
        )),
    }
}

fn not_captured() -> Problem {
    Problem::bad("The payment status should be captured for action to be taken")
}

/// The optional idempotency key, of at least ten characters.
fn refund_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    const NAME: &str = "x-refund-idempotency";
    if !headers.contains_key(NAME) {
        return Ok(None);
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    http::only(headers, NAME)
        .filter(|key| key.len() >= 10 && key.bytes().all(plain))
        .map(|key| Some(key.to_owned()))
        .ok_or_else(|| Problem::bad("The idempotency key is invalid."))
}

async fn refunds(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
    let page = page_of(query.as_deref())?;
    let items: Vec<Value> = page.items(payment::refunds(&session)).collect();
    Ok(Json(wire::collection(&items)))
}

/// Refunds of all payments, those of the newest payments first.
async fn all_refunds(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let page = page_of(query.as_deref())?;
    let refunds = api
        .sessions()
        .flat_map(|session| payment::refunds(&session));
    let items: Vec<Value> = page.items(refunds).collect();
    Ok(Json(wire::collection(&items)))
}

async fn read_refund(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.account.by_part(&id).ok_or_else(Problem::unknown_id)?;
    told(&session, &id)
}

/// Replaces the notes of a refund.
async fn edit_refund(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let asked: Edit = http::json_body(&headers, &body).map_err(Problem::bad)?;
    let notes = asked.notes.told()?;
    let session = api.account.by_part(&id).ok_or_else(Problem::unknown_id)?;
    let of = id.clone();
    let act = move |session: &mut Session, _: &Account, _| {
        let mut refunds = session.refunds.iter_mut();
        let refund = refunds.find(|refund| refund.id == of).ok_or(Conflict)?;
        payment::note(refund, notes);
        Ok(None)
    };
    told(&api.account.change(session.reference, act).await?, &id)
}

async fn refund_of_payment(
    State(api): State<Api>,
    _: Authorised,
    Path((payment, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    told(&api.session(&payment).ok_or_else(Problem::unknown_id)?, &id)
}

/// One of a payment's refunds.
fn told(session: &Session, id: &str) -> Result<Json<Value>, Problem> {
    let mut refunds = payment::refunds(session).into_iter();
    let refund = refunds.find(|refund| refund["id"] == *id);
    refund.map(Json).ok_or_else(Problem::unknown_id)
}

async fn read_order(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
    let order = payment::order(&session, api.account.now());
    Ok(Json(order.ok_or_else(Problem::unknown_id)?))
}

async fn of_order(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
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
    let session = api.session(&id).ok_or_else(Problem::unknown_id)?;
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

/// Lists disputes, newest first.
async fn disputes(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let page = page_of(query.as_deref())?;
    let disputes = api
        .sessions()
        .flat_map(|session| payment::disputes(&session));
    let items: Vec<Value> = page.items(disputes).collect();
    Ok(Json(wire::collection(&items)))
}

/// The requested part of a collection.
struct Page {
    from: u64,
    to: u64,
    skip: usize,
    count: usize,
}

impl Page {
    /// The page's items, from items sorted newest first.
    fn items(&self, all: impl IntoIterator<Item = Value>) -> impl Iterator<Item = Value> {
        let (from, to) = (self.from, self.to);
        let within = move |item: &Value| {
            let at = item["created_at"].as_u64();
            at.is_some_and(|at| (from..=to).contains(&at))
        };
        all.into_iter()
            .filter(within)
            .skip(self.skip)
            .take(self.count)
    }
}

fn page_of(query: Option<&str>) -> Result<Page, Problem> {
    let pairs: Vec<(String, String)> =
        url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
            .into_owned()
            .collect();
    page(
        pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
    )
}

fn page<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Result<Page, Problem> {
    let mut page = Page {
        from: 0,
        to: u64::MAX,
        skip: 0,
        count: 10,
    };
    for (name, value) in pairs {
        let bad = || Problem::bad(format!("{name} cannot be used like that"));
        let number: u64 = value.parse().map_err(|_| bad())?;
        let few = usize::try_from(number).map_err(|_| bad())?;
        match name {
            "from" => page.from = number,
            "to" => page.to = number,
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
    fn session(&self, id: &str) -> Option<Session> {
        self.account.by_reference(&payment::link_id(id)?)
    }

    /// One of a link's payments.
    fn payment(&self, session: &Session, id: &str) -> Result<Value, Problem> {
        let mut all = payment::all(session, self.account.now()).into_iter();
        let found = all.find(|payment| payment["id"] == id);
        found.ok_or_else(Problem::unknown_id)
    }

    /// All sessions, newest first.
    fn sessions(&self) -> impl Iterator<Item = Session> {
        let all = self.account.newest(None, usize::MAX);
        all.unwrap_or_default().into_iter()
    }
}

/// A failure of Razorpay itself.
pub(crate) fn failure(status: StatusCode) -> Response {
    Problem::of_vendor(status).into_response()
}
