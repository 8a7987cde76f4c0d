//! Permission to manage webhook endpoints by key: a merchant's or a reseller's with the scope `account:manage`.

use std::marker::PhantomData;

use axum::extract::{FromRequest, Request};
use http::Method;
use kassette_domain::audit::Audited;
use kassette_domain::id::KeyId;
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope};
use kassette_domain::policy::RateLimit;

use crate::api::access::{self, Arrived};
use crate::api::list::COST;
use crate::api::reseller::signed::{Permission, SignedReseller};
use crate::api::state::ApiState;
use crate::api::webhooks::Reach;
use crate::web::error::ApiError;

/// Tokens per change: each change appends to the audit log, in which a flood must not hide the operators'
/// entries.
const CHANGE: u32 = 10;

/// Rate limit of changes per owner, with all its keys. With the default limit of requests, 60 at once and one
/// per ten seconds after that.
const fn changes(limit: RateLimit) -> RateLimit {
    let per_second = limit.per_second / 50;
    RateLimit {
        per_second: if per_second == 0 { 1 } else { per_second },
        burst: limit.burst.saturating_mul(6),
    }
}

/// Marks requests at resellers' paths.
#[derive(Clone, Copy)]
pub(super) struct ForResellers;

/// Permission to manage webhook endpoints.
#[derive(Debug)]
pub(super) struct Manage;

impl Permission for Manage {
    const SCOPE: Scope = Scope::AccountManage;
}

/// Permission to list deliveries. A list for all endpoints costs as much as a filtered page of payments.
#[derive(Debug)]
pub(super) struct ListDeliveries;

impl Permission for ListDeliveries {
    const SCOPE: Scope = Scope::AccountManage;

    fn cost(query: Option<&str>) -> u32 {
        let names_endpoint = query.is_some_and(|query| {
            form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "endpoint_id")
        });
        if names_endpoint { 1 } else { COST }
    }
}

/// A request by a key with the scope: of a merchant, regardless of live approval; or of a reseller, in live
/// with rollout and signature like all its requests.
#[derive(Debug)]
pub(super) struct Manager<P = Manage> {
    pub(super) owner: KeyOwner,
    pub(super) environment: Environment,
    pub(super) key: KeyId,
    pub(super) arrived: Arrived,
    permission: PhantomData<P>,
}

impl<P> Manager<P> {
    /// The objects that the key may access.
    pub(super) const fn reach(&self) -> Reach {
        Reach::Own(self.owner, self.environment)
    }

    /// Returns a function that builds audit entries for the key.
    pub(super) fn line(&self) -> impl FnOnce(&str, String) -> Audited {
        let actor = format!("key/{}", self.key);
        |action, object| Audited {
            actor,
            ..Audited::of_system(action, object)
        }
    }

    fn new(key: &ApiKey, arrived: Arrived) -> Self {
        Self {
            owner: key.owner,
            environment: key.environment,
            key: key.id,
            arrived,
            permission: PhantomData,
        }
    }
}

impl<P: Permission> FromRequest<ApiState> for Manager<P> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &ApiState) -> Result<Self, ApiError> {
        let (manager, limit) = if request.extensions().get::<ForResellers>().is_some() {
            let signed = SignedReseller::<P>::from_request(request, state).await?;
            let limit = state.gateway().settings().rate_limit;
            (Self::new(&signed.caller.key, signed.arrived), limit)
        } else {
            let cost = P::cost(request.uri().query());
            let (caller, arrived) = access::merchant(request, state, P::SCOPE, cost).await?;
            let limit = access::rate_limit(&caller, state);
            (Self::new(&caller.key, arrived), limit)
        };
        if manager.arrived.parts.method != Method::GET {
            let (limit, changes) = (changes(limit), &state.limits().changes);
            state.take(limit, |here| {
                changes.take_many(&manager.owner, CHANGE, here, state.now())
            })?;
        }
        Ok(manager)
    }
}
