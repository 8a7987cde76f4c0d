//! The demo shop's receiver of events. It verifies each event as a merchant must, and prints a line.

use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use http::{HeaderMap, StatusCode};
use kassette_domain::id::EventId;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::sign;
use kassette_gateway::clock::Clock;
use parking_lot::Mutex;
use serde_json::Value;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpListener;

/// Path that events are sent to.
const PATH: &str = "/webhooks";
/// Maximum difference of a delivery's timestamp from the current time, in seconds (spec, "Events" 3).
const TOLERANCE: u64 = 300;
/// Number of stored event ids, for the detection of repeated events. A real shop stores all of them.
const REMEMBERED: usize = 10_000;

/// A listener for the demo merchant's events.
pub(super) struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
}

impl Receiver {
    /// Listens on the given port, so that pending deliveries arrive, or else on a free port.
    pub(super) async fn bind(port: Option<u16>) -> std::io::Result<Self> {
        let at = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let listener = match at(port.unwrap_or_default()).await {
            Ok(listener) => listener,
            Err(_) => at(0).await?,
        };
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    /// URL of the endpoint.
    pub(super) fn url(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Receives events until the process ends. Deliveries in flight get a response even while the gateway stops.
    pub(super) fn begin(self, secret: Secret, clock: Arc<dyn Clock>) {
        let shop = Arc::new(Shop {
            secret,
            clock,
            taken: Mutex::default(),
        });
        let routes = Router::new().route(PATH, post(receive)).with_state(shop);
        tokio::spawn(async move {
            if let Err(error) = axum::serve(self.listener, routes).await {
                tracing::warn!("the demo shop receives no events any more: {error}");
            }
        });
    }
}

struct Shop {
    secret: Secret,
    clock: Arc<dyn Clock>,
    taken: Mutex<ReceivedEvents>,
}

/// Ids of the last accepted events.
#[derive(Default)]
struct ReceivedEvents {
    seen: HashSet<EventId>,
    order: VecDeque<EventId>,
}

impl ReceivedEvents {
    /// Adds an event. Returns false if it is already stored.
    fn take(&mut self, event: EventId) -> bool {
        if !self.seen.insert(event) {
            return false;
        }
        self.order.push_back(event);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.seen.remove(&oldest);
        }
        true
    }
}

async fn receive(
    State(shop): State<Arc<Shop>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    match shop.verify(&headers, &body) {
        Ok((id, event)) => {
            let again = if shop.taken.lock().take(id) {
                ""
            } else {
                "  (again)"
            };
            super::say(&format!("  event    {}{again}", line(&event)));
            (StatusCode::OK, "ok")
        }
        Err(why) => {
            super::say(&format!("  event    refused: {why}"));
            (StatusCode::BAD_REQUEST, why)
        }
    }
}

impl Shop {
    /// Verifies a delivery and returns its event.
    fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<(EventId, Value), &'static str> {
        let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let id = header("x-service-event-id").and_then(|id| EventId::parse(id).ok());
        let id = id.ok_or("malformed event id")?;
        let sent: u64 = header("x-service-timestamp")
            .filter(|text| text.len() == 10)
            .and_then(|text| text.parse().ok())
            .ok_or("malformed timestamp")?;
        if self.clock.now().as_secs().abs_diff(sent) > TOLERANCE {
            return Err("old timestamp");
        }
        let given = header("x-service-signature").unwrap_or_default();
        let right = sign(&self.secret, sent, id, body);
        if !bool::from(right.as_bytes().ct_eq(given.as_bytes())) {
            return Err("wrong signature; was the secret rotated?");
        }
        let event: Value = serde_json::from_slice(body).map_err(|_| "no JSON")?;
        if event["id"] != id.to_string() {
            return Err("the body is of another event");
        }
        Ok((id, event))
    }
}

/// Summary of an event in one line.
fn line(event: &Value) -> String {
    let data = &event["data"];
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    format!(
        "{}  {}  {}/{}  {} {}  {}",
        text(&event["type"]),
        text(&data["order_id"]),
        text(&data["status"]),
        text(&data["settlement_status"]),
        text(&data["amount"]),
        text(&data["currency"]),
        text(&data["payment_id"]),
    )
}

#[cfg(test)]
mod tests {
    use kassette_gateway::clock::AdjustableClock;

    use super::*;

    fn signed(secret: &Secret, at: u64, id: EventId, body: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("x-service-event-id", id.to_string().parse().unwrap());
        headers.insert("x-service-timestamp", at.to_string().parse().unwrap());
        let signature = sign(secret, at, id, body.as_bytes());
        headers.insert("x-service-signature", signature.parse().unwrap());
        headers
    }

    #[test]
    fn the_demo_shop_believes_fresh_signed_events_alone() {
        let clock = Arc::new(AdjustableClock::new());
        let shop = Shop {
            secret: Secret::new("whsec_x"),
            clock: Arc::clone(&clock) as _,
            taken: Mutex::default(),
        };
        let id = EventId::from_bytes([7; 16]);
        let body = format!(r#"{{"id":"{id}"}}"#);
        let now = clock.now().as_secs();
        let other = EventId::from_bytes([8; 16]);
        let ours = &shop.secret;
        for (headers, body, right) in [
            (signed(ours, now, id, &body), body.clone(), true),
            (signed(ours, now - 299, id, &body), body.clone(), true),
            (signed(ours, now - 310, id, &body), body.clone(), false),
            (signed(ours, now + 310, id, &body), body.clone(), false),
            (signed(ours, now, id, &body), format!("{body} "), false),
            (signed(ours, now, other, &body), body.clone(), false),
            (
                signed(&Secret::new("whsec_y"), now, id, &body),
                body.clone(),
                false,
            ),
            (HeaderMap::new(), body.clone(), false),
        ] {
            let verified = shop.verify(&headers, body.as_bytes());
            assert_eq!(verified.is_ok(), right, "{headers:?} {body}");
        }
    }

    #[test]
    fn an_event_that_comes_again_is_known() {
        let mut taken = ReceivedEvents::default();
        let id = |n: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            EventId::from_bytes(bytes)
        };
        assert!(taken.take(id(0)));
        assert!(!taken.take(id(0)));
        for n in 1..=u32::try_from(REMEMBERED).unwrap() {
            assert!(taken.take(id(n)));
        }
        assert!(!taken.take(id(1)), "the last ones are remembered");
        assert_eq!(taken.seen.len(), REMEMBERED);
    }
}
