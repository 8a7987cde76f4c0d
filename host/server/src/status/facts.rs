//! Facts that only this process knows: rejected changes of files, and certificates in use.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_store::NodeStatus;
use parking_lot::Mutex;

use super::certificate::Certificate;

/// Name of the gauge: 1 while a changed file is rejected and the previous one remains in use.
pub(crate) const REFUSED_GAUGE: &str = "kassette_configuration_refused";

/// Files that are reloaded while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    /// The configuration folder.
    Configuration,
    /// The file of exchange rates.
    Rates,
    /// The public listener's certificate and key.
    PublicCertificate,
    /// The admin listener's certificate and key.
    AdminCertificate,
}

impl Subject {
    pub(crate) const ALL: [Self; 4] = [
        Self::Configuration,
        Self::Rates,
        Self::PublicCertificate,
        Self::AdminCertificate,
    ];

    /// Label value in the metric.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Rates => "rates",
            Self::PublicCertificate => "public_certificate",
            Self::AdminCertificate => "admin_certificate",
        }
    }

    /// The subject of a listener's certificate.
    pub(crate) fn of_listener(listener: &str) -> Self {
        match listener {
            "public" => Self::PublicCertificate,
            _ => Self::AdminCertificate,
        }
    }
}

/// A rejected change; the previous file remains in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) at: Time,
    /// All errors of the file.
    pub(crate) why: String,
}

/// A process's facts about its files.
#[derive(Debug, Default)]
pub(crate) struct Facts(Mutex<Noted>);

/// A copy of the facts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Noted {
    /// When the configuration was last loaded.
    pub(crate) configured_at: Option<Time>,
    pub(crate) refused: BTreeMap<Subject, Refused>,
    /// Changed settings that take effect only after a restart.
    pub(crate) restart_needed: Vec<String>,
    /// Each listener's certificate in use.
    pub(crate) certificates: BTreeMap<&'static str, Certificate>,
    /// Expected number of nodes. `None` if the configuration does not specify it.
    pub(crate) expected_nodes: Option<u32>,
    /// When each node that has not shut down in order was last seen, within [`REMEMBERED`].
    last_seen: BTreeMap<String, Time>,
}

/// How long a node is remembered that ended without shutting down. The store forgets it after a minute.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

impl Noted {
    /// Nodes that the store no longer lists though they did not shut down, with the time when each was last
    /// seen.
    pub(crate) fn missing(&self, present: &[NodeStatus]) -> Vec<(String, Time)> {
        let is_there = |name: &String| present.iter().any(|node| node.name == *name);
        let seen = self.last_seen.iter().filter(|(name, _)| !is_there(name));
        seen.map(|(name, at)| (name.clone(), *at)).collect()
    }
}

impl Facts {
    /// Records that a changed file was loaded.
    pub(crate) fn taken(&self, subject: Subject, at: Time) {
        let mut noted = self.0.lock();
        noted.refused.remove(&subject);
        if subject == Subject::Configuration {
            noted.configured_at = Some(at);
        }
    }

    /// Records that a changed file was rejected. A repeated rejection keeps its first time.
    pub(crate) fn refused(&self, subject: Subject, why: String, at: Time) {
        let mut noted = self.0.lock();
        let refused = noted.refused.entry(subject);
        let refused = refused.or_insert_with(|| Refused {
            at,
            why: String::new(),
        });
        refused.why = why;
    }

    /// Records the certificate that a listener now uses.
    pub(crate) fn shows(&self, listener: &'static str, certificate: Certificate) {
        self.0.lock().certificates.insert(listener, certificate);
    }

    /// Records facts about the configuration other than payments' settings.
    pub(crate) fn configured(&self, restart_needed: Vec<String>, expected_nodes: Option<u32>) {
        let mut noted = self.0.lock();
        noted.restart_needed = restart_needed;
        noted.expected_nodes = expected_nodes;
    }

    /// Records when nodes were last seen. A draining node shuts down in order, so it will not be missing.
    pub(crate) fn note_nodes(&self, nodes: &[NodeStatus], now: Time) {
        let mut noted = self.0.lock();
        for node in nodes {
            let age = u64::try_from(node.beat_age.as_millis()).unwrap_or(u64::MAX);
            let at = Time::from_millis(now.as_millis().saturating_sub(age));
            match node.info.draining {
                true => drop(noted.last_seen.remove(&node.name)),
                false => drop(noted.last_seen.insert(node.name.clone(), at)),
            }
        }
        noted.last_seen.retain(|_, at| now.since(*at) < REMEMBERED);
    }

    pub(crate) fn noted(&self) -> Noted {
        self.0.lock().clone()
    }

    /// Whether a changed file is currently rejected.
    pub(crate) fn has_refused(&self, subject: Subject) -> bool {
        self.0.lock().refused.contains_key(&subject)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_store::{ModulesInfo, NodeInfo};

    fn node(name: &str, draining: bool) -> NodeStatus {
        NodeStatus {
            name: name.to_owned(),
            incarnation: 1,
            is_self: false,
            beat_age: Duration::from_secs(1),
            adopted: 1,
            lag: 0,
            info: NodeInfo {
                draining,
                ..NodeInfo::default()
            },
            modules: ModulesInfo::default(),
        }
    }

    #[test]
    fn a_node_that_ends_without_a_word_is_missed_for_a_day() {
        let (facts, begin) = (Facts::default(), Time::from_secs(1_800_000_000));
        facts.note_nodes(
            &[node("a", false), node("b", false), node("c", false)],
            begin,
        );
        facts.note_nodes(
            &[node("a", false), node("b", false), node("c", true)],
            begin,
        );
        let rest = [node("a", false)];
        let last = begin.before(Duration::from_secs(1));
        let missing = |at: Time| {
            facts.note_nodes(&rest, at);
            facts.noted().missing(&rest)
        };
        let day = Duration::from_secs(24 * 3600);
        assert_eq!(
            missing(last.after(day).before(Duration::from_millis(1))),
            [("b".to_owned(), last)]
        );
        assert_eq!(missing(last.after(day)), []);
    }

    #[test]
    fn a_refusal_keeps_its_time_until_the_file_is_taken_over() {
        let facts = Facts::default();
        let at = Time::from_secs;
        facts.refused(Subject::Configuration, "line 3".into(), at(1));
        facts.refused(Subject::Configuration, "line 4".into(), at(2));
        facts.refused(Subject::Rates, "no date".into(), at(3));
        let refused = facts.noted().refused;
        let expected = Refused {
            at: at(1),
            why: "line 4".into(),
        };
        assert_eq!(refused[&Subject::Configuration], expected);
        facts.taken(Subject::Configuration, at(4));
        assert!(!facts.has_refused(Subject::Configuration));
        assert!(facts.has_refused(Subject::Rates));
        assert_eq!(facts.noted().configured_at, Some(at(4)));
    }
}
