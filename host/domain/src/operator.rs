//! People and scripts that run the gateway.

use serde::{Deserialize, Serialize};

use crate::id::OperatorId;
use crate::key::TokenHash;
use crate::time::Time;

/// What an operator may do; each includes the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Read everything.
    Viewer,
    /// Change all but operators, the making of merchants, live approval and live rollouts.
    Operator,
    /// Everything.
    Admin,
}

/// An operator with a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operator {
    /// Its id.
    pub id: OperatorId,
    /// For the audit log.
    pub name: String,
    /// What it may do.
    pub role: Role,
    /// SHA-256 of the token.
    pub hash: TokenHash,
    /// When it was made.
    pub created_at: Time,
    /// From when on its token is refused.
    pub expires_at: Option<Time>,
}

impl Operator {
    /// Whether the token still opens anything.
    pub fn usable(&self, now: Time) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}
