//! Stripe's endpoints for Checkout Sessions.
use std::sync::Arc;

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, FromRequestParts, Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, request::Parts},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{
    account::{Account, Created},
    capture::Denied,
    http::{self, MOST_BODY},
    ids,
    money::{Amount, Money},
    noise::extra_fields,
    session::{Conflict, Happened, Opening, Session, State as Stands},
    stripe::{create::Create, params::Params, problem::Problem, refunds, secret_key, wire},
};

/// Lifetime of keys: a day, the minimum that Stripe documents.
pub(crate) const KEY_LIFE_MS: u64 = 24 * 60 * 60 * 1_000;

/// Maximum number of a payment's changes whose keys are stored.
const MOST_KEYS: usize = 32;

#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) account: Arc<Account>,
}

pub(crate) fn routes(api: Api) -> Router {
    Router::new()
        .route("/v1/balance", get(balance))
        .route("/v1/checkout/sessions", post(create).get(list))
        .route("/v1/checkout/sessions/{id}", get(read))
        .route("/v1/checkout/sessions/{id}/expire", post(expire))
        .route("/v1/payment_intents/{id}", get(read_payment))
        .route("/v1/payment_intents/{id}/capture", post(capture))
        .route("/v1/payment_intents/{id}/cancel", post(cancel))
        .route("/v1/disputes", get(disputes))
        .route("/v1/radar/early_fraud_warnings", get(fraud_warnings))
        .merge(refunds::routes())
        .fallback(async || Problem::no_such_address())
        .method_not_allowed_fallback(async || Problem::no_such_address())
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .layer(map_response(extra_fields))
        .with_state(api)
}

/// Evidence of a valid secret key: a handler with this parameter cannot be reached without.
pub(crate) struct Authorised;

impl FromRequestParts<Api> for Authorised {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let key = http::bearer(&parts.headers).ok_or_else(Problem::unauthorized)?;
        if !http::same(key, &secret_key(&api.account.settings)) {
            return Err(Problem::unauthorized());
        }
        // `2025-03-31.basil`: the objects here are identical in later versions.
        let dated = |version: &str| version.len() >= 10 && version.starts_with("20");
        match parts.headers.get("stripe-version") {
            Some(version) if !version.to_str().is_ok_and(dated) => {
                Err(Problem::invalid("Invalid Stripe API version"))
            }
            _ => Ok(Self),
        }
    }
}

/// The request's `Idempotency-Key`, or a random one if there is none.
pub(crate) struct Key(pub(crate) String);

impl FromRequestParts<Api> for Key {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        if !parts.headers.contains_key("idempotency-key") {
            return Ok(Self(ids::random("none-")?));
        }
        let key = http::only(&parts.headers, "idempotency-key");
        key.filter(|key| (1..=255).contains(&key.len()))
            .map(|key| Self(key.to_owned()))
            .ok_or_else(|| Problem::invalid("Idempotency-Key: at most 255 characters"))
    }
}

async fn balance(State(api): State<Api>, _: Authorised) -> Json<Value> {
    Json(json!({
        "object": "balance",
        "available": [],
        "livemode": wire::is_live(&api.account),
        "pending": [],
    }))
}

async fn create(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let now = api.account.now();
    let known = api.account.by_key(&key);
    let fingerprint = http::fingerprint(&body);
    if let Some(known) = known.filter(|known| now < known.created_at + KEY_LIFE_MS) {
        return replay(&api, &known, &fingerprint);
    }
    let asked = Create::read(Params::of_body(&headers, &body)?, now)?;
    let session = opening(&api, asked, key, fingerprint.clone(), now)?;
    match api.account.create(session).await? {
        Created::New(session) => Ok(api.session(&session, &[]).into_response()),
        Created::Replay(session) => replay(&api, &session, &fingerprint),
        Created::Differs => Err(Problem::key_reused()),
    }
}

/// The answer to the session's creation.
fn replay(api: &Api, known: &Session, fingerprint: &str) -> Result<Response, Problem> {
    if known.fingerprint != fingerprint {
        return Err(Problem::key_reused());
    }
    let then = known.unpaid();
    let told = wire::session(&api.account, &then, then.created_at, &[]);
    Ok(replayed(Json(told).into_response()))
}

pub(crate) fn replayed(mut answer: Response) -> Response {
    let yes = HeaderValue::from_static("true");
    answer.headers_mut().insert("idempotent-replayed", yes);
    answer
}

fn opening(
    api: &Api,
    asked: Create,
    key: String,
    fingerprint: String,
    now: u64,
) -> Result<Session, Problem> {
    let mut session = Session::open(Opening {
        reference: ids::random(wire::prefix(&api.account))?,
        attempt_id: asked.attempt_id,
        key,
        fingerprint,
        due: asked.due,
        method: asked.method,
        order: asked.order,
        merchant: asked.description,
        return_url: asked.success_url,
        cancel_url: asked.cancel_url,
        now,
        expires_at: asked.expires_at.saturating_mul(1_000),
    })?;
    for (name, kept) in [
        (wire::METADATA, json!(asked.metadata)),
        (wire::PAYMENT_METADATA, json!(asked.payment_metadata)),
        (wire::SOLD, json!(asked.sold)),
    ] {
        session.extra.insert(name.into(), kept.to_string());
    }
    if asked.manual {
        session.extra.insert(wire::MANUAL.into(), String::new());
    }
    if let Some(email) = asked.email {
        session.extra.insert(wire::EMAIL.into(), email);
    }
    Ok(session)
}

/// Lists sessions, newest first, by creation time; there is no search by merchant reference.
async fn list(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    let limit = params.limit()?;
    let from = params.whole("created[gte]")?.unwrap_or(0);
    let to = params.whole("created[lte]")?.unwrap_or(u64::MAX);
    let after = params.take("starting_after");
    let payment = params.take("payment_intent");
    let status = params.choice("status", &["open", "complete", "expired"])?;
    params.finish()?;
    let now = api.account.now();
    let asked = |session: &Session| {
        let payment = payment.as_ref();
        payment.is_none_or(|payment| *payment == wire::payment_id(session))
            && status
                .as_ref()
                .is_none_or(|status| status == wire::status(session, now))
    };
    let mut sessions: Vec<Session> = api
        .account
        .newest(None, usize::MAX)
        .unwrap_or_default()
        .into_iter()
        .filter(|session| (from..=to).contains(&(session.created_at / 1_000)))
        .filter(asked)
        .collect();
    if let Some(after) = after {
        let at = sessions
            .iter()
            .position(|session| session.reference == after)
            .ok_or_else(|| Problem::not_found("checkout.session", &after))?;
        sessions.drain(..=at);
    }
    let page: Vec<Value> = sessions
        .iter()
        .take(limit)
        .map(|session| wire::session(&api.account, session, now, &[]))
        .collect();
    let more = sessions.len() > limit;
    Ok(Json(wire::list("/v1/checkout/sessions", &page, more)))
}

async fn read(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    let expand = params.expand(&wire::EXPANDABLE)?;
    params.finish()?;
    Ok(api.session(&api.known(&id)?, &expand))
}

async fn expire(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut params = Params::of_body(&headers, &body)?;
    let expand = params.expand(&wire::EXPANDABLE)?;
    params.finish()?;
    let act = |session: &mut Session, _: &Account, now: u64| {
        // An authorization is cancelled through its payment.
        let open = matches!(session.state, Stands::Open | Stands::Declined);
        if !open || !session.is_payable(now) {
            return Err(Conflict);
        }
        session.close(now).map(|()| None)
    };
    let (session, was) = api.change(&id, "expire", &key, &body, act).await?;
    let refusal = "Only Checkout Sessions with a status in [\"open\"] can be expired.";
    Ok(was.answer(refusal, || api.session(&session, &expand)))
}

async fn read_payment(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    let expand = params.expand(&wire::EXPANDABLE_IN_PAYMENT)?;
    params.finish()?;
    Ok(api.payment(&api.of_payment(&id)?, &expand))
}

async fn capture(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut params = Params::of_body(&headers, &body)?;
    let expand = params.expand(&wire::EXPANDABLE_IN_PAYMENT)?;
    let amount = params.whole("amount_to_capture")?;
    params.finish()?;
    let known = api.of_payment(&id)?;
    let due = known.due.value.0;
    let amount = amount.unwrap_or(due);
    if amount == 0 || amount > due {
        let message = "The amount to capture is greater than what was authorised.";
        return Err(Problem::invalid(message)
            .code("amount_too_large")
            .param("amount_to_capture"));
    }
    let act = move |session: &mut Session, account: &Account, now: u64| {
        let asked = Money {
            value: Amount(amount),
            currency: session.due.currency.clone(),
        };
        let happened = account.capture(session, now, asked)?;
        session.capture_key = Some(String::new());
        Ok::<_, Denied>(happened)
    };
    let (session, was) = api
        .change(&known.reference, "capture", &key, &body, act)
        .await?;
    let refusal = "This PaymentIntent could not be captured because of its status.";
    Ok(was.answer(refusal, || api.payment(&session, &expand)))
}

async fn cancel(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut params = Params::of_body(&headers, &body)?;
    let expand = params.expand(&wire::EXPANDABLE_IN_PAYMENT)?;
    params.choice(
        "cancellation_reason",
        &[
            "duplicate",
            "fraudulent",
            "requested_by_customer",
            "abandoned",
        ],
    )?;
    params.finish()?;
    let known = api.of_payment(&id)?;
    let act = |session: &mut Session, _: &Account, now: u64| {
        // The payment of an open session only ends with the session.
        if session.state != Stands::Authorised {
            return Err(Conflict);
        }
        session.extra.insert(wire::VOIDED.into(), String::new());
        session.close(now).map(|()| None)
    };
    let (session, was) = api
        .change(&known.reference, "cancel", &key, &body, act)
        .await?;
    let refusal = "You cannot cancel this PaymentIntent because of its status.";
    Ok(was.answer(refusal, || api.payment(&session, &expand)))
}

/// Radar's warnings: the simulated card networks send none.
async fn fraud_warnings(_: Authorised) -> Json<Value> {
    Json(wire::list("/v1/radar/early_fraud_warnings", &[], false))
}

async fn disputes(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    let payment = params.need("payment_intent")?;
    params.whole("limit")?;
    params.finish()?;
    let session = api.of_payment(&payment)?;
    let disputes = session.disputes.iter().rev();
    let disputes: Vec<Value> = disputes
        .map(|dispute| wire::dispute(&api.account, &session, dispute))
        .collect();
    Ok(Json(wire::list("/v1/disputes", &disputes, false)))
}

/// Result of a change under its key.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Was {
    done: bool,
    /// Refused by the bank, not because of the payment's state.
    declined: bool,
    replayed: bool,
}

impl Was {
    fn answer(self, refusal: &str, told: impl FnOnce() -> Json<Value>) -> Response {
        let answer = if self.done {
            told().into_response()
        } else if self.declined {
            Problem::declined().into_response()
        } else {
            Problem::state(refusal)
                .code("payment_intent_unexpected_state")
                .into_response()
        };
        if self.replayed {
            replayed(answer)
        } else {
            answer
        }
    }
}

impl Api {
    fn known(&self, id: &str) -> Result<Session, Problem> {
        let known = self.account.by_reference(id);
        known.ok_or_else(|| Problem::not_found("checkout.session", id))
    }

    pub(crate) fn of_payment(&self, id: &str) -> Result<Session, Problem> {
        wire::session_id(&self.account, id)
            .and_then(|session| self.account.by_reference(&session))
            .ok_or_else(|| Problem::not_found("payment_intent", id))
    }

    fn session(&self, session: &Session, expand: &[String]) -> Json<Value> {
        let now = self.account.now();
        Json(wire::session(&self.account, session, now, expand))
    }

    fn payment(&self, session: &Session, expand: &[String]) -> Json<Value> {
        let now = self.account.now();
        Json(wire::payment(&self.account, session, now, expand))
    }

    /// Executes a change once per key. Like Stripe, stores a refusal under its key too.
    async fn change<D: Into<Denied> + 'static>(
        &self,
        id: &str,
        operation: &str,
        key: &str,
        body: &[u8],
        act: impl FnOnce(&mut Session, &Account, u64) -> Result<Option<Happened>, D> + Send + 'static,
    ) -> Result<(Session, Was), Problem> {
        let session = self.known(id)?;
        let name = format!("key {key}");
        let asked = format!("{operation} {}", http::fingerprint(body));
        if let Some(kept) = session.extra.get(&name) {
            let (before, done) = kept.rsplit_once(' ').unwrap_or_default();
            if before != asked {
                return Err(Problem::key_reused());
            }
            let was = Was {
                done: done == "done",
                declined: done == "declined",
                replayed: true,
            };
            return Ok((session, was));
        }
        let place = name.clone();
        let changed = self
            .account
            .capturing(id.to_owned(), move |session, account, now| {
                let outcome = act(session, account, now).map_err(Into::into);
                let word = match outcome {
                    Ok(_) => "done",
                    Err(Denied::Refused) => "declined",
                    Err(_) => "refused",
                };
                let keys = session
                    .extra
                    .keys()
                    .filter(|known| known.starts_with("key "));
                if keys.count() < MOST_KEYS {
                    session.extra.insert(place, format!("{asked} {word}"));
                } else if outcome.is_err() {
                    return outcome;
                }
                Ok(match outcome {
                    Err(Denied::Voided) => Some(Happened::Voided),
                    outcome => outcome.unwrap_or(None),
                })
            })
            .await?;
        let kept = changed.extra.get(&name);
        let was = Was {
            done: kept.is_none_or(|kept| kept.ends_with(" done")),
            declined: kept.is_some_and(|kept| kept.ends_with(" declined")),
            replayed: false,
        };
        Ok((changed, was))
    }
}

/// A failure of Stripe itself.
pub(crate) fn failure(status: StatusCode) -> Response {
    Problem::of_vendor(status).into_response()
}
