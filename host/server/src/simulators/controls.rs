//! Controls on the admin listener of `dev`: move the clock, inject faults into simulators, read their records.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_sim::Sim;
use serde_json::Value;

use super::elsewhere::Elsewhere;
use super::order::{ControlError, Order};

/// Access to the clock and the simulators of `dev`.
pub(crate) enum DevControls {
    /// In this process.
    Here {
        clock: Arc<AdjustableClock>,
        sim: Arc<Sim>,
    },
    /// In the parent process, for all its nodes.
    Elsewhere(Arc<Elsewhere>),
}

/// Maximum move of the clock: ten years, after which everything pending is due.
pub(crate) const MAX_ADVANCE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

impl DevControls {
    /// Moves the clock of gateway and simulators forward, and does all due work. Returns the new time.
    ///
    /// # Errors
    /// Errors of the store, and of the parent process.
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

    /// Executes an order that concerns only the simulators. See [`Order`] for the returned value.
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
