//! Admission: how many requests of a class may be in flight at once. A request beyond that is answered
//! with 503 before anything is read, looked up or computed for it: a refusal has to cost next to nothing,
//! or refusing does not help.
//!
//! | Class | Waits for | Bounded because |
//! |---|---|---|
//! | reads | a sync at most | each holds memory |
//! | writes | the store's next group | at some 10,000 a second 1,024 wait a tenth of a second |
//! | modules | its turn on a core | each takes a core for as long as ten small answers |
//! | starts | a vendor | each may take seconds |
//! | exchanges | a shop | each may take ten seconds, and must hold up no payment |
//! | callbacks | the store, or a vendor | reports must get through whatever merchants do |
//!
//! A request counts from when its body has arrived: a client that sends a byte a second takes no permit.
//! Where too many bodies arrive at one moment, those beyond the bound are refused then.
//! Together the bounds stay below the store's queue, so an admitted request is hardly ever refused there.
//! Operators and health checks have a listener of their own, which refuses no request.

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

/// Most requests in flight, by class: `[limits.in_hand]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InFlightLimits {
    /// Reading a payment, and all else that only reads.
    pub(crate) reads: usize,
    /// Creating a payment.
    pub(crate) writes: usize,
    /// Listing methods and showing checkout pages.
    pub(crate) modules: usize,
    /// Starting a payment, giving one back, and coming back from a vendor.
    pub(crate) starts: usize,
    /// Shops that connect.
    pub(crate) exchanges: usize,
    /// Callbacks of vendors.
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

/// What the requests of a route wait for; said where the route is declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AdmissionClass {
    /// Reads by a safe method, writes by any other.
    ByMethod,
    /// Reads by a safe method, starts by any other.
    StartsByMethod,
    Modules,
    Starts,
    Exchanges,
    Callbacks,
}

/// The limiters of a listener, one for each class.
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
            // A module computes on the thread that serves: unless it yields first, no other request
            // would ever be counted meanwhile, and none be refused.
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

/// Bounds the requests of one class.
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

    /// Admits a request; none where too many are in flight. It counts once [`Permit::count`] says so.
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

    /// Counts, and tells the log now and then: a line for each would be load of its own.
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

/// Leave for one request; given back on drop.
pub(crate) struct Permit {
    limiter: Arc<Limiter>,
    counted: AtomicBool,
}

impl Permit {
    /// Counts the request from now on; whether there is room for it.
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

    /// Counts the request from when its body has arrived.
    pub(crate) fn count_once_whole(self: &Arc<Self>, body: Body) -> Body {
        if body.is_end_stream() {
            // There was room a moment ago.
            self.count();
            return body;
        }
        Body::new(Arriving {
            body,
            permit: Arc::clone(self),
        })
    }

    /// Yields the thread once where the class computes on it.
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

/// A body that counts its request once it has arrived.
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
