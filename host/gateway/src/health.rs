//! What the host measured of each account.

use kassette_domain::id::AccountId;
use kassette_domain::routing::Health;
use kassette_domain::time::Time;

use crate::Gateway;

/// An account's health for operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountHealth {
    /// The figures that routing sees.
    pub health: Health,
    /// When something was last learnt; none: never.
    pub checked_at: Option<Time>,
}

impl Gateway {
    /// What is known of an account.
    pub fn account_health(&self, account: &AccountId) -> AccountHealth {
        let _ = account;
        todo!()
    }
}
