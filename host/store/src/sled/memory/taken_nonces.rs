//! Nonces that are taken: all of them in memory, and on disk as one row for each group.
//!
//! A row for each nonce, and another by which it is found when its time has passed, would be
//! four writes of several microseconds for every signed request. So only the writing
//! thread looks for a nonce, in memory; what a group has taken is one row, of 23 bytes a nonce, which
//! is removed as a whole when the last of them is free. Rows stand in the order of that time. They are
//! read back when the store is opened.
//!
//! What is kept of a nonce says [`crate::rows::nonces`].

use std::collections::{BTreeMap, HashMap};

use kassette_domain::id::ResellerId;
use kassette_domain::time::Time;
use kassette_engine::{Db, Span, Written};
use serde::{Deserialize, Serialize};

use crate::rows::{records, schema};
use crate::{Fault, Reserved};

/// Maps that share the nonces between them. One map of a hundred thousand would take milliseconds to
/// grow, and all others wait meanwhile.
const SHARDS: usize = 256;

pub(crate) use crate::rows::nonces::{NonceDigest, OVERTAKEN, mark};

/// Until when nonces are taken, by the first byte of their marks.
struct Marks(Vec<HashMap<NonceDigest, Time>>);

impl Default for Marks {
    fn default() -> Self {
        Self(vec![HashMap::new(); SHARDS])
    }
}

impl Marks {
    fn of(&mut self, mark: &NonceDigest) -> &mut HashMap<NonceDigest, Time> {
        &mut self.0[usize::from(mark[0])]
    }

    fn remove(&mut self, mark: &NonceDigest) {
        let shard = self.of(mark);
        shard.remove(mark);
        if shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.len() * 2);
        }
    }
}

/// A nonce that is taken, as a row holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) reseller: ResellerId,
    pub(crate) mark: NonceDigest,
    pub(crate) until: Time,
}

/// A change that can be taken back.
enum Undo {
    /// A mark was taken; until when it was taken before.
    Taken(Taken, Option<Time>),
    /// A row was removed.
    Swept(Vec<Taken>),
}

/// All nonces that are taken. Some may be over, until their row is removed.
#[derive(Default)]
pub(crate) struct AllTaken {
    until: Marks,
    /// How many rows hold of each reseller.
    of: BTreeMap<ResellerId, usize>,
    /// No row is over before.
    pub(crate) next_end: Option<Time>,
    /// The latest time until which one was taken that is free by now, a row too. Before it the store cannot say
    /// what was taken: a clock that went ahead and came back asks again at times that were over.
    pub(crate) freed: Time,
    /// What the group in the making has taken.
    group: Vec<Taken>,
    /// What the operation under way has changed, latest last.
    undo: Vec<Undo>,
}

impl AllTaken {
    /// Reads all rows.
    pub(crate) fn load(tree: &Db) -> Result<Self, Fault> {
        let freed = tree.get(schema::NONCES_FREED).map_err(Fault::database)?;
        let freed = freed.map(|row| records::decode(schema::NONCES_FREED, &row));
        let mut all = Self {
            freed: freed.transpose()?.unwrap_or_default(),
            ..Self::default()
        };
        for row in Span::prefix(schema::NONCES).of(tree) {
            let (key, row) = row.map_err(Fault::database)?;
            let taken: Vec<Taken> = records::decode(&key, &row)?;
            for each in taken {
                all.insert(each);
            }
            all.note_end(schema::leading_time(&key, schema::NONCES).unwrap_or_default());
        }
        Ok(all)
    }

    fn insert(&mut self, taken: Taken) -> Option<Time> {
        *self.of.entry(taken.reseller).or_default() += 1;
        self.until.of(&taken.mark).insert(taken.mark, taken.until)
    }

    fn remove(&mut self, taken: &Taken) {
        if let Some(count) = self.of.get_mut(&taken.reseller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of.remove(&taken.reseller);
            }
        }
        // It may have been taken again since.
        if self.until.of(&taken.mark).get(&taken.mark) == Some(&taken.until) {
            self.until.remove(&taken.mark);
        }
    }

    fn note_end(&mut self, end: Time) {
        self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
    }

    /// Takes a nonce, where it is free at `now`.
    pub(crate) fn take(&mut self, taken: Taken, at_most: usize, now: Time) -> Reserved {
        let until = self.until.of(&taken.mark).get(&taken.mark);
        if until.is_some_and(|until| now < *until) {
            return Reserved::Used;
        }
        if self.of.get(&taken.reseller).copied().unwrap_or_default() >= at_most {
            let next = self.next_end.unwrap_or(taken.until);
            return Reserved::Full { next };
        }
        let before = self.insert(taken);
        self.undo.push(Undo::Taken(taken, before));
        self.group.push(taken);
        Reserved::Fresh
    }

    /// The time of the first row, where that may be over.
    pub(crate) fn first_end(&self, now: Time) -> Option<Time> {
        self.next_end.filter(|end| *end <= now)
    }

    /// Whether one may be free that was taken until later than `now`.
    pub(crate) fn is_unsure(&self, now: Time) -> bool {
        now.after(OVERTAKEN) < self.freed
    }

    pub(crate) fn sweep(&mut self, taken: Vec<Taken>) {
        for each in &taken {
            self.freed = self.freed.max(each.until);
            self.remove(each);
        }
        self.undo.push(Undo::Swept(taken));
    }

    /// What the operation under way has changed stays.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Takes back what the operation under way has changed.
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Taken(taken, before) => {
                    self.group.pop();
                    self.remove(&taken);
                    if let Some(before) = before {
                        self.until.of(&taken.mark).insert(taken.mark, before);
                    }
                }
                Undo::Swept(taken) => {
                    for each in taken {
                        self.note_end(each.until);
                        *self.of.entry(each.reseller).or_default() += 1;
                        let until = self.until.of(&each.mark).entry(each.mark);
                        until.or_insert(each.until);
                    }
                }
            }
        }
    }

    /// Whether the group in the making has taken any.
    pub(crate) fn has_new(&self) -> bool {
        !self.group.is_empty()
    }

    /// Adds the row of the group in the making, which has this number.
    pub(crate) fn write(&mut self, group: u64, rows: &mut Written) -> Result<(), Fault> {
        let Some(end) = self.group.iter().map(|taken| taken.until).max() else {
            return Ok(());
        };
        let key = schema::nonces(end, group);
        let row = records::encode(&key, &self.group)?;
        rows.insert(key, Some(row));
        self.group.clear();
        self.note_end(end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(number: u8, until: u64) -> Taken {
        Taken {
            reseller: ResellerId(1),
            mark: [number; 16],
            until: Time::from_secs(until),
        }
    }

    #[test]
    fn an_operation_that_fails_leaves_what_was_taken() {
        let now = Time::from_secs(10);
        let mut all = AllTaken::default();
        for number in 0..3 {
            all.take(taken(number, 10 + u64::from(number)), 3, now);
            all.keep();
        }
        all.write(1, &mut Written::new()).unwrap();
        let later = Time::from_secs(11);
        // It frees some, takes one of them again and a new one, and fails.
        all.sweep(vec![taken(0, 10), taken(1, 11)]);
        assert_eq!(all.take(taken(1, 99), 3, later), Reserved::Fresh);
        assert_eq!(all.take(taken(9, 99), 3, later), Reserved::Fresh);
        all.roll_back();
        assert!(!all.has_new());
        assert_eq!(all.of[&ResellerId(1)], 3);
        assert_eq!(all.until.of(&[1; 16])[&[1; 16]], Time::from_secs(11));
        assert_eq!(all.until.of(&[9; 16]).get(&[9; 16]), None);
        assert!(all.first_end(later).is_some());
    }

    #[test]
    fn memory_is_given_back_when_a_flood_is_over() {
        let mut all = AllTaken::default();
        let flood: Vec<Taken> = (0..10_000_u32)
            .map(|number| Taken {
                mark: [number.to_be_bytes(); 4].concat().try_into().unwrap(),
                ..taken(0, 10)
            })
            .collect();
        for each in &flood {
            all.take(*each, flood.len(), Time::default());
        }
        all.keep();
        all.sweep(flood);
        let capacity: usize = all.until.0.iter().map(HashMap::capacity).sum();
        assert!(capacity < 100, "{capacity}");
        assert!(all.of.is_empty());
    }
}
