//! `POST /plugins/{slot}/replay`: evaluates recorded decisions with a candidate.

use std::convert::Infallible;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use futures_util::{Stream, stream};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use kassette_domain::id::{Digest, MerchantId, Slot, SlotKind};
use kassette_domain::policy::Policy;
use kassette_gateway::replay::{
    Cost, Diff, Extent, MOST, MOST_EXAMPLES, Replay, ReplayCandidate, ReplayChange, Sum,
};
use kassette_runtime::MAX_MODULE_BYTES;
use serde_json::json;

use super::AdminState;
use super::body::{MOST as MOST_JSON, is_json, refuse_encoded};
use super::caller::Changes;
use super::plugins::find;
use crate::web::ApiError;
use crate::web::json::{self, Fields, Value, Wrong};
use crate::web::path::At;
use crate::web::query::Query;
use crate::web::text::whole;

/// Number of decisions that are replayed if the call does not specify it.
pub(super) const DEFAULT: u64 = 10_000;
/// Media type of responses with progress lines and the result as the last line.
pub(super) const LINES: &str = "application/x-ndjson";
/// Limitation of replays of recorded calls.
const UNRECORDED: &str = "calls of a provider's module are on record from while plugins.record_conversations was on, \
    without those that got no answer in time";
/// Limitation of replays of a policy.
const UNKNOWN: &str = "what the policy would add is not judged: the log has no accounts and no methods that the \
    policy of its time left out";

/// `POST /plugins/{slot}/replay?last=N&examples=N`: changes nothing, but requires an operator because it uses
/// CPU time.
pub(super) async fn replay(
    _: Changes,
    State(state): State<AdminState>,
    At(slot): At<String>,
    request: Request,
) -> Result<Response, ApiError> {
    let (_, slot) = find(&state, &slot)?;
    let (parts, body) = request.into_parts();
    let mut query = Query::parse(parts.uri.query())?;
    let last = query.read(
        "last",
        |text| text.parse().ok().filter(|last| (1..=MOST).contains(last)),
        "must be a whole number from 1 to 1000000",
    )?;
    let examples = query.read(
        "examples",
        |text| text.parse().ok().filter(|most| *most <= MOST_EXAMPLES),
        "must be a whole number from 0 to 100000",
    )?;
    query.finish()?;
    let last = last.unwrap_or(DEFAULT);
    // Before the body is read, because it may be a module.
    let turn = state.gateway.replay_turn();
    let turn = turn.ok_or_else(|| ApiError::conflict("another replay is under way"))?;
    let (candidate, merchant) = candidate(&state, &parts, body).await?;
    let kind = match &candidate {
        ReplayCandidate::Module(_) => "module",
        ReplayCandidate::Settings(_) => "settings",
        ReplayCandidate::Policy(_) => "policy",
    };
    let extent = Extent {
        last,
        merchant,
        examples,
    };
    let replay = state.gateway.replay(turn, &slot, candidate, extent).await?;
    let told = ReplayAnswer { slot, kind };
    if !wants_lines(&parts) {
        return told.whole(replay).await;
    }
    let body = Body::from_stream(told.lines(replay, last));
    Ok(([(CONTENT_TYPE, LINES)], body).into_response())
}

fn wants_lines(parts: &Parts) -> bool {
    let accept = parts.headers.get(ACCEPT);
    accept.is_some_and(|accept| accept.as_bytes() == LINES.as_bytes())
}

/// The candidate in the body, and the merchant to which the replay is restricted.
async fn candidate(
    state: &AdminState,
    parts: &Parts,
    body: Body,
) -> Result<(ReplayCandidate, Option<MerchantId>), ApiError> {
    refuse_encoded(&parts.headers)?;
    if !is_json(&parts.headers) {
        let bytes = crate::web::body::read(&parts.headers, body, MAX_MODULE_BYTES).await?;
        return Ok((ReplayCandidate::Module(bytes.into()), None));
    }
    let bytes = crate::web::body::read(&parts.headers, body, MOST_JSON).await?;
    let mut fields = Fields::read(json::parse(&bytes)?)?;
    let merchant = fields.optional("merchant_id", whole(0, u64::MAX))?;
    let merchant = match merchant {
        Some(id) => Some(super::merchants::find(state, &id.to_string()).await?),
        None => None,
    };
    let settings = fields.optional("settings", settings)?;
    let default = Policy::default();
    let own = merchant.as_ref().map_or(&default, |it| &it.policy);
    let rate = state.gateway.settings().rate_limit;
    let policy = fields.optional("policy", |value| {
        super::policy::merge(value, own, rate, &state.gateway)
    })?;
    fields.finish()?;
    let candidate = match (settings, policy) {
        (Some(settings), None) => ReplayCandidate::Settings(settings),
        (None, Some(policy)) => ReplayCandidate::Policy(Box::new(policy)),
        _ => {
            let why = "either it or settings is required, and not both";
            return Err(ApiError::invalid("policy", why));
        }
    };
    Ok((candidate, merchant.map(|merchant| merchant.id)))
}

/// Parses settings as in a method's file: texts, whole numbers and switches.
fn settings(value: Value) -> Result<Vec<(String, String)>, Wrong> {
    let Value::Object(object) = value else {
        return Err(Wrong::new("must be an object"));
    };
    let read = |(name, value): (String, Value)| {
        let text = match value {
            Value::Text(text) => text,
            Value::Bool(switch) => switch.to_string(),
            Value::Number(number) if !number.is_f64() => number.to_string(),
            _ => {
                let name = json::echo(&name);
                let why = format!("{name} must be a text, a whole number, true or false");
                return Err(Wrong::new(why));
            }
        };
        Ok((name, text))
    };
    object.into_iter().map(read).collect()
}

/// Data of a response other than the differences.
struct ReplayAnswer {
    slot: Slot,
    kind: &'static str,
}

impl ReplayAnswer {
    /// Runs the replay and returns the diff.
    async fn whole(self, mut replay: Replay) -> Result<Response, ApiError> {
        while replay.advance().await?.is_some() {}
        Ok(Json(self.view(&replay)).into_response())
    }

    /// A progress line for each part of the log, and the diff as the last line. Without the last line, the
    /// response is incomplete.
    fn lines(self, replay: Replay, last: u64) -> impl Stream<Item = Result<Bytes, Infallible>> {
        let line = |value: serde_json::Value| Ok(Bytes::from(format!("{value}\n")));
        stream::unfold(Some((self, replay)), move |state| async move {
            let (told, mut replay) = state?;
            match replay.advance().await {
                Ok(Some(read)) => {
                    let progress = json!({ "progress": { "read": read, "of": last } });
                    Some((line(progress), Some((told, replay))))
                }
                Ok(None) => Some((line(told.view(&replay)), None)),
                Err(error) => {
                    tracing::error!(%error, "a replay broke down");
                    let why = "the replay broke down: the gateway's log says why";
                    Some((line(json!({ "error": why })), None))
                }
            }
        })
    }

    fn view(&self, replay: &Replay) -> serde_json::Value {
        let mut view = view(
            &self.slot,
            self.kind,
            (replay.active, replay.candidate),
            replay.diff(),
        );
        view["unknown"] = match (self.kind, self.slot.kind()) {
            ("policy", _) => Some(UNKNOWN),
            (_, SlotKind::Provider) => Some(UNRECORDED),
            _ => None,
        }
        .into();
        view
    }
}

/// JSON of a diff of two versions, the active one first.
pub(super) fn view(
    slot: &Slot,
    kind: &str,
    (active_digest, candidate_digest): (Digest, Digest),
    diff: &Diff,
) -> serde_json::Value {
    let moved = diff.moved.iter().map(|((currency, from, to), sum)| {
        json!({
            "currency": currency, "from": from, "to": to,
            "payments": sum.payments, "amount": amount(sum.amount),
        })
    });
    let reasons = diff.reasons.iter();
    let reasons = reasons.map(|((change, reason, currency), sum)| {
        let Sum { payments, .. } = sum;
        json!({
            "change": change.as_str(), "reason": reason, "currency": currency,
            "payments": payments, "amount": amount(sum.amount),
        })
    });
    json!({
        "slot": slot,
        "kind": kind,
        "active": active_digest.to_string(),
        "candidate": candidate_digest.to_string(),
        "decisions": diff.decisions,
        "differing": diff.differing,
        "moved": moved.collect::<Vec<_>>(),
        "newly_possible": diff.newly_possible,
        "newly_impossible": diff.newly_impossible,
        "faults": diff.faults,
        "reordered": diff.reordered,
        "active_faults": diff.active_faults,
        "reasons": reasons.collect::<Vec<_>>(),
        "examples": examples(diff),
        "cost": {
            "active_us": microseconds(diff.active_cost),
            "candidate_us": microseconds(diff.candidate_cost),
        },
    })
}

fn examples(diff: &Diff) -> Vec<serde_json::Value> {
    let examples = diff.examples.latest.values().map(|example| {
        json!({
            "payment_id": example.payment.map(|id| id.to_string()),
            "at": example.at.rfc3339(),
            "change": example.change.as_str(),
            "reason": example.reason,
            "currency": example.currency,
            "amount": amount(example.amount.into()),
            "from": example.from,
            "to": example.to,
        })
    });
    examples.collect()
}

/// All kinds of changes, for the document.
pub(super) const CHANGES: [ReplayChange; 5] = [
    ReplayChange::Moved,
    ReplayChange::NewlyPossible,
    ReplayChange::NewlyImpossible,
    ReplayChange::Fault,
    ReplayChange::Otherwise,
];

/// An amount in minor units of any size, formatted as in the API.
fn amount(minor: u128) -> String {
    format!("{}.{:02}", minor / 100, minor % 100)
}

/// Microseconds per call with one decimal; null if there was no call.
fn microseconds(cost: Cost) -> serde_json::Value {
    match cost.tenths_of_us() {
        Some(tenths) => format!("{}.{}", tenths / 10, tenths % 10).into(),
        None => serde_json::Value::Null,
    }
}
