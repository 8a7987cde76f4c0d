//! The nodes that serve one store: who they are, and which of them does what is done by one at a time.

use std::time::Duration;

use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreFuture;

/// What a node tells the others of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// The version of its program.
    pub version: String,
    pub started_at: Time,
    /// Where its public listener is reached; empty: not told.
    pub public_address: String,
    /// Where its admin listener is reached; empty: not told.
    pub admin_address: String,
    /// Takes nothing new, because it is about to end.
    pub draining: bool,
    /// Digest of its configuration, in hex; empty: not told.
    pub configuration: String,
    /// Digest of its active modules, in hex; empty: not told.
    pub modules: String,
}

impl NodeInfo {
    /// What this node runs that another does not: `version`, `configuration`, `modules`. What one of them does not
    /// tell is not compared.
    pub fn drift(&self, other: &Self) -> Vec<&'static str> {
        let each = [
            ("version", &self.version, &other.version),
            ("configuration", &self.configuration, &other.configuration),
            ("modules", &self.modules, &other.modules),
        ];
        let differs = |own: &str, other: &str| !own.is_empty() && !other.is_empty() && own != other;
        let apart = each
            .into_iter()
            .filter(|(_, own, other)| differs(own, other));
        apart.map(|(what, ..)| what).collect()
    }
}

/// How far a node is with the modules of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModulesInfo {
    /// The last change that it follows.
    pub followed: u64,
    /// The proposal that it has checked last.
    pub checked: u64,
    /// Why it cannot serve that proposal; none where it can.
    pub refusal: Option<String>,
}

/// A node, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    pub name: String,
    /// Drawn anew with each start of a node, and where one that was given up comes back.
    pub incarnation: u64,
    /// Whether it is the one that was asked.
    pub is_self: bool,
    /// How long ago it was last heard of, by the store's clock.
    pub beat_age: Duration,
    /// The version of the directory that it has adopted; zero where it has just joined.
    pub adopted: u64,
    /// Changes of the directory that it has not adopted yet.
    pub lag: u64,
    /// What it tells of itself.
    pub info: NodeInfo,
    /// How far it is with modules.
    pub modules: ModulesInfo,
}

/// The part of the requests of all nodes that comes to one: of a limit that holds for all together it grants as
/// much. The shares of all nodes make one whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShare {
    /// The node's part,
    pub own: u64,
    /// out of so many; never zero.
    pub all: u64,
}

impl NodeShare {
    /// The share of the only node.
    pub const WHOLE: Self = Self { own: 1, all: 1 };

    /// The node's part of a limit, rounded up: at least one of a limit that is not zero.
    pub fn of(self, limit: u32) -> u32 {
        let part = (u128::from(limit) * u128::from(self.own)).div_ceil(u128::from(self.all.max(1)));
        u32::try_from(part).unwrap_or(u32::MAX).min(limit)
    }
}

/// Work that goes on by itself, and that one node at a time does for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Forgets what need not be kept any longer: decisions, personal data, deliveries.
    Forget,
    /// Looks at what was counted of versions on trial.
    JudgeTrials,
    /// Has asked the vendor about an attempt a moment ago.
    Ask(AttemptId),
}

impl Task {
    /// Its name in a store.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Forget => "forget".into(),
            Self::JudgeTrials => "judge trials".into(),
            Self::Ask(attempt) => format!("ask {attempt}"),
        }
    }
}

/// The nodes of a store.
pub trait Cluster: Send + Sync {
    /// The nodes that serve the store, by name. One that has ended without a word is among them for some seconds.
    fn nodes(&self) -> StoreFuture<'_, Vec<NodeStatus>>;
    /// What the others see of this node from its next beat on, within half a second.
    fn announce(&self, info: NodeInfo);
    /// The same of its modules.
    fn announce_modules(&self, modules: ModulesInfo);
    /// How many nodes serve the store, as of the last beat; at least one. Costs next to nothing.
    fn live_nodes(&self) -> u32;
    /// A request has come that a limit for all nodes counts. Costs next to nothing.
    fn demanded(&self);
    /// This node's share of what [`Cluster::demanded`] has counted at all nodes, as of the last beat. Costs next to
    /// nothing.
    fn share(&self) -> NodeShare;
    /// Payments that wait for a person, of those that any node has put into review: at most some thousands. None where
    /// there can be no other node.
    fn reviewed(&self) -> StoreFuture<'_, Option<Vec<PaymentId>>>;
    /// Takes a task for a while, by the store's clock, or longer where this node has it already. False where another
    /// node has it. A node that ends hands its tasks back.
    fn take_task(&self, task: Task, lease: Duration) -> StoreFuture<'_, bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_two_nodes_is_told_and_nothing_of_what_one_does_not_tell() {
        let info = |version: &str, configuration: &str, modules: &str| NodeInfo {
            version: version.into(),
            configuration: configuration.into(),
            modules: modules.into(),
            ..NodeInfo::default()
        };
        let own = info("1", "a", "m");
        assert_eq!(own.drift(&own), Vec::<&str>::new());
        assert_eq!(own.drift(&info("1", "b", "m")), ["configuration"]);
        assert_eq!(own.drift(&info("2", "a", "n")), ["version", "modules"]);
        assert_eq!(own.drift(&NodeInfo::default()), Vec::<&str>::new());
    }
}
