//! What happens when.

use std::time::Duration;

use super::ACCOUNTS;
use crate::options::Options;

const MINUTE: Duration = Duration::from_secs(60);

/// Something that is done; to the account of that number, where it says one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    /// A minute is over.
    Sample,
    /// Another version of a module serves.
    Replace,
    /// A provider hangs.
    Stop(usize),
    Continue(usize),
    /// A provider is gone.
    Kill(usize),
    StartAgain(usize),
    /// A provider's failure has no consequence any more.
    Settled(usize),
    ReceiverFails,
    ReceiverRecovers,
}

/// How long everything takes.
pub(super) struct Plan {
    pub(super) whole: Duration,
    /// How long the peak is measured.
    pub(super) peak: Duration,
    minute: Duration,
    /// From one replaced module to the next.
    replace: Duration,
    /// How long a provider fails.
    failing: Duration,
    /// How long payments count as disturbed after that: the gateway asks a provider that it knows to be failing less
    /// often.
    settling: Duration,
    /// How long the receiver fails, and how often it does.
    receiver: (Duration, Duration),
}

impl Plan {
    pub(super) fn of(options: &Options) -> Self {
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

    /// Everything that is done, in its order.
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
        // One hangs in the second minute of five, another one is killed in the fourth.
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
        // What would be over too late is not begun.
        let is_in_time = |acts: &Vec<(Duration, Act)>| acts.iter().all(|(at, _)| *at <= self.whole);
        acts.extend(troubles.into_iter().filter(is_in_time).flatten());
        acts.sort_by_key(|(at, _)| *at);
        acts
    }

    /// The beginnings of such periods.
    fn every(&self, period: Duration) -> impl Iterator<Item = Duration> {
        let whole = self.whole;
        let begins = (0..).map(move |number| period * number);
        begins.take_while(move |at| *at < whole)
    }
}
