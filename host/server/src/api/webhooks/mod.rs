//! Operations on webhook endpoints and the delivery log, for operators, and for merchants and resellers with
//! their own. Operations with changes have a parameter `line`, which builds the audit entry for an action on an
//! object.

pub(crate) mod deliveries;
pub(crate) mod endpoints;
pub(crate) mod schemas;

use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::webhook::Endpoint;

/// Endpoints and deliveries that a caller may access.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// All, for an operator.
    All,
    /// Those of the key's owner and environment.
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
