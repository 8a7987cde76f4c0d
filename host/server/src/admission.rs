//! Admission limits the requests in flight per class. A request beyond the limit gets a 503 before anything is read,
//! looked up or computed for it: rejections only help if they cost next to nothing.
//!
//! | Class | Waits for | Reason for the limit |
//! |---|---|---|
//! | reads | at most a sync | each uses memory |
//! | writes | the store's next group | at some 10,000 per second, 1,024 requests wait a tenth of a second |
//! | modules | its turn on a core | each uses a core for as long as ten small responses |
//! | starts | a provider | each may take seconds |
//! | exchanges | a shop | each may take ten seconds and must not delay payments |
//! | callbacks | the store, or a provider | merchants' requests must not displace reports |
//!
//! A request counts from the time when its body has arrived, so a client that sends a byte per second does not use a
//! permit. If too many bodies are complete at the same time, the requests beyond the limit are rejected then. The sum
//! of the limits is below the size of the store's queue, so the store hardly ever rejects an admitted request.
//! Operators and health checks use another listener, which has no admission.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::Bytes;
use http::Method;
use http_body::{Body as _, Frame, SizeHint};
use kassette_runtime::Sampled;
use metrics::Counter;
use serde::Deserialize;

use crate::web::budget::Overloaded;

/// Maximum number of requests in flight by class: `[limits.in_hand]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InFlightLimits {
    /// Requests that only read.
    pub(crate) reads: usize,
    /// Creation of payments.
    pub(crate) writes: usize,
    /// Lists of methods, and checkout pages.
    pub(crate) modules: usize,
    /// Starts, refunds, and returns of payers from a provider.
    pub(crate) starts: usize,
    /// Connections of shops.
    pub(crate) exchanges: usize,
    /// Callbacks of providers.
    pub(crate) callbacks: usize,
}

impl Default for InFlightLimits {
    fn default() -> Self {
        Self {
            reads: 2048,
            writes: 1024,
            modules: 128,
            starts: 512,
            exchanges: 256,
            callbacks: 256,
        }
    }
}

/// Class of a route's requests, which depends on what they wait for. Set where the route is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionClass {
    /// Reads for safe methods, writes for others.
    ByMethod,
    /// Reads for safe methods, starts for others.
    StartsByMethod,
    Modules,
    Starts,
    Exchanges,
    Callbacks,
}

/// The limiters of a listener, one per class.
pub(crate) struct Admission {
    reads: Arc<Limiter>,
    writes: Arc<Limiter>,
    modules: Arc<Limiter>,
    starts: Arc<Limiter>,
    exchanges: Arc<Limiter>,
    callbacks: Arc<Limiter>,
}

impl Admission {
    pub(crate) fn new(most: InFlightLimits) -> Self {
        let limiter = |class, most, yields| Arc::new(Limiter::new(class, most, yields));
        Self {
            reads: limiter("reads", most.reads, false),
            writes: limiter("writes", most.writes, false),
            // A module computes on the serving thread. Unless it yields first, no other request would be counted
            // in the meantime, and none would be rejected.
            modules: limiter("modules", most.modules, true),
            starts: limiter("starts", most.starts, false),
            exchanges: limiter("exchanges", most.exchanges, false),
            callbacks: limiter("callbacks", most.callbacks, false),
        }
    }

    /// The limiter for a request.
    pub(crate) fn limiter(&self, class: AdmissionClass, method: &Method) -> &Arc<Limiter> {
        match class {
            AdmissionClass::ByMethod | AdmissionClass::StartsByMethod if method.is_safe() => {
                &self.reads
            }
            AdmissionClass::ByMethod => &self.writes,
            AdmissionClass::Modules => &self.modules,
            AdmissionClass::Starts | AdmissionClass::StartsByMethod => &self.starts,
            AdmissionClass::Exchanges => &self.exchanges,
            AdmissionClass::Callbacks => &self.callbacks,
        }
    }
}

/// Limits the requests of one class.
pub(crate) struct Limiter {
    class: &'static str,
    in_flight: AtomicUsize,
    most: usize,
    yields: bool,
    counter: Counter,
    lines: Sampled,
}

impl Limiter {
    fn new(class: &'static str, most: usize, yields: bool) -> Self {
        Self {
            class,
            in_flight: AtomicUsize::new(0),
            most,
            yields,
            counter: metrics::counter!("kassette_http_shed_total", "class" => class),
            lines: Sampled::new("shed", 1),
        }
    }

    /// Admits a request. `None` if too many are in flight. The request is counted later, by [`Permit::count`].
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<Permit>> {
        if self.in_flight.load(Ordering::Relaxed) >= self.most {
            self.refuse();
            return None;
        }
        Some(Arc::new(Permit {
            limiter: Arc::clone(self),
            counted: AtomicBool::new(false),
        }))
    }

    /// Counts a rejection and logs at most one line per second, because a line per rejection would add load.
    fn refuse(&self) {
        self.counter.increment(1);
        if let Some(left_out) = self.lines.line() {
            tracing::warn!(
                class = self.class,
                left_out,
                "more requests than can be carried: some are answered with 503"
            );
        }
    }
}

/// Permit for one request. Dropping it releases its place.
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    counted: AtomicBool,
}

impl Permit {
    /// Counts the request. Returns false if the limit is reached.
    fn count(&self) -> bool {
        let most = self.limiter.most;
        let counted = self.counted.load(Ordering::Relaxed)
            || self
                .limiter
                .in_flight
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |in_flight| {
                    (in_flight < most).then_some(in_flight + 1)
                })
                .is_ok();
        self.counted.store(counted, Ordering::Relaxed);
        counted
    }

    /// Counts the request when its body has arrived completely.
    pub(crate) fn count_once_whole(self: &Arc<Self>, body: Body) -> Body {
        if body.is_end_stream() {
            // The result is ignored: `admit` has just found room.
            self.count();
            return body;
        }
        Body::new(Arriving {
            body,
            permit: Arc::clone(self),
        })
    }

    /// Yields the thread once if requests of the class compute on it.
    pub(crate) async fn yield_once(&self) {
        if self.limiter.yields {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if *self.counted.get_mut() {
            self.limiter.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A body that counts its request when it has arrived completely.
struct Arriving {
    body: Body,
    permit: Arc<Permit>,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if (frame.is_none() || self.body.is_end_stream()) && !self.permit.count() {
            self.permit.limiter.refuse();
            return Poll::Ready(Some(Err(axum::Error::new(Overloaded))));
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    fn admission(most: usize) -> Admission {
        Admission::new(InFlightLimits {
            reads: most,
            writes: most,
            modules: most,
            starts: most,
            exchanges: most,
            callbacks: most,
        })
    }

    fn enter(limiter: &Arc<Limiter>) -> Option<Arc<Permit>> {
        let permit = limiter.admit()?;
        let _whole = permit.count_once_whole(Body::empty());
        Some(permit)
    }

    #[test]
    fn a_request_beyond_the_bound_is_refused_until_another_ends() {
        let admission = admission(2);
        let limiter = admission.limiter(AdmissionClass::ByMethod, &Method::POST);
        let first = enter(limiter).unwrap();
        let _second = enter(limiter).unwrap();
        assert!(enter(limiter).is_none());
        assert!(enter(limiter).is_none(), "a refusal takes no permit");
        drop(first);
        assert!(enter(limiter).is_some());
    }

    #[test]
    fn classes_do_not_take_each_others_permits() {
        let admission = admission(1);
        let limiters = [
            (AdmissionClass::ByMethod, Method::GET),
            (AdmissionClass::ByMethod, Method::POST),
            (AdmissionClass::Modules, Method::GET),
            (AdmissionClass::Starts, Method::POST),
            (AdmissionClass::Exchanges, Method::POST),
            (AdmissionClass::Callbacks, Method::POST),
        ];
        let mut in_flight = Vec::new();
        for (class, method) in &limiters {
            in_flight.push(enter(admission.limiter(*class, method)).unwrap());
        }
        for (class, method) in &limiters {
            assert!(enter(admission.limiter(*class, method)).is_none());
        }
    }

    #[tokio::test]
    async fn a_request_that_is_still_being_sent_takes_no_permit() {
        let admission = admission(1);
        let limiter = admission.limiter(AdmissionClass::ByMethod, &Method::POST);
        let slow: Vec<_> = (0..3)
            .map(|_| {
                let permit = limiter.admit().unwrap();
                let body = permit.count_once_whole(Body::from("{}"));
                (permit, body)
            })
            .collect();
        assert!(limiter.admit().is_some());
        for (permit, body) in slow {
            axum::body::to_bytes(body, 16).await.unwrap();
            assert!(limiter.admit().is_none(), "it has arrived");
            drop(permit);
            assert!(limiter.admit().is_some());
        }
    }

    #[tokio::test]
    async fn bodies_that_are_whole_at_one_moment_take_no_more_than_the_bound() {
        let admission = admission(2);
        let limiter = admission.limiter(AdmissionClass::ByMethod, &Method::POST);
        let arriving: Vec<_> = (0..5)
            .map(|_| {
                let permit = limiter.admit().unwrap();
                let body = permit.count_once_whole(Body::from("{}"));
                (permit, body)
            })
            .collect();
        let mut in_flight = Vec::new();
        for (permit, body) in arriving {
            let read = crate::web::body::read(&http::HeaderMap::new(), body, 16).await;
            in_flight.push((permit, read));
        }
        let read: Vec<_> = in_flight.iter().map(|(_, read)| read.is_ok()).collect();
        assert_eq!(read, [true, true, false, false, false]);
        let refused = in_flight.pop().unwrap().1;
        assert_eq!(refused, Err(crate::web::body::BodyError::Overloaded));
        drop(in_flight);
        assert_eq!(limiter.in_flight.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_request_that_computes_yields_once() {
        let admission = admission(1);
        let page = enter(admission.limiter(AdmissionClass::Modules, &Method::GET)).unwrap();
        let mut back = Box::pin(page.yield_once());
        assert!((&mut back).now_or_never().is_none());
        back.await;
        let read = enter(admission.limiter(AdmissionClass::ByMethod, &Method::GET)).unwrap();
        assert!(read.yield_once().now_or_never().is_some());
    }
}
