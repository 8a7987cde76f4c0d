//! Two kinds of iDEAL modules that decide differently, with any number of versions of each.

use std::collections::HashMap;

use kassette_domain::id::Digest;
use serde_json::{Value, json};

use crate::support::Method;

/// The accounts that both kinds rank.
pub(crate) const ACCOUNTS: [&str; 2] = ["sandbox-first", "sandbox-second"];

/// Behavior of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Ranks the accounts in their order.
    Forward,
    /// Ranks them in reverse order, with other reasons and another label.
    Backward,
}

impl Kind {
    pub(crate) const BOTH: [Self; 2] = [Self::Forward, Self::Backward];

    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Forward => "iDEAL, forward",
            Self::Backward => "iDEAL, backward",
        }
    }

    /// Accounts with the reasons for their rank.
    fn verdicts(self) -> [(&'static str, &'static str); 2] {
        let [one, two] = ACCOUNTS;
        match self {
            Self::Forward => [(one, "forward, first"), (two, "forward, second")],
            Self::Backward => [(two, "backward, first"), (one, "backward, second")],
        }
    }

    /// Builds a version. The number distinguishes it from others of its kind.
    fn build(self, number: u32) -> Vec<u8> {
        let verdicts = self.verdicts().map(|(account, why)| (account, Ok(why)));
        let mut method = Method {
            label: self.label(),
            ..Method::saying(&verdicts)
        };
        method.data.put(&number.to_le_bytes());
        method.build()
    }

    /// Kind of version that produced an entry of the listing. `None` if the entry does not match either kind.
    pub(crate) fn listed(entry: &Value) -> Option<Self> {
        let providers = entry["providers"].as_array()?.iter();
        let ids: Vec<_> = providers.map(|one| one["id"].clone()).collect();
        Self::BOTH.into_iter().find(|kind| {
            let expected = kind.verdicts().map(|(account, _)| json!(account));
            entry["label"] == kind.label() && ids == expected
        })
    }

    /// Asserts that a decision from the admin API matches this version's response.
    #[track_caller]
    pub(crate) fn assert_decided(self, decision: &Value) {
        let [(first, why), _] = self.verdicts();
        let verdicts = self.verdicts().map(
            |(account, why)| json!({ "provider_id": account, "eligible": true, "reason": why }),
        );
        assert_eq!(decision["slot"], "method.ideal");
        assert_eq!(decision["chosen"], first, "{decision}");
        assert_eq!(decision["verdicts"], json!(verdicts), "{decision}");
        let explanation = decision["explanation"].as_str().unwrap();
        let end = format!(": {why}");
        assert!(
            explanation.starts_with(first) && explanation.ends_with(&end),
            "{explanation}"
        );
    }
}

/// The versions built so far.
#[derive(Default)]
pub(crate) struct Versions {
    kinds: HashMap<String, Kind>,
    made: u32,
}

impl Versions {
    /// A version that the gateway does not know.
    pub(crate) fn fresh(&mut self, kind: Kind) -> Vec<u8> {
        let bytes = kind.build(self.made);
        self.made += 1;
        self.kinds.insert(Digest::hash(&bytes).to_string(), kind);
        bytes
    }

    /// Kind of the version with a digest.
    pub(crate) fn kind(&self, digest: &Value) -> Kind {
        let kind = digest.as_str().and_then(|digest| self.kinds.get(digest));
        *kind.unwrap_or_else(|| panic!("{digest} is none of ours"))
    }
}
