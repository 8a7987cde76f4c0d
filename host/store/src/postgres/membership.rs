//! Pure state machine for heartbeats: decides whether a node may serve, whether its cached data is valid, and
//! which share of a limit it has. Times and answers are inputs; the time of the next heartbeat is the output.
//!
//! A heartbeat sends the version of the directory that this node has adopted, and its answer contains the
//! current version. Revocations rely on the order: the node first drops cached data, and only the next
//! heartbeat reports the new version. A change waits until every node has reported its version, or until all
//! heartbeats from before the change have expired.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::NodeShare;

/// Time between two heartbeats.
pub(crate) const BEAT: Duration = Duration::from_millis(500);
/// How long a heartbeat is valid, from the moment before it was sent.
pub(crate) const LAPSE: Duration = Duration::from_millis(1350);
/// How long a change of the directory waits for nodes that report nothing, and how long a node at a promoted
/// server waits for nodes at the old server. Longer than a heartbeat is valid.
pub(crate) const SILENT_NODE_WAIT: Duration = Duration::from_millis(1500);
/// Age at which a node's row is removed. Longer than a heartbeat is valid, so that the node serves nothing by
/// then.
pub(crate) const GONE: Duration = Duration::from_secs(3);

/// A moment by both clocks: the monotonic clock stops while the machine is suspended, the wall clock can be
/// set.
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

    /// Whether less than `time` has passed since an earlier moment by both clocks. A clock that was set back
    /// counts as zero.
    fn is_within(self, time: Duration, since: Self) -> bool {
        let passed = self.monotonic.saturating_sub(since.monotonic);
        passed < time && self.wall.saturating_sub(since.wall) < time
    }
}

/// Epoch and version of the directory. The epoch changes when versions may have been lost.
pub(crate) type Version = (i64, i64);

/// A node's row, as read by a heartbeat.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) incarnation: i64,
    /// Time of the last renewal by the database's clock; only compared for equality.
    pub(crate) beat: SystemTime,
    /// Requests per 1,000 seconds.
    pub(crate) demand: i64,
}

/// When to send the next heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Immediately: others may be waiting for this node to report the adopted version.
    AtOnce,
    /// [`BEAT`] after the previous one.
    InTime,
}

/// What a node knows about itself and the others.
#[derive(Debug)]
pub(crate) struct Membership {
    lapse: Duration,
    /// Identifies the cached data: cached values with another number are stale.
    number: u64,
    /// The version adopted over the current connection and incarnation. `None` after either changes: a new
    /// connection may lead to a promoted database that lacks the latest versions.
    adopted: Option<Version>,
    /// The last answer contained an earlier version than this node's own change has created.
    was_behind: bool,
    /// Time at which the latest valid heartbeat was sent.
    good: Option<Moment>,
    /// Time at which this node moved to a promoted server. Another node may not have noticed, and reads the old
    /// server until its heartbeat there expires.
    promoted: Option<Moment>,
    /// Rows of other nodes: last renewal, and the time since which it is unchanged.
    others: HashMap<(String, i64), (SystemTime, Moment)>,
    live: u32,
    share: NodeShare,
}

impl Membership {
    /// State before the first heartbeat; `lapse` is how long a heartbeat is valid.
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

    /// Call after the connection for heartbeats changes or the node joins again.
    pub(crate) fn begin_anew(&mut self) {
        self.adopted = None;
    }

    /// Call when the connection for heartbeats leads to another server than before.
    pub(crate) fn on_promotion(&mut self, now: Moment) {
        self.promoted = Some(now);
    }

    /// Version that this node has adopted, for the next heartbeat. Zero if none.
    pub(crate) fn seen(&self) -> i64 {
        self.adopted.map_or(0, |(_, version)| version)
    }

    /// Processes the answer to a heartbeat: when it was sent and received, the directory's version, and the
    /// nodes' rows.
    pub(crate) fn on_answer(
        &mut self,
        (sent, received): (Moment, Moment),
        own: (&str, i64),
        version: Version,
        rows: &[Row],
    ) -> Next {
        let next = match self.adopted {
            Some(adopted) if adopted == version => Next::InTime,
            // It may have been read before this node's own change and answered after it. If the next answer
            // contains the same version, it is the current one.
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

    /// Drops cached data because this node's own change has created a version.
    pub(crate) fn on_own_change(&mut self, version: i64) {
        self.number += 1;
        // If other nodes' changes were committed in between, the next heartbeat adopts all of them.
        self.adopted = self
            .adopted
            .map(|(epoch, last)| (epoch, if last + 1 == version { version } else { last }));
    }

    /// Drops cached data because it is unknown whether this node's own change was committed.
    pub(crate) fn on_doubt(&mut self) {
        self.number += 1;
    }

    /// Whether the latest heartbeat is still valid, so that the node may serve and use cached data.
    pub(crate) fn is_good(&self, now: Moment) -> bool {
        let passed = |since: Moment| now.monotonic.saturating_sub(since.monotonic);
        let others_have_noticed = self
            .promoted
            .is_none_or(|since| passed(since) >= SILENT_NODE_WAIT);
        others_have_noticed
            && self
                .good
                .is_some_and(|sent| now.is_within(self.lapse, sent))
    }

    /// Cached data is valid while this number does not change.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Number of nodes that serve the database, including this one.
    pub(crate) fn live(&self) -> u32 {
        self.live
    }

    /// This node's share of limits that apply to all nodes together.
    pub(crate) fn share(&self) -> NodeShare {
        self.share
    }

    /// Other nodes' rows that were not renewed for [`GONE`]: name, incarnation and last heartbeat.
    pub(crate) fn gone(&self, now: Moment) -> Vec<(String, i64, SystemTime)> {
        let passed = |since: &Moment| now.monotonic.saturating_sub(since.monotonic) >= GONE;
        let gone = self.others.iter().filter(|(_, (_, since))| passed(since));
        gone.map(|((name, incarnation), (beat, _))| (name.clone(), *incarnation, *beat))
            .collect()
    }
}

/// This node's share of the total demand, from all nodes' rows. Before normalization, each of `n` nodes has at
/// least half of an equal share, so that new load is not rejected before a heartbeat has reported it.
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
        // The rows were read before this node joined.
        None => NodeShare {
            own: 1,
            all: least_of / 2 + 1,
        },
    }
}

/// A node's request rate, smoothed over [`Demand::OVER`].
#[derive(Debug, Default)]
pub(crate) struct Demand(u64);

impl Demand {
    /// Milliseconds.
    const OVER: u64 = 2000;

    /// Adds `requests` received during `passed`; returns the smoothed rate per 1,000 seconds.
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
