//! Counts and durations of requests by listener, route template, method and status.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::Method;
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::RwLock;

/// Label of requests that match no route.
pub(crate) const UNMATCHED: &str = "unmatched";

/// Metrics of a listener. Keeps the handles, because a lookup by labels costs more than a small request. Their
/// number is limited by the number of routes.
pub(crate) struct Requests {
    listener: &'static str,
    routes: RwLock<HashMap<Arc<str>, Vec<Measure>>>,
}

/// Metrics of a route, method and status.
#[derive(Clone)]
struct Measure {
    method: &'static str,
    status: u16,
    count: Counter,
    duration: Histogram,
}

/// Metrics of a handler's most frequent response, which avoids the table and its lock, shared by all cores. Set by
/// the handler's first success.
#[derive(Default)]
pub(crate) struct Usual(OnceLock<(Box<str>, Measure)>);

impl Measure {
    fn is_of(&self, method: &str, status: u16) -> bool {
        self.method == method && self.status == status
    }

    fn record(&self, took: Duration) {
        self.count.increment(1);
        self.duration.record(took);
    }
}

/// Label of a method. The set of labels is closed, whatever methods callers send.
fn label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "OTHER",
    }
}

impl Requests {
    pub(crate) fn new(listener: &'static str) -> Self {
        Self {
            listener,
            routes: RwLock::default(),
        }
    }

    /// Name of the listener.
    pub(crate) const fn listener(&self) -> &'static str {
        self.listener
    }

    /// Counts a response. `usual` belongs to the handler that produced it.
    pub(crate) fn record(
        &self,
        usual: &Usual,
        route: &str,
        method: &Method,
        status: u16,
        took: Duration,
    ) {
        let method = label(method);
        if let Some((at, measure)) = usual.0.get()
            && **at == *route
            && measure.is_of(method, status)
        {
            return measure.record(took);
        }
        let measure = self.find_or_make(route, method, status);
        measure.record(took);
        if (200..300).contains(&status) {
            let _first = usual.0.set((route.into(), measure));
        }
    }

    fn find_or_make(&self, route: &str, method: &'static str, status: u16) -> Measure {
        let found = |measures: &Vec<Measure>| {
            let mut measures = measures.iter();
            measures.find(|each| each.is_of(method, status)).cloned()
        };
        if let Some(measure) = self.routes.read().get(route).and_then(found) {
            return measure;
        }
        let measure = self.measure(route, method, status);
        let mut routes = self.routes.write();
        let measures = routes.entry(route.into()).or_default();
        // Another thread may have added the same metrics in the meantime. Both entries use the same series.
        measures.push(measure.clone());
        measure
    }

    fn measure(&self, route: &str, method: &'static str, status: u16) -> Measure {
        let (listener, route) = (self.listener, route.to_owned());
        Measure {
            method,
            status,
            count: counter!(
                "kassette_http_requests_total",
                "listener" => listener, "route" => route.clone(),
                "method" => method, "status" => status.to_string()
            ),
            duration: histogram!(
                "kassette_http_request_duration_seconds",
                "listener" => listener, "route" => route, "method" => method
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::for_tests;

    #[test]
    fn requests_are_counted_by_template_method_and_status() {
        let (recorder, measured) = for_tests();
        metrics::with_local_recorder(&recorder, || {
            let requests = Requests::new("public");
            let took = Duration::from_millis(3);
            let strange = Method::from_bytes(b"BREW").unwrap();
            let usual = Usual::default();
            for _ in 0..2 {
                requests.record(&usual, "/x/{id}", &Method::GET, 200, took);
            }
            requests.record(&usual, "/x/{id}", &strange, 405, took);
            requests.record(&usual, "/x/{id}", &Method::GET, 404, took);
            requests.record(&usual, "/y", &Method::GET, 200, took);
        });
        let text = measured.render();
        for line in [
            "kassette_http_requests_total{listener=\"public\",route=\"/x/{id}\",method=\"GET\",status=\"200\"} 2",
            "kassette_http_requests_total{listener=\"public\",route=\"/x/{id}\",method=\"GET\",status=\"404\"} 1",
            "kassette_http_requests_total{listener=\"public\",route=\"/y\",method=\"GET\",status=\"200\"} 1",
            "kassette_http_requests_total{listener=\"public\",route=\"/x/{id}\",method=\"OTHER\",status=\"405\"} 1",
            "kassette_http_request_duration_seconds_count{listener=\"public\",route=\"/x/{id}\",method=\"GET\"} 3",
        ] {
            assert!(text.contains(line), "{line}\nin\n{text}");
        }
    }
}
