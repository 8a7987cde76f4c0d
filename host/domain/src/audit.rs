//! The audit log: who changed what and why, each entry bound to the one before by its hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::time::Time;

/// Who asks for a change and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Audited {
    /// Name of the authenticated operator; `system` for the server's own changes.
    pub operator: String,
    /// The person that the operator says it acts for; else the operator's name.
    pub actor: String,
    /// Why, where it was said.
    pub reason: Option<String>,
    /// `noun.verb`: `merchant.create`, `payment.review`.
    pub action: String,
    /// What was changed: `merchant/1`, `payment/<id>`.
    pub object: String,
    /// The object as JSON text before, without secrets; none for a creation.
    pub before: Option<String>,
    /// The object as JSON text after; none for a removal.
    pub after: Option<String>,
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    /// Counted from 1, without gaps.
    pub id: u64,
    /// When.
    pub at: Time,
    /// What.
    pub audited: Audited,
    /// Hash of the entry before; zeros for the first.
    pub prev_hash: [u8; 32],
    /// [`AuditEntry::seal`] of everything above.
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

    /// SHA-256 over every field, each with its length before it so that none can run into the next.
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
        hash.finalize().into()
    }

    /// Whether the entry is whole and follows `last`.
    pub fn follows(&self, last: Option<(u64, [u8; 32])>) -> bool {
        let (id, prev_hash) = last.map_or((1, [0; 32]), |(id, hash)| (id + 1, hash));
        self.id == id
            && self.prev_hash == prev_hash
            && self.hash == Self::seal(self.id, self.at, &self.audited, &self.prev_hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audited(action: &str) -> Audited {
        Audited {
            operator: "root".into(),
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
}
