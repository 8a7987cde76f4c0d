//! What `dev` alone can do from the admin listener: move the clock, spoil simulators, read books.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_sim::Sim;
use serde_json::Value;

use super::elsewhere::Elsewhere;
use super::order::{ControlError, Order};

/// The handles of `dev`.
pub(crate) enum DevControls {
    /// Of what is in this process.
    Here {
        clock: Arc<AdjustableClock>,
        sim: Arc<Sim>,
    },
    /// Of what the process of `dev` has for all its nodes.
    Elsewhere(Arc<Elsewhere>),
}

/// Longest that the clock is moved at once: ten years find every due thing there can be.
pub(crate) const MAX_ADVANCE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

impl DevControls {
    /// Moves the clock of gateway and simulators forward and does what falls due.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn advance(
        &self,
        gateway: &Gateway,
        by: Duration,
    ) -> Result<Time, ControlError> {
        let (clock, sim) = match self {
            Self::Here { clock, sim } => (clock, sim),
            Self::Elsewhere(elsewhere) => {
                let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
                let now = elsewhere.ask(&Order::Advance { millis }).await?;
                return Ok(Time::from_millis(now.as_u64().unwrap_or_default()));
            }
        };
        clock.advance(by);
        sim.clock_moved();
        gateway.do_what_is_due().await?;
        Ok(clock.now())
    }

    /// Does what is to be done with the simulators alone; see [`Order`] for what is answered.
    ///
    /// # Errors
    /// [`ControlError`]
    pub(crate) async fn order(&self, order: Order) -> Result<Value, ControlError> {
        match self {
            Self::Here { sim, .. } => order.carry_out(sim),
            Self::Elsewhere(elsewhere) => elsewhere.ask(&order).await,
        }
    }
}
