//! What every response of every listener has in common, in one layer: an id, safe headers, a
//! measure, a log line, and an answer even where a handler panicked.

use std::convert::Infallible;
use std::future::Future;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::header::{CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method};
use kassette_runtime::Sampled;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::requests::{Requests, UNMATCHED, Usual};
use crate::admission::{Admission, Class, Permit};
use crate::web::marks::{InternalCause, OverBudget, PauseReading};
use crate::web::request_id::RequestId;

/// Failed requests of a listener that are told in a second: on a full disk every request fails.
const FAILURES_PER_SECOND: u32 = 20;

/// The layer; put it around a finished router with `Router::layer`, fallbacks included.
#[derive(Clone)]
pub(crate) struct Edge {
    inner: Arc<Inner>,
    /// The class of the routes inside.
    class: Class,
}

struct Inner {
    requests: Requests,
    /// Answers of 500 and more.
    failures: Sampled,
    on_panic: fn() -> Response,
    admission: Option<AdmissionControl>,
}

/// Which requests are admitted, and how the others are answered.
struct AdmissionControl {
    admission: Arc<Admission>,
    on_refusal: fn() -> Response,
}

impl Edge {
    /// A layer for the listener of that name. `on_panic` makes the answer where a handler panicked.
    pub(crate) fn new(listener: &'static str, on_panic: fn() -> Response) -> Self {
        Self::made(listener, on_panic, None)
    }

    /// The same, with admission. `on_refusal` makes the answer where too many requests are in flight.
    pub(crate) fn with_admission(
        admission: Arc<Admission>,
        on_refusal: fn() -> Response,
        listener: &'static str,
        on_panic: fn() -> Response,
    ) -> Self {
        let control = AdmissionControl {
            admission,
            on_refusal,
        };
        Self::made(listener, on_panic, Some(control))
    }

    /// The same layer for routes of another class than [`Class::ByMethod`]; its measures are shared.
    pub(crate) fn of_class(&self, class: Class) -> Self {
        let inner = Arc::clone(&self.inner);
        Self { inner, class }
    }

    fn made(
        listener: &'static str,
        on_panic: fn() -> Response,
        admission: Option<AdmissionControl>,
    ) -> Self {
        let inner = Inner {
            requests: Requests::new(listener),
            failures: Sampled::new("failed-request", FAILURES_PER_SECOND),
            on_panic,
            admission,
        };
        Self {
            inner: Arc::new(inner),
            class: Class::ByMethod,
        }
    }
}

impl<S> Layer<S> for Edge {
    type Service = EdgeService<S>;

    fn layer(&self, inner: S) -> EdgeService<S> {
        let handler = Handler {
            edge: self.clone(),
            usual: Usual::default(),
        };
        EdgeService {
            inner,
            handler: Arc::new(handler),
        }
    }
}

/// A service inside of an [`Edge`].
#[derive(Clone)]
pub(crate) struct EdgeService<S> {
    inner: S,
    handler: Arc<Handler>,
}

/// An edge around one handler: a router has one for each of its methods.
pub(crate) struct Handler {
    edge: Edge,
    usual: Usual,
}

/// What is remembered of a request until its answer is there.
pub(crate) struct Seen {
    id: RequestId,
    route: Option<MatchedPath>,
    method: Method,
    at: Instant,
}

impl<S> Service<Request> for EdgeService<S>
where
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Answering<S::Future>;

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
        let handler = Arc::clone(&self.handler);
        let edge = &handler.edge;
        let mut permit = None;
        if let Some(control) = &edge.inner.admission {
            let limiter = control.admission.limiter(edge.class, &seen.method);
            let over_budget = request.extensions().get::<OverBudget>().is_some();
            let Some(admitted) = limiter.admit().filter(|_| !over_budget) else {
                let mut response = (control.on_refusal)();
                response.extensions_mut().insert(PauseReading);
                seen.finish(&mut response, &handler);
                let response = Some(response);
                return Answering::Refused { response };
            };
            request = request.map(|body| admitted.count_once_whole(body));
            permit = Some(admitted);
        }
        // Nothing of it happens before it is polled.
        let answer = self.inner.call(request);
        Answering::Admitted {
            answer,
            seen: Some(seen),
            permit,
            yielded: false,
            handler,
        }
    }
}

pin_project! {
    /// The answer to a request, with what every response has. A type of its own, because a router
    /// boxes it anyway.
    #[project = Answered]
    pub(crate) enum Answering<F> {
        // The request was not admitted.
        Refused { response: Option<Response> },
        Admitted {
            #[pin]
            answer: F,
            // Until it is answered.
            seen: Option<Seen>,
            permit: Option<Arc<Permit>>,
            yielded: bool,
            handler: Arc<Handler>,
        },
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Answering<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let response = match self.project() {
            Answered::Refused { response } => response.take(),
            Answered::Admitted {
                answer,
                seen,
                permit,
                yielded,
                handler,
            } => {
                if let Some(permit) = permit
                    && !mem::replace(yielded, true)
                {
                    // Woken once the others have had their turn.
                    ready!(pin!(permit.yield_once()).poll(cx));
                }
                let mut response = ready!(handler.edge.inner.guarded(answer, cx));
                *permit = None;
                seen.take().map(|seen| {
                    seen.finish(&mut response, handler);
                    response
                })
            }
        };
        // None where it has been given, and then the caller does not poll again.
        response.map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
    }
}

impl Inner {
    /// The answer of a handler, or ours where it panics.
    fn guarded(
        &self,
        answer: Pin<&mut impl Future<Output = Result<Response, Infallible>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Response> {
        match catch_unwind(AssertUnwindSafe(|| answer.poll(cx))) {
            Ok(answered) => answered.map(|answered| match answered {
                Ok(response) => response,
                Err(never) => match never {},
            }),
            Err(_) => {
                let mut response = (self.on_panic)();
                let cause = InternalCause("a handler panicked".to_owned());
                response.extensions_mut().insert(cause);
                Poll::Ready(response)
            }
        }
    }
}

impl Seen {
    fn finish(self, response: &mut Response, handler: &Handler) {
        let Self {
            id,
            route,
            method,
            at,
        } = self;
        let took = at.elapsed();
        let headers = response.headers_mut();
        id.mark(headers);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        let line = Line {
            route: template(route.as_ref()),
            method: &method,
            status: response.status().as_u16(),
            took,
        };
        let requests = &handler.edge.inner.requests;
        requests.record(&handler.usual, line.route, &method, line.status, took);
        let cause = response.extensions_mut().remove::<InternalCause>();
        line.log(
            RequestId::marked(response.headers()),
            cause,
            &handler.edge.inner.failures,
        );
    }
}

fn template(route: Option<&MatchedPath>) -> &str {
    route.map_or(UNMATCHED, MatchedPath::as_str)
}

/// What the log may say of a request and its answer.
struct Line<'a> {
    route: &'a str,
    method: &'a Method,
    status: u16,
    took: Duration,
}

impl Line<'_> {
    /// Tells the log what operators have to look at: failures. An ordinary answer is told at debug
    /// only, because its line costs more than the answer itself; metrics count them all, and each
    /// payment's timeline says what became of it.
    fn log(&self, id: &str, cause: Option<InternalCause>, failures: &Sampled) {
        let (route, status) = (self.route, self.status);
        // 503 is told where it is decided, not once for each of thousands.
        let failed = cause.is_some() || (status >= 500 && status != 503);
        let line = if failed { failures.line() } else { None };
        if let (Some(InternalCause(cause)), Some(left_out)) = (cause, line) {
            tracing::error!(
                request.id = %id, http.method = %self.method, http.route = route, cause, left_out,
                "the request failed inside"
            );
        }
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: super::logs::ACCESS,
                    $level,
                    request.id = %id,
                    http.method = %self.method,
                    http.route = route,
                    http.status = status,
                    duration_ms = self.took.as_secs_f64() * 1000.0,
                    "answered {} {route} with {status}", self.method
                )
            };
        }
        match line {
            Some(_) => line!(tracing::Level::WARN),
            None => line!(tracing::Level::DEBUG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::request_id::X_REQUEST_ID;
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
    async fn a_request_that_is_not_admitted_is_answered_and_nothing_is_done() {
        let none = crate::admission::InHand {
            reads: 0,
            ..Default::default()
        };
        let edge = Edge::with_admission(
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
        assert!(refused.extensions().get::<PauseReading>().is_some());
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
