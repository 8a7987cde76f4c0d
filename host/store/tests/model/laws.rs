//! What holds whatever the reference says.

use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::id::{AttemptId, RefundId};
use kassette_domain::lifecycle::{PaymentAggregate, Step};
use kassette_domain::payment::{DecisionState, Settlement, Status};
use kassette_domain::provider::{RefundState, VendorStatus};
use kassette_domain::time::Time;
use kassette_store::History;

use crate::law::{REFUND_TURNS, is_open};
use crate::payment::Payment;
use crate::questions;
use crate::shop::Product;
use crate::verdict::{Verdict, ensure};

/// What holds of a payment at any time.
pub(crate) fn standing(found: &PaymentAggregate) -> Verdict {
    let payment = &found.payment;
    let count = |is: &dyn Fn(AttemptState) -> bool| {
        found.attempts.iter().filter(|each| is(each.state)).count()
    };
    let open = count(&is_open);
    let captured = count(&|state| state == AttemptState::Captured);
    let completed = payment.status == Status::Completed;
    ensure(payment.completed_at.is_some() == completed, || {
        "completed without a time, or not completed with one".into()
    })?;
    ensure(open <= 1, || "two attempts are open".into())?;
    ensure(captured <= 1, || "two captures are the payment's".into())?;
    let waits = matches!(
        payment.status,
        Status::Pending | Status::Processing | Status::VerificationPending
    );
    ensure(!waits || open == 1, || {
        "a payment under way has no open attempt".into()
    })?;
    let confirmed = payment.settlement == Settlement::Confirmed;
    ensure(!confirmed || payment.status == Status::Completed, || {
        "confirmed without completed".into()
    })
}

/// What holds of an order that was just taken: no more is gone or on its way than was received.
pub(crate) fn ordered(after: &PaymentAggregate, of: AttemptId) -> Verdict {
    let attempt = after.attempt(of).ok_or("an order of no attempt")?;
    let received = attempt.vendor.as_ref().map_or(0, |facts| facts.received.0);
    let refunds = attempt.returns.refunds.iter();
    let on_its_way = refunds.filter(|refund| refund.state != RefundState::Failed);
    let gone: u64 = on_its_way.map(|refund| refund.amount.0).sum();
    ensure(gone <= received, || {
        format!("{gone} are given back of {received}")
    })
}

/// No refund is told twice, and what was ordered and has succeeded is not forgotten.
pub(crate) fn told_once(history: &History) -> Verdict {
    let told = history.events.iter().filter_map(|event| event.refund);
    let mut told: Vec<RefundId> = told.map(|given| given.refund).collect();
    let count = told.len();
    told.sort();
    told.dedup();
    ensure(told.len() == count, || "a refund was told twice".into())?;
    for (_, refund) in history.aggregate.refunds() {
        let Some(ordered) = &refund.ordered else {
            continue;
        };
        let pending = refund.state == RefundState::Pending;
        let given_up = usize::from(ordered.asked) >= REFUND_TURNS;
        ensure(!pending || ordered.next_at.is_some() || given_up, || {
            format!("the provider is not asked about a refund: {refund:?}")
        })?;
    }
    Ok(())
}

/// What holds after any step, by what the store shows.
pub(crate) fn step(
    before: &Payment,
    product: Product<'_>,
    step: &Step,
    parked: usize,
    now: Time,
) -> Verdict {
    questions::laws(before, product, step, now)?;
    // What was read of notices that had waited may have come after the completion.
    if parked == 0 {
        backed(before, product.aggregate)?;
    }
    Ok(())
}

/// The law of completion, held against what the store shows: a payment that has completed without an
/// operator's word for it holds captured money that was not given back, of at least the invoice's
/// amount in its currency, or exactly what the decision's record names.
fn backed(before: &Payment, after: &PaymentAggregate) -> Verdict {
    let payment = &after.payment;
    let was_completed = before.status == Status::Completed;
    if was_completed || payment.status != Status::Completed || payment.vouched {
        return Ok(());
    }
    let own = |attempt: &&Attempt| attempt.state == AttemptState::Captured;
    let captured = after.attempts.iter().find(own);
    let captured = captured.ok_or("completed without a capture")?;
    let facts = captured.vendor.as_ref();
    let facts = facts.ok_or("completed without a word of the vendor")?;
    let left = facts.received.0.saturating_sub(captured.returns.total().0);
    let approved_only = matches!(
        facts.status,
        VendorStatus::Pending | VendorStatus::Processing | VendorStatus::VerificationPending
    );
    let net = if approved_only { 0 } else { left };
    let due = &payment.due;
    let paid = net >= due.amount.0 && facts.currency == due.currency.code();
    let decision = payment.decision.as_deref();
    let accepted = decision.is_some_and(|decision| {
        decision.state == DecisionState::Done
            && decision.received.0 == net
            && decision.currency == facts.currency
            && net > 0
    });
    ensure(paid || accepted, || {
        format!("completed with {net} {}: {decision:?}", facts.currency)
    })
}
