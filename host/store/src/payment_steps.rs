//! Common parts of steps in both stores: the records that are stored.

use kassette_domain::attempt::Attempt;
use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{
    AccountId, AttemptId, EventId, MovementId, PaymentId, ResellerId, WorkId,
};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::{
    Change, NewCorrection, NewRefund, NewWork, PaymentAggregate, Step, Transition,
};
use kassette_domain::movement::{Balance, Bucket, Movement, MovementKind};
use kassette_domain::payment::{Origin, Payment, Request, RoutingDecision, Status};
use kassette_domain::refund::{Refund, RefundOrigin};
use kassette_domain::time::Time;
use kassette_domain::work::{WorkItem, WorkKey, WorkKind};

use crate::rows::seal::random_id;
use crate::rows::stored::{EventRow, MAX_TRANSITIONS, PaymentCounters};
use crate::{Fault, LedgerState};

/// Maximum number of routing decisions of a payment: five times one per attempt and one at creation.
const MAX_DECISIONS: u16 = 100;
/// Number of lines from which on lines without a change are not stored.
const MAX_IDLE_TRANSITIONS: u16 = MAX_TRANSITIONS / 4;
/// Maximum number of events of a payment.
const MAX_EVENTS: u16 = 1000;
/// Number of events from which on events that a provider can cause repeatedly are not stored, so that the final
/// events of the payment still fit.
const MAX_REPEATED_EVENTS: u16 = MAX_EVENTS - MAX_EVENTS / 10;

/// Whether both have the same reference. References are unique per merchant, or per reseller, across
/// environments.
pub(crate) fn is_same_reference(payment: &Payment, request: &Request) -> bool {
    let same_space = match &request.origin {
        Origin::Merchant { .. } => payment.merchant == request.merchant,
        Origin::Reseller { .. } => true,
    };
    same_space && payment.origin == request.origin
}

/// Converts the number of attempts.
pub(crate) fn count(attempts: usize) -> Result<u8, Fault> {
    u8::try_from(attempts).map_err(|_| Fault::Unavailable("a payment has too many attempts".into()))
}

pub(crate) fn account_of(aggregate: &PaymentAggregate, attempt: AttemptId) -> Option<AccountId> {
    aggregate
        .attempt(attempt)
        .map(|attempt| attempt.account.clone())
}

/// An attempt's new refunds. Refunds are never removed: one that turns out to be another is found by both
/// ids.
pub(crate) fn new_refunds<'a>(
    before: Option<&'a Attempt>,
    after: &'a Attempt,
) -> impl Iterator<Item = &'a Refund> {
    let is_new = move |refund: &&Refund| {
        before.is_none_or(|before| before.funds.refund(refund.id).is_none())
    };
    after.funds.refunds.iter().filter(is_new)
}

/// Assigns booking times to the movements of a step: not in a closed period, and not before the payment's
/// last booking.
pub(crate) fn time_movements(
    ledger: &LedgerState,
    before: &PaymentAggregate,
    after: &mut PaymentAggregate,
    change: &mut Change,
) {
    let mut last = before.payment.last_booked;
    for movement in &mut change.movements {
        last = last.max(ledger.booking_time(movement.booked_at));
        movement.booked_at = last;
    }
    after.payment.last_booked = last;
}

/// Id of a correction's movement, which is booked one time.
pub(crate) fn correction(aggregate: &PaymentAggregate, step: &Step) -> Option<MovementId> {
    let Step::Correct(new) = step else {
        return None;
    };
    let account = &aggregate.attempt(new.attempt)?.account;
    let object = NewCorrection::object(&new.key);
    let kind = MovementKind::Correction;
    Some(MovementId::derived(account, &object, kind, 0))
}

/// The work item that must be open for a refund of a bucket. `None` for the payment's own money.
pub(crate) fn work_of_refund(new: &NewRefund) -> Option<WorkKey> {
    let kind = match new.bucket {
        Bucket::Own => return None,
        Bucket::Excess => WorkKind::Excess,
        Bucket::Surplus => WorkKind::Surplus,
        Bucket::Late => WorkKind::Late,
    };
    Some(WorkKey {
        attempt: new.attempt,
        kind,
        subject: String::new(),
    })
}

/// Owner of the key that may request a refund of a payment, and the reseller whose delegation must allow it. `None`
/// if a reseller asks and no reseller created the payment.
pub(crate) const fn refunder(
    payment: &Payment,
    origin: RefundOrigin,
) -> Option<(KeyOwner, Option<ResellerId>)> {
    match (origin, &payment.origin) {
        (RefundOrigin::Reseller, Origin::Reseller { reseller, .. }) => {
            Some((KeyOwner::Reseller(*reseller), Some(*reseller)))
        }
        (RefundOrigin::Reseller, Origin::Merchant { .. }) => None,
        _ => Some((KeyOwner::Merchant(payment.merchant), None)),
    }
}

/// Creates a work item. `payment` is `None` for money of an unknown payment.
pub(crate) fn work_item(
    new: &NewWork,
    payment: Option<&Payment>,
    environment: Environment,
    (id, opened_at): (WorkId, Time),
) -> WorkItem {
    WorkItem {
        id,
        key: new.key.clone(),
        payment: payment.map(|payment| payment.id),
        merchant: payment.map(|payment| payment.merchant),
        order_id: payment.map(|payment| payment.order_id.as_str().to_owned()),
        environment,
        account: new.account.clone(),
        amount: new.amount,
        currency: new.currency.clone(),
        received: new.received,
        detail: new.detail.clone(),
        deadline: new.deadline,
        opened_at,
        done_at: None,
    }
}

/// An attempt whose balance differs from the sum of its movements.
pub(crate) fn out_of_balance(attempts: &[Attempt], movements: &[Movement]) -> Option<AttemptId> {
    let differs = |attempt: &&Attempt| {
        let own = movements
            .iter()
            .filter(|movement| movement.attempt == Some(attempt.id));
        Balance::from_movements(own) != attempt.funds.balance
    };
    attempts.iter().find(differs).map(|attempt| attempt.id)
}

/// Finding about a payment with an attempt that is [`out_of_balance`].
pub(crate) const OUT_OF_BALANCE: &str = "the balance of an attempt is not the sum of its movements";

/// The routing decisions to store, with numbers from the counters.
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

/// The transitions to store, with their numbers.
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

/// Whether a provider can cause an event any number of times, by alternating reports.
const fn repeats(kind: EventType) -> bool {
    match kind {
        EventType::PaymentProcessing
        | EventType::PaymentVerificationPending
        | EventType::PaymentRefunded
        | EventType::PaymentRefundFailed
        | EventType::PaymentCaptureReversed
        | EventType::PaymentDisputed
        | EventType::PaymentDisputeClosed => true,
        EventType::PaymentPending
        | EventType::PaymentReview
        | EventType::PaymentCompleted
        | EventType::PaymentFailed
        | EventType::PaymentCancelled
        | EventType::PaymentExpired
        | EventType::PaymentAttemptFailed
        | EventType::WebhookTest
        | EventType::WebhookDisabled => false,
    }
}

/// The events to store and queue, with their numbers.
pub(crate) fn events(
    Payment {
        id: payment, short, ..
    }: &Payment,
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
            payment: *payment,
            status: new.status,
            settlement: new.settlement,
            subject: new.subject.clone().map(Box::new),
            short: short.clone(),
        };
        told.push((counters.events, event));
        counters.events += 1;
    }
    Ok(told)
}

/// Finding about a contradiction between timeline, events and payment.
pub(crate) fn contradiction(
    payment: &Payment,
    transitions: &[Transition],
    events: &[EventRow],
) -> Option<&'static str> {
    if transitions.len() >= usize::from(MAX_TRANSITIONS)
        || events.len() >= usize::from(MAX_REPEATED_EVENTS)
    {
        // Later ones are not stored.
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
