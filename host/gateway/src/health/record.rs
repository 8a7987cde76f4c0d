//! Outcomes of one account's calls over the last minutes, and the health that follows from them.

use std::collections::VecDeque;
use std::time::Duration;

use kassette_domain::routing::{Availability, Health};
use kassette_domain::time::Time;

/// Time window of the figures.
const WINDOW: Duration = Duration::from_secs(10 * 60);
/// Maximum number of calls stored per account: enough for a meaningful rate per thousand.
const MOST: usize = 512;
/// Minimum number of starts for a success rate (a rule of the contract).
const FEW: u32 = 20;
/// Failures in a row that make an account degraded, and down.
const DEGRADED_IN_A_ROW: usize = 3;
const DOWN_IN_A_ROW: usize = 6;
/// Minimum number of calls for a judgement by their share of failures.
const SHARE_OF_AT_LEAST: usize = 20;
/// Successful calls, per thousand, below which an account is degraded, or down.
const DEGRADED_UNDER: usize = 900;
const DOWN_UNDER: usize = 500;

/// How often an unhealthy account is probed: often enough that a payer who tries again can use it. The pause
/// doubles each time a probe succeeds although calls fail, because then probes do not show the failure and
/// payers wait for failing calls.
pub(crate) const UNWELL_PROBE_EVERY: Duration = Duration::from_secs(5);

/// A provider call that a payment needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallSample {
    /// True for a start, whose figures routing sees. False for a query.
    pub(crate) start: bool,
    /// Whether the provider answered and rejected neither the account nor all requests.
    pub(crate) worked: bool,
    pub(crate) took: Duration,
}

/// Reason why an account is unhealthy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnhealthyReason {
    /// There is no recent measurement.
    Unchecked,
    /// The provider reports a problem, as its module understood the answer.
    Vendor,
    /// The provider did not answer a probe in time.
    NoAnswer,
    /// Its module could not be called, or failed.
    Module,
    /// Calls for payments failed.
    Calls,
    /// A start led to a page that the account's configuration does not allow. The account is still used.
    Misconfigured,
}

impl UnhealthyReason {
    pub const ALL: [Self; 6] = [
        Self::Unchecked,
        Self::Vendor,
        Self::NoAnswer,
        Self::Module,
        Self::Calls,
        Self::Misconfigured,
    ];

    /// Label value in metrics and in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Vendor => "vendor",
            Self::NoAnswer => "no_answer",
            Self::Module => "module",
            Self::Calls => "calls",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// Condition of an account, and the reason if it is unhealthy.
pub(crate) type HealthState = (Availability, Option<UnhealthyReason>);

/// Measurements of one account.
#[derive(Debug, Default)]
pub(crate) struct Record {
    calls: VecDeque<(Time, CallSample)>,
    /// Problem that the last probe found. Cleared when a later call works.
    probe: Option<(Availability, UnhealthyReason)>,
    /// Detail of that probe.
    pub(crate) detail: String,
    checked_at: Option<Time>,
    probed_at: Option<Time>,
    /// Number of new chances that probes gave the account since a call last worked.
    chances: u32,
    /// Last condition that was logged. `None` before the first.
    told: Option<HealthState>,
    /// Time at which that condition was first found.
    since: Option<Time>,
    /// Figures of the calls. `None` until they are first needed.
    figures: Option<Figures>,
}

/// Figures of the calls. Computing them reads hundreds of calls, and every listing and start needs them, so
/// they are cached until a call is added or leaves the window.
#[derive(Clone, Copy, Debug)]
struct Figures {
    success: Option<u16>,
    latency: Option<u32>,
    samples: u32,
    /// Condition according to the calls only.
    measured: Availability,
    /// First and last time at which the figures are valid: no call leaves the window in between.
    from: Time,
    until: Time,
}

impl Record {
    pub(crate) fn call(&mut self, call: CallSample, now: Time) {
        self.forget(now);
        self.figures = None;
        if self.calls.len() == MOST {
            self.calls.pop_front();
        }
        self.calls.push_back((now, call));
        if call.worked {
            (self.probe, self.chances) = (None, 0);
        }
        self.checked_at = Some(now);
    }

    /// Records a probe. If the account was down and the probe did not find it down, it gets a new chance: its
    /// recorded calls are removed. Payments could not show its recovery, because none are sent there.
    pub(crate) fn probed(&mut self, found: Option<(Availability, UnhealthyReason)>, now: Time) {
        self.forget(now);
        self.figures = None;
        let is_down = found.is_some_and(|(said, _)| said == Availability::Down);
        if !is_down && self.measured() == Availability::Down {
            self.calls.clear();
            self.chances += 1;
        }
        self.probe = found;
        self.checked_at = Some(now);
        self.probed_at = Some(now);
    }

    /// Time of the next probe. Calls do not postpone the probe of an unhealthy account, because only a probe
    /// gives it a new chance.
    pub(crate) fn probe_due(&self, every: Duration, max_age: Duration) -> Time {
        let pause = UNWELL_PROBE_EVERY.saturating_mul(2_u32.saturating_pow(self.chances));
        let unwell = every.min(pause);
        let next = match self.checked_at {
            Some(checked) if self.is_well(max_age, checked) => Some(checked.after(every)),
            _ => self.probed_at.map(|probed| probed.after(unwell)),
        };
        next.unwrap_or_default()
    }

    /// Returns the condition if a call or probe at this time changed it. `None` if the log already has it.
    pub(crate) fn change(&mut self, at: Time) -> Option<HealthState> {
        let now = self.condition(self.measured());
        if self.told.map(|(status, _)| status) != Some(now.0) {
            self.since = Some(at);
        }
        let was_well = self
            .told
            .is_none_or(|(status, _)| status == Availability::Operational);
        let is_new = match now {
            (Availability::Operational, _) => !was_well,
            _ => self.told != Some(now),
        };
        self.told = Some(now);
        is_new.then_some(now)
    }

    /// Time since which the account has been in its condition. `None` before the first call or probe.
    pub(crate) fn since(&self) -> Option<Time> {
        self.since
    }

    pub(crate) fn checked_at(&self) -> Option<Time> {
        self.checked_at
    }

    fn is_well(&self, max_age: Duration, now: Time) -> bool {
        self.standing(self.measured(), max_age, now).0 == Availability::Operational
    }

    /// Reason why it is unhealthy. `None` if it is healthy.
    pub(crate) fn unwell(&self, max_age: Duration, now: Time) -> Option<UnhealthyReason> {
        self.standing(self.measured(), max_age, now).1
    }

    /// Figures that routing uses.
    pub(crate) fn health(&mut self, max_age: Duration, now: Time) -> Health {
        let figures = match self.figures {
            Some(known) if known.from <= now && now <= known.until => known,
            _ => self.figures(now),
        };
        self.figures = Some(figures);
        Health {
            status: self.standing(figures.measured, max_age, now).0,
            success: figures.success,
            latency: figures.latency,
            samples: figures.samples,
        }
    }

    fn figures(&self, now: Time) -> Figures {
        let recent = || self.calls.iter().filter(|(at, _)| now.since(*at) <= WINDOW);
        let starts = || recent().filter(|(_, call)| call.start);
        let samples = starts().count();
        let mut took: Vec<Duration> = starts()
            .filter(|(_, call)| call.worked)
            .map(|(_, call)| call.took)
            .collect();
        let enough = u32::try_from(samples).is_ok_and(|samples| samples >= FEW);
        let success = took.len() * 1000 / samples.max(1);
        let until = recent().map(|(at, _)| at.after(WINDOW)).min();
        Figures {
            success: enough.then(|| u16::try_from(success).unwrap_or(1000)),
            latency: median_ms(&mut took),
            samples: u32::try_from(samples).unwrap_or(u32::MAX),
            measured: self.measured(),
            from: now,
            until: until.unwrap_or(Time::from_millis(u64::MAX)),
        }
    }

    fn standing(&self, measured: Availability, max_age: Duration, now: Time) -> HealthState {
        let fresh = self
            .checked_at
            .is_some_and(|checked| now.since(checked) <= max_age);
        if !fresh {
            return (Availability::Stale, Some(UnhealthyReason::Unchecked));
        }
        self.condition(measured)
    }

    /// The worse of the conditions according to the calls and to the last probe.
    fn condition(&self, measured: Availability) -> HealthState {
        match self.probe {
            Some((said, why)) if said >= measured => (said, Some(why)),
            _ if measured == Availability::Operational => (measured, None),
            _ => (measured, Some(UnhealthyReason::Calls)),
        }
    }

    /// Condition according to the calls only.
    fn measured(&self) -> Availability {
        let newest = self.calls.iter().rev();
        let in_a_row = newest.take_while(|(_, call)| !call.worked).count();
        let worked = self.calls.iter().filter(|(_, call)| call.worked).count();
        let all = self.calls.len();
        let under = |least: usize| all >= SHARE_OF_AT_LEAST && worked * 1000 < least * all;
        if in_a_row >= DOWN_IN_A_ROW || under(DOWN_UNDER) {
            Availability::Down
        } else if in_a_row >= DEGRADED_IN_A_ROW || under(DEGRADED_UNDER) {
            Availability::Degraded
        } else {
            Availability::Operational
        }
    }

    fn forget(&mut self, now: Time) {
        let old = |(at, _): &(Time, CallSample)| now.since(*at) > WINDOW;
        while self.calls.front().is_some_and(old) {
            self.calls.pop_front();
        }
    }
}

/// Median in milliseconds. For an even number of values, the larger of the two in the middle.
fn median_ms(took: &mut [Duration]) -> Option<u32> {
    let middle = took.len() / 2;
    if took.is_empty() {
        return None;
    }
    let (_, median, _) = took.select_nth_unstable(middle);
    Some(u32::try_from(median.as_millis()).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(900);
    const DOWN: Option<(Availability, UnhealthyReason)> =
        Some((Availability::Down, UnhealthyReason::Vendor));

    fn start(worked: bool) -> CallSample {
        CallSample {
            start: true,
            worked,
            took: Duration::from_millis(40),
        }
    }

    fn status(record: &mut Record, now: u64) -> Availability {
        record.health(AGE, Time::from_secs(now)).status
    }

    #[test]
    fn nothing_known_or_nothing_recent_is_stale() {
        let mut record = Record::default();
        assert_eq!(status(&mut record, 1000), Availability::Stale);
        record.probed(None, Time::from_secs(1000));
        assert_eq!(status(&mut record, 1900), Availability::Operational);
        assert_eq!(status(&mut record, 1901), Availability::Stale);
    }

    #[test]
    fn failures_in_a_row_take_an_account_out_and_one_success_does_not_hide_many() {
        let mut record = Record::default();
        for second in 0..6 {
            record.call(start(false), Time::from_secs(1000 + second));
        }
        assert_eq!(status(&mut record, 1010), Availability::Down);
        for second in 0..14 {
            record.call(start(second % 2 == 0), Time::from_secs(1010 + second));
        }
        assert_eq!(status(&mut record, 1030), Availability::Down);
    }

    #[test]
    fn a_good_probe_gives_an_account_that_was_down_a_new_chance() {
        let mut record = Record::default();
        for _ in 0..6 {
            record.call(start(false), Time::from_secs(1000));
        }
        record.probed(None, Time::from_secs(1005));
        assert_eq!(status(&mut record, 1005), Availability::Operational);
    }

    #[test]
    fn calls_that_fail_do_not_put_off_the_probe_that_finds_an_account_well_again() {
        let mut record = Record::default();
        let due = |record: &Record| record.probe_due(Duration::from_secs(60), AGE);
        assert_eq!(due(&record), Time::default());
        record.probed(None, Time::from_secs(1000));
        record.call(start(true), Time::from_secs(1010));
        assert_eq!(due(&record), Time::from_secs(1070));
        for second in 0..20 {
            record.call(start(false), Time::from_secs(1011 + second));
        }
        assert_eq!(due(&record), Time::from_secs(1005));
        record.probed(DOWN, Time::from_secs(1031));
        record.call(start(false), Time::from_secs(1035));
        assert_eq!(due(&record), Time::from_secs(1036));
    }

    #[test]
    fn an_account_whose_calls_fail_though_its_probes_work_gets_a_new_chance_less_and_less_often() {
        let mut record = Record::default();
        let (every, mut now) = (Duration::from_secs(60), 1000);
        let mut pauses = Vec::new();
        for _ in 0..6 {
            for _ in 0..DOWN_IN_A_ROW {
                record.call(start(false), Time::from_secs(now));
            }
            let due = record.probe_due(every, AGE);
            pauses.push(due.since(Time::from_secs(now)).as_secs());
            now = due.as_secs().max(now);
            record.probed(None, Time::from_secs(now));
        }
        // The first probe is due immediately.
        assert_eq!(pauses, [0, 10, 20, 40, 60, 60]);
        record.call(start(true), Time::from_secs(now));
        record.probed(DOWN, Time::from_secs(now));
        assert_eq!(record.probe_due(every, AGE), Time::from_secs(now + 5));
    }

    #[test]
    fn a_bad_probe_holds_until_a_payment_proves_otherwise() {
        let mut record = Record::default();
        record.call(start(true), Time::from_secs(1000));
        record.probed(DOWN, Time::from_secs(1001));
        assert_eq!(status(&mut record, 1001), Availability::Down);
        record.call(start(true), Time::from_secs(1002));
        assert_eq!(status(&mut record, 1002), Availability::Operational);
    }

    #[test]
    fn why_an_account_is_not_well_is_told_once_and_so_is_that_it_is_well_again() {
        let mut record = Record::default();
        let why = |record: &Record, now| record.unwell(AGE, Time::from_secs(now));
        assert_eq!(why(&record, 1000), Some(UnhealthyReason::Unchecked));
        record.probed(None, Time::from_secs(1000));
        assert_eq!(
            record.change(Time::from_secs(1000)),
            None,
            "well from the beginning"
        );
        record.probed(DOWN, Time::from_secs(1001));
        let down = (Availability::Down, Some(UnhealthyReason::Vendor));
        assert_eq!(record.change(Time::from_secs(1001)), Some(down));
        assert_eq!(record.since(), Some(Time::from_secs(1001)));
        record.probed(DOWN, Time::from_secs(1006));
        assert_eq!(record.change(Time::from_secs(1006)), None);
        assert_eq!(
            record.since(),
            Some(Time::from_secs(1001)),
            "since it was down first"
        );
        assert_eq!(why(&record, 1006), Some(UnhealthyReason::Vendor));
        let silent = (Availability::Down, UnhealthyReason::NoAnswer);
        record.probed(Some(silent), Time::from_secs(1011));
        let said = record.change(Time::from_secs(1011));
        assert_eq!(said, Some((silent.0, Some(silent.1))));
        record.call(start(true), Time::from_secs(1012));
        let said = record.change(Time::from_secs(1012));
        assert_eq!(said, Some((Availability::Operational, None)));
        assert_eq!(record.since(), Some(Time::from_secs(1012)));
        for second in 0..6 {
            record.call(start(false), Time::from_secs(1013 + second));
        }
        let failing = (Availability::Down, Some(UnhealthyReason::Calls));
        assert_eq!(record.change(Time::from_secs(1018)), Some(failing));
        assert_eq!(why(&record, 1019), Some(UnhealthyReason::Calls));
        assert_eq!(why(&record, 1919), Some(UnhealthyReason::Unchecked));
    }

    #[test]
    fn a_rate_is_told_from_twenty_starts_on_and_questions_do_not_count() {
        let mut record = Record::default();
        for second in 0..19 {
            record.call(start(true), Time::from_secs(1000 + second));
        }
        let question = CallSample {
            start: false,
            ..start(true)
        };
        record.call(question, Time::from_secs(1020));
        let health = record.health(AGE, Time::from_secs(1020));
        assert_eq!((health.success, health.samples), (None, 19));
        assert_eq!(health.latency, Some(40));
        record.call(start(false), Time::from_secs(1021));
        let health = record.health(AGE, Time::from_secs(1021));
        assert_eq!((health.success, health.samples), (Some(950), 20));
    }

    #[test]
    fn a_call_that_leaves_the_window_or_arrives_changes_what_was_told_before() {
        let mut record = Record::default();
        for second in 0..3 {
            record.call(start(true), Time::from_secs(1000 + second));
        }
        let samples = |record: &mut Record, now| record.health(AGE, Time::from_secs(now)).samples;
        assert_eq!(samples(&mut record, 1003), 3);
        assert_eq!(samples(&mut record, 1600), 3);
        assert_eq!(samples(&mut record, 1601), 2);
        // After the clock is set back, the earlier figures apply again.
        assert_eq!(samples(&mut record, 1003), 3);
        record.call(start(false), Time::from_secs(1004));
        assert_eq!(samples(&mut record, 1004), 4);
        assert_eq!(samples(&mut record, 1700), 0);
        record.probed(DOWN, Time::from_secs(1701));
        assert_eq!(status(&mut record, 1701), Availability::Down);
    }
}
