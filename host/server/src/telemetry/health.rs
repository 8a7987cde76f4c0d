//! `/livez`, `/readyz` and `/metrics`, for the admin listener.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use http::header::CONTENT_TYPE;
use http::{HeaderName, StatusCode};

use super::gauges::Gauges;
use super::prometheus::Metrics;
use super::readiness::{Readiness, Unready};

/// Prometheus' text form.
const EXPOSITION: [(HeaderName, &str); 1] =
    [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];

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
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use super::*;
    use axum::body::Body;
    use axum::extract::Request;
    use kassette_store::sled::{MasterKey, OpenOptions};
    use kassette_store::{SledStore, Store};
    use tokio_util::sync::CancellationToken;
    use tower::ServiceExt as _;

    use crate::telemetry::readiness::REASONS;

    struct World {
        /// Seconds that modules are behind.
        behind: Arc<AtomicU64>,
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
            let behind = Arc::new(AtomicU64::new(0));
            let told = Arc::clone(&behind);
            let behind_for = move || match told.load(Ordering::Relaxed) {
                0 => None,
                seconds => Some(Duration::from_secs(seconds)),
            };
            let readiness =
                Readiness::new(Arc::clone(&store), Box::new(behind_for), stopping.clone());
            let readiness = Arc::new(readiness);
            Self {
                behind,
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
    async fn a_node_that_does_not_follow_the_others_modules_is_not_ready_after_a_while() {
        let world = World::new();
        world.behind.store(29, Ordering::Relaxed);
        assert_eq!(world.status("/readyz").await, 200);
        world.behind.store(31, Ordering::Relaxed);
        assert_eq!(world.status("/readyz").await, 503);
        assert_eq!(world.reason().await, "modules_behind");
    }

    #[tokio::test]
    async fn a_server_whose_store_takes_nothing_is_not_ready() {
        let world = World::new();
        world.store.shut_down().await.unwrap();
        assert_eq!(world.status("/readyz").await, 503);
        assert_eq!(world.reason().await, "store_stopped");
    }
}
