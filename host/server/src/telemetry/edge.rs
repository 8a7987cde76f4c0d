//! A layer around all routes of all listeners. It adds a request id, security headers, metrics and a log line to
//! each response, and responds if a handler panics.

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
use crate::admission::{Admission, AdmissionClass, Permit};
use crate::web::budget::Reservation;
use crate::web::marks::{Credential, InternalCause, OverBudget, PauseReading};
use crate::web::request_id::RequestId;

/// Maximum number of failed requests of a listener that are logged per second. On a full disk, every request
/// fails.
pub(crate) const FAILURES_PER_SECOND: u32 = 20;
/// Maximum number of rejected requests of a listener that are logged per second, because strangers can send them.
pub(crate) const REFUSALS_PER_SECOND: u32 = 10;

/// The layer. Apply it to a complete router with `Router::layer`, including the fallbacks.
#[derive(Clone)]
pub(crate) struct Edge {
    inner: Arc<Inner>,
    /// Admission class of the routes inside.
    class: AdmissionClass,
}

struct Inner {
    requests: Requests,
    lines: Lines,
    on_panic: fn() -> Response,
    admission: Option<AdmissionControl>,
}

/// Limits for the log lines about responses that operators should see.
struct Lines {
    /// Status 500 or higher, except for a 503 without an internal cause.
    failures: Sampled,
    /// Status 401, 403 or 429.
    refusals: Sampled,
}

/// Admission of requests, and the response to requests that are not admitted.
struct AdmissionControl {
    admission: Arc<Admission>,
    on_refusal: fn() -> Response,
}

impl Edge {
    /// Creates a layer for the named listener. `on_panic` creates the response if a handler panics.
    pub(crate) fn new(listener: &'static str, on_panic: fn() -> Response) -> Self {
        Self::made(listener, on_panic, None)
    }

    /// Creates a layer with admission. `on_refusal` creates the response if too many requests are in flight.
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

    /// The layer for routes of a class other than [`AdmissionClass::ByMethod`]. The metrics are shared.
    pub(crate) fn of_class(&self, class: AdmissionClass) -> Self {
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
            lines: Lines {
                failures: Sampled::new("failed-request", FAILURES_PER_SECOND),
                refusals: Sampled::new("refused-request", REFUSALS_PER_SECOND),
            },
            on_panic,
            admission,
        };
        Self {
            inner: Arc::new(inner),
            class: AdmissionClass::ByMethod,
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

/// A service inside an [`Edge`].
#[derive(Clone)]
pub(crate) struct EdgeService<S> {
    inner: S,
    handler: Arc<Handler>,
}

/// Part of an edge that belongs to one handler. A router has one handler per method.
pub(crate) struct Handler {
    edge: Edge,
    usual: Usual,
}

/// Data about a request that is needed when its response is ready.
pub(crate) struct OpenRequest {
    id: RequestId,
    route: Option<MatchedPath>,
    method: Method,
    at: Instant,
    /// `None` if the request did not arrive over a connection, as in tests.
    sender: Option<Arc<Reservation>>,
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
        let seen = OpenRequest {
            id: RequestId::from_headers(request.headers()),
            route: request.extensions().get().cloned(),
            method: request.method().clone(),
            at: Instant::now(),
            sender: request.extensions().get().cloned(),
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
        // The returned future does nothing before it is polled.
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
    /// Future of a response with all additions of the layer. A concrete type, because a router boxes it anyway.
    #[project = Answered]
    pub(crate) enum Answering<F> {
        // The request was not admitted.
        Refused { response: Option<Response> },
        Admitted {
            #[pin]
            answer: F,
            // `None` after the response.
            seen: Option<OpenRequest>,
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
                    // Continues after other requests have had their turn.
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
        // `None` if the response was already returned. In that case the caller does not poll again.
        response.map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
    }
}

impl Inner {
    /// The response of a handler, or that of `on_panic` if it panics.
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

impl OpenRequest {
    fn finish(self, response: &mut Response, handler: &Handler) {
        let Self {
            id,
            route,
            method,
            at,
            sender,
        } = self;
        let took = at.elapsed();
        let headers = response.headers_mut();
        id.mark(headers);
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers
            .entry(CACHE_CONTROL)
            .or_insert(HeaderValue::from_static("no-store"));
        let Inner {
            requests, lines, ..
        } = &*handler.edge.inner;
        let line = Line {
            listener: requests.listener(),
            route: template(route.as_ref()),
            method: &method,
            status: response.status().as_u16(),
            took,
            sender: sender.as_deref(),
        };
        requests.record(&handler.usual, line.route, &method, line.status, took);
        let cause = response.extensions_mut().remove::<InternalCause>();
        line.log(RequestId::marked(response.headers()), cause, lines);
    }
}

fn template(route: Option<&MatchedPath>) -> &str {
    route.map_or(UNMATCHED, MatchedPath::as_str)
}

/// Data about a request and its response that may be logged.
struct Line<'a> {
    listener: &'static str,
    route: &'a str,
    method: &'a Method,
    status: u16,
    took: Duration,
    sender: Option<&'a Reservation>,
}

impl Line<'_> {
    /// Logs responses that operators should see: failures, and some of the rejections. Other responses are logged
    /// only at debug level, because a line costs more than the response itself. Metrics count all responses, and
    /// each payment's timeline shows its history.
    fn log(&self, id: &str, cause: Option<InternalCause>, lines: &Lines) {
        let (route, status) = (self.route, self.status);
        // A 503 without a cause is logged once, where the decision is made, instead of for each of thousands of
        // requests.
        let failed = cause.is_some() || (status >= 500 && status != 503);
        let told = match status {
            _ if failed => lines.failures.line(),
            401 | 403 | 429 => lines.refusals.line(),
            _ => None,
        };
        if let (Some(InternalCause(cause)), Some(left_out)) = (cause, told) {
            tracing::error!(
                request.id = %id, http.method = %self.method, http.route = route, cause, left_out,
                "the request failed inside"
            );
        }
        let shown = self.sender.and_then(Reservation::credential);
        macro_rules! line {
            ($level:expr) => {
                tracing::event!(
                    target: super::logs::ACCESS,
                    $level,
                    listener = self.listener,
                    request.id = %id,
                    http.method = %self.method,
                    http.route = route,
                    http.status = status,
                    duration_ms = self.took.as_secs_f64() * 1000.0,
                    client.address = self.sender.map(|sender| tracing::field::display(sender.client())),
                    merchant.id = shown.and_then(Credential::merchant),
                    reseller.id = shown.and_then(Credential::reseller),
                    key.id = shown.and_then(Credential::key).map(tracing::field::display),
                    operator.id = shown.and_then(Credential::operator).map(tracing::field::display),
                    left_out = told,
                    "answered {} {route} with {status}", self.method
                )
            };
        }
        match told {
            Some(_) if failed => line!(tracing::Level::WARN),
            Some(_) => line!(tracing::Level::INFO),
            None => line!(tracing::Level::DEBUG),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::budget::ByteBudget;
    use crate::web::request_id::X_REQUEST_ID;
    use axum::Router;
    use axum::body::Body;
    use axum::response::IntoResponse as _;
    use axum::routing::get;
    use http::StatusCode;
    use kassette_domain::id::{KeyId, MerchantId};
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
        let none = crate::admission::InFlightLimits {
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
    async fn a_refusal_is_told_with_who_sent_it_and_masses_of_them_are_counted() {
        async fn refuse(request: Request) -> StatusCode {
            let shown = Credential::Merchant {
                merchant: MerchantId(7),
                key: KeyId::from_bytes([0xab; 16]),
            };
            Reservation::note_credential(request.extensions(), shown);
            StatusCode::FORBIDDEN
        }
        let edge = Edge::new("test", || unreachable!("nothing panics"));
        let router = Router::new().route("/{id}", get(refuse)).layer(edge);
        let (log, _guard) = crate::telemetry::Log::begin();
        for _ in 0..100 {
            let connection = ByteBudget::new(1 << 20, 1 << 20).connection();
            let sender = connection.reservation([192, 0, 2, 7].into(), true);
            let mut request = Request::get("/secret").body(Body::empty()).unwrap();
            let authorization = "Bearer kp_test_secret".parse().unwrap();
            request
                .headers_mut()
                .insert(http::header::AUTHORIZATION, authorization);
            request.extensions_mut().insert(Arc::new(sender));
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::FORBIDDEN);
        }
        let text = log.text();
        for told in [
            "answered GET /{id} with 403",
            "listener=\"test\"",
            "client.address=192.0.2.7",
            "merchant.id=7",
            "key.id=abababababababababababababababab",
            "left_out=0",
        ] {
            assert!(text.contains(told), "{told}\nin\n{text}");
        }
        assert!(!text.contains("secret"), "{text}");
        assert!(!text.contains("reseller.id"), "what there is not: {text}");
        let lines = text.matches("with 403").count();
        assert!((10..=40).contains(&lines), "{lines} lines");
    }

    #[tokio::test]
    async fn a_panic_is_answered() {
        let response = ask(router(), "/broken").await;
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        assert!(response.extensions().get::<InternalCause>().is_none());
    }
}
