//! What operators do with webhook endpoints and the delivery log, and merchants with their own.

pub(crate) mod deliveries;
pub(crate) mod endpoints;
pub(crate) mod schemas;

use kassette_domain::audit::Audited;
use kassette_domain::id::MerchantId;
use kassette_domain::key::Environment;
use kassette_domain::webhook::Endpoint;

/// Which endpoints and deliveries a caller knows of.
#[derive(Clone, Copy)]
pub(crate) enum Reach {
    /// An operator: all of them.
    All,
    /// A merchant's key: those of its merchant and environment.
    Own(MerchantId, Environment),
}

impl Reach {
    fn covers(self, endpoint: &Endpoint) -> bool {
        match self {
            Self::All => true,
            Self::Own(merchant, environment) => {
                (endpoint.merchant, endpoint.environment) == (merchant, environment)
            }
        }
    }
}

/// Makes the line of the audit log of an action on an object.
pub(crate) trait Line {
    fn of(self, action: &str, object: String) -> Audited;
}

impl<F: FnOnce(&str, String) -> Audited> Line for F {
    fn of(self, action: &str, object: String) -> Audited {
        self(action, object)
    }
}
