//! Alarms of `config/deploy/alerts.yml` whose conditions hold now.
//!
//! Left to Prometheus: conditions about rates of change, and the time for which a condition must hold.

use std::time::Duration;

use kassette_domain::routing::Availability;
use kassette_domain::time::Time;
use kassette_store::Vitals;

use super::facts::Noted;
use super::{Part, State};

const DAY: Duration = Duration::from_secs(24 * 3600);
const CLOCK_MOST: Duration = Duration::from_secs(30);

/// Data for the conditions.
pub(super) struct Observed<'o> {
    pub(super) parts: &'o [Part],
    pub(super) vitals: Option<&'o Vitals>,
    pub(super) noted: &'o Noted,
    /// Health of the enabled live accounts.
    pub(super) live: Vec<Availability>,
    /// Dates of the sources' exchange rates.
    pub(super) rates: Vec<Time>,
    pub(super) started_at: Time,
    pub(super) now: Time,
}

impl Observed<'_> {
    /// Names of the alarms, in the order of the file.
    pub(super) fn firing(&self) -> Vec<&'static str> {
        let fires = self.conditions().into_iter().filter(|(_, fires)| *fires);
        fires.map(|(name, _)| name).collect()
    }

    fn conditions(&self) -> [(&'static str, bool); 12] {
        let now = self.now;
        let needs_someone = |names: &[&str]| {
            let mut parts = self.parts.iter();
            parts.any(|part| names.contains(&&*part.name) && part.state != State::Ok)
        };
        let ends = |within: Duration| {
            let mut certificates = self.noted.certificates.iter();
            certificates.any(|(_, certificate)| certificate.not_after <= now.after(within))
        };
        let is_older = |at: Time, age: Duration| now.since(at) > age;
        let backed_up = self.vitals.and_then(|vitals| vitals.backed_up);
        let has_no_backup =
            backed_up.is_some_and(|at| is_older(at, 2 * DAY) && is_older(self.started_at, 2 * DAY));
        let newest = self.vitals.and_then(|vitals| vitals.newest);
        let is_behind = newest.is_some_and(|newest| newest.since(now) > CLOCK_MOST);
        let are_old = self.rates.iter().any(|date| is_older(*date, 7 * DAY));
        [
            ("NotReady", needs_someone(&["store"])),
            ("DiskFillsUp", needs_someone(&["disk"])),
            ("ProviderDown", self.live.contains(&Availability::Down)),
            (
                "ProviderDegraded",
                self.live.contains(&Availability::Degraded),
            ),
            ("ConfigurationRefused", !self.noted.refused.is_empty()),
            ("PaymentNeedsOperator", needs_someone(&["work", "reviews"])),
            ("CertificateEnds", ends(14 * DAY)),
            ("CertificateExpired", ends(Duration::ZERO)),
            ("NoBackup", has_no_backup),
            ("ClockIsOff", is_behind),
            ("RatesAreOld", are_old),
            ("EndpointsAreLeftAlone", needs_someone(&["webhooks"])),
        ]
    }

    /// The part of the report.
    pub(super) fn part(&self) -> Part {
        let firing = self.firing();
        if firing.is_empty() {
            return Part::new("alarms", State::Ok, None, "none fires");
        }
        let detail = format!("firing: {}", firing.join(", "));
        Part::new("alarms", State::Attention, None, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn firing(vitals: Option<&Vitals>, live: Vec<Availability>, now: Time) -> Vec<&'static str> {
        let observed = Observed {
            parts: &[],
            vitals,
            noted: &Noted::default(),
            live,
            rates: vec![Time::from_secs(1000)],
            started_at: Time::from_secs(1000),
            now,
        };
        observed.firing()
    }

    #[test]
    fn an_alarm_fires_under_the_condition_of_its_rule() {
        let begin = Time::from_secs(1000);
        let mut vitals = Vitals {
            used: 0,
            free: None,
            reserved: 0,
            newest: Some(begin),
            backed_up: Some(Time::default()),
        };
        let at = |age: Duration| begin.after(age);
        assert_eq!(firing(Some(&vitals), vec![], at(2 * DAY)), [""; 0]);
        let second = Duration::from_secs(1);
        assert_eq!(
            firing(Some(&vitals), vec![], at(2 * DAY + second)),
            ["NoBackup"]
        );
        vitals.backed_up = Some(at(7 * DAY));
        vitals.newest = Some(at(7 * DAY + 32 * second));
        let late = firing(
            Some(&vitals),
            vec![Availability::Down],
            at(7 * DAY + second),
        );
        assert_eq!(late, ["ProviderDown", "ClockIsOff", "RatesAreOld"]);
    }

    #[test]
    fn each_alarm_is_a_rule_of_the_file() {
        const RULES: &str = include_str!("../../../../config/deploy/alerts.yml");
        let noted = Noted::default();
        let observed = Observed {
            parts: &[],
            vitals: None,
            noted: &noted,
            live: vec![],
            rates: vec![],
            started_at: Time::default(),
            now: Time::default(),
        };
        for (name, _) in observed.conditions() {
            assert!(RULES.contains(&format!("- alert: {name}\n")), "{name}");
        }
    }
}
