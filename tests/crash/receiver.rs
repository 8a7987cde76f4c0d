//! The shops' event receiver, which checks that each event arrives, and never from two nodes at the same time.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use http::HeaderMap;
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::TcpListener;

use crate::load::World;
use crate::process::{Desk, Running};
use crate::steady_state::{AGAIN, STEADY_TIMEOUT, advance};

const LOOK: Duration = Duration::from_millis(500);
/// Failed deliveries are retried after at least 4.5 s, and claimed but unrecorded ones after a minute. An event
/// that arrives again sooner was claimed by two nodes at the same time.
const APART: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Got {
    /// Number and last time of each event's arrivals.
    events: HashMap<String, (usize, Instant)>,
    /// Events that arrived again within [`APART`]: time of the previous arrival, and the interval.
    twice: Vec<(String, Instant, Duration)>,
}

impl Got {
    fn note(&mut self, event: &str) {
        let now = Instant::now();
        let known = self.events.entry(event.to_owned());
        let (times, last) = known.or_insert((0, now));
        let passed = now.duration_since(*last);
        if *times > 0 && passed < APART {
            self.twice.push((event.to_owned(), *last, passed));
        }
        (*times, *last) = (*times + 1, now);
    }
}

/// Receiver for all shops.
pub(crate) struct Receiver {
    address: SocketAddr,
    got: Arc<Mutex<Got>>,
}

impl Receiver {
    pub(crate) async fn open() -> Result<Self, String> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        let listener = listener.map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let got = Arc::<Mutex<Got>>::default();
        let routes = Router::new()
            .route("/", post(receive))
            .with_state(Arc::clone(&got));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(Self { address, got })
    }

    /// Creates endpoints of all shops for this receiver.
    pub(crate) async fn listen(&self, world: &World, desk: &mut Desk) -> Result<(), String> {
        for shop in &world.shops {
            for environment in ["test", "live"] {
                let url = format!("http://{}/", self.address);
                let body = json!({ "url": url, "environment": environment });
                let path = format!("/merchants/{}/webhook-endpoints", shop.id);
                desk.change("POST", &path, &body, 201).await?;
            }
        }
        Ok(())
    }

    /// Asserts that no event came from two nodes at the same time. Ignores events before `since`: a database that
    /// loses its latest commits has lost claims.
    pub(crate) fn judge_claims(&self, since: Instant) -> Result<(), String> {
        let twice = std::mem::take(&mut self.got.lock().twice);
        let wrong: Vec<_> = twice
            .iter()
            .filter(|(_, first, _)| *first >= since)
            .collect();
        match wrong.first() {
            None => Ok(()),
            Some((event, _, passed)) => Err(format!(
                "{} events came from two nodes at once: {event} again after {passed:?}",
                wrong.len()
            )),
        }
    }

    /// Asserts that every event of every payment arrived at least once. Returns a summary.
    pub(crate) async fn judge(&self, world: &World, run: &Running) -> Result<String, String> {
        let mut desk = run.desk();
        let mut owed = Vec::new();
        for id in world.journal.all().iter().filter_map(|entry| entry.id()) {
            let inside = desk.read(&format!("/payments/{id}")).await?;
            let events = inside["events"].as_array().into_iter().flatten();
            // This type is sent only to endpoints that subscribe to it.
            let told = events.filter(|event| event["type"] != "payment.attempt_failed");
            owed.extend(told.map(|event| event["id"].as_str().unwrap_or_default().to_owned()));
        }
        let (count, began) = (owed.len(), Instant::now());
        loop {
            owed.retain(|event| !self.got.lock().events.contains_key(event));
            if owed.is_empty() {
                break;
            }
            if began.elapsed() > STEADY_TIMEOUT {
                return Err(format!(
                    "{} of {count} events were lost: {owed:?}",
                    owed.len()
                ));
            }
            tokio::time::sleep(LOOK).await;
            advance(&mut desk, AGAIN).await?;
        }
        let got = self.got.lock();
        let times: usize = got.events.values().map(|(times, _)| times).sum();
        Ok(format!("{count} events in {times} deliveries, none lost"))
    }
}

async fn receive(State(got): State<Arc<Mutex<Got>>>, headers: HeaderMap) -> &'static str {
    let event = headers.get("x-service-event-id");
    let event = event.and_then(|id| id.to_str().ok()).unwrap_or_default();
    got.lock().note(event);
    "got"
}
