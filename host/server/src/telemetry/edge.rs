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

/// Put into the extensions of a 500: why, for the log. Callers never see it.
#[derive(Clone, Debug)]
pub(crate) struct InternalCause(pub(crate) String);

/// The layer; put it around a finished router with `Router::layer`, fallbacks included.
#[derive(Clone)]
pub(crate) struct Edge {
    requests: Arc<Requests>,
    on_panic: fn() -> Response,
}

impl Edge {
    /// A layer for the listener of that name. `on_panic` makes the answer where a handler panicked.
    pub(crate) fn new(listener: &'static str, on_panic: fn() -> Response) -> Self {
        Self {
            requests: Arc::new(Requests::new(listener)),
            on_panic,
        }
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
        request.extensions_mut().insert(seen.id.clone());
        let edge = self.edge.clone();
        let answer = AssertUnwindSafe(self.inner.call(request)).catch_unwind();
        Box::pin(async move {
            let mut response = match answer.await {
                Ok(Ok(response)) => response,
                Ok(Err(never)) => match never {},
                Err(_) => {
                    let mut response = (edge.on_panic)();
                    let cause = InternalCause("a handler panicked".to_owned());
                    response.extensions_mut().insert(cause);
                    response
                }
            };
            seen.finish(&mut response, &edge.requests);
            Ok(response)
        })
    }
}

impl Seen {
    fn finish(self, response: &mut Response, requests: &Requests) {
        let took = self.at.elapsed();
        let headers = response.headers_mut();
        headers.insert(X_REQUEST_ID, self.id.header());
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        let status = response.status().as_u16();
        let route = self.route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
        requests.record(route, &self.method, status, took);
        let cause = response.extensions_mut().remove::<InternalCause>();
        self.log(route, status, took, cause);
    }

    fn log(&self, route: &str, status: u16, took: Duration, cause: Option<InternalCause>) {
        if let Some(InternalCause(cause)) = cause {
            tracing::error!(
                request.id = %self.id, http.method = %self.method, http.route = route, cause,
                "the request failed inside"
            );
        }
        tracing::event!(
            target: "access",
            tracing::Level::INFO,
            request.id = %self.id,
            http.method = %self.method,
            http.route = route,
            http.status = status,
            duration_ms = took.as_secs_f64() * 1000.0,
            "answered {} {route} with {status}", self.method
        );
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
    async fn a_panic_is_answered() {
        let response = ask(router(), "/broken").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.extensions().get::<InternalCause>().is_none());
    }
}
