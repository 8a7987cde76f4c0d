//! `/livez`, `/readyz` and `/metrics`, for the admin listener.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{HeaderName, StatusCode};
use kassette_store::{Fault, Store};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::gauges::Gauges;
use super::prometheus::Metrics;

/// How long an answer of the store holds: each probe writes and syncs.
const PROBE_EVERY: Duration = Duration::from_secs(1);

/// Longest probe; a store that is slower cannot take payments.
const PROBE_TIME: Duration = Duration::from_secs(2);

/// Prometheus' text form.
const EXPOSITION: [(HeaderName, &str); 1] =
    [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];

/// Whether the server can take payments; asks the store, not too often.
pub(super) struct Readiness {
    store: Arc<dyn Store>,
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
    why: String,
}

/// The words for why: the server is told to stop; the store takes nothing, has too much to do, answers too
/// late, is damaged, or has ended.
pub(super) const REASONS: &[&str] = &[
    "stopping",
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
    pub(super) fn new(store: Arc<dyn Store>, stopping: CancellationToken) -> Self {
        Self {
            store,
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

/// `/livez`, `/readyz` and `/metrics`. Who may see the metrics is for the admin listener to say.
pub(super) fn router(readiness: Arc<Readiness>, metrics: Option<(Metrics, Arc<Gauges>)>) -> Router {
    let readyz = |State(state): State<Arc<Readiness>>| async move { shown(state.ready().await) };
    let scrape = move || {
        let metrics = metrics.clone();
        async move {
            let Some((metrics, gauges)) = metrics else {
                return (EXPOSITION, String::new());
            };
            gauges.set().await;
            (EXPOSITION, metrics.render())
        }
    };
    Router::new()
        .route("/livez", get(|| async { "live\n" }))
        .route("/readyz", get(readyz))
        .route("/metrics", get(scrape))
        .with_state(readiness)
}

fn shown(answer: Result<(), Unready>) -> Response {
    match answer {
        Ok(()) => "ready\n".into_response(),
        Err(Unready { why, .. }) => {
            let text = format!("not ready: {why}\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::extract::Request;
    use kassette_store::SledStore;
    use kassette_store::sled::{MasterKey, OpenOptions};
    use tower::ServiceExt as _;

    struct World {
        readiness: Arc<Readiness>,
        store: Arc<dyn Store>,
        stopping: CancellationToken,
        router: Router,
        _folder: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let options = OpenOptions {
                path: folder.path().join("store"),
                master: MasterKey::from_bytes([7; 32]),
                cache_bytes: 16 << 20,
            };
            let store: Arc<dyn Store> = SledStore::open(&options).unwrap();
            let stopping = CancellationToken::new();
            let readiness = Readiness::new(Arc::clone(&store), stopping.clone());
            let readiness = Arc::new(readiness);
            Self {
                router: router(Arc::clone(&readiness), None),
                readiness,
                store,
                stopping,
                _folder: folder,
            }
        }

        async fn status(&self, path: &str) -> u16 {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let response = self.router.clone().oneshot(request).await.unwrap();
            response.status().as_u16()
        }

        async fn reason(&self) -> &'static str {
            let reason = self.readiness.ready().await.unwrap_err().reason;
            assert!(REASONS.contains(&reason), "{reason}");
            reason
        }
    }

    #[tokio::test]
    async fn a_server_that_stops_lives_but_is_not_ready() {
        let world = World::new();
        assert_eq!(world.status("/readyz").await, 200);
        world.stopping.cancel();
        assert_eq!(world.status("/readyz").await, 503);
        assert_eq!(world.reason().await, "stopping");
        assert_eq!(world.status("/livez").await, 200);
        assert_eq!(world.status("/metrics").await, 200);
    }

    #[tokio::test]
    async fn a_server_whose_store_takes_nothing_is_not_ready() {
        let world = World::new();
        world.store.shut_down().await.unwrap();
        assert_eq!(world.status("/readyz").await, 503);
        assert_eq!(world.reason().await, "store_stopped");
    }
}
