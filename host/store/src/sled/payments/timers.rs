//! Timers: rows in order of the time when something is due. Payments that were made together begin with one
//! row for all of them; each has one of its own as soon as its time changes.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::Change;
use kassette_domain::time::Time;
use kassette_engine::{IVec, Operation, Span};

use crate::Fault;
use crate::rows::schema::{self, Key, Position};
use crate::rows::seal::Secrets;
use crate::rows::stored::{PaymentRow, Timer};
use crate::sled::memory::{Memory, Rows, View, payment_index_rows};
use crate::sled::payments::aggregates::{self, Loaded};

/// Most payments that were made together, of whose row one look is taken.
const TOGETHER: u16 = 256;
/// Most rows that one operation removes without a look at their payments.
const MOST_SETTLED: usize = 128;
/// How soon what is damaged is looked at again, at least.
const PUT_OFF: Duration = Duration::from_secs(1);

/// Takes payments with something due, as many as one operation may.
pub(crate) struct ClaimDue {
    pub(crate) now: Time,
    pub(crate) lease: Duration,
    pub(crate) at_most: usize,
    /// Nothing that is due before is looked at.
    pub(crate) from: Time,
    /// What the operations before have claimed.
    pub(crate) claimed: Vec<PaymentId>,
    /// Rows that claim nothing, which are removed first.
    pub(crate) settled: Vec<Key>,
    pub(crate) secrets: Arc<Secrets>,
}

/// What a claim has come to.
pub(crate) struct Claiming {
    /// What is claimed by now.
    pub(crate) claimed: Vec<PaymentId>,
    /// From where on the next operation looks; none where nothing is left to claim.
    pub(crate) rest: Option<Time>,
}

/// A claim under way.
struct DueClaim<'c, 'r> {
    rows: &'c mut Rows<'r>,
    op: &'c ClaimDue,
    claimed: Vec<PaymentId>,
    /// Whether a payment has had its turn, so that each operation comes further.
    moved: bool,
}

impl Operation<Memory> for ClaimDue {
    type Outcome = Claiming;

    fn apply(mut self, rows: &mut Rows<'_>) -> Result<Claiming, Fault> {
        let claimed = std::mem::take(&mut self.claimed);
        let settled = std::mem::take(&mut self.settled);
        let (moved, more) = (!settled.is_empty(), settled.len() >= MOST_SETTLED);
        let last = settled
            .last()
            .and_then(|key| schema::leading_time(key, schema::TIMERS));
        for key in settled {
            rows.remove(key);
        }
        if more {
            // The reading thread has not come to a row yet that may claim one.
            let rest = Some(last.unwrap_or(self.from));
            return Ok(Claiming { claimed, rest });
        }
        let mut claim = DueClaim {
            rows,
            op: &self,
            claimed,
            moved,
        };
        let mut from = self.from;
        loop {
            // Those before are removed, but for as long as an epoch of the log lasts their places are
            // passed by.
            let span = Span::prefix(schema::TIMERS).since(&schema::timers_since(from));
            let found = claim.rows.scan(&span, 2)?;
            let time_of = |(key, _): &(Key, IVec)| schema::leading_time(key, schema::TIMERS);
            let next = found.get(1).and_then(time_of);
            let first = found.into_iter().next().map(|(key, _)| key);
            let due = first.map(|key| {
                (
                    schema::leading_time(&key, schema::TIMERS).unwrap_or_default(),
                    key,
                )
            });
            let Some((due, key)) = due.filter(|(due, _)| *due <= self.now) else {
                let claimed = claim.claimed;
                return Ok(Claiming {
                    claimed,
                    rest: None,
                });
            };
            from = due;
            if claim.is_full() || !claim.row(key, due, next)? {
                let rest = (claim.claimed.len() < self.at_most).then_some(from);
                let claimed = claim.claimed;
                return Ok(Claiming { claimed, rest });
            }
        }
    }
}

impl DueClaim<'_, '_> {
    fn is_full(&self) -> bool {
        self.claimed.len() >= self.op.at_most || (self.moved && self.rows.is_enough())
    }

    fn later(&self) -> Time {
        self.op.now.after(self.op.lease)
    }

    /// When what is damaged is looked at again: later than now, or it would be found again and again.
    fn much_later(&self) -> Time {
        self.op.now.after(self.op.lease.max(PUT_OFF))
    }

    /// Claims what a row is about and removes it; says whether it could be removed. `next` is the time
    /// of the row after it.
    fn row(&mut self, key: Key, due: Time, next: Option<Time>) -> Result<bool, Fault> {
        match schema::timer_about(&key) {
            Some(schema::TimerOf::One(id)) => {
                // One that was claimed just now stands here again where the lease has no length.
                if self.claimed.contains(&id) {
                    return Ok(false);
                }
                self.rows.remove(key);
                self.one(id, due)?;
            }
            Some(schema::TimerOf::Shared { first, count }) => {
                let looked = count.min(TOGETHER);
                if !self.members(first, looked, next)? {
                    return Ok(false);
                }
                self.rows.remove(key);
                if count > looked {
                    let first = first.saturating_add(looked.into());
                    let rest = schema::shared_timer(due, first, count - looked);
                    self.rows.put(rest, IVec::default());
                }
            }
            None => {
                // No payment waits for its end, but all claims would wait for it if it stayed.
                crate::rows::records::damaged(&key, "it is about nothing");
                self.rows.remove(key);
            }
        }
        self.moved = true;
        Ok(true)
    }

    /// Claims payments that were made together; says whether all of them had their turn.
    fn members(&mut self, first: Position, count: u16, next: Option<Time>) -> Result<bool, Fault> {
        let mut members = Vec::new();
        let mut are_known = true;
        for id in payment_index_rows::at_positions(self.rows, first, count)? {
            let Some(id) = id else {
                are_known = false;
                continue;
            };
            if let Some(at) = self.due_with_others(id)? {
                members.push((at, id));
            }
        }
        members.sort_unstable_by_key(|(at, _)| *at);
        for (at, id) in members {
            if self.is_full() {
                return Ok(false);
            }
            let comes_first = next.is_none_or(|next| at <= next);
            self.together(id, at, comes_first && at <= self.op.now)?;
            self.moved = true;
        }
        if !are_known {
            // Damage must not keep the others waiting for ever; the row may be repaired.
            let later = schema::shared_timer(self.much_later(), first, count);
            self.rows.put(later, IVec::default());
        }
        Ok(true)
    }

    /// A payment with a row of its own, which is removed by now.
    fn one(&mut self, id: PaymentId, due: Time) -> Result<(), Fault> {
        let Some(mut loaded) = self.loaded(id)? else {
            return Ok(());
        };
        if loaded.books.timer != Some(Timer::Own(due)) {
            // Put off while the payment did not read back: from here on it has one row again.
            if let Some(Timer::Own(old)) = loaded.books.timer.take() {
                self.rows.remove(schema::timer(old, id));
            }
        }
        self.claim(loaded)
    }

    /// When a payment that was made with others is due, if nothing has happened since.
    fn due_with_others(&mut self, id: PaymentId) -> Result<Option<Time>, Fault> {
        match PaymentRow::expect(self.rows, id).map(|row| row.books.timer) {
            Ok(Some(Timer::Shared(at))) => Ok(Some(at)),
            Ok(_) => Ok(None),
            Err(Fault::Corrupt(_)) => self.put_off(id).map(|()| None),
            Err(fault) => Err(fault),
        }
    }

    /// Claims a payment that was made with others, or gives it a row of its own.
    fn together(&mut self, id: PaymentId, at: Time, claim: bool) -> Result<(), Fault> {
        let Some(mut loaded) = self.loaded(id)? else {
            return Ok(());
        };
        if claim {
            return self.claim(loaded);
        }
        loaded.books.timer = Some(Timer::Own(at));
        self.rows.put(schema::timer(at, id), IVec::default());
        let sealer = &self.op.secrets.sealer;
        let (key, row) = PaymentRow::encode(sealer, &loaded.aggregate.payment, loaded.books)?;
        self.rows.put(key, row);
        Ok(())
    }

    /// Claims a payment whose row is removed by now.
    fn claim(&mut self, loaded: Loaded) -> Result<(), Fault> {
        let id = loaded.aggregate.payment.id;
        let before = loaded.aggregate.clone();
        let mut after = loaded;
        after.books.timer = None;
        after.aggregate.payment.claimed_until = Some(self.later());
        let (sealer, now) = (&self.op.secrets.sealer, self.op.now);
        aggregates::save(self.rows, sealer, &before, &after, &Change::default(), now)?;
        self.claimed.push(id);
        Ok(())
    }

    /// Loads a payment; none where it is damaged.
    fn loaded(&mut self, id: PaymentId) -> Result<Option<Loaded>, Fault> {
        match aggregates::load_promised(self.rows, &self.op.secrets.sealer, id) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Fault::Corrupt(_)) => self.put_off(id).map(|()| None),
            Err(fault) => Err(fault),
        }
    }

    /// One damaged payment must not keep the others waiting for ever.
    fn put_off(&mut self, id: PaymentId) -> Result<(), Fault> {
        let later = schema::timer(self.much_later(), id);
        self.rows.put(later, IVec::default());
        Ok(())
    }
}

/// Finds rows of payments made together that none of these payments uses any more. The search ends before the
/// first row that one of them may still use. A reading thread searches, so that the writing thread need not: what
/// it finds stays true, because a payment never returns to such a row.
pub(crate) struct Settled {
    rest: Span,
    now: Time,
    found: Vec<Key>,
    /// The row that is looked at, and those of its payments that are still to be looked at.
    row: Option<(Key, Vec<PaymentId>)>,
}

impl Settled {
    pub(crate) fn new(from: Time, now: Time) -> Self {
        Self {
            rest: Span::prefix(schema::TIMERS).since(&schema::timers_since(from)),
            now,
            found: Vec::new(),
            row: None,
        }
    }

    /// Looks at some more; breaks with the rows, first to last.
    pub(crate) fn go_on(&mut self, view: &View<'_>) -> Result<ControlFlow<Vec<Key>>, Fault> {
        while !view.is_enough() {
            if !self.look(view)? {
                return Ok(ControlFlow::Break(std::mem::take(&mut self.found)));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Looks at one payment, or for the next row; says whether there may be more.
    fn look(&mut self, view: &View<'_>) -> Result<bool, Fault> {
        let Some((key, members)) = &mut self.row else {
            self.row = self.next(view)?;
            return Ok(self.row.is_some());
        };
        if let Some(id) = members.pop() {
            return match PaymentRow::expect(view, id).map(|row| row.books.timer) {
                // The operation puts off what is damaged.
                Ok(Some(Timer::Shared(_))) | Err(Fault::Corrupt(_)) => Ok(false),
                Ok(_) => Ok(true),
                Err(fault) => Err(fault),
            };
        }
        self.rest = self.rest.clone().after(key);
        self.found.push(key.clone());
        self.row = None;
        Ok(self.found.len() < MOST_SETTLED)
    }

    /// The next row, where it is one of payments made together, due, and all of them are known.
    fn next(&self, view: &View<'_>) -> Result<Option<(Key, Vec<PaymentId>)>, Fault> {
        let found = view.scan(&self.rest, 1)?;
        let Some((key, _)) = found.into_iter().next() else {
            return Ok(None);
        };
        let is_due = schema::leading_time(&key, schema::TIMERS).is_some_and(|due| due <= self.now);
        match schema::timer_about(&key) {
            Some(schema::TimerOf::Shared { first, count }) if is_due && count <= TOGETHER => {
                let members: Option<Vec<_>> = payment_index_rows::at_positions(view, first, count)?
                    .into_iter()
                    .collect();
                Ok(members.map(|members| (key, members)))
            }
            _ => Ok(None),
        }
    }
}

/// Looks for when the next payment is due. Where very many that were made together are paid by now it may
/// say a time before that: the claim clears them away.
pub(crate) struct NextDue {
    rest: Span,
    looks: usize,
    /// The earliest of those whose row was made before their time.
    earliest: Option<Time>,
    /// The time of the row that is looked at, and those of its payments that are still to be looked at.
    row: Option<(Time, Vec<Option<PaymentId>>)>,
}

impl Default for NextDue {
    fn default() -> Self {
        Self {
            rest: Span::prefix(schema::TIMERS),
            looks: 0,
            earliest: None,
            row: None,
        }
    }
}

impl NextDue {
    /// Looks at some more; breaks with the time.
    pub(crate) fn go_on(&mut self, view: &View<'_>) -> Result<ControlFlow<Option<Time>>, Fault> {
        while !view.is_enough() {
            let looked = self.look(view)?;
            if looked.is_break() {
                return Ok(looked);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Looks at one payment, or for the next row.
    fn look(&mut self, view: &View<'_>) -> Result<ControlFlow<Option<Time>>, Fault> {
        let Some((at, members)) = &mut self.row else {
            return self.next(view);
        };
        match members.pop().map(|id| (*at, id)) {
            None => self.row = None,
            // The claim puts it off.
            Some((at, None)) => return Ok(ControlFlow::Break(Some(at))),
            Some((at, Some(id))) => match PaymentRow::expect(view, id).map(|row| row.books.timer) {
                Ok(Some(Timer::Shared(due))) => self.earliest = self.or_earlier(due),
                Ok(_) => {}
                // The claim finds out.
                Err(Fault::Corrupt(_)) => return Ok(ControlFlow::Break(Some(at))),
                Err(fault) => return Err(fault),
            },
        }
        Ok(ControlFlow::Continue(()))
    }

    fn next(&mut self, view: &View<'_>) -> Result<ControlFlow<Option<Time>>, Fault> {
        let found = view.scan(&self.rest, 1)?;
        let row = found.first().map(|(key, _)| key);
        let at = row.and_then(|key| schema::leading_time(key, schema::TIMERS));
        let (Some(key), Some(at)) = (row, at) else {
            return Ok(ControlFlow::Break(self.earliest));
        };
        let is_known = self.looks >= usize::from(TOGETHER)
            || self.earliest.is_some_and(|earliest| earliest <= at);
        match schema::timer_about(key) {
            Some(schema::TimerOf::Shared { first, count }) if !is_known => {
                let members = payment_index_rows::at_positions(view, first, count.min(TOGETHER))?;
                self.looks += members.len();
                self.row = Some((at, members));
                self.rest = self.rest.clone().after(key);
                Ok(ControlFlow::Continue(()))
            }
            _ => Ok(ControlFlow::Break(self.or_earlier(at))),
        }
    }

    fn or_earlier(&self, at: Time) -> Option<Time> {
        Some(self.earliest.map_or(at, |earliest| earliest.min(at)))
    }
}
