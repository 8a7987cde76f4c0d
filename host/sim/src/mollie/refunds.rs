//! Mollie's endpoints of refunds.
use std::{collections::HashMap, sync::Arc};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Query, State},
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
    routing::{get, post},
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    account::Account,
    http,
    mollie::{
        api::{Authorised, key, known, replayed},
        belongings::{self, Note},
        problem::{Problem, hal},
    },
    money::Money,
    refund::{Asked, Outcome, Refund},
    session::Session,
};

/// Lifetime of keys: an hour, according to the document "API idempotency".
const KEY_LIFE_MS: u64 = 60 * 60 * 1_000;

/// Items per page: default and maximum.
const PAGE: usize = 50;
const MOST_PAGE: usize = 250;

/// Maximum length of a description, in characters.
const DESCRIPTION: usize = 255;

/// Body of a refund.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    amount: Option<Money>,
    #[serde(default)]
    description: String,
    #[serde(default)]
    metadata: Value,
}

pub(crate) fn routes() -> Router<Arc<Account>> {
    Router::new()
        .route("/v2/refunds", get(all))
        .route("/v2/payments/{id}/refunds", post(create).get(list))
        .route(
            "/v2/payments/{id}/refunds/{refund}",
            get(read).delete(cancel),
        )
}

async fn create(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, Problem> {
    let key = key(&headers)?;
    let asked: Create = http::json_body(&headers, &body).map_err(Problem::unprocessable)?;
    let session = known(&account, &id)?;
    let taken = session.received.as_ref().unwrap_or(&session.due);
    let amount = asked
        .amount
        .ok_or_else(|| Problem::field("amount", "The amount is required"))?;
    if amount.currency != taken.currency || amount.value.0 == 0 {
        return Err(Problem::field("amount", "The amount is not valid"));
    }
    if asked.description.chars().count() > DESCRIPTION {
        return Err(Problem::field("description", "at most 255 characters"));
    }
    let note = Note {
        description: asked.description,
        metadata: asked.metadata,
    };
    let asked = Asked {
        amount: amount.value,
        order: note.metadata.as_str().map(str::to_owned),
        key: Some(key),
        fingerprint: http::fingerprint(&body),
        note: Some(json!(note).to_string()),
    };
    Err(match account.give_back(&id, asked, KEY_LIFE_MS).await? {
        Outcome::Made(session, made) => {
            let told = belongings::refund(&account, &session, &made);
            return Ok(hal(StatusCode::CREATED, &told));
        }
        Outcome::Replayed(session, made) => {
            let told = belongings::refund(&account, &session, &made.at_first());
            return Ok(replayed(hal(StatusCode::CREATED, &told)));
        }
        Outcome::Differs => {
            Problem::bad_request("this Idempotency-Key was used with other parameters")
        }
        Outcome::Unpaid => Problem::unprocessable("The payment cannot be refunded"),
        Outcome::Nothing => Problem::unprocessable("The payment has already been refunded"),
        Outcome::TooMuch(_) => Problem::field("amount", "The amount is higher than the maximum"),
        Outcome::Refused => Problem::unprocessable("The payment is too old to be refunded"),
    })
}

async fn list(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let session = known(&account, &id)?;
    let address = format!("{}/refunds", belongings::own(&session));
    page(&address, &belongings::refunds(&account, &session), &query)
}

/// The refunds of all payments, newest first.
async fn all(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Response, Problem> {
    let sessions = account.newest(None, usize::MAX).unwrap_or_default();
    let mut refunds: Vec<(&Session, &Refund)> = sessions
        .iter()
        .flat_map(|session| {
            session
                .refunds
                .iter()
                .rev()
                .map(move |made| (session, made))
        })
        .collect();
    refunds.sort_by_key(|(_, made)| std::cmp::Reverse(made.created_at));
    let refunds: Vec<Value> = refunds
        .into_iter()
        .map(|(session, made)| belongings::refund(&account, session, made))
        .collect();
    page("https://api.mollie.com/v2/refunds", &refunds, &query)
}

/// A page of a list of refunds, according to the query.
fn page(
    address: &str,
    refunds: &[Value],
    query: &HashMap<String, String>,
) -> Result<Response, Problem> {
    let (mut most, mut start) = (PAGE, 0);
    for (name, value) in query {
        match name.as_str() {
            "limit" => {
                most = value
                    .parse()
                    .ok()
                    .filter(|most| (1..=MOST_PAGE).contains(most))
                    .ok_or_else(|| Problem::bad_request("limit: 1 to 250"))?;
            }
            "from" => {
                start = refunds
                    .iter()
                    .position(|told| told["id"] == value.as_str())
                    .ok_or_else(|| Problem::not_found("from: no such refund"))?;
            }
            "embed" | "sort" | "profileId" => {}
            _ => return Err(Problem::bad_request(format!("{name}: unknown parameter"))),
        }
    }
    let rest = refunds.get(start..).unwrap_or_default();
    let (told, rest) = rest.split_at(rest.len().min(most));
    let link = |from: &Value| {
        let from = from["id"].as_str().unwrap_or_default();
        let href = format!("{address}?from={from}&limit={most}");
        json!({ "href": href, "type": "application/hal+json" })
    };
    let body = json!({
        "count": told.len(),
        "_embedded": { "refunds": told },
        "_links": {
            "self": { "href": address, "type": "application/hal+json" },
            "previous": null,
            "next": rest.first().map(link),
        },
    });
    Ok(hal(StatusCode::OK, &body))
}

async fn read(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path((id, refund)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = known(&account, &id)?;
    let made = session.refund_of(&refund).ok_or_else(|| no_such(&refund))?;
    let told = belongings::refund(&account, &session, made);
    Ok(hal(StatusCode::OK, &told))
}

async fn cancel(
    State(account): State<Arc<Account>>,
    _: Authorised,
    Path((id, refund)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let session = known(&account, &id)?;
    session.refund_of(&refund).ok_or_else(|| no_such(&refund))?;
    let act =
        move |session: &mut Session, _: &_, now| session.cancel_refund(&refund, now).map(Some);
    let changed = account.change(id, act).await;
    changed.map_err(|_| Problem::unprocessable("The refund can no longer be canceled"))?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn no_such(refund: &str) -> Problem {
    Problem::not_found(format!("No refund exists with token '{refund}'"))
}
