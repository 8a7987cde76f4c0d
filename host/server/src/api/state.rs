//! State shared by the handlers.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use http::request::Parts;
use kassette_domain::policy::RateLimit;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limit::RateLimiters;
use crate::admission::{Admission, InFlightLimits};
use crate::proxies::Proxies;
use crate::web::error::{ApiError, Exhausted};

/// State shared by the handlers, behind one pointer, because each request clones it several times.
#[derive(Clone)]
pub(crate) struct ApiState(Arc<Shared>);

struct Shared {
    gateway: Gateway,
    limits: RateLimiters,
    trusted_proxies: Proxies,
    admission: Arc<Admission>,
    /// Limits callbacks in flight from unlisted addresses to half of all callbacks. They may send their bodies
    /// slowly and wait for their own permits without delaying listed addresses.
    unproved_callbacks: Arc<Semaphore>,
}

impl ApiState {
    /// The state for a gateway. `X-Forwarded-For` is trusted only from these proxies, and at most `most`
    /// requests are in flight.
    pub(crate) fn new(gateway: Gateway, trusted_proxies: Proxies, most: InFlightLimits) -> Self {
        Self(Arc::new(Shared {
            gateway,
            limits: RateLimiters::default(),
            trusted_proxies,
            admission: Arc::new(Admission::new(most)),
            unproved_callbacks: Arc::new(Semaphore::new(most.callbacks.div_ceil(2))),
        }))
    }

    /// Admission for the whole public listener.
    pub(crate) fn admission(&self) -> &Arc<Admission> {
        &self.0.admission
    }

    /// Reserves a callback in flight from an unlisted address until the permit is dropped. `None` if the limit
    /// is reached.
    pub(super) fn unproved_callback(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.unproved_callbacks)
            .try_acquire_owned()
            .ok()
    }

    /// The use cases.
    pub(super) fn gateway(&self) -> &Gateway {
        &self.0.gateway
    }

    pub(super) fn limits(&self) -> &RateLimiters {
        &self.0.limits
    }

    /// Counts a request against a limit of all nodes together: `take` uses this node's share.
    ///
    /// # Errors
    /// [`Exhausted`], for the whole limit.
    pub(super) fn take(
        &self,
        limit: RateLimit,
        take: impl FnOnce(RateLimit) -> Result<(), Exhausted>,
    ) -> Result<(), Exhausted> {
        let store = self.0.gateway.store();
        store.demanded();
        let share = store.share();
        let here = RateLimit {
            per_second: share.share_of(limit.per_second),
            burst: share.share_of(limit.burst),
        };
        take(here).map_err(|exhausted| Exhausted { limit, ..exhausted })
    }

    pub(super) fn now(&self) -> Time {
        self.0.gateway.clock().now()
    }

    /// The client's address.
    pub(crate) fn client(&self, parts: &Parts) -> IpAddr {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let peer = peer.map_or(unknown, |ConnectInfo(peer)| peer.ip());
        self.0.trusted_proxies.client(peer, &parts.headers)
    }

    /// Counts a request without a usable key against its address.
    pub(crate) fn count_address(&self, parts: &Parts) -> Result<(), ApiError> {
        let address = self.client(parts);
        let limit = self.0.gateway.settings().rate_limit;
        let counted = self.take(limit, |here| {
            self.0.limits.address(address, here, self.now())
        });
        counted.map_err(ApiError::TooMany)
    }
}
