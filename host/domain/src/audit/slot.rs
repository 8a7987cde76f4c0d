//! State of a module slot according to the audit log. It is compared with the stored state, because a stored version
//! may be authentic without being the newest.

use super::AuditEntry;
use crate::id::Digest;
use crate::time::Time;

const VERSION: &str = "the newest entry of the audit log about the slot names another version";
const SWITCH: &str =
    "the newest entry of the audit log about the slot's switch says something else";
const TRIAL: &str = "a version is on trial that the newest entry of the audit log does not name";

/// State of a slot, from its record or from the audit log. `None` for parts that these do not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptSlot {
    /// The active version. `Some(None)` if the slot has been emptied.
    pub version: Option<Option<Digest>>,
    /// Time at which that version became active. `None` if the audit entry is written in the same transaction.
    pub since: Option<Time>,
    pub is_disabled: Option<bool>,
    pub candidate: Option<Digest>,
}

/// State of a slot after the entries given to [`Self::follow`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditedSlot {
    newest: KeptSlot,
    /// State before the newest entry, restored by `plugin.abandon`.
    before: KeptSlot,
}

impl AuditedSlot {
    /// Applies the next entry about the slot.
    pub fn follow(&mut self, entry: &AuditEntry) {
        let audited = &entry.audited;
        if audited.action == "plugin.abandon" {
            self.newest = self.before;
            return;
        }
        self.before = self.newest;
        let newest = &mut self.newest;
        if let Some((_, version)) = audited.served_version() {
            if version.is_none() {
                *newest = KeptSlot::default();
            } else if newest.version != Some(version) {
                newest.candidate = None;
            }
            newest.version = Some(version);
            newest.since = Some(entry.at);
        }
        let after = audited.after.as_deref().map(serde_json::from_str);
        let Some(Ok(after)) = after else {
            return;
        };
        let after: serde_json::Value = after;
        let is_disabled = after.get("disabled").and_then(serde_json::Value::as_bool);
        newest.is_disabled = is_disabled.or(newest.is_disabled);
        if let Some(candidate) = after.get("candidate") {
            let digest = candidate.get("digest").and_then(|digest| digest.as_str());
            newest.candidate = digest.and_then(Digest::parse);
        }
    }

    /// Returns a finding if the stored state contradicts the log. A stored version that is newer than the newest entry
    /// is correct: the process may have ended before it wrote the entry.
    pub fn difference(&self, kept: &KeptSlot) -> Option<&'static str> {
        let (said, since) = (&self.newest, kept.since.zip(self.newest.since));
        let is_newer = since.is_some_and(|(kept, said)| kept > said);
        let versions = said.version.zip(kept.version);
        if !is_newer && versions.is_some_and(|(said, kept)| said != kept) {
            return Some(VERSION);
        }
        let switches = said.is_disabled.zip(kept.is_disabled);
        if switches.is_some_and(|(said, kept)| said != kept) {
            return Some(SWITCH);
        }
        let is_unnamed = kept.candidate.is_some() && kept.candidate != said.candidate;
        is_unnamed.then_some(TRIAL)
    }

    /// Whether the slot is off according to the log.
    pub fn is_disabled(&self) -> bool {
        self.newest.is_disabled == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::audit::Audited;

    const OLD: Digest = Digest([1; 32]);
    const NEW: Digest = Digest([2; 32]);

    /// State after an entry for each action, at 1, 2, … seconds.
    fn followed(entries: &[(&str, serde_json::Value)]) -> AuditedSlot {
        let mut slot = AuditedSlot::default();
        for (at, (action, after)) in (1..).zip(entries) {
            let action = format!("plugin.{action}");
            let audited = Audited {
                after: (!after.is_null()).then(|| after.to_string()),
                ..Audited::of_system(&action, "plugin/method.ideal".into())
            };
            slot.follow(&AuditEntry::next(None, Time::from_secs(at), audited));
        }
        slot
    }

    fn serves(digest: Digest) -> serde_json::Value {
        json!({ "digest": digest.to_string() })
    }

    fn tries(digest: Digest) -> serde_json::Value {
        json!({ "candidate": { "digest": digest.to_string() } })
    }

    fn kept(version: Digest, since: u64) -> KeptSlot {
        KeptSlot {
            version: Some(Some(version)),
            since: Some(Time::from_secs(since)),
            is_disabled: Some(false),
            candidate: None,
        }
    }

    #[test]
    fn an_older_version_differs_and_a_newer_one_may_wait_for_its_entry() {
        let slot = followed(&[("upload", serves(OLD)), ("upload", serves(NEW))]);
        assert_eq!(slot.difference(&kept(NEW, 2)), None);
        assert_eq!(slot.difference(&kept(OLD, 1)), Some(VERSION));
        assert_eq!(slot.difference(&kept(OLD, 3)), None);
        // A database writes both in one transaction.
        let shared = KeptSlot {
            since: None,
            ..kept(OLD, 3)
        };
        assert_eq!(slot.difference(&shared), Some(VERSION));
        assert_eq!(AuditedSlot::default().difference(&kept(OLD, 1)), None);
    }

    #[test]
    fn what_was_abandoned_or_removed_is_not_expected() {
        let abandoned = followed(&[
            ("upload", serves(OLD)),
            ("upload", serves(NEW)),
            ("abandon", serves(OLD)),
        ]);
        assert_eq!(abandoned.difference(&kept(OLD, 1)), None);
        assert_eq!(abandoned.difference(&kept(NEW, 1)), Some(VERSION));
        let removed = followed(&[
            ("upload", serves(OLD)),
            ("disable", json!({ "disabled": true })),
            ("remove", json!(null)),
        ]);
        assert_eq!(removed.difference(&kept(OLD, 1)), Some(VERSION));
        assert!(!removed.is_disabled());
    }

    #[test]
    fn a_switch_and_a_trial_are_those_of_the_newest_entries() {
        let off = followed(&[
            ("upload", serves(OLD)),
            ("disable", json!({ "disabled": true })),
        ]);
        assert!(off.is_disabled());
        assert_eq!(off.difference(&kept(OLD, 1)), Some(SWITCH));
        let tried = |version, candidate| KeptSlot {
            candidate: Some(candidate),
            ..kept(version, 1)
        };
        let ended = [
            ("rollback", json!({ "candidate": null })),
            ("promote", serves(NEW)),
        ];
        for (action, after) in ended {
            let begun = [("upload", serves(OLD)), ("shadow", tries(NEW))];
            assert_eq!(followed(&begun).difference(&tried(OLD, NEW)), None);
            assert_eq!(followed(&begun).difference(&tried(OLD, OLD)), Some(TRIAL));
            // The gateway ends a trial before it writes the entry.
            assert_eq!(followed(&begun).difference(&kept(OLD, 1)), None);
            let version = if action == "promote" { NEW } else { OLD };
            let [first, second] = begun;
            let over = followed(&[first, second, (action, after)]);
            assert_eq!(over.difference(&kept(version, 3)), None);
            assert_eq!(over.difference(&tried(version, NEW)), Some(TRIAL));
        }
    }
}
