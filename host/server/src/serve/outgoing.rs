//! Requests of modules to providers.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{AGE, DATE};
use kassette_domain::time::Time;
use kassette_gateway::clock::Clock;

use kassette_http::{Client, NotSent, Request, SendError};
use kassette_runtime::{Outgoing, Sending};
use parking_lot::Mutex;

use crate::simulators::Listeners;

/// Gauge of the clock's difference, in seconds.
const OFFSET: &str = "kassette_clock_offset_seconds";
/// Minimum difference, in seconds, that is logged. Signatures of providers are valid for minutes.
const OFF: u64 = 30;
/// Minimum time between two such log lines.
const SAID_EVERY: Duration = Duration::from_secs(600);

/// Compares this machine's clock with the times in providers' responses.
pub(super) struct ClockWatch {
    clock: Arc<dyn Clock>,
    warned_at: Mutex<Option<Time>>,
}

impl ClockWatch {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        // Exists from the start. NaN until a provider has responded.
        metrics::gauge!(OFFSET).set(f64::NAN);
        Self {
            clock,
            warned_at: Mutex::default(),
        }
    }

    /// Compares the clock with a response's `Date`.
    fn compare(&self, headers: &HeaderMap) {
        // A cached response was created some time ago.
        if headers.contains_key(AGE) {
            return;
        }
        let date = headers.get(DATE).and_then(|date| date.to_str().ok());
        let Some(there) = date.and_then(|date| httpdate::parse_http_date(date).ok()) else {
            return;
        };
        let Ok(there) = there.duration_since(UNIX_EPOCH) else {
            return;
        };
        let now = self.clock.now();
        let here = Duration::from_millis(now.as_millis());
        let off = here.as_secs_f64() - there.as_secs_f64();
        metrics::gauge!(OFFSET).set(off);
        if here.abs_diff(there).as_secs() < OFF {
            return;
        }
        let mut warned_at = self.warned_at.lock();
        if warned_at.is_none_or(|at| at.after(SAID_EVERY) <= now) {
            *warned_at = Some(now);
            tracing::warn!(
                "this machine's clock is {off:.0} s ahead of a vendor's (negative: behind): set it by NTP, \
                 because signatures and expiry are judged by it"
            );
        }
    }
}

/// Sends modules' requests through the guarded client. A simulator with a closed port cannot count the calls that
/// it refuses, so this client reports them.
pub(super) struct ModuleClient {
    /// The guarded client.
    pub(super) client: Client,
    /// The simulators, if there are any.
    pub(super) simulators: Option<Listeners>,
    /// Receives all responses over TLS.
    pub(super) clock_watch: ClockWatch,
}

impl Outgoing for ModuleClient {
    fn send<'a>(&'a self, request: Request<'a>) -> Sending<'a> {
        Box::pin(async move {
            let host = request
                .url
                .host_str()
                .and_then(|host| host.parse::<IpAddr>().ok());
            let address = host
                .zip(request.url.port_or_known_default())
                .map(SocketAddr::from);
            // Simulators use http and the gateway's clock.
            let is_vendor = request.url.scheme() == "https";
            let sent = self.client.send(request).await;
            if let (true, Ok(response)) = (is_vendor, &sent) {
                self.clock_watch.compare(&response.headers);
            }
            if let (
                Some(simulators),
                Some(address),
                Err(SendError::NotSent(NotSent::NoConnection(_))),
            ) = (&self.simulators, address, &sent)
            {
                simulators.refused(address).await;
            }
            sent
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    struct Stopped(Time);

    impl Clock for Stopped {
        fn now(&self) -> Time {
            self.0
        }

        fn wait_until(&self, _: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
            Box::pin(std::future::pending())
        }
    }

    /// Whether a response with this date causes a log line at 2026-01-01T00:00:00Z.
    fn says(date: &str, age: Option<&str>) -> bool {
        let watch = ClockWatch::new(Arc::new(Stopped(Time::from_secs(1_767_225_600))));
        let mut headers = HeaderMap::new();
        headers.insert(DATE, date.parse().unwrap());
        if let Some(age) = age {
            headers.insert(AGE, age.parse().unwrap());
        }
        watch.compare(&headers);
        watch.warned_at.into_inner().is_some()
    }

    #[test]
    fn a_clock_that_differs_from_a_vendors_is_said() {
        assert!(!says("Thu, 01 Jan 2026 00:00:20 GMT", None));
        assert!(says("Thu, 01 Jan 2026 01:00:00 GMT", None));
        assert!(says("Wed, 31 Dec 2025 23:00:00 GMT", None));
        assert!(!says("Wed, 31 Dec 2025 23:00:00 GMT", Some("3600")));
        assert!(!says("yesterday", None));
    }
}
