//! What `dev` alone can do from the admin listener: move the clock, spoil simulators, read books.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_sim::{BookEntry, Fault, Sim, SimError};

/// The handles of `dev`.
pub(crate) struct DevControls {
    clock: Arc<AdjustableClock>,
    sim: Arc<Sim>,
}

/// Longest that the clock is moved at once: ten years find every due thing there can be.
pub(crate) const MAX_ADVANCE: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// Why a simulator was not told.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    /// 422.
    #[error("fault: {0}")]
    UnknownFault(String),
    /// 404.
    #[error("provider_id: no simulated account {0}")]
    UnknownAccount(String),
    /// 422.
    #[error("times: {0}")]
    Times(String),
    /// 422.
    #[error("url: {0}")]
    Address(String),
    /// 500.
    #[error("{0}")]
    Simulator(String),
}

impl From<SimError> for ControlError {
    fn from(error: SimError) -> Self {
        match error {
            SimError::UnknownAccount(id) => Self::UnknownAccount(id),
            SimError::Times { .. } => Self::Times(error.to_string()),
            SimError::Account { reason, .. } => Self::Address(reason),
            other => Self::Simulator(other.to_string()),
        }
    }
}

impl DevControls {
    pub(crate) const fn new(clock: Arc<AdjustableClock>, sim: Arc<Sim>) -> Self {
        Self { clock, sim }
    }

    /// Moves the clock of gateway and simulators forward and does what falls due.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn advance(
        &self,
        gateway: &Gateway,
        by: Duration,
    ) -> Result<Time, kassette_store::Fault> {
        self.clock.advance(by);
        self.sim.clock_moved();
        gateway.do_what_is_due().await?;
        Ok(self.clock.now())
    }

    /// Spoils the next calls of an account's simulator; `none` ends all of it.
    ///
    /// # Errors
    /// Where account, fault or number are not known.
    pub(crate) fn fault(
        &self,
        provider_id: &str,
        fault: &str,
        times: u32,
    ) -> Result<(), ControlError> {
        if fault == "none" {
            return Ok(self.sim.clear_faults(provider_id)?);
        }
        let fault: Fault = fault.parse().map_err(|error: kassette_sim::UnknownFault| {
            ControlError::UnknownFault(error.to_string())
        })?;
        Ok(self.sim.set_fault(provider_id, fault, times)?)
    }

    /// Sends an account's callbacks elsewhere until the process ends, so that a test can look at
    /// them on their way.
    ///
    /// # Errors
    /// Where the account is not known, or the address is not plain http on loopback.
    pub(crate) fn call_back_to(&self, provider_id: &str, url: &str) -> Result<(), ControlError> {
        Ok(self.sim.set_callback_url(provider_id, url)?)
    }

    /// What an account's simulator believes; of all accounts where none is named.
    ///
    /// # Errors
    /// Where the account is not known.
    pub(crate) fn books(&self, provider_id: Option<&str>) -> Result<Vec<BookEntry>, ControlError> {
        let ids = match provider_id {
            Some(id) => vec![id.to_owned()],
            None => self.sim.provider_ids(),
        };
        let mut entries = Vec::new();
        for id in ids {
            entries.extend(self.sim.books(&id)?);
        }
        Ok(entries)
    }
}
