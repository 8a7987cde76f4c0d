//! What handlers share.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::extract::ConnectInfo;
use http::request::Parts;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;

use super::client::client_ip;
use super::error::ApiError;
use super::limit::Limits;

/// What handlers share; cheap to clone.
#[derive(Clone)]
pub(crate) struct ApiState {
    gateway: Gateway,
    edge: Arc<EdgeState>,
}

/// What the gateway need not know.
struct EdgeState {
    limits: Limits,
    trusted_proxies: Vec<IpAddr>,
}

impl ApiState {
    /// The state over a gateway; `X-Forwarded-For` counts from these proxies alone.
    pub(crate) fn new(gateway: Gateway, trusted_proxies: Vec<IpAddr>) -> Self {
        let edge = EdgeState {
            limits: Limits::default(),
            trusted_proxies,
        };
        Self {
            gateway,
            edge: Arc::new(edge),
        }
    }

    /// The use cases.
    pub(super) fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// The rate limits.
    pub(super) fn limits(&self) -> &Limits {
        &self.edge.limits
    }

    /// The time.
    pub(super) fn now(&self) -> Time {
        self.gateway.clock().now()
    }

    /// Counts a request that has no usable key against its address.
    pub(crate) fn count_address(&self, parts: &Parts) -> Result<(), ApiError> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        let unknown = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let peer = peer.map_or(unknown, |ConnectInfo(peer)| peer.ip());
        let address = client_ip(peer, &parts.headers, &self.edge.trusted_proxies);
        let limit = self.gateway.settings().rate_limit;
        Ok(self.edge.limits.address(address, limit, self.now())?)
    }
}
