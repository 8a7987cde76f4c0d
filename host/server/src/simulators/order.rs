//! Orders to the simulators, from this process or another one.

use std::net::SocketAddr;

use kassette_sim::{Fault, Sim, SimError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An order that a node sends to the process of `dev`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Moves the clock of all nodes and of the simulators forward. Returns the time in milliseconds since 1970.
    Advance {
        millis: u64,
    },
    Fault {
        provider: String,
        fault: String,
        times: u32,
    },
    CallBackTo {
        provider: String,
        url: String,
    },
    /// See [`Sim::release_held`]. Returns the number.
    Release {
        provider: String,
    },
    /// Returns a list.
    Books {
        provider: Option<String>,
    },
    /// See [`Sim::connection_refused`].
    ConnectionRefused {
        address: SocketAddr,
    },
}

/// Reason why an order failed.
#[derive(Debug, Serialize, Deserialize, thiserror::Error)]
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
    Failed(String),
    /// Mapped like other errors of the store.
    #[error(transparent)]
    #[serde(skip)]
    Store(#[from] kassette_store::Fault),
}

impl From<SimError> for ControlError {
    fn from(error: SimError) -> Self {
        match error {
            SimError::UnknownAccount(id) => Self::UnknownAccount(id),
            SimError::Times { .. } => Self::Times(error.to_string()),
            SimError::Account { reason, .. } => Self::Address(reason),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl Order {
    /// Executes the order in the simulators. [`Order::Advance`] only informs them, because the clock is not
    /// theirs.
    ///
    /// # Errors
    /// [`ControlError`]
    pub(crate) fn carry_out(self, sim: &Sim) -> Result<Value, ControlError> {
        match self {
            Self::Advance { .. } => sim.clock_moved(),
            // `none` ends all faults.
            Self::Fault {
                provider, fault, ..
            } if fault == "none" => sim.clear_faults(&provider)?,
            Self::Fault {
                provider,
                fault,
                times,
            } => {
                let fault: Result<Fault, kassette_sim::UnknownFault> = fault.parse();
                let fault = fault.map_err(|error| ControlError::UnknownFault(error.to_string()))?;
                sim.set_fault(&provider, fault, times)?;
            }
            Self::CallBackTo { provider, url } => sim.set_callback_url(&provider, &url)?,
            Self::Release { provider } => return Ok(sim.release_held(&provider)?.into()),
            Self::Books { provider } => {
                let ids = provider.map_or_else(|| sim.provider_ids(), |id| vec![id]);
                let mut entries = Vec::new();
                for id in ids {
                    entries.extend(sim.books(&id)?);
                }
                let entries = serde_json::to_value(entries);
                return entries.map_err(|error| ControlError::Failed(error.to_string()));
            }
            Self::ConnectionRefused { address } => sim.connection_refused(address),
        }
        Ok(Value::Null)
    }
}
