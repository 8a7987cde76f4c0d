//! What falls due: rows in order of time. Payments that were made together begin with one row for
//! all of them; each has one of its own as soon as its time changes.

use std::sync::Arc;
use std::time::Duration;

use ::sled::IVec;
use kassette_domain::id::PaymentId;
use kassette_domain::ledger::Change;
use kassette_domain::time::Time;

use super::applier::Operation;
use super::keys::{self, Key};
use super::ledgers::{self, Loaded};
use super::rows::{Rows, Source, Span};
use super::stored::{Due, PaymentRow};
use super::{Secrets, parking};
use crate::Fault;

/// Most payments that one claim takes: the applier does nothing else meanwhile.
const MAX_CLAIM: usize = 256;
/// Payments that a claim looks at before it is content with what it has. Of those that were made
/// together long ago most are paid by now.
const ENOUGH_LOOKS: usize = 1024;
/// Payments that it looks at where it has found none: a tenth of a second.
const MAX_LOOKS: usize = 32_768;
/// Rows that are read at once.
const CHUNK: usize = 64;

/// Takes payments with something due.
pub(super) struct ClaimDue {
    pub(super) now: Time,
    pub(super) lease: Duration,
    pub(super) at_most: usize,
    pub(super) secrets: Arc<Secrets>,
}

/// A claim under way.
struct Claim<'c, 'r> {
    rows: &'c mut Rows<'r>,
    op: &'c ClaimDue,
    claimed: Vec<PaymentId>,
    looks: usize,
}

impl Operation for ClaimDue {
    type Outcome = Vec<PaymentId>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        parking::sweep(rows, self.now)?;
        let mut claim = Claim {
            rows,
            op: &self,
            claimed: Vec::new(),
            looks: 0,
        };
        while !claim.is_full() {
            // What was looked at is removed, so the next begin where these ended.
            let found = claim.rows.scan(&Span::prefix(keys::DUE), CHUNK)?;
            let time_of = |row: &(Key, IVec)| keys::leading_time(&row.0, keys::DUE);
            let mut none_due = found.is_empty();
            let times: Vec<_> = found.iter().map(time_of).collect();
            for (at, (key, _)) in found.into_iter().enumerate() {
                let due = times[at];
                if due.is_none_or(|due| self.now < due) {
                    none_due = true;
                    break;
                }
                // Where it is not known what comes after a row, nothing of it but the earliest is sure
                // to be next.
                let next = match times.get(at + 1) {
                    Some(next) => *next,
                    None if times.len() < CHUNK => None,
                    None => due,
                };
                let together = matches!(keys::due_about(&key), Some(keys::Due::Together { .. }));
                if !claim.row(key, due, next)? {
                    return Ok(claim.claimed);
                }
                if together {
                    // Its payments may stand between the rows that were read.
                    break;
                }
            }
            if none_due {
                break;
            }
        }
        Ok(claim.claimed)
    }
}

impl Claim<'_, '_> {
    fn is_full(&self) -> bool {
        let limit = self.op.at_most.min(MAX_CLAIM);
        self.claimed.len() >= limit
            || self.looks >= MAX_LOOKS
            || (self.looks >= ENOUGH_LOOKS && !self.claimed.is_empty())
    }

    fn later(&self) -> Time {
        self.op.now.after(self.op.lease)
    }

    /// Claims what a row is about and removes it; says whether it could be removed. `next` is the time
    /// of the row after it.
    fn row(&mut self, key: Key, due: Option<Time>, next: Option<Time>) -> Result<bool, Fault> {
        match keys::due_about(&key) {
            Some(keys::Due::One(id)) => {
                // One that was claimed just now stands here again where the lease has no length.
                if self.is_full() || self.claimed.contains(&id) {
                    return Ok(false);
                }
                self.looks += 1;
                self.rows.remove(key);
                self.one(id, due)?;
            }
            Some(keys::Due::Together { first, count }) => {
                let mut members = Vec::new();
                let mut are_known = true;
                for id in self.rows.at_places(first, count)? {
                    self.looks += 1;
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
                }
                self.rows.remove(key);
                if !are_known {
                    // Damage must not keep the others waiting for ever; the row may be repaired.
                    let later = keys::due_together(self.later(), first, count);
                    self.rows.put(later, IVec::default());
                }
            }
            None => return Err(super::records::damaged(&key, "it is about nothing")),
        }
        Ok(true)
    }

    /// A payment with a row of its own, which is removed by now.
    fn one(&mut self, id: PaymentId, due: Option<Time>) -> Result<(), Fault> {
        let Some(mut loaded) = self.loaded(id)? else {
            return Ok(());
        };
        if loaded.books.due != due.map(Due::Own) {
            // Put off while the payment did not read back: from here on it has one row again.
            if let Some(Due::Own(old)) = loaded.books.due.take() {
                self.rows.remove(keys::due(old, id));
            }
        }
        self.claim(loaded)
    }

    /// When a payment that was made with others is due, if nothing has happened since.
    fn due_with_others(&mut self, id: PaymentId) -> Result<Option<Time>, Fault> {
        match PaymentRow::expect(self.rows, id).map(|row| row.books.due) {
            Ok(Some(Due::Together(at))) => Ok(Some(at)),
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
        loaded.books.due = Some(Due::Own(at));
        self.rows.put(keys::due(at, id), IVec::default());
        let sealer = &self.op.secrets.sealer;
        let (key, row) = PaymentRow::encode(sealer, &loaded.ledger.payment, loaded.books)?;
        self.rows.put(key, row);
        Ok(())
    }

    /// Claims a payment whose row is removed by now.
    fn claim(&mut self, loaded: Loaded) -> Result<(), Fault> {
        let id = loaded.ledger.payment.id;
        let before = loaded.ledger.clone();
        let mut after = loaded;
        after.books.due = None;
        after.ledger.payment.claimed_until = Some(self.later());
        let (sealer, now) = (&self.op.secrets.sealer, self.op.now);
        ledgers::save(self.rows, sealer, &before, &after, &Change::default(), now)?;
        self.claimed.push(id);
        Ok(())
    }

    /// Loads a payment; none where it is damaged.
    fn loaded(&mut self, id: PaymentId) -> Result<Option<Loaded>, Fault> {
        match ledgers::load_promised(self.rows, &self.op.secrets.sealer, id) {
            Ok(loaded) => Ok(Some(loaded)),
            Err(Fault::Corrupt(_)) => self.put_off(id).map(|()| None),
            Err(fault) => Err(fault),
        }
    }

    /// One damaged payment must not keep the others waiting for ever.
    fn put_off(&mut self, id: PaymentId) -> Result<(), Fault> {
        self.rows.put(keys::due(self.later(), id), IVec::default());
        Ok(())
    }
}

/// When the next payment is due. Where very many that were made together are paid by now it may say
/// a time before that: whoever claims then clears them away.
pub(super) fn next(source: &impl Source) -> Result<Option<Time>, Fault> {
    let mut span = Span::prefix(keys::DUE);
    let mut looks = 0;
    // The earliest of those whose row was made before their time.
    let mut earliest: Option<Time> = None;
    loop {
        let found = source.scan(&span, 1)?;
        let row = found.first().map(|(key, _)| key);
        let at = row.and_then(|key| keys::leading_time(key, keys::DUE));
        let (Some(key), Some(at)) = (row, at) else {
            return Ok(earliest);
        };
        let about = keys::due_about(key);
        let Some(keys::Due::Together { first, count }) = about else {
            return Ok(Some(earliest.map_or(at, |due| due.min(at))));
        };
        if looks >= ENOUGH_LOOKS || earliest.is_some_and(|due| due <= at) {
            return Ok(Some(earliest.map_or(at, |due| due.min(at))));
        }
        for id in source.at_places(first, count)? {
            looks += 1;
            // Whoever claims puts it off.
            let Some(id) = id else { return Ok(Some(at)) };
            match PaymentRow::expect(source, id).map(|row| row.books.due) {
                Ok(Some(Due::Together(due))) => {
                    earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
                }
                Ok(_) => {}
                // Whoever claims finds out.
                Err(Fault::Corrupt(_)) => return Ok(Some(at)),
                Err(fault) => return Err(fault),
            }
        }
        span = span.after(key);
    }
}
