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
use crate::status::Facts;

/// Content type of Prometheus' text format.
const EXPOSITION: [(HeaderName, &str); 1] =
    [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];

/// `/livez`, `/readyz` and `/metrics`. The admin listener decides who may read the metrics.
pub(super) fn router(
    (readiness, facts): (Arc<Readiness>, Arc<Facts>),
    metrics: Option<(Metrics, Arc<Gauges>)>,
) -> Router {
    let readyz = |State(state): State<Arc<Readiness>>| async move {
        let answer = state.ready().await;
        shown(answer, &facts)
    };
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

/// Response of `/readyz`. It is public on the listener, so it names rejected files without their content.
fn shown(answer: Result<(), Unready>, facts: &Facts) -> Response {
    let mut refused = String::new();
    for (subject, of) in facts.noted().refused {
        refused += &format!(
            "refused since {}: a changed {}; what was there before goes on (kassette status says more)\n",
            of.at.rfc3339(),
            subject.as_str()
        );
    }
    match answer {
        Ok(()) => format!("ready\n{refused}").into_response(),
        Err(Unready { why, .. }) => {
            let text = format!("not ready: {why}\n{refused}");
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

    use crate::status::Subject;
    use crate::telemetry::readiness::REASONS;
    use kassette_domain::time::Time;

    struct World {
        /// Seconds for which the node has not followed changes of modules.
        behind: Arc<AtomicU64>,
        facts: Arc<Facts>,
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
            let facts = Arc::new(Facts::default());
            Self {
                behind,
                router: router((Arc::clone(&readiness), Arc::clone(&facts)), None),
                facts,
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

        async fn readyz(&self) -> String {
            let request = Request::builder()
                .uri("/readyz")
                .body(Body::empty())
                .unwrap();
            let response = self.router.clone().oneshot(request).await.unwrap();
            let body = axum::body::to_bytes(response.into_body(), 1 << 12)
                .await
                .unwrap();
            String::from_utf8(body.to_vec()).unwrap()
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
    async fn a_refused_configuration_is_named_by_a_server_that_is_ready() {
        let world = World::new();
        let (subject, at) = (Subject::Configuration, Time::from_secs(1_800_000_000));
        world.facts.refused(subject, "line 3: a secret".into(), at);
        let text = world.readyz().await;
        assert!(
            text.starts_with("ready\nrefused since 2027-01-15T"),
            "{text}"
        );
        assert!(
            text.contains("a changed configuration") && !text.contains("secret"),
            "{text}"
        );
        world.facts.taken(subject, at);
        assert_eq!(world.readyz().await, "ready\n");
        assert_eq!(world.status("/readyz").await, 200);
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
