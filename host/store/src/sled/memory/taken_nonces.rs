//! Nonces in use: all of them in memory, and on disk as one row per group.
//!
//! A row for each nonce, and another to find it when it expires, would be four writes of several microseconds
//! per signed request. Therefore only the writing thread searches for a nonce, in memory. The nonces of a
//! group form one row, with 23 bytes per nonce, which is removed as a whole when the last of them has
//! expired. Rows are ordered by that time. They are read when the store is opened.
//!
//! See [`crate::rows::nonces`] for the stored data of a nonce.

use std::collections::{BTreeMap, HashMap};

use kassette_domain::id::ResellerId;
use kassette_domain::time::Time;
use kassette_engine::{Db, Span, Written};
use serde::{Deserialize, Serialize};

use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{Fault, Reserved};

/// Number of maps that share the nonces. A single map of a hundred thousand would block all requests for
/// milliseconds when it grows.
const SHARDS: usize = 256;

pub(crate) use crate::rows::nonces::{NonceDigest, OVERTAKEN, mark};

/// Expiry times of nonces, by the first byte of their marks.
struct Marks(Vec<HashMap<NonceDigest, Time>>);

impl Default for Marks {
    fn default() -> Self {
        Self(vec![HashMap::new(); SHARDS])
    }
}

impl Marks {
    fn shard(&mut self, mark: &NonceDigest) -> &mut HashMap<NonceDigest, Time> {
        &mut self.0[usize::from(mark[0])]
    }

    fn remove(&mut self, mark: &NonceDigest) {
        let shard = self.shard(mark);
        shard.remove(mark);
        if shard.len() < shard.capacity() / 8 {
            shard.shrink_to(shard.len() * 2);
        }
    }
}

/// A nonce in use, as stored in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) reseller: ResellerId,
    pub(crate) mark: NonceDigest,
    pub(crate) until: Time,
}

/// A change that can be undone.
enum Undo {
    /// A mark was added. Contains its previous expiry time, if it had one.
    Taken(Taken, Option<Time>),
    /// A row was removed.
    Swept(Vec<Taken>),
}

/// All nonces in use. Some may have expired, until their row is removed.
#[derive(Default)]
pub(crate) struct AllTaken {
    until: Marks,
    /// Number of stored nonces of each reseller.
    of: BTreeMap<ResellerId, usize>,
    /// Earliest time at which a row expires.
    pub(crate) next_end: Option<Time>,
    /// Latest expiry time of all removed nonces; also stored as a row. For times before it the store does not
    /// know which nonces were used: a clock that was ahead and was set back may ask about them again.
    pub(crate) freed: Time,
    /// Nonces of the current group.
    group: Vec<Taken>,
    /// Changes of the current operation, latest last.
    undo: Vec<Undo>,
}

impl AllTaken {
    /// Reads all rows.
    pub(crate) fn load(tree: &Db, sealer: &Sealer) -> Result<Self, Fault> {
        let freed = tree.get(schema::NONCES_FREED).map_err(Fault::database)?;
        let freed = freed.map(|row| records::decode(sealer, schema::NONCES_FREED, &row));
        let mut all = Self {
            freed: freed.transpose()?.unwrap_or_default(),
            ..Self::default()
        };
        for row in Span::prefix(schema::NONCES).iter(tree) {
            let (key, row) = row.map_err(Fault::database)?;
            let taken: Vec<Taken> = records::decode(sealer, &key, &row)?;
            for each in taken {
                all.insert(each);
            }
            all.note_end(schema::leading_time(&key, schema::NONCES).unwrap_or_default());
        }
        Ok(all)
    }

    fn insert(&mut self, taken: Taken) -> Option<Time> {
        *self.of.entry(taken.reseller).or_default() += 1;
        self.until
            .shard(&taken.mark)
            .insert(taken.mark, taken.until)
    }

    fn remove(&mut self, taken: &Taken) {
        if let Some(count) = self.of.get_mut(&taken.reseller) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.of.remove(&taken.reseller);
            }
        }
        // The nonce may have been used again since.
        if self.until.shard(&taken.mark).get(&taken.mark) == Some(&taken.until) {
            self.until.remove(&taken.mark);
        }
    }

    fn note_end(&mut self, end: Time) {
        self.next_end = Some(self.next_end.map_or(end, |next| next.min(end)));
    }

    /// Reserves a nonce if it is free at `now`.
    pub(crate) fn take(&mut self, taken: Taken, at_most: usize, now: Time) -> Reserved {
        let until = self.until.shard(&taken.mark).get(&taken.mark);
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

    /// Time of the first row, if it may have expired.
    pub(crate) fn first_end(&self, now: Time) -> Option<Time> {
        self.next_end.filter(|end| *end <= now)
    }

    /// Whether a nonce that expires after `now` may have been removed.
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

    /// Makes the changes of the current operation permanent.
    pub(crate) fn keep(&mut self) {
        self.undo.clear();
    }

    /// Undoes the changes of the current operation.
    pub(crate) fn roll_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Taken(taken, before) => {
                    self.group.pop();
                    self.remove(&taken);
                    if let Some(before) = before {
                        self.until.shard(&taken.mark).insert(taken.mark, before);
                    }
                }
                Undo::Swept(taken) => {
                    for each in taken {
                        self.note_end(each.until);
                        *self.of.entry(each.reseller).or_default() += 1;
                        let until = self.until.shard(&each.mark).entry(each.mark);
                        until.or_insert(each.until);
                    }
                }
            }
        }
    }

    /// Whether the current group has used any nonces.
    pub(crate) fn has_new(&self) -> bool {
        !self.group.is_empty()
    }

    /// Adds the row of the current group, which has this number.
    pub(crate) fn write(
        &mut self,
        sealer: &Sealer,
        group: u64,
        rows: &mut Written,
    ) -> Result<(), Fault> {
        let Some(end) = self.group.iter().map(|taken| taken.until).max() else {
            return Ok(());
        };
        let key = schema::nonces(end, group);
        let row = records::encode(sealer, &key, &self.group)?;
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
        let sealer = Sealer::new(&crate::MasterKey::from_bytes([7; 32]));
        all.write(&sealer, 1, &mut Written::new()).unwrap();
        let later = Time::from_secs(11);
        // Frees some, reserves one of them again and a new one, and fails.
        all.sweep(vec![taken(0, 10), taken(1, 11)]);
        assert_eq!(all.take(taken(1, 99), 3, later), Reserved::Fresh);
        assert_eq!(all.take(taken(9, 99), 3, later), Reserved::Fresh);
        all.roll_back();
        assert!(!all.has_new());
        assert_eq!(all.of[&ResellerId(1)], 3);
        assert_eq!(all.until.shard(&[1; 16])[&[1; 16]], Time::from_secs(11));
        assert_eq!(all.until.shard(&[9; 16]).get(&[9; 16]), None);
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
