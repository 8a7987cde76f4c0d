//! What every response of every listener has in common, in one layer: an id, safe headers, a
//! measure, a log line, and an answer even where a handler panicked.

use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use futures_util::FutureExt as _;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method};
use tower::{Layer, Service};

use super::request_id::{RequestId, X_REQUEST_ID};
use super::requests::{Requests, UNMATCHED};
use crate::admission::Admission;
use crate::listen::PutOff;

/// Put into the extensions of a 500: why, for the log. Callers never see it.
#[derive(Clone, Debug)]
pub(crate) struct InternalCause(pub(crate) String);

/// The layer; put it around a finished router with `Router::layer`, fallbacks included.
#[derive(Clone)]
pub(crate) struct Edge(Arc<Inner>);

struct Inner {
    requests: Requests,
    on_panic: fn() -> Response,
    doors: Option<Doors>,
}

/// Who is let in, and what the others are told.
struct Doors {
    admission: Arc<Admission>,
    on_refusal: fn() -> Response,
}

impl Edge {
    /// A layer for the listener of that name. `on_panic` makes the answer where a handler panicked.
    pub(crate) fn new(listener: &'static str, on_panic: fn() -> Response) -> Self {
        Self::made(listener, on_panic, None)
    }

    /// The same, behind doors. `on_refusal` makes the answer where too many are inside.
    pub(crate) fn behind(
        admission: Arc<Admission>,
        on_refusal: fn() -> Response,
        listener: &'static str,
        on_panic: fn() -> Response,
    ) -> Self {
        let doors = Doors {
            admission,
            on_refusal,
        };
        Self::made(listener, on_panic, Some(doors))
    }

    fn made(listener: &'static str, on_panic: fn() -> Response, doors: Option<Doors>) -> Self {
        Self(Arc::new(Inner {
            requests: Requests::new(listener),
            on_panic,
            doors,
        }))
    }
}

impl<S> Layer<S> for Edge {
    type Service = EdgeService<S>;

    fn layer(&self, inner: S) -> EdgeService<S> {
        EdgeService {
            inner,
            edge: self.clone(),
        }
    }
}

/// A service inside of an [`Edge`].
#[derive(Clone)]
pub(crate) struct EdgeService<S> {
    inner: S,
    edge: Edge,
}

/// What is remembered of a request until its answer is there.
struct Seen {
    id: RequestId,
    route: Option<MatchedPath>,
    method: Method,
    at: Instant,
}

impl<S> Service<Request> for EdgeService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let seen = Seen {
            id: RequestId::of(request.headers()),
            route: request.extensions().get().cloned(),
            method: request.method().clone(),
            at: Instant::now(),
        };
        let edge = Arc::clone(&self.edge.0);
        let mut place = None;
        if let Some(doors) = &edge.doors {
            let door = doors.admission.door(&seen.method, seen.route());
            let Some(admitted) = door.admit() else {
                let mut response = (doors.on_refusal)();
                response.extensions_mut().insert(PutOff);
                seen.finish(&mut response, &edge.requests);
                return Box::pin(std::future::ready(Ok(response)));
            };
            request = request.map(|body| admitted.count_once_whole(body));
            place = Some(admitted);
        }
        // Nothing of it happens before it is polled.
        let answer = self.inner.call(request);
        Box::pin(async move {
            if let Some(place) = &place {
                place.stand_back().await;
            }
            let mut response = edge.guarded(answer).await;
            seen.finish(&mut response, &edge.requests);
            Ok(response)
        })
    }
}

impl Inner {
    /// The answer of a handler, or ours where it panics.
    async fn guarded(
        &self,
        answer: impl Future<Output = Result<Response, Infallible>>,
    ) -> Response {
        match AssertUnwindSafe(answer).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(never)) => match never {},
            Err(_) => {
                let mut response = (self.on_panic)();
                let cause = InternalCause("a handler panicked".to_owned());
                response.extensions_mut().insert(cause);
                response
            }
        }
    }
}

impl Seen {
    /// The route's template.
    fn route(&self) -> &str {
        self.route.as_ref().map_or(UNMATCHED, MatchedPath::as_str)
    }

    fn finish(self, response: &mut Response, requests: &Requests) {
        let took = self.at.elapsed();
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id.header());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        let status = response.status().as_u16();
        requests.record(self.route(), &self.method, status, took);
        let cause = response.extensions_mut().remove::<InternalCause>();
        self.log(status, took, cause);
    }

    /// Tells the log what operators have to look at: failures. An ordinary answer is told at debug
    /// only, because its line costs more than the answer itself; metrics count them all, and each
    /// payment's timeline says what became of it.
    fn log(&self, status: u16, took: Duration, cause: Option<InternalCause>) {
        let route = self.route();
        if let Some(InternalCause(cause)) = cause {
            tracing::error!(
                request.id = %self.id, http.method = %self.method, http.route = route, cause,
                "the request failed inside"
            );
        }
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: "access",
                    $level,
                    request.id = %self.id,
                    http.method = %self.method,
                    http.route = route,
                    http.status = status,
                    duration_ms = took.as_secs_f64() * 1000.0,
                    "answered {} {route} with {status}", self.method
                )
            };
        }
        // 503 is told where it is decided, not once for each of thousands.
        if status >= 500 && status != 503 {
            line!(tracing::Level::WARN);
        } else {
            line!(tracing::Level::DEBUG);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use axum::routing::get;
    use http::StatusCode;
    use tower::ServiceExt as _;

    async fn ask(router: Router, path: &str) -> Response {
        let request = Request::builder().uri(path).header(X_REQUEST_ID, "mine");
        router
            .oneshot(request.body(Body::empty()).unwrap())
            .await
            .unwrap()
    }

    fn router() -> Router {
        async fn broken() -> Response {
            panic!("a fault of a test")
        }
        Router::new()
            .route("/cached", get(|| async { [(CACHE_CONTROL, "max-age=1")] }))
            .route("/plain", get(|| async {}))
            .route("/broken", get(broken))
            .layer(Edge::new("test", || {
                (StatusCode::INTERNAL_SERVER_ERROR, "sorry").into_response()
            }))
    }

    #[tokio::test]
    async fn every_answer_has_an_id_and_safe_headers() {
        for path in ["/plain", "/broken", "/nowhere"] {
            let response = ask(router(), path).await;
            let headers = response.headers();
            assert_eq!(headers[X_REQUEST_ID], "mine", "{path}");
            assert_eq!(headers[X_CONTENT_TYPE_OPTIONS], "nosniff", "{path}");
            assert_eq!(headers[CACHE_CONTROL], "no-store", "{path}");
        }
        let cached = ask(router(), "/cached").await;
        assert_eq!(cached.headers()[CACHE_CONTROL], "max-age=1");
    }

    #[tokio::test]
    async fn whoever_is_not_let_in_is_told_and_nothing_is_done() {
        let none = crate::admission::InHand {
            reads: 0,
            ..Default::default()
        };
        let edge = Edge::behind(
            Arc::new(Admission::new(none)),
            || (StatusCode::SERVICE_UNAVAILABLE, "full").into_response(),
            "test",
            || unreachable!("no handler runs"),
        );
        async fn handler() -> Response {
            panic!("it must not run")
        }
        let router = Router::new()
            .route("/", get(handler).post(|| async { "done" }))
            .layer(edge);
        let refused = ask(router.clone(), "/").await;
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(refused.headers()[X_REQUEST_ID], "mine");
        assert!(refused.extensions().get::<PutOff>().is_some());
        let write = Request::builder().uri("/").method("POST");
        let write = router.oneshot(write.body(Body::empty()).unwrap()).await;
        assert_eq!(write.unwrap().status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn a_panic_is_answered() {
        let response = ask(router(), "/broken").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.extensions().get::<InternalCause>().is_none());
    }
}
