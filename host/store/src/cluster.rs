//! The nodes that serve one store, and the tasks that only one of them performs at a time.

use std::time::Duration;

use kassette_domain::id::{AttemptId, PaymentId};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::StoreFuture;

/// Information that a node announces to the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Version of its program.
    pub version: String,
    pub started_at: Time,
    /// Address of its public listener. Empty if not announced.
    pub public_address: String,
    /// Address of its admin listener. Empty if not announced.
    pub admin_address: String,
    /// Whether it accepts nothing new, because it is about to end.
    pub draining: bool,
    /// Digest of its configuration, in hex. Empty if not announced.
    pub configuration: String,
    /// Digest of its active modules, in hex. Empty if not announced.
    pub modules: String,
}

impl NodeInfo {
    /// The parts in which this node differs from another: `version`, `configuration`, `modules`. Parts that
    /// one of them does not announce are not compared.
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

/// A node's progress with the modules of all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModulesInfo {
    /// The last change that it has followed.
    pub followed: u64,
    /// The last proposal that it has checked.
    pub checked: u64,
    /// Reason why it cannot serve that proposal. `None` if it can.
    pub refusal: Option<String>,
}

/// A node, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    pub name: String,
    /// Random number, new at each start of a node and when a node returns that was given up.
    pub incarnation: u64,
    /// Whether it is this node.
    pub is_self: bool,
    /// Time since its last beat, by the store's clock.
    pub beat_age: Duration,
    /// Version of the directory that it has adopted. Zero if it has just joined.
    pub adopted: u64,
    /// Number of changes of the directory that it has not adopted yet.
    pub lag: u64,
    /// The information that it announces.
    pub info: NodeInfo,
    /// Its progress with modules.
    pub modules: ModulesInfo,
}

/// A node's part of the requests of all nodes. It grants the same part of a limit that applies to all nodes
/// together. The shares of all nodes add up to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeShare {
    /// Numerator.
    pub own: u64,
    /// Denominator. Never zero.
    pub all: u64,
}

impl NodeShare {
    /// The share of the only node.
    pub const WHOLE: Self = Self { own: 1, all: 1 };

    /// The node's part of a limit, rounded up: at least one if the limit is not zero.
    pub fn share_of(self, limit: u32) -> u32 {
        let part = (u128::from(limit) * u128::from(self.own)).div_ceil(u128::from(self.all.max(1)));
        u32::try_from(part).unwrap_or(u32::MAX).min(limit)
    }
}

/// Background work that one node at a time performs for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Task {
    /// Deletion of expired decisions, personal data and deliveries.
    Forget,
    /// Evaluation of the counts of versions on trial.
    JudgeTrials,
    /// A recent query to the provider about an attempt.
    Ask(AttemptId),
}

impl Task {
    /// Name in the store.
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
    /// Returns the nodes that serve the store, ordered by name. A crashed node is included for some seconds.
    fn nodes(&self) -> StoreFuture<'_, Vec<NodeStatus>>;
    /// Sets the information about this node. Other nodes see it after the next beat, within half a second.
    fn announce(&self, info: NodeInfo);
    /// Like [`Cluster::announce`], for its modules.
    fn announce_modules(&self, modules: ModulesInfo);
    /// Number of nodes that serve the store, as of the last beat. At least one. Very cheap.
    fn live_nodes(&self) -> u32;
    /// Counts a request against a limit for all nodes. Very cheap.
    fn demanded(&self);
    /// This node's share of the requests that [`Cluster::demanded`] has counted at all nodes, as of the last
    /// beat. Very cheap.
    fn share(&self) -> NodeShare;
    /// Payments that any node has put into review and that are still there: at most some thousands. `None` if
    /// there can be no other node.
    fn reviewed(&self) -> StoreFuture<'_, Option<Vec<PaymentId>>>;
    /// Takes a task for a time by the store's clock, or extends it if this node has it already. False if
    /// another node has it. A node that ends returns its tasks.
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
