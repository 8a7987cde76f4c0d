//! Counts and durations of requests, by listener, route template, method and status.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::RwLock;

/// The template of a request that no route took.
pub(crate) const UNMATCHED: &str = "unmatched";

/// The measures of one listener. Handles are kept, because looking one up by its labels costs more
/// than answering a small request; there are only as many as the router has routes.
pub(crate) struct Requests {
    listener: &'static str,
    routes: RwLock<HashMap<Arc<str>, Vec<Measure>>>,
}

struct Measure {
    method: &'static str,
    status: u16,
    count: Counter,
    duration: Histogram,
}

/// The method as a label: a closed set, whatever callers invent.
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

    /// Counts an answered request.
    pub(crate) fn record(&self, route: &str, method: &Method, status: u16, took: Duration) {
        let method = label(method);
        let found = |measures: &Vec<Measure>| {
            let mut measures = measures.iter();
            let measure = measures.find(|m| m.method == method && m.status == status)?;
            measure.count.increment(1);
            measure.duration.record(took);
            Some(())
        };
        if self.routes.read().get(route).and_then(found).is_some() {
            return;
        }
        let measure = self.measure(route, method, status);
        measure.count.increment(1);
        measure.duration.record(took);
        let mut routes = self.routes.write();
        routes.entry(route.into()).or_default().push(measure);
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
    use crate::telemetry::prometheus::for_tests;

    #[test]
    fn requests_are_counted_by_template_method_and_status() {
        let (recorder, measured) = for_tests();
        metrics::with_local_recorder(&recorder, || {
            let requests = Requests::new("public");
            let took = Duration::from_millis(3);
            let strange = Method::from_bytes(b"BREW").unwrap();
            for _ in 0..2 {
                requests.record("/x/{id}", &Method::GET, 200, took);
            }
            requests.record("/x/{id}", &strange, 405, took);
        });
        let text = measured.render();
        for line in [
            "kassette_http_requests_total{listener=\"public\",route=\"/x/{id}\",method=\"GET\",status=\"200\"} 2",
            "kassette_http_requests_total{listener=\"public\",route=\"/x/{id}\",method=\"OTHER\",status=\"405\"} 1",
            "kassette_http_request_duration_seconds_count{listener=\"public\",route=\"/x/{id}\",method=\"GET\"} 2",
        ] {
            assert!(text.contains(line), "{line}\nin\n{text}");
        }
    }
}
