//! What operators do with webhook endpoints and the delivery log, and merchants and resellers with their own. What changes
//! something is given `line`, which makes the line of the audit log of an action on an object.

pub(crate) mod deliveries;
pub(crate) mod endpoints;
pub(crate) mod schemas;

use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::webhook::Endpoint;

/// Which endpoints and deliveries a caller knows of.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// An operator: all of them.
    All,
    /// A key: those of its owner and environment.
    Own(KeyOwner, Environment),
}

impl Reach {
    fn covers(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::All => true,
            Self::Own(owner, environment) => {
                (endpoint.owner, endpoint.environment) == (owner, environment)
            }
        }
    }
}
