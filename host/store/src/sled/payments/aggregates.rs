//! Loading a payment with its attempts, and saving it with all consequences of a change.

use kassette_domain::attempt::Attempt;
use kassette_domain::id::PaymentId;
use kassette_domain::key::TokenHash;
use kassette_domain::lifecycle::{Change, PaymentAggregate};
use kassette_domain::payment::{Payment, RoutingDecision};
use kassette_domain::time::Time;

use crate::payment_steps::{self, count};
use crate::rows::notes;
use crate::rows::records;
use crate::rows::schema::{self, Line};
use crate::rows::seal::{Sealer, Secrets};
use crate::rows::source::{RowSource, Save as _};
use crate::rows::stored::{
    AttemptKey, EventRow, PaymentCounters, PaymentRow, Timer, encode_attempt, load_attempt,
};
use crate::sled::memory::Rows;
use crate::sled::movements;
use crate::sled::payments::works;
use crate::sled::webhooks::outbox;
use crate::{About, Fault};

/// A payment as loaded.
pub(crate) struct Loaded {
    pub(crate) aggregate: PaymentAggregate,
    pub(crate) counters: PaymentCounters,
}

/// Resolves the payment. `None` if it is not known.
pub(crate) fn resolve(source: &impl RowSource, about: &About) -> Result<Option<PaymentId>, Fault> {
    let attempt_key: Option<AttemptKey> = match about {
        About::Payment(id) => return Ok(Some(*id)),
        About::Attempt(id) => source.load(&schema::attempt_index(*id))?,
        About::Reference { account, reference } => {
            source.load(&schema::reference(account, reference))?
        }
        About::Refund(id) => source.load(&schema::refund_index(*id))?,
    };
    Ok(attempt_key.map(|attempt_key| attempt_key.payment))
}

/// Loads a payment with its attempts. All of it is from one moment: no group is visible in part.
pub(crate) fn load(
    source: &impl RowSource,
    sealer: &Sealer,
    id: PaymentId,
) -> Result<Option<Loaded>, Fault> {
    let key = schema::payment(id);
    let Some(row) = source.get(&key)? else {
        return Ok(None);
    };
    let stored = PaymentRow::decode(sealer, id, &key, &row)?;
    let attempts = (0..stored.counters.attempts)
        .map(|ordinal| load_attempt(source, sealer, id, ordinal))
        .collect::<Result<_, _>>()?;
    let (payment, counters) = stored.open(sealer)?;
    let aggregate = PaymentAggregate { payment, attempts };
    Ok(Some(Loaded {
        aggregate,
        counters,
    }))
}

/// Loads a payment that an index refers to.
pub(crate) fn load_promised(
    source: &impl RowSource,
    sealer: &Sealer,
    id: PaymentId,
) -> Result<Loaded, Fault> {
    load(source, sealer, id)?.ok_or_else(|| records::damaged(&schema::payment(id), "it is missing"))
}

/// Saves the result of a step. `before` is the loaded aggregate.
pub(crate) fn save(
    rows: &mut Rows<'_>,
    secrets: &Secrets,
    before: &PaymentAggregate,
    after: &Loaded,
    change: &Change,
    now: Time,
) -> Result<(), Fault> {
    let Loaded {
        aggregate,
        counters,
    } = after;
    let mut counters = counters.clone();
    let sealer = &secrets.sealer;
    save_attempts(rows, sealer, before, aggregate)?;
    counters.attempts = count(aggregate.attempts.len())?;
    for (attempt, reference) in &change.references {
        let mut all = aggregate.attempts.iter().enumerate();
        let Some((at, Attempt { account, .. })) = all.find(|(_, each)| each.id == *attempt) else {
            continue;
        };
        let attempt_key = AttemptKey {
            payment: aggregate.payment.id,
            ordinal: count(at)?,
        };
        rows.save(schema::reference(account, reference), &attempt_key)?;
    }
    let payment = &aggregate.payment;
    for (attempt, reference) in &change.search_references {
        if let Some(at) = aggregate
            .attempts
            .iter()
            .position(|each| each.id == *attempt)
        {
            let (made, ordinal) = (payment.created_at, count(at)?);
            rows.save(
                schema::referred_by(reference, made, payment.id, ordinal),
                &(),
            )?;
        }
    }
    save_marks(rows, secrets, before, aggregate);
    append_decisions(rows, payment.id, &mut counters, &change.decisions)?;
    append_transitions(rows, payment.id, &mut counters, change)?;
    append_events(rows, payment, &mut counters, change, now)?;
    works::close_about(rows, &change.work_closed, now)?;
    works::open(rows, Some(payment), payment.environment, &change.work, now)?;
    movements::write(rows, &change.movements)?;
    move_due(rows, &mut counters, aggregate);
    if notes::has_row(&before.payment) && !notes::has_row(payment) {
        rows.remove(schema::notes(payment.id));
    }
    let (key, row) = PaymentRow::encode(sealer, payment, counters)?;
    rows.put(key, row);
    Ok(())
}

/// Updates the rows of its search marks.
fn save_marks(
    rows: &mut Rows<'_>,
    secrets: &Secrets,
    before: &PaymentAggregate,
    after: &PaymentAggregate,
) {
    let (old, new) = (secrets.search_marks(before), secrets.search_marks(after));
    let key = |mark: &_| schema::marked(*mark, after.payment.created_at, after.payment.id);
    for gone in old.difference(&new) {
        rows.remove(key(gone));
    }
    for added in new.difference(&old) {
        rows.put(key(added), kassette_engine::IVec::default());
    }
}

fn save_attempts(
    rows: &mut Rows<'_>,
    sealer: &Sealer,
    before: &PaymentAggregate,
    after: &PaymentAggregate,
) -> Result<(), Fault> {
    for (at, attempt) in after.attempts.iter().enumerate() {
        let old = before.attempts.get(at);
        if old != Some(attempt) {
            let (key, row) = encode_attempt(sealer, attempt, count(at)?)?;
            rows.put(key, row);
        }
        if old.is_none() {
            let attempt_key = AttemptKey {
                payment: after.payment.id,
                ordinal: count(at)?,
            };
            let token = TokenHash::hash(attempt.return_token.expose());
            rows.save(schema::attempt_index(attempt.id), &attempt_key)?;
            rows.save(schema::returning(token), &attempt_key)?;
        }
        save_refunds(rows, &after.payment, count(at)?, old, attempt)?;
        let key = schema::in_use(&attempt.account, attempt.id);
        let used = old.is_some_and(|old| old.needs_account(before.payment.settlement));
        match (used, attempt.needs_account(after.payment.settlement)) {
            (false, true) => rows.save(key, &())?,
            (true, false) => rows.remove(key),
            _ => {}
        }
    }
    Ok(())
}

/// Writes the rows that find refunds.
fn save_refunds(
    rows: &mut Rows<'_>,
    payment: &Payment,
    ordinal: u8,
    before: Option<&Attempt>,
    after: &Attempt,
) -> Result<(), Fault> {
    let attempt_key = AttemptKey {
        payment: payment.id,
        ordinal,
    };
    for refund in payment_steps::new_refunds(before, after) {
        rows.save(schema::refund_index(refund.id), &attempt_key)?;
        if let Some(key) = schema::key_of_refund(payment, refund) {
            rows.save(key, &refund.id)?;
        }
    }
    Ok(())
}

/// Maintains one row per payment at its due time. A shared row stays until its time: the claim sees in the
/// payment's counters that the payment no longer uses it.
fn move_due(rows: &mut Rows<'_>, counters: &mut PaymentCounters, aggregate: &PaymentAggregate) {
    let due = aggregate.due_at();
    if due == counters.timer.map(Timer::at) {
        return;
    }
    let key = |at| schema::timer(at, aggregate.payment.id);
    if let Some(Timer::Own(old)) = counters.timer {
        rows.remove(key(old));
    }
    if let Some(new) = due {
        rows.put(key(new), kassette_engine::IVec::default());
    }
    counters.timer = due.map(Timer::Own);
}

/// Appends routing decisions.
pub(crate) fn append_decisions(
    rows: &mut Rows<'_>,
    payment: PaymentId,
    counters: &mut PaymentCounters,
    decisions: &[RoutingDecision],
) -> Result<(), Fault> {
    for (ordinal, decision) in payment_steps::decisions(payment, counters, decisions) {
        rows.save(schema::line(payment, Line::Decision, ordinal), decision)?;
    }
    Ok(())
}

fn append_transitions(
    rows: &mut Rows<'_>,
    payment: PaymentId,
    counters: &mut PaymentCounters,
    change: &Change,
) -> Result<(), Fault> {
    for (ordinal, transition) in payment_steps::transitions(payment, counters, change) {
        rows.save(schema::line(payment, Line::Transition, ordinal), transition)?;
    }
    Ok(())
}

/// Writes events, and queues each for the webhooks that want it.
fn append_events(
    rows: &mut Rows<'_>,
    payment: &Payment,
    counters: &mut PaymentCounters,
    change: &Change,
    now: Time,
) -> Result<(), Fault> {
    for (ordinal, event) in payment_steps::events(payment, counters, change, now)? {
        let row = EventRow::new(&event);
        rows.save(schema::event(payment.id, ordinal), &row)?;
        let of = (payment.merchant, payment.environment);
        let (listed, by_time) = row.listed(of, payment.id, ordinal);
        rows.save(listed, &by_time)?;
        rows.save(schema::event_index(event.id), &by_time)?;
        outbox::fan_out(rows, payment, &event)?;
    }
    Ok(())
}
