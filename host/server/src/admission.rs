//! Admission: how many requests of a kind may be in hand at once. Whoever comes beyond that is told so
//! at the door, before anything is read, looked up or computed for him: what is refused has to cost
//! next to nothing, or refusing does not help.
//!
//! | Class | Waits for | Bounded because |
//! |---|---|---|
//! | reads | a sync at most | each holds memory |
//! | writes | the store's next group | at some 10,000 a second 1,024 wait a tenth of a second |
//! | modules | its turn on a core | each takes a core for as long as ten small answers |
//! | starts | a vendor | each may take seconds |
//! | exchanges | a shop | each may take ten seconds, and must hold up no payment |
//! | callbacks | the store, or a vendor | news must get through whatever merchants do |
//!
//! A request counts from when its body is there: a sender of a byte a second takes no other's place. Where
//! too many bodies are there at one moment, those beyond the bound are refused then.
//! Together the bounds stay below the store's queue, so what was let in is hardly ever refused there.
//! Operators and health checks have a listener of their own, which refuses nobody.

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

use crate::web::budget::UsedUp;

/// Most requests in hand, by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct InHand {
    /// Reading a payment, and whatever else only reads.
    pub(crate) reads: usize,
    /// Creating a payment.
    pub(crate) writes: usize,
    /// Listing methods and showing checkout pages.
    pub(crate) modules: usize,
    /// Starting a payment and coming back from a provider.
    pub(crate) starts: usize,
    /// Shops that connect.
    pub(crate) exchanges: usize,
    /// News from providers.
    pub(crate) callbacks: usize,
}

impl Default for InHand {
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
pub(crate) enum Class {
    /// Reads by a safe method, writes by any other.
    ByMethod,
    Modules,
    Starts,
    Exchanges,
    Callbacks,
}

/// The doors of a listener.
pub(crate) struct Admission {
    reads: Arc<Door>,
    writes: Arc<Door>,
    modules: Arc<Door>,
    starts: Arc<Door>,
    exchanges: Arc<Door>,
    callbacks: Arc<Door>,
}

impl Admission {
    pub(crate) fn new(most: InHand) -> Self {
        let door = |class, most, yields| Arc::new(Door::new(class, most, yields));
        Self {
            reads: door("reads", most.reads, false),
            writes: door("writes", most.writes, false),
            // A module computes on the thread that serves: without standing back first, nobody would
            // ever be seen waiting, and nothing be refused.
            modules: door("modules", most.modules, true),
            starts: door("starts", most.starts, false),
            exchanges: door("exchanges", most.exchanges, false),
            callbacks: door("callbacks", most.callbacks, false),
        }
    }

    /// The door for a request.
    pub(crate) fn door(&self, class: Class, method: &Method) -> &Arc<Door> {
        match class {
            Class::ByMethod if method.is_safe() => &self.reads,
            Class::ByMethod => &self.writes,
            Class::Modules => &self.modules,
            Class::Starts => &self.starts,
            Class::Exchanges => &self.exchanges,
            Class::Callbacks => &self.callbacks,
        }
    }
}

/// The door of a class.
pub(crate) struct Door {
    class: &'static str,
    inside: AtomicUsize,
    most: usize,
    yields: bool,
    counter: Counter,
    lines: Sampled,
}

impl Door {
    fn new(class: &'static str, most: usize, yields: bool) -> Self {
        Self {
            class,
            inside: AtomicUsize::new(0),
            most,
            yields,
            counter: metrics::counter!("kassette_http_shed_total", "class" => class),
            lines: Sampled::new("shed", 1),
        }
    }

    /// Lets a request in; none where too many are inside. It counts once [`Place::count`] says so.
    pub(crate) fn admit(self: &Arc<Self>) -> Option<Arc<Place>> {
        if self.inside.load(Ordering::Relaxed) >= self.most {
            self.refuse();
            return None;
        }
        Some(Arc::new(Place {
            door: Arc::clone(self),
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

/// A request that was let in; leaves on drop.
pub(crate) struct Place {
    door: Arc<Door>,
    counted: AtomicBool,
}

impl Place {
    /// Counts the request from now on; whether there is room for it.
    fn count(&self) -> bool {
        let most = self.door.most;
        let counted = self.counted.load(Ordering::Relaxed)
            || self
                .door
                .inside
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |inside| {
                    (inside < most).then_some(inside + 1)
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
            place: Arc::clone(self),
        })
    }

    /// Stands back once where the class computes on the thread that serves.
    pub(crate) async fn stand_back(&self) {
        if self.door.yields {
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if *self.counted.get_mut() {
            self.door.inside.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// A body that says when it has arrived.
struct Arriving {
    body: Body,
    place: Arc<Place>,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if (frame.is_none() || self.body.is_end_stream()) && !self.place.count() {
            self.place.door.refuse();
            return Poll::Ready(Some(Err(axum::Error::new(UsedUp))));
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
        Admission::new(InHand {
            reads: most,
            writes: most,
            modules: most,
            starts: most,
            exchanges: most,
            callbacks: most,
        })
    }

    fn enter(door: &Arc<Door>) -> Option<Arc<Place>> {
        let place = door.admit()?;
        let _whole = place.count_once_whole(Body::empty());
        Some(place)
    }

    #[test]
    fn who_comes_beyond_the_bound_is_refused_until_somebody_leaves() {
        let admission = admission(2);
        let door = admission.door(Class::ByMethod, &Method::POST);
        let first = enter(door).unwrap();
        let _second = enter(door).unwrap();
        assert!(enter(door).is_none());
        assert!(enter(door).is_none(), "a refusal takes no place");
        drop(first);
        assert!(enter(door).is_some());
    }

    #[test]
    fn classes_do_not_take_each_others_places() {
        let admission = admission(1);
        let doors = [
            (Class::ByMethod, Method::GET),
            (Class::ByMethod, Method::POST),
            (Class::Modules, Method::GET),
            (Class::Starts, Method::POST),
            (Class::Exchanges, Method::POST),
            (Class::Callbacks, Method::POST),
        ];
        let mut inside = Vec::new();
        for (class, method) in &doors {
            inside.push(enter(admission.door(*class, method)).unwrap());
        }
        for (class, method) in &doors {
            assert!(enter(admission.door(*class, method)).is_none());
        }
    }

    #[tokio::test]
    async fn whoever_is_still_sending_takes_no_place() {
        let admission = admission(1);
        let door = admission.door(Class::ByMethod, &Method::POST);
        let slow: Vec<_> = (0..3)
            .map(|_| {
                let place = door.admit().unwrap();
                let body = place.count_once_whole(Body::from("{}"));
                (place, body)
            })
            .collect();
        assert!(door.admit().is_some());
        for (place, body) in slow {
            axum::body::to_bytes(body, 16).await.unwrap();
            assert!(door.admit().is_none(), "it has arrived");
            drop(place);
            assert!(door.admit().is_some());
        }
    }

    #[tokio::test]
    async fn bodies_that_are_whole_at_one_moment_take_no_more_than_the_bound() {
        let admission = admission(2);
        let door = admission.door(Class::ByMethod, &Method::POST);
        let arriving: Vec<_> = (0..5)
            .map(|_| {
                let place = door.admit().unwrap();
                let body = place.count_once_whole(Body::from("{}"));
                (place, body)
            })
            .collect();
        let mut inside = Vec::new();
        for (place, body) in arriving {
            let read = crate::web::body::read(&http::HeaderMap::new(), body, 16).await;
            inside.push((place, read));
        }
        let read: Vec<_> = inside.iter().map(|(_, read)| read.is_ok()).collect();
        assert_eq!(read, [true, true, false, false, false]);
        let refused = inside.pop().unwrap().1;
        assert_eq!(refused, Err(crate::web::body::BodyError::UsedUp));
        drop(inside);
        assert_eq!(door.inside.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn whoever_computes_stands_back_once() {
        let admission = admission(1);
        let page = enter(admission.door(Class::Modules, &Method::GET)).unwrap();
        let mut back = Box::pin(page.stand_back());
        assert!((&mut back).now_or_never().is_none());
        back.await;
        let read = enter(admission.door(Class::ByMethod, &Method::GET)).unwrap();
        assert!(read.stand_back().now_or_never().is_some());
    }
}
