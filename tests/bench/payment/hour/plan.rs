//! Times of all actions.

use std::time::Duration;

use super::ACCOUNTS;
use crate::options::Options;

const MINUTE: Duration = Duration::from_secs(60);

/// An action, with the index of its account if it has one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// The end of a minute.
    Sample,
    /// Activates another version of a module.
    Replace,
    /// Lets a provider hang.
    Stop(usize),
    Continue(usize),
    /// Kills a provider.
    Kill(usize),
    StartAgain(usize),
    /// A provider's failure no longer has an effect.
    Settled(usize),
    ReceiverFails,
    ReceiverRecovers,
}

/// Durations and intervals.
pub(super) struct Plan {
    pub(super) whole: Duration,
    /// Duration of the measurement of the peak.
    pub(super) peak: Duration,
    minute: Duration,
    /// Interval between replacements of modules.
    replace: Duration,
    /// Duration of a provider's failure.
    failing: Duration,
    /// Time after a failure in which payments still count as disturbed: the gateway uses a provider less after
    /// failures.
    settling: Duration,
    /// Duration and interval of the receiver's failures.
    receiver: (Duration, Duration),
}

impl Plan {
    pub(super) fn new(options: &Options) -> Self {
        let secs = Duration::from_secs;
        match options.quick {
            true => Self {
                whole: MINUTE,
                peak: secs(4),
                minute: secs(5),
                replace: secs(5),
                failing: secs(3),
                settling: secs(2),
                receiver: (secs(10), secs(20)),
            },
            false => Self {
                whole: MINUTE * options.minutes,
                peak: secs(10),
                minute: MINUTE,
                replace: secs(10),
                failing: secs(20),
                settling: secs(20),
                receiver: (MINUTE, MINUTE * 3),
            },
        }
    }

    /// All actions, ordered by time.
    pub(super) fn acts(&self) -> Vec<(Duration, Act)> {
        let mut acts: Vec<_> = self
            .every(self.minute)
            .map(|at| (at + self.minute, Act::Sample))
            .chain(self.every(self.replace).map(|at| (at, Act::Replace)))
            .collect();
        let (failing, every) = self.receiver;
        let fails = |at| (at + every - failing, Act::ReceiverFails);
        let recovers = |at| (at + every, Act::ReceiverRecovers);
        let all = self.every(every).map(|at| vec![fails(at), recovers(at)]);
        let mut troubles: Vec<Vec<(Duration, Act)>> = all.collect();
        // Of five minutes, one provider hangs in the second, and another one is killed in the fourth.
        for (turn, at) in self.every(self.minute * 5).enumerate() {
            let (first, second) = (turn % ACCOUNTS.len(), (turn + 2) % ACCOUNTS.len());
            let hangs = (at + self.minute, Act::Stop(first), Act::Continue(first));
            let dies = (
                at + 3 * self.minute,
                Act::Kill(second),
                Act::StartAgain(second),
            );
            for ((from, fails, recovers), account) in [(hangs, first), (dies, second)] {
                let until = from + self.failing;
                let settled = (until + self.settling, Act::Settled(account));
                troubles.push(vec![(from, fails), (until, recovers), settled]);
            }
        }
        // Failures that would end too late are left out.
        let is_in_time = |acts: &Vec<(Duration, Act)>| acts.iter().all(|(at, _)| *at <= self.whole);
        acts.extend(troubles.into_iter().filter(is_in_time).flatten());
        acts.sort_by_key(|(at, _)| *at);
        acts
    }

    /// Starts of all periods of this length.
    fn every(&self, period: Duration) -> impl Iterator<Item = Duration> {
        let whole = self.whole;
        let begins = (0..).map(move |number| period * number);
        begins.take_while(move |at| *at < whole)
    }
}
