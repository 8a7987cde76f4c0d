//! Whether the server can take payments.

use std::sync::Arc;
use std::time::Duration;

use kassette_store::{Fault, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long an answer of the store holds: each probe writes and syncs.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Longest probe; a store that is slower cannot take payments.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// How long a node may serve other modules than the others before it is not ready.
const MODULES_BEHIND: Duration = Duration::from_secs(30);

/// For how long the server has not followed changes of modules; none where it has.
pub(super) type ModulesBehind = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// Whether the server can take payments; asks the store, not too often.
pub(super) struct Readiness {
    store: Arc<dyn Store>,
    modules_behind: ModulesBehind,
    stopping: CancellationToken,
    /// When the store was asked last, and why it could not take operations.
    probed: Mutex<Option<(Instant, Result<(), Unready>)>>,
}

/// Why the server cannot take payments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unready {
    /// One of [`REASONS`].
    pub(super) reason: &'static str,
    /// A sentence for operators.
    pub(super) why: String,
}

/// The words for why: the server is told to stop; it serves other modules than the other nodes; the store takes
/// nothing, has too much to do, answers too late, is damaged, or has ended.
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

    /// Whether the server can take payments now.
    ///
    /// # Errors
    /// Why not.
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

    /// Whether the store takes writes; the answer of a moment ago where there is one.
    async fn probe(&self) -> Result<(), Unready> {
        // A probe that comes while another asks the store waits for that answer.
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
