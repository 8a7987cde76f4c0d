//! Stripe's endpoints of refunds.
use axum::{
    Json, Router,
    body::Bytes,
    extract::{Path, RawQuery, State},
    http::HeaderMap,
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde_json::{Value, json};

use crate::{
    http,
    money::Amount,
    refund::{Asked, Outcome, Refund},
    session::{Conflict, Session},
    stripe::{
        api::{Api, Authorised, KEY_LIFE_MS, Key, replayed},
        params::Params,
        problem::Problem,
        wire::{self, Note},
    },
};

/// Objects in a refund that can be expanded; here they stay ids.
const EXPANDABLE: [&str; 8] = [
    "balance_transaction",
    "charge",
    "payment_intent",
    "failure_balance_transaction",
    "data.balance_transaction",
    "data.charge",
    "data.payment_intent",
    "data.failure_balance_transaction",
];

pub(crate) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/refunds", post(create).get(list))
        .route("/v1/refunds/{id}", get(read).post(update))
        .route("/v1/refunds/{id}/cancel", post(cancel))
}

async fn create(
    State(api): State<Api>,
    _: Authorised,
    Key(key): Key,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let mut params = Params::of_body(&headers, &body)?;
    let payment = read_reason(&mut params)?.ok_or_else(|| {
        Problem::invalid("One of the following params should be provided: charge, payment_intent.")
    })?;
    let amount = params.whole("amount")?;
    if amount == Some(0) {
        let message = "This value must be greater than or equal to 1.";
        return Err(Problem::invalid(message)
            .code("parameter_invalid_integer")
            .param("amount"));
    }
    let reasons = ["duplicate", "fraudulent", "requested_by_customer"];
    let note = Note {
        reason: params.choice("reason", &reasons)?,
        metadata: params.metadata("metadata")?,
    };
    params.text("instructions_email", 800)?;
    for name in ["refund_application_fee", "reverse_transfer"] {
        params.choice(name, &["true", "false"])?;
    }
    params.expand(&EXPANDABLE)?;
    params.finish()?;
    let session = api.of_payment(&payment)?;
    let asked = Asked {
        amount: amount.map_or_else(|| session.left(), Amount),
        order: note.metadata.get("refund").cloned(),
        key: Some(key),
        fingerprint: http::fingerprint(&body),
        note: Some(json!(note).to_string()),
    };
    let outcome = api
        .account
        .give_back(&session.reference, asked, KEY_LIFE_MS);
    Err(match outcome.await? {
        Outcome::Made(session, made) => {
            return Ok(Json(wire::refund(&session, &made)).into_response());
        }
        Outcome::Replayed(session, made) => {
            let told = wire::refund(&session, &made.at_first());
            return Ok(replayed(Json(told).into_response()));
        }
        Outcome::Differs => Problem::key_reused(),
        Outcome::Unpaid => Problem::invalid(format!(
            "This PaymentIntent ({payment}) does not have a successful charge to refund."
        )),
        Outcome::Nothing => Problem::invalid(format!(
            "Charge {} has already been refunded.",
            wire::charge_id(&session)
        ))
        .code("charge_already_refunded"),
        Outcome::TooMuch(left) => Problem::invalid(format!(
            "Refund amount is greater than unrefunded amount on charge ({left})"
        ))
        .param("amount"),
        Outcome::Refused => {
            Problem::invalid("Insufficient funds in your Stripe balance to refund this amount.")
                .code("balance_insufficient")
        }
    })
}

/// Lists refunds, newest first.
async fn list(
    State(api): State<Api>,
    _: Authorised,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    let limit = params.limit()?;
    let after = params.take("starting_after");
    let payment = read_reason(&mut params)?;
    params.expand(&EXPANDABLE)?;
    params.finish()?;
    let sessions = match payment {
        Some(payment) => vec![api.of_payment(&payment)?],
        None => {
            let all = api.account.newest(None, usize::MAX);
            all.unwrap_or_default()
        }
    };
    let refunds = |session: &Session| -> Vec<(Session, Refund)> {
        let refunds = session.refunds.iter().rev();
        refunds
            .map(|made| (session.clone(), made.clone()))
            .collect()
    };
    let mut refunds: Vec<(Session, Refund)> = sessions.iter().flat_map(refunds).collect();
    refunds.sort_by_key(|(_, made)| std::cmp::Reverse(made.created_at));
    if let Some(after) = after {
        let at = refunds
            .iter()
            .position(|(_, made)| made.id == after)
            .ok_or_else(|| Problem::not_found("refund", &after))?;
        refunds.drain(..=at);
    }
    let page: Vec<Value> = refunds
        .iter()
        .take(limit)
        .map(|(session, made)| wire::refund(session, made))
        .collect();
    Ok(Json(wire::list(
        "/v1/refunds",
        &page,
        refunds.len() > limit,
    )))
}

async fn read(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_query(query.as_deref())?;
    params.expand(&EXPANDABLE)?;
    params.finish()?;
    let (session, made) = known(&api, &id)?;
    Ok(Json(wire::refund(&session, &made)))
}

/// Changes the metadata; other fields cannot be changed.
async fn update(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Json<Value>, Problem> {
    let mut params = Params::of_body(&headers, &body)?;
    let changes = params.metadata("metadata")?;
    params.expand(&EXPANDABLE)?;
    params.finish()?;
    let (session, _) = known(&api, &id)?;
    let wanted = id.clone();
    let act = move |session: &mut Session, _: &_, _| {
        let mut refunds = session.refunds.iter_mut();
        let made = refunds.find(|made| made.id == wanted).ok_or(Conflict)?;
        let mut note = Note::new(made);
        note.metadata.extend(changes);
        made.asked.get_or_insert_default().note = Some(json!(note).to_string());
        Ok(None)
    };
    api.account.change(session.reference, act).await?;
    let (session, made) = known(&api, &id)?;
    Ok(Json(wire::refund(&session, &made)))
}

async fn cancel(
    State(api): State<Api>,
    _: Authorised,
    Path(id): Path<String>,
) -> Result<Json<Value>, Problem> {
    let (session, _) = known(&api, &id)?;
    let wanted = id.clone();
    let act =
        move |session: &mut Session, _: &_, now| session.cancel_refund(&wanted, now).map(Some);
    let changed = api.account.change(session.reference, act).await;
    changed.map_err(|_| Problem::state("This refund can no longer be canceled."))?;
    let (session, made) = known(&api, &id)?;
    Ok(Json(wire::refund(&session, &made)))
}

/// The payment or charge that a request names.
fn read_reason(params: &mut Params) -> Result<Option<String>, Problem> {
    match (params.take("payment_intent"), params.take("charge")) {
        (Some(_), Some(_)) => Err(Problem::invalid(
            "You may only specify one of these parameters: charge, payment_intent.",
        )),
        (payment, charge) => Ok(payment.or(charge)),
    }
}

fn known(api: &Api, id: &str) -> Result<(Session, Refund), Problem> {
    let session = api.account.by_part(id);
    let known = session.and_then(|session| {
        let made = session.refund_of(id)?.clone();
        Some((session, made))
    });
    known.ok_or_else(|| Problem::not_found("refund", id))
}
