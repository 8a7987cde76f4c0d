//! What the simulators are told to do, in this process or from another one.

use std::net::SocketAddr;

use kassette_sim::{Fault, Sim, SimError};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a node has the process of `dev` do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Move the clock of all nodes and of the simulators forward; answers the time, milliseconds since 1970.
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
    /// Answers a list.
    Books {
        provider: Option<String>,
    },
    /// See [`Sim::connection_refused`].
    ConnectionRefused {
        address: SocketAddr,
    },
}

/// Why a simulator was not told.
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
    /// As the store's failures are answered.
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
    /// Has the simulators do it; the clock is not theirs.
    ///
    /// # Errors
    /// [`ControlError`]
    pub(crate) fn carry_out(self, sim: &Sim) -> Result<Value, ControlError> {
        match self {
            Self::Advance { .. } => sim.clock_moved(),
            // Ends all of it.
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
