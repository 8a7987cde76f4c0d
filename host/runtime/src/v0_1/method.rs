//! The interface `routing`, to and from the domain.

use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::routing::{
    Availability, Candidate, Context, Ground, MAX_CANDIDATES, MethodDescription, Refusal, Verdict,
};
use wasmtime::component::{ComponentType, Lower};

use super::bindings::method::exports::kassette::plugin::routing as wit;
use super::bounds::{self, DETAIL};
use crate::error::CallError;

pub(crate) type Description = wit::Method;
pub(crate) type Answer = Result<Vec<wit::Verdict>, wit::Refusal>;

/// The question. The generated record of that name owns its texts; this one has them lowered from
/// where they stand.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct Question<'a> {
    amount: Option<u64>,
    currency: &'a str,
    usd: Option<u64>,
    environment: wit::Environment,
    #[component(name = "email-known")]
    email_known: bool,
    country: Option<&'a str>,
    now: u64,
    settings: &'a [(String, String)],
    candidates: Vec<LoweredCandidate<'a>>,
}

/// A candidate of it, likewise.
#[derive(ComponentType, Lower)]
#[component(record)]
pub(crate) struct LoweredCandidate<'a> {
    id: &'a str,
    minimum: Option<u64>,
    maximum: Option<u64>,
    fee: Option<u64>,
    priority: i32,
    health: wit::Health,
}

/// The question in the guest's terms.
pub(crate) fn question(context: &Context) -> Question<'_> {
    Question {
        amount: context.amount.map(|amount| amount.0),
        currency: context.currency.code(),
        usd: context.usd.map(|usd| usd.0),
        environment: match context.environment {
            Environment::Test => wit::Environment::Test,
            Environment::Live => wit::Environment::Live,
        },
        email_known: context.email_known,
        country: context.country.as_deref(),
        now: context.now.as_millis(),
        settings: &context.settings,
        candidates: context.candidates.iter().map(candidate).collect(),
    }
}

fn candidate(candidate: &Candidate) -> LoweredCandidate<'_> {
    let health = &candidate.health;
    LoweredCandidate {
        id: candidate.id.as_str(),
        minimum: candidate.minimum.map(|amount| amount.0),
        maximum: candidate.maximum.map(|amount| amount.0),
        fee: candidate.fee.map(|fee| fee.0),
        priority: candidate.priority,
        health: wit::Health {
            status: match health.status {
                Availability::Operational => wit::Availability::Operational,
                Availability::Degraded => wit::Availability::Degraded,
                Availability::Down => wit::Availability::Down,
                Availability::Stale => wit::Availability::Stale,
            },
            success: health.success,
            latency: health.latency,
            samples: health.samples,
        },
    }
}

/// The answer, within the contract's limits; whether it is believable is checked elsewhere.
pub(crate) fn verdicts(answer: Answer) -> Result<Result<Vec<Verdict>, Refusal>, CallError> {
    match answer {
        Err(no) => Ok(Err(refusal(no)?)),
        Ok(all) if all.len() > MAX_CANDIDATES => Err(CallError::BadReply("too many verdicts")),
        Ok(all) => all
            .into_iter()
            .map(verdict)
            .collect::<Result<_, _>>()
            .map(Ok),
    }
}

fn verdict(verdict: wit::Verdict) -> Result<Verdict, CallError> {
    let id = AccountId::try_from(verdict.id)
        .map_err(|_| CallError::BadReply("a verdict's id is no candidate's"))?;
    let outcome = match verdict.outcome {
        Ok(reason) => Ok(bounds::within(
            reason,
            DETAIL,
            "a verdict's reason is over 200 bytes",
        )?),
        Err(no) => Err(refusal(no)?),
    };
    Ok(Verdict { id, outcome })
}

fn refusal(refusal: wit::Refusal) -> Result<Refusal, CallError> {
    let ground = match refusal.ground {
        wit::Ground::Currency => Ground::Currency,
        wit::Ground::Amount => Ground::Amount,
        wit::Ground::Country => Ground::Country,
        wit::Ground::Payer => Ground::Payer,
        wit::Ground::Health => Ground::Health,
        wit::Ground::Policy => Ground::Policy,
        wit::Ground::Other => Ground::Other,
    };
    let detail = bounds::within(
        refusal.detail,
        DETAIL,
        "a refusal's detail is over 200 bytes",
    )?;
    Ok(Refusal { ground, detail })
}

/// What the module says it is, but for its id, which the loader compares with the slot.
pub(crate) fn description(
    id: MethodId,
    method: wit::Method,
) -> Result<MethodDescription, CallError> {
    Ok(MethodDescription {
        id,
        label: bounds::label(method.label)?,
        version: bounds::version(method.version)?,
        currencies: bounds::currencies(&method.currencies)?.ok_or(CallError::BadReply(
            "none of the currencies can be an invoice's",
        ))?,
    })
}
