//! Who manages webhook endpoints by key: a merchant's or a reseller's, with the scope `account:manage`.

use axum::extract::{FromRequest, Request};
use kassette_domain::audit::Audited;
use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope};

use crate::api::access::{self, Arrived};
use crate::api::reseller::signed::{Permission, SignedReseller};
use crate::api::state::ApiState;
use crate::api::webhooks::Reach;
use crate::web::error::ApiError;

/// Marks the requests at resellers' paths.
#[derive(Clone, Copy)]
pub(super) struct ForResellers;

/// Managing webhook endpoints.
struct Manage;

impl Permission for Manage {
    const SCOPE: Scope = Scope::AccountManage;
}

/// A request by a key with the scope: of a merchant, whatever live approval it has; or of a reseller, in live rolled
/// out and signed like all its requests.
#[derive(Debug)]
pub(super) struct Manager {
    pub(super) owner: KeyOwner,
    pub(super) environment: Environment,
    key: KeyId,
    pub(super) arrived: Arrived,
}

impl Manager {
    /// What the key reaches.
    pub(super) const fn reach(&self) -> Reach {
        Reach::Own(self.owner, self.environment)
    }

    /// How the audit log is told what the key does.
    pub(super) fn line(&self) -> impl FnOnce(&str, String) -> Audited {
        let actor = format!("key/{}", self.key);
        |action, object| Audited {
            actor,
            ..Audited::of_system(action, object)
        }
    }

    fn of(key: &ApiKey, arrived: Arrived) -> Self {
        Self {
            owner: key.owner,
            environment: key.environment,
            key: key.id,
            arrived,
        }
    }
}

impl FromRequest<ApiState> for Manager {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        if request.extensions().get::<ForResellers>().is_some() {
            let signed = SignedReseller::<Manage>::from_request(request, state).await?;
            return Ok(Self::of(&signed.caller.key, signed.arrived));
        }
        let (caller, arrived) = access::merchant(request, state, Scope::AccountManage, 1).await?;
        Ok(Self::of(&caller.key, arrived))
    }
}
