//! What both stores do alike with a step: what of it is kept, and how two of one transaction add up.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{AccountId, AttemptId, EventId, PaymentId};
use kassette_domain::lifecycle::{Change, PaymentAggregate, Step, Transition, Via};
use kassette_domain::payment::{Origin, Payment, Request, RoutingDecision, Settlement, Status};
use kassette_domain::provider::{Report, VendorStatus};
use kassette_domain::refund::Refund;
use kassette_domain::time::Time;

use crate::Fault;
use crate::rows::seal::random_id;
use crate::rows::stored::{EventRow, MAX_TRANSITIONS, PaymentCounters};

/// Most routing decisions kept of one payment: one per attempt and one at creation fit five times.
const MAX_DECISIONS: u16 = 100;
/// From here on, lines that changed nothing are left out.
const MAX_IDLE_TRANSITIONS: u16 = MAX_TRANSITIONS / 4;
/// Most events of one payment.
const MAX_EVENTS: u16 = 1000;
/// From here on, events that a vendor can cause over and over are left out, so that whatever ends the
/// payment is told all the same.
const MAX_REPEATED_EVENTS: u16 = MAX_EVENTS - MAX_EVENTS / 10;

/// References are one space per merchant, or per reseller, across environments.
pub(crate) fn is_same_reference(payment: &Payment, request: &Request) -> bool {
    let same_space = match &request.origin {
        Origin::Merchant { .. } => payment.merchant == request.merchant,
        Origin::Reseller { .. } => true,
    };
    same_space && payment.origin == request.origin
}

/// Whether the account of an attempt must stay configured: money can still move on it, the vendor
/// has to be asked about it again, or what it took is not known to be safe.
pub(crate) fn uses_account(payment: &Payment, attempt: &Attempt) -> bool {
    let taken = matches!(
        attempt.state,
        AttemptState::Captured | AttemptState::Surplus
    );
    let ended_there = attempt.vendor.as_ref().is_none_or(|facts| {
        !matches!(
            facts.status,
            VendorStatus::Pending
                | VendorStatus::Processing
                | VendorStatus::VerificationPending
                | VendorStatus::Review
        )
    });
    let unsettled =
        attempt.state == AttemptState::Captured && payment.settlement == Settlement::Pending;
    attempt.state.is_open()
        || attempt.next_query.is_some()
        || attempt.returns.is_order_pending()
        || !(taken || ended_there)
        || unsettled
}

/// How many attempts there are.
pub(crate) fn count(attempts: usize) -> Result<u8, Fault> {
    u8::try_from(attempts).map_err(|_| Fault::Unavailable("a payment has too many attempts".into()))
}

/// The account of one of a payment's attempts.
pub(crate) fn account_of(aggregate: &PaymentAggregate, attempt: AttemptId) -> Option<AccountId> {
    aggregate
        .attempt(attempt)
        .map(|attempt| attempt.account.clone())
}

/// The step of a callback that was kept until its attempt became known.
pub(crate) fn step_of_callback(attempt: AttemptId, report: Option<Report>, now: Time) -> Step {
    match report {
        Some(report) => Step::Report {
            attempt,
            report,
            via: Via::Callback,
            asked: None,
        },
        None => Step::AskAt { attempt, at: now },
    }
}

/// An attempt's refunds that have come, and those that are gone: one that the vendor told as part of a sum goes
/// when it tells the refunds themselves.
pub(crate) fn refunds<'a>(
    before: Option<&'a Attempt>,
    after: &'a Attempt,
) -> (Vec<&'a Refund>, Vec<&'a Refund>) {
    let before = before.map_or(&[][..], |before| &before.returns.refunds);
    let after = &after.returns.refunds[..];
    let beyond = |refunds: &'a [Refund], others: &[Refund]| {
        let is_in = |id| others.iter().any(|other| other.id == id);
        let beyond = refunds.iter().filter(|refund| !is_in(refund.id));
        beyond.collect()
    };
    (beyond(after, before), beyond(before, after))
}

/// What two steps of one transaction did, in order.
pub(crate) fn merge(change: &mut Change, more: Change) {
    let Change {
        transitions,
        events,
        work,
        work_done,
        work_closed,
        decisions,
        references,
        search_references,
        resolved,
        dirty,
    } = more;
    change.transitions.extend(transitions);
    change.events.extend(events);
    change.work.extend(work);
    change.work_done.extend(work_done);
    change.work_closed.extend(work_closed);
    change.decisions.extend(decisions);
    change.references.extend(references);
    change.search_references.extend(search_references);
    change.resolved.extend(resolved);
    change.dirty |= dirty;
}

/// The routing decisions that are kept, with their numbers, which the counters give.
pub(crate) fn decisions<'d>(
    payment: PaymentId,
    counters: &mut PaymentCounters,
    decisions: &'d [RoutingDecision],
) -> Vec<(u16, &'d RoutingDecision)> {
    let mut kept = Vec::new();
    for decision in decisions {
        if counters.decisions == MAX_DECISIONS {
            tracing::warn!(payment.id = %payment, "a routing decision is not kept: there are too many");
            break;
        }
        kept.push((counters.decisions, decision));
        counters.decisions += 1;
    }
    kept
}

/// The transitions that are kept, likewise.
pub(crate) fn transitions<'c>(
    payment: PaymentId,
    counters: &mut PaymentCounters,
    change: &'c Change,
) -> Vec<(u16, &'c Transition)> {
    let mut kept = Vec::new();
    for transition in &change.transitions {
        let most = if transition.applied {
            MAX_TRANSITIONS
        } else {
            MAX_IDLE_TRANSITIONS
        };
        if counters.transitions >= most {
            tracing::warn!(payment.id = %payment, cause = %transition.cause, "a line of the timeline is not kept: there are too many");
            continue;
        }
        kept.push((counters.transitions, transition));
        counters.transitions += 1;
    }
    kept
}

/// Whether a vendor can cause an event as often as it likes, by reporting first one thing and then
/// another.
const fn repeats(kind: EventType) -> bool {
    match kind {
        EventType::PaymentProcessing
        | EventType::PaymentVerificationPending
        | EventType::PaymentRefunded
        | EventType::PaymentDisputed => true,
        EventType::PaymentPending
        | EventType::PaymentReview
        | EventType::PaymentCompleted
        | EventType::PaymentFailed
        | EventType::PaymentCancelled
        | EventType::PaymentExpired
        | EventType::PaymentAttemptFailed
        | EventType::WebhookTest => false,
    }
}

/// The events that are told, likewise.
pub(crate) fn events(
    payment: PaymentId,
    counters: &mut PaymentCounters,
    change: &Change,
    now: Time,
) -> Result<Vec<(u16, Event)>, Fault> {
    let mut told = Vec::new();
    for new in &change.events {
        let most = if repeats(new.kind) {
            MAX_REPEATED_EVENTS
        } else {
            MAX_EVENTS
        };
        if counters.events >= most {
            tracing::error!(payment.id = %payment, kind = new.kind.as_str(), "an event is not told: the payment has too many");
            continue;
        }
        let event = Event {
            id: EventId::from_bytes(random_id()?),
            kind: new.kind,
            created_at: now,
            payment,
            status: new.status,
            settlement: new.settlement,
            refund: new.refund,
            decline: new.decline,
        };
        told.push((counters.events, event));
        counters.events += 1;
    }
    Ok(told)
}

/// In what timeline, events and payment contradict each other.
pub(crate) fn contradiction(
    payment: &Payment,
    transitions: &[Transition],
    events: &[EventRow],
) -> Option<&'static str> {
    if transitions.len() >= usize::from(MAX_TRANSITIONS)
        || events.len() >= usize::from(MAX_REPEATED_EVENTS)
    {
        // What came after is not kept.
        return None;
    }
    let mut status = Status::Created;
    for line in transitions.iter().filter(|line| line.applied) {
        if line.from != status {
            return Some("a line of its timeline does not begin where the one before ended");
        }
        status = line.to;
    }
    if status != payment.status {
        return Some("its timeline ends in another status than its own");
    }
    let moved = transitions
        .iter()
        .filter(|line| line.applied && line.from != line.to)
        .filter_map(|line| Some((EventType::of_transition(line.to)?, line.at)));
    let told = events
        .iter()
        .filter(|event| {
            Status::ALL
                .into_iter()
                .any(|status| EventType::of_transition(status) == Some(event.kind))
        })
        .map(|event| (event.kind, event.created_at));
    if !moved.eq(told) {
        return Some("its events are not those of its timeline");
    }
    let completed = events
        .iter()
        .filter(|event| event.kind == EventType::PaymentCompleted)
        .count();
    (completed != usize::from(payment.is_paid()))
        .then_some("it was told as completed another number of times than it was")
}
