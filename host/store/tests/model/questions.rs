//! Laws of when a vendor is asked. The times themselves are the product's own.

use std::time::Duration;

use kassette_domain::attempt::{Attempt as Found, AttemptState};
use kassette_domain::lifecycle::{Act, PaymentAggregate, Query, Step};
use kassette_domain::payment::{DecisionState, Settlement, Status};
use kassette_domain::time::Time;

use crate::attempt::Attempt;
use crate::law::{
    BEFORE_END, BELIEVED_AFTER, DAY, DAYS, FIRST_MINUTES, is_open, is_under_way, leaves_open,
};
use crate::payment::Payment;
use crate::shop::Product;
use crate::verdict::{Verdict, ensure};

/// The longest pause after a question in vain; once it was asked so for long, a day.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Tries in vain after which a day is long enough.
const LONG: u8 = 150;

/// What the product says of an attempt's questions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Questions {
    pub(crate) next: Option<Time>,
    /// What they, and repeats of a start, count from.
    pub(crate) from: Time,
    /// Until when a capture or a close is not tried again.
    pub(crate) hold: Option<Time>,
    /// How many of the schedule were asked; all of them where `Attempt::exhausted` says so.
    number: u8,
}

impl Questions {
    pub(crate) fn of(attempt: &Found) -> Self {
        Self {
            next: attempt.next_query,
            from: attempt.watched_from,
            hold: attempt.hold_until,
            number: attempt.queries,
        }
    }
}

/// When questions of the schedule are asked, each at the earliest; they may come a tenth later.
fn turns(from: Time, end: Option<Time>) -> Vec<Time> {
    let first = FIRST_MINUTES.map(|minutes| from.after(Duration::from_secs(60 * minutes)));
    let last = end.map(|end| end.before(BEFORE_END));
    let mut turns: Vec<Time> = first.to_vec();
    turns.extend(last.filter(|last| *last > from));
    turns.sort();
    turns.extend((1..=DAYS).map(|day| from.after(DAY * day.into())));
    turns
}

/// What holds of the questions after any step.
pub(crate) fn laws(before: &Payment, product: Product<'_>, step: &Step, now: Time) -> Verdict {
    let after = product.aggregate;
    let decides = matches!(step, Step::Act(Act::Review(_))) && product.change.dirty;
    let decision = after.payment.decision.as_deref();
    let begins = decides && decision.is_some_and(|it| it.state == DecisionState::Waiting);
    for found in &after.attempts {
        let known = before.attempts.iter().find(|each| each.id == found.id);
        let was = known.map(|known| known.questions).unwrap_or_default();
        let is = Questions::of(found);
        let context = |what: &str| format!("{what}: {found:?} after {was:?}");
        ensure(is_counted_in_time(found, was, now), || {
            context("a question was counted before its time")
        })?;
        let unsaid = is_waiting(found, after) && is.next.is_none() && !found.is_exhausted();
        ensure(!unsaid, || context("the vendor is asked no more"))?;
        let latest = latest(found, now);
        let asked = asked_at(step, found);
        let moved = is.next != was.next && asked.is_none();
        ensure(!moved || is.next.is_none_or(|next| next <= latest), || {
            context("the vendor is asked late")
        })?;
        let held = is.hold != was.hold && is.hold.is_some_and(|hold| hold > latest);
        ensure(!held, || {
            context("a capture or close is held back for long")
        })?;
        ensure(!begins || is.hold.is_none(), || {
            context("a decision is not tried at once")
        })?;
        let approved = found.state == AttemptState::Processing
            && known.is_some_and(|known| known.state != found.state)
            && is_under_way(after.payment.status);
        ensure(!approved || is.hold.is_none(), || {
            context("an approval is not captured at once")
        })?;
        let sooner = asked
            .into_iter()
            .chain(known.and_then(|known| still_asked(step, known)));
        for at in sooner {
            ensure(is.next.is_some_and(|next| next <= at), || {
                context("a notice was forgotten")
            })?;
        }
    }
    Ok(())
}

/// One more question is counted only when its time has come.
fn is_counted_in_time(found: &Found, was: Questions, now: Time) -> bool {
    // One that has ended here and is not known there is asked about no more.
    let unknown = found.is_exhausted() && !is_open(found.state);
    if found.queries <= was.number || unknown {
        return true;
    }
    // Whether its life had ended when it was counted does not matter.
    [None, Some(found.expires_at)].into_iter().any(|end| {
        let turns = turns(found.watched_from, end);
        let last = usize::from(found.queries).min(turns.len());
        turns[last - 1] <= now
    })
}

/// Whether the vendor's word is waited for.
fn is_waiting(found: &Found, after: &PaymentAggregate) -> bool {
    let payment = &after.payment;
    match found.state {
        AttemptState::Surplus => false,
        AttemptState::Captured => {
            (payment.status, payment.settlement) == (Status::Completed, Settlement::Pending)
        }
        state => {
            let said = found.vendor.as_ref().map(|facts| facts.status);
            is_open(state) || said.is_some_and(leaves_open)
        }
    }
}

/// How late the next question may be, where it is not the one before.
fn latest(found: &Found, now: Time) -> Time {
    let end = Some(found.expires_at).filter(|_| is_open(found.state));
    let turn = turns(found.watched_from, end)
        .get(usize::from(found.queries))
        .map_or(now, |turn| turn.after(turn.since(found.watched_from) / 10));
    let pause = now.after(if found.retries > LONG {
        DAY
    } else {
        LONGEST_PAUSE
    });
    turn.max(pause).max(found.last_sent.after(BELIEVED_AFTER))
}

/// When the step has the vendor asked, where it is a notice about the attempt.
fn asked_at(step: &Step, found: &Found) -> Option<Time> {
    match step {
        Step::AskAt { attempt, at } if *attempt == found.id => Some(*at),
        _ => None,
    }
}

/// What was asked for by a notice that came after the question which the step answers: it still is.
fn still_asked(step: &Step, known: &Attempt) -> Option<Time> {
    let Step::Report { attempt, asked, .. } = step else {
        return None;
    };
    let answered = asked.is_some_and(|asked: Query| asked.notices == known.notices);
    let stands = *attempt == known.id && known.noticed && !answered;
    known.questions.next.filter(|_| stands)
}
