//! Requests of nodes to the process of `dev`, which owns the clock and the simulators.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use futures_util::future::join_all;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use kassette_domain::secret::Secret;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_sim::Sim;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::messages::Move;
use super::process::Member;
use crate::dev::error::DevError;
use crate::simulators::{ControlError, Order, authorization};

/// The server for orders of nodes.
pub(super) struct ControlServer {
    pub(super) address: SocketAddr,
    /// Last move of the clock. Locked while a node's process starts or the clock moves, so that a node does not
    /// miss a move.
    pub(super) clock_at: Arc<Mutex<Move>>,
}

struct ControlState {
    clock: Arc<AdjustableClock>,
    sim: Arc<Sim>,
    members: Vec<Arc<Member>>,
    clock_at: Arc<Mutex<Move>>,
    authorization: HeaderValue,
}

impl ControlServer {
    /// Accepts orders until the process ends.
    pub(super) async fn open(
        clock: Arc<AdjustableClock>,
        sim: Arc<Sim>,
        members: Vec<Arc<Member>>,
        secret: &Secret,
    ) -> Result<Self, DevError> {
        let failed = |error: &dyn std::fmt::Display| DevError::NoNode(error.to_string());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| failed(&error))?;
        let address = listener.local_addr().map_err(|error| failed(&error))?;
        let clock_at = Arc::default();
        let state = ControlState {
            clock,
            sim,
            members,
            clock_at: Arc::clone(&clock_at),
            authorization: authorization(secret).map_err(|error| failed(&error))?,
        };
        let routes = Router::new()
            .route("/", post(take))
            .with_state(Arc::new(state));
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!("no orders of nodes are taken any more: {error}");
            }
        });
        Ok(Self { address, clock_at })
    }
}

/// All processes of this machine can connect, so an order needs the secret, which only the nodes know.
async fn take(
    State(state): State<Arc<ControlState>>,
    headers: HeaderMap,
    Json(order): Json<Order>,
) -> Result<Json<Result<Value, ControlError>>, StatusCode> {
    let shown = headers.get(AUTHORIZATION);
    let shown = shown.map(HeaderValue::as_bytes).unwrap_or_default();
    if !bool::from(shown.ct_eq(state.authorization.as_bytes())) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    Ok(Json(match order {
        Order::Advance { millis } => state.advance(millis).await,
        order => order.carry_out(&state.sim),
    }))
}

impl ControlState {
    /// Moves the clock of all nodes and of the simulators, and waits for the due work.
    async fn advance(&self, millis: u64) -> Result<Value, ControlError> {
        let mut at = self.clock_at.lock().await;
        *at = Move {
            number: at.number + 1,
            ahead: at.ahead.saturating_add(millis),
        };
        self.clock.advance(Duration::from_millis(millis));
        self.sim.clock_moved();
        let moves = self.members.iter().map(|member| member.move_clock(*at));
        for moved in join_all(moves).await {
            moved.map_err(ControlError::Failed)?;
        }
        Ok(self.clock.now().as_millis().into())
    }
}
