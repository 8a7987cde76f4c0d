//! Readiness of the server for payments.

use std::sync::Arc;
use std::time::Duration;

use kassette_store::{Fault, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time for which the store's response is reused. Each probe writes and syncs.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Timeout of a probe. A slower store cannot process payments.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Time for which a node may serve other modules than the other nodes before it reports not ready.
const MODULES_BEHIND: Duration = Duration::from_secs(30);

/// Time for which the server has not followed changes of modules. `None` if it is up to date.
pub(super) type ModulesBehind = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// Determines whether the server can process payments. Limits how often the store is probed.
pub(super) struct Readiness {
    store: Arc<dyn Store>,
    modules_behind: ModulesBehind,
    stopping: CancellationToken,
    /// Time and result of the last probe.
    probed: Mutex<Option<(Instant, Result<(), Unready>)>>,
}

/// Reason why the server cannot process payments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unready {
    /// One of [`REASONS`].
    pub(super) reason: &'static str,
    /// A sentence for operators.
    pub(super) why: String,
}

/// Reasons: the server is stopping; it serves other modules than the other nodes; the store rejects writes, is
/// busy, responds too late, is damaged, or has stopped.
pub(super) const REASONS: &[&str] = &[
    "stopping",
    "modules_behind",
    "store_unavailable",
    "store_busy",
    "store_late",
    "store_damaged",
    "store_stopped",
];

impl Unready {
    fn new(reason: &'static str, why: impl Into<String>) -> Self {
        let why = why.into();
        Self { reason, why }
    }
}

impl From<Fault> for Unready {
    fn from(fault: Fault) -> Self {
        let reason = match &fault {
            Fault::Unavailable(_) => "store_unavailable",
            Fault::Busy => "store_busy",
            Fault::Corrupt(_) => "store_damaged",
            Fault::Stopping => "store_stopped",
        };
        Self::new(reason, fault.to_string())
    }
}

impl Readiness {
    pub(super) fn new(
        store: Arc<dyn Store>,
        modules_behind: ModulesBehind,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            store,
            modules_behind,
            stopping,
            probed: Mutex::default(),
        }
    }

    /// Whether the server can process payments now.
    ///
    /// # Errors
    /// The reason if it cannot.
    pub(super) async fn ready(&self) -> Result<(), Unready> {
        if self.stopping.is_cancelled() {
            return Err(Unready::new("stopping", "the server is stopping"));
        }
        self.probe().await?;
        if (self.modules_behind)().is_some_and(|behind| behind > MODULES_BEHIND) {
            let why = "changes of modules that the other nodes serve are not followed here";
            return Err(Unready::new("modules_behind", why));
        }
        Ok(())
    }

    /// Whether the store accepts writes, from a recent probe if there is one.
    async fn probe(&self) -> Result<(), Unready> {
        // A concurrent probe waits here for the result of the first.
        let mut probed = self.probed.lock().await;
        if let Some((at, answer)) = probed.as_ref()
            && at.elapsed() < PROBE_EVERY
        {
            return answer.clone();
        }
        let answer = match tokio::time::timeout(PROBE_TIME, self.store.probe()).await {
            Ok(answer) => answer.map_err(Unready::from),
            Err(_) => Err(Unready::new(
                "store_late",
                "the store did not answer in time",
            )),
        };
        *probed = Some((Instant::now(), answer.clone()));
        answer
    }
}
