//! What a node knows of itself and the others from its beats: whether it may serve, what it may remember, and what
//! part of a limit is its own. Pure: times and answers come in, what to do next comes out.
//!
//! A beat tells which version of the directory this node has adopted, and its answer says which one is there. The
//! order is what revocations rest on: what was remembered is dropped first, and only the next beat tells so. A change
//! waits until every node has told that it adopted it, or until the longest time has passed for which a beat from
//! before the change is good.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::NodeShare;

/// Between two beats.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// For how long a beat is good, from before it was sent.
pub(crate) const LAPSE: Duration = Duration::from_millis(1350);
/// How long a change of the directory waits for nodes that say nothing, and a node at a server that was promoted for
/// those that still read the one before: longer than a beat is good.
pub(crate) const PATIENCE: Duration = Duration::from_millis(1500);
/// The row of a node is removed that was not renewed for so long: longer than a beat is good, so that the node
/// serves nothing by then.
pub(crate) const GONE: Duration = Duration::from_secs(3);

/// A moment by both clocks: the monotonic one stands still in a suspended machine, the wall clock can be set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    monotonic: Duration,
    wall: Duration,
}

impl Moment {
    /// The monotonic time is counted from `start`.
    pub(crate) fn now(start: Instant) -> Self {
        Self {
            monotonic: start.elapsed(),
            wall: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default(),
        }
    }

    /// Whether less than a time has passed since an earlier moment, by both clocks. One that was set back says
    /// nothing.
    fn is_within(self, time: Duration, since: Self) -> bool {
        let passed = self.monotonic.saturating_sub(since.monotonic);
        passed < time && self.wall.saturating_sub(since.wall) < time
    }
}

/// The version of the directory. The epoch is another where versions may have been lost.
pub(crate) type Version = (i64, i64);

/// A node's row, as a beat has found it.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) incarnation: i64,
    /// When it was last renewed by the database's clock; only compared for being the same.
    pub(crate) beat: SystemTime,
    /// Requests in 1,000 seconds.
    pub(crate) demand: i64,
}

/// When the next beat is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Now: others may wait to hear what was adopted.
    AtOnce,
    /// [`BEAT`] after the last one.
    InTime,
}

/// A node's knowledge.
#[derive(Debug)]
pub(crate) struct Membership {
    lapse: Duration,
    /// What is remembered is remembered under this number.
    number: u64,
    /// What the node has adopted since its connection for beats was made, and its row joined. A connection that was
    /// made anew may lead to another database, promoted without the latest versions: nothing that was adopted before
    /// counts there.
    adopted: Option<Version>,
    /// The last answer told of an earlier version than this node's own change has made.
    was_behind: bool,
    /// When the latest good beat was sent.
    good: Option<Moment>,
    /// When this node came to a server that was promoted. Another node may not have noticed, and reads the server of
    /// before for as long as its beat there is good.
    promoted: Option<Moment>,
    /// The others' rows, and since when each was not renewed.
    others: HashMap<(String, i64), (SystemTime, Moment)>,
    live: u32,
    share: NodeShare,
}

impl Membership {
    /// Of a node that has not beaten yet; `lapse` says for how long a beat is good.
    pub(crate) fn new(lapse: Duration) -> Self {
        Self {
            lapse,
            number: 0,
            adopted: None,
            was_behind: false,
            good: None,
            promoted: None,
            others: HashMap::new(),
            live: 1,
            share: NodeShare::WHOLE,
        }
    }

    /// The connection for beats is another, or the node has joined anew.
    pub(crate) fn begin_anew(&mut self) {
        self.adopted = None;
    }

    /// The connection for beats leads to another server than the one before.
    pub(crate) fn on_promotion(&mut self, now: Moment) {
        self.promoted = Some(now);
    }

    /// What a beat that is sent now may tell: the version that this node has adopted.
    pub(crate) fn seen(&self) -> i64 {
        self.adopted.map_or(0, |(_, version)| version)
    }

    /// A beat has found the directory's version and the nodes' rows; when it was sent, and when answered.
    pub(crate) fn on_answer(
        &mut self,
        (sent, received): (Moment, Moment),
        own: (&str, i64),
        version: Version,
        rows: &[Row],
    ) -> Next {
        let next = match self.adopted {
            Some(adopted) if adopted == version => Next::InTime,
            // It was read before a change of this node's own was made, and answered after. Where the next one finds
            // the same, that is what is there.
            Some((epoch, last)) if epoch == version.0 && version.1 < last && !self.was_behind => {
                self.was_behind = true;
                return Next::AtOnce;
            }
            _ => {
                self.number += 1;
                self.adopted = Some(version);
                Next::AtOnce
            }
        };
        self.was_behind = false;
        self.good = Some(sent);
        let before = std::mem::take(&mut self.others);
        for row in rows {
            let key = (row.name.clone(), row.incarnation);
            if (key.0.as_str(), key.1) != own {
                let known = before.get(&key).filter(|(beat, _)| *beat == row.beat);
                let since = known.map_or(received, |(_, since)| *since);
                self.others.insert(key, (row.beat, since));
            }
        }
        self.live = u32::try_from(self.others.len() + 1).unwrap_or(u32::MAX);
        self.share = share(own.0, rows);
        next
    }

    /// A change of this node's own has made a version: whatever was remembered is dropped.
    pub(crate) fn on_own_change(&mut self, version: i64) {
        self.number += 1;
        // Where there were others' changes between, the next beat adopts all of them.
        self.adopted = self
            .adopted
            .map(|(epoch, last)| (epoch, if last + 1 == version { version } else { last }));
    }

    /// It is not known whether a change of this node's own was made.
    pub(crate) fn on_doubt(&mut self) {
        self.number += 1;
    }

    /// Whether the latest beat is still good: the node may serve, and use what it remembers.
    pub(crate) fn is_good(&self, now: Moment) -> bool {
        let passed = |since: Moment| now.monotonic.saturating_sub(since.monotonic);
        let others_have_noticed = self.promoted.is_none_or(|since| passed(since) >= PATIENCE);
        others_have_noticed
            && self
                .good
                .is_some_and(|sent| now.is_within(self.lapse, sent))
    }

    /// What is remembered holds for as long as this number stays.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Nodes that serve the database, this one included.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// This node's share of limits for all.
    pub(crate) fn share(&self) -> NodeShare {
        self.share
    }

    /// Rows of others that were not renewed for [`GONE`], as they were found.
    pub(crate) fn gone(&self, now: Moment) -> Vec<(String, i64, SystemTime)> {
        let passed = |since: &Moment| now.monotonic.saturating_sub(since.monotonic) >= GONE;
        let gone = self.others.iter().filter(|(_, (_, since))| passed(since));
        gone.map(|((name, incarnation), (beat, _))| (name.clone(), *incarnation, *beat))
            .collect()
    }
}

/// The part of the demand that comes to a node, as all nodes' rows tell it: of `n` nodes none has less than half of an
/// equal part before all is made one whole, so that what comes anew is not turned away until a beat has told of it.
fn share(own: &str, rows: &[Row]) -> NodeShare {
    let demands = rows
        .iter()
        .map(|row| u64::try_from(row.demand).unwrap_or_default());
    let all = demands.clone().fold(0, u64::saturating_add).max(1);
    let least_of = u64::try_from(rows.len())
        .unwrap_or(u64::MAX)
        .saturating_mul(2);
    let weight = |demand: u64| demand.saturating_mul(least_of).max(all);
    let own = rows
        .iter()
        .zip(demands.clone())
        .find(|(row, _)| row.name == own);
    let weights = demands.map(weight).fold(0, u64::saturating_add);
    match own {
        Some(_) if rows.len() == 1 => NodeShare::WHOLE,
        Some((_, demand)) => NodeShare {
            own: weight(demand),
            all: weights,
        },
        // The answer is from before it joined.
        None => NodeShare {
            own: 1,
            all: least_of / 2 + 1,
        },
    }
}

/// What a node tells of its requests: their rate, smoothed over [`Demand::OVER`].
#[derive(Debug, Default)]
pub(crate) struct Demand(u64);

impl Demand {
    /// Milliseconds.
    const OVER: u64 = 2000;

    /// So many requests came in a time; the rate, in requests in 1,000 seconds.
    pub(crate) fn note(&mut self, requests: u64, passed: Duration) -> i64 {
        let millis = u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).max(1);
        let rate = requests.saturating_mul(1_000_000) / millis;
        let weight = millis.min(Self::OVER);
        let before = self.0.saturating_mul(Self::OVER - weight);
        self.0 = before.saturating_add(rate.saturating_mul(weight)) / Self::OVER;
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests;
