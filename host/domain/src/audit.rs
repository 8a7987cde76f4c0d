//! The audit log: who changed what and why. Each entry contains the hash of the previous one.

mod slot;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::id::{Digest as ModuleDigest, OperatorId, Slot};
use crate::time::Time;

pub use slot::{AuditedSlot, KeptSlot};

/// The operator's name in lines about the server's own changes.
pub const SYSTEM: &str = "system";
/// Operator's name in entries about modules that appeared in the plugin folder.
pub const PLUGIN_FOLDER: &str = "plugin-folder";

/// Author, reason and contents of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// Name of the authenticated operator; [`SYSTEM`] or [`PLUGIN_FOLDER`] without one.
    pub operator: String,
    /// The operator's id, because a name may be reused after its operator was removed. `None` for the server's own
    /// changes and in entries from before it was recorded. The store appends it to the rest of the entry, so that
    /// those older ones can still be read.
    #[serde(skip)]
    pub operator_id: Option<OperatorId>,
    /// The person on whose behalf the operator acts; else the operator's name.
    pub actor: String,
    /// Reason, if given.
    pub reason: Option<String>,
    /// `noun.verb`: `merchant.create`, `payment.review`.
    pub action: String,
    /// The changed object: `merchant/1`, `payment/<id>`.
    pub object: String,
    /// The object before, as JSON text without secrets. `None` for a creation.
    pub before: Option<String>,
    /// The object after, as JSON text. `None` for a removal.
    pub after: Option<String>,
}

impl Audited {
    /// A change by the server itself.
    pub fn of_system(action: &str, object: String) -> Self {
        Self {
            operator: SYSTEM.into(),
            operator_id: None,
            actor: SYSTEM.into(),
            reason: None,
            action: action.to_owned(),
            object,
            before: None,
            after: None,
        }
    }

    /// The slot and the version that serves it since this change. The version is `None` if the slot was removed.
    /// `None` for changes that do not affect this.
    pub fn served_version(&self) -> Option<(Slot, Option<ModuleDigest>)> {
        let slot = Slot::parse(self.object.strip_prefix("plugin/")?)?;
        match self.action.strip_prefix("plugin.")? {
            "remove" => Some((slot, None)),
            "upload" | "drop" | "install" | "promote" | "pin" | "rollback" | "set_aside" => {
                let after: serde_json::Value = serde_json::from_str(self.after.as_deref()?).ok()?;
                let digest = ModuleDigest::parse(after.get("digest")?.as_str()?)?;
                Some((slot, Some(digest)))
            }
            _ => None,
        }
    }
}

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Numbered from 1, without gaps.
    pub id: u64,
    pub at: Time,
    pub audited: Audited,
    /// Hash of the previous entry; zeros for the first.
    pub prev_hash: [u8; 32],
    /// [`AuditEntry::seal`] of all other fields.
    pub hash: [u8; 32],
}

impl AuditEntry {
    /// The next entry of a chain whose last one is `last`.
    pub fn next(last: Option<(u64, [u8; 32])>, at: Time, audited: Audited) -> Self {
        let (id, prev_hash) = last.map_or((1, [0; 32]), |(id, hash)| (id + 1, hash));
        let hash = Self::seal(id, at, &audited, &prev_hash);
        Self {
            id,
            at,
            audited,
            prev_hash,
            hash,
        }
    }

    /// SHA-256 over every field; texts are preceded by their lengths, so that none can run into the next. An
    /// operator's id comes last and only if present, so that entries without one keep their hash.
    fn seal(id: u64, at: Time, audited: &Audited, prev_hash: &[u8; 32]) -> [u8; 32] {
        let mut hash = Sha256::new();
        hash.update(id.to_be_bytes());
        hash.update(at.as_millis().to_be_bytes());
        let optional = [&audited.reason, &audited.before, &audited.after];
        let texts = [
            &audited.operator,
            &audited.actor,
            &audited.action,
            &audited.object,
        ];
        for text in texts {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        for text in optional {
            hash.update([u8::from(text.is_some())]);
            let text = text.as_deref().unwrap_or_default();
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        }
        hash.update(prev_hash);
        if let Some(operator) = audited.operator_id {
            hash.update(operator.as_bytes());
        }
        hash.finalize().into()
    }

    /// Whether the entry is unaltered and follows `last`.
    pub fn follows(&self, last: Option<(u64, [u8; 32])>) -> bool {
        let (id, prev_hash) = last.map_or((1, [0; 32]), |(id, hash)| (id + 1, hash));
        self.id == id
            && self.prev_hash == prev_hash
            && self.hash == Self::seal(self.id, self.at, &self.audited, &self.prev_hash)
    }
}

/// A defect of the log, with the number of the entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainBreak {
    /// Its hash does not match its contents.
    #[error("line {0} was altered: its hash does not fit what it says")]
    Altered(u64),
    /// It cannot be read.
    #[error("line {0} does not read back as it was written")]
    Unreadable(u64),
    /// It contains another number than the one under which it is stored.
    #[error("line {at} was moved or inserted: it says that it is line {says}")]
    Moved {
        /// Number under which it is stored.
        at: u64,
        /// Number that it contains.
        says: u64,
    },
    /// Numbers are missing.
    #[error("lines {first} to {last} are missing", first = .0, last = .1)]
    Missing(u64, u64),
    /// It is unaltered, but does not continue the previous entry.
    #[error(
        "line {0} was inserted, or the line before it was replaced: it does not carry the hash of \
         the line before"
    )]
    Unlinked(u64),
    /// Entries come after the recorded end.
    #[error("line {0} was inserted: it comes after the end that the store has noted")]
    AfterEnd(u64),
    /// The last entry differs from the recorded end.
    #[error("line {0}, the last one, was replaced: it is not the one that the store has noted")]
    OtherEnd(u64),
}

/// Checks the log, entry by entry, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chain {
    last: Option<(u64, [u8; 32])>,
    breaks: Vec<ChainBreak>,
    unnamed: u64,
}

impl Chain {
    /// Maximum number of defects that are listed; further ones are only counted.
    pub const MAX_BREAKS: usize = 100;

    /// Checks the entry stored under the number `at`. `None` if it cannot be read.
    pub fn follow(&mut self, at: u64, entry: Option<&AuditEntry>) {
        let expected = self.last.map_or(1, |(id, _)| id.saturating_add(1));
        if at > expected {
            self.note(ChainBreak::Missing(expected, at - 1));
        }
        let Some(entry) = entry else {
            self.note(ChainBreak::Unreadable(at));
            // The next entry's reference to this one remains as the only check.
            self.last = Some((at, [0; 32]));
            return;
        };
        let whole =
            entry.hash == AuditEntry::seal(entry.id, entry.at, &entry.audited, &entry.prev_hash);
        let linked = match self.last {
            None => at == 1 && entry.prev_hash == [0; 32],
            Some((_, hash)) => entry.prev_hash == hash,
        };
        if entry.id != at {
            self.note(ChainBreak::Moved { at, says: entry.id });
        } else if !whole {
            self.note(ChainBreak::Altered(at));
        } else if !linked && at == expected && !self.broken_at(at.saturating_sub(1)) {
            self.note(ChainBreak::Unlinked(at));
        }
        self.last = Some((at, entry.hash));
    }

    /// Checks the end of the log against the recorded number and hash of its last entry. The caller knows the
    /// number of checked entries.
    pub fn end(&mut self, noted: Option<(u64, [u8; 32])>) {
        let seen = self.last.map_or(0, |(id, _)| id);
        let (noted_id, noted_hash) = noted.unwrap_or_default();
        if seen < noted_id {
            self.note(ChainBreak::Missing(seen + 1, noted_id));
        } else if seen > noted_id {
            self.note(ChainBreak::AfterEnd(noted_id + 1));
        } else if self
            .last
            .is_some_and(|(id, hash)| hash != noted_hash && !self.broken_at(id))
        {
            self.note(ChainBreak::OtherEnd(seen));
        }
    }

    /// Number and hash of the last entry: an operator who stores them elsewhere can prove later that nothing up to
    /// it was rewritten.
    pub const fn last(&self) -> Option<(u64, [u8; 32])> {
        self.last
    }

    /// Defects, at most [`Chain::MAX_BREAKS`].
    pub fn breaks(&self) -> &[ChainBreak] {
        &self.breaks
    }

    /// Number of further defects.
    pub const fn unnamed(&self) -> u64 {
        self.unnamed
    }

    /// Whether an entry is already listed: defects that follow from it are not new.
    fn broken_at(&self, line: u64) -> bool {
        self.breaks.iter().rev().take(2).any(|known| match *known {
            ChainBreak::Altered(at)
            | ChainBreak::Unreadable(at)
            | ChainBreak::Moved { at, .. }
            | ChainBreak::Missing(_, at) => at == line,
            ChainBreak::Unlinked(_) | ChainBreak::AfterEnd(_) | ChainBreak::OtherEnd(_) => false,
        })
    }

    fn note(&mut self, found: ChainBreak) {
        if self.breaks.len() < Self::MAX_BREAKS {
            self.breaks.push(found);
        } else {
            self.unnamed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audited(action: &str) -> Audited {
        Audited {
            operator: "root".into(),
            operator_id: None,
            actor: "ann".into(),
            reason: None,
            action: action.into(),
            object: "merchant/1".into(),
            before: None,
            after: Some("{}".into()),
        }
    }

    #[test]
    fn a_changed_removed_or_moved_entry_breaks_the_chain() {
        let first = AuditEntry::next(None, Time::from_secs(1), audited("merchant.create"));
        let second = AuditEntry::next(
            Some((first.id, first.hash)),
            Time::from_secs(2),
            audited("merchant.change"),
        );
        assert!(first.follows(None) && second.follows(Some((first.id, first.hash))));
        assert!(!second.follows(None));
        let mut forged = second.clone();
        forged.audited.reason = Some(String::new());
        assert!(!forged.follows(Some((first.id, first.hash))));
    }

    #[test]
    fn an_operators_id_is_bound_to_its_line_and_a_line_without_one_keeps_its_hash() {
        let line = AuditEntry::next(None, Time::from_secs(1), audited("merchant.create"));
        assert_eq!(
            hex::encode(line.hash),
            "bbf1dc68d90a4a63e320bf8e0d26c928c65877f709538809c21e73289380e3c1"
        );
        let by = |id: [u8; 16]| Some(OperatorId::from_bytes(id));
        let mut named = audited("merchant.create");
        named.operator_id = by([1; 16]);
        let mut named = AuditEntry::next(None, Time::from_secs(1), named);
        assert!(named.follows(None) && named.hash != line.hash);
        for forged in [None, by([2; 16])] {
            named.audited.operator_id = forged;
            assert!(!named.follows(None));
        }
    }

    fn log(lines: u64) -> Vec<AuditEntry> {
        let mut last = None;
        (1..=lines)
            .map(|line| {
                let entry =
                    AuditEntry::next(last, Time::from_secs(line), audited(&format!("a.{line}")));
                last = Some((entry.id, entry.hash));
                entry
            })
            .collect()
    }

    /// Defects of entries stored under these numbers, if the store has recorded the end of `log`.
    fn found(log: &[AuditEntry], lines: &[(u64, Option<&AuditEntry>)]) -> Vec<ChainBreak> {
        let mut chain = Chain::default();
        for (at, entry) in lines {
            chain.follow(*at, *entry);
        }
        chain.end(log.last().map(|entry| (entry.id, entry.hash)));
        chain.breaks().to_vec()
    }

    fn numbered(log: &[AuditEntry]) -> Vec<(u64, Option<&AuditEntry>)> {
        (1..).zip(log.iter().map(Some)).collect()
    }

    #[test]
    fn a_whole_log_has_no_break() {
        assert_eq!(found(&[], &[]), []);
        let log = log(5);
        assert_eq!(found(&log, &numbered(&log)), []);
    }

    #[test]
    fn an_altered_line_is_named_alone() {
        let log = log(5);
        for line in 1..=5_u64 {
            let mut forged = log.clone();
            forged[line as usize - 1].audited.actor = "eve".into();
            assert_eq!(
                found(&log, &numbered(&forged)),
                [ChainBreak::Altered(line)],
                "its neighbours are whole"
            );
        }
    }

    #[test]
    fn an_altered_line_with_a_new_hash_breaks_the_link_after_it() {
        let log = log(5);
        let mut forged = log.clone();
        let before = (forged[1].id, forged[1].hash);
        forged[2] = AuditEntry::next(Some(before), forged[2].at, audited("other"));
        assert_eq!(found(&log, &numbered(&forged)), [ChainBreak::Unlinked(4)]);
        let mut forged = log.clone();
        let before = (forged[3].id, forged[3].hash);
        forged[4] = AuditEntry::next(Some(before), forged[4].at, audited("other"));
        assert_eq!(found(&log, &numbered(&forged)), [ChainBreak::OtherEnd(5)]);
    }

    #[test]
    fn removed_lines_are_named_wherever_they_stood() {
        let log = log(5);
        for line in 1..=5_u64 {
            let mut lines = numbered(&log);
            lines.remove(line as usize - 1);
            assert_eq!(found(&log, &lines), [ChainBreak::Missing(line, line)]);
        }
        assert_eq!(found(&log, &[]), [ChainBreak::Missing(1, 5)]);
    }

    #[test]
    fn inserted_moved_and_unreadable_lines_are_named() {
        let log = log(3);
        let mut lines = numbered(&log);
        let more = AuditEntry::next(Some((3, log[2].hash)), Time::from_secs(9), audited("x"));
        lines.push((4, Some(&more)));
        assert_eq!(found(&log, &lines), [ChainBreak::AfterEnd(4)]);
        let swapped = [(1, Some(&log[0])), (2, Some(&log[2])), (3, Some(&log[1]))];
        assert_eq!(
            found(&log, &swapped),
            [
                ChainBreak::Moved { at: 2, says: 3 },
                ChainBreak::Moved { at: 3, says: 2 }
            ]
        );
        let unreadable = [(1, Some(&log[0])), (2, None), (3, Some(&log[2]))];
        assert_eq!(found(&log, &unreadable), [ChainBreak::Unreadable(2)]);
    }
}
