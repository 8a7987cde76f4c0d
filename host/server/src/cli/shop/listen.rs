//! `kassette listen`: forwards the events of test payments to a developer's machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use kassette_domain::id::EventId;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_domain::webhook::{generate_secret, sign, sign_standard};
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{CallError, Shop, ShopArgs};
use crate::cli::credential::credential;
use crate::cli::output::{plain, print};

/// Environment variable with the secret.
const SECRET: &str = "KASSETTE_WEBHOOK_SECRET";
/// Pauses between two polls: the first while events occur, the second without any.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// Events this much older than the newest one are listed again, because events of several nodes appear out of order.
const OVERLAP: Duration = Duration::from_secs(60);
/// Maximum number of pages of one poll.
const MAX_PAGES: usize = 100;

/// Arguments of `listen`.
#[derive(Args, Debug)]
pub(in crate::cli) struct ListenArgs {
    #[command(flatten)]
    shop: ShopArgs,
    /// Address to which events are posted: plain http only on this machine.
    #[arg(long, value_name = "URL")]
    forward_to: Url,
    /// File with the secret for the signatures; otherwise it is read from KASSETTE_WEBHOOK_SECRET, or a new one is
    /// printed.
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
}

/// Forwards events until a signal to stop.
///
/// # Errors
/// The key, the secret or an address is refused.
pub(in crate::cli) async fn listen(
    args: ListenArgs,
    stop: CancellationToken,
) -> Result<(), String> {
    let shop = Shop::new(&args.shop, &[&args.forward_to])?;
    let secret = match credential(SECRET, args.secret_file.as_deref())? {
        Some(secret) => secret,
        None => {
            let drawn = generate_secret(getrandom::fill).map_err(|error| error.to_string())?;
            print(&format!("Events are signed with {}\n", drawn.expose()))?;
            drawn
        }
    };
    let mut listener = Listener {
        seen: Seen::default(),
        pause: PAUSES.0,
        shop,
        target: args.forward_to,
        secret,
    };
    loop {
        let pause = tokio::select! {
            pause = listener.poll() => pause?,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

struct Listener {
    shop: Shop,
    target: Url,
    secret: Secret,
    seen: Seen,
    pause: Duration,
}

impl Listener {
    /// Forwards the events that are new. Returns the pause before the next poll. The first poll forwards nothing: it
    /// finds where the list ends.
    async fn poll(&mut self) -> Result<Duration, String> {
        let is_first = self.seen.since.is_none();
        let found = match self.new_events().await {
            Ok(found) => found,
            Err(CallError::Refused(why)) => return Err(why),
            Err(CallError::Later(pause, why)) => {
                eprintln!("{why}; next try in {} s", pause.as_secs());
                return Ok(pause);
            }
        };
        if is_first {
            let target = &self.target;
            print(&format!("Forwarding to {target}. Ctrl-C ends it.\n"))?;
        } else {
            for event in &found {
                print(&self.forward(event).await)?;
            }
        }
        self.pause = match found.is_empty() {
            true => (self.pause * 2).min(PAUSES.1),
            false => PAUSES.0,
        };
        Ok(self.pause)
    }

    /// Events that were not listed before, oldest first.
    async fn new_events(&mut self) -> Result<Vec<Value>, CallError> {
        if self.seen.since.is_none() {
            let page = self.shop.get("/api/v1/events", &[("limit", "1")]).await?;
            self.seen.start(created_at(&page["events"][0]));
        }
        let since = self.seen.since.map(Time::rfc3339);
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        for _ in 0..MAX_PAGES {
            let mut query = vec![("limit", "100")];
            query.extend(since.as_deref().map(|since| ("since", since)));
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let mut page = self.shop.get("/api/v1/events", &query).await?;
            if let Some(Value::Array(events)) = page.get_mut("events").map(Value::take) {
                found.extend(events);
            }
            cursor = page["next_cursor"].as_str().map(str::to_owned);
            if cursor.is_none() {
                break;
            }
        }
        found.reverse();
        found.retain(|event| self.seen.is_new(event));
        self.seen.forget();
        Ok(found)
    }

    /// Posts an event. Returns a line about it.
    async fn forward(&self, event: &Value) -> String {
        let [kind, id, payment] = ["/type", "/id", "/data/payment_id"].map(|place| {
            event
                .pointer(place)
                .and_then(Value::as_str)
                .unwrap_or_default()
        });
        let (headers, body) = match signed(&self.secret, id, event) {
            Ok(signed) => signed,
            Err(why) => return format!("{} {why}\n", plain(kind)),
        };
        let target = self.target.clone();
        let sent = self.shop.send(Method::POST, target, headers, body.into());
        let outcome = match sent.await {
            Ok(response) => response.status.to_string(),
            Err(why) => why,
        };
        format!("{} {} {}\n", plain(kind), plain(payment), plain(&outcome))
    }
}

/// Headers and body of a delivery, as the gateway sends them.
fn signed(secret: &Secret, id: &str, event: &Value) -> Result<(HeaderMap, String), String> {
    let parsed = EventId::parse(id).map_err(|_| "has no event id".to_owned())?;
    let now = SystemClock.now().as_secs();
    let body = event.to_string();
    let standard = sign_standard([secret].into_iter(), now, parsed, body.as_bytes());
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("content-type", "application/json".to_owned()),
        ("x-service-event-id", id.to_owned()),
        ("x-service-timestamp", now.to_string()),
        (
            "x-service-signature",
            sign(secret, now, parsed, body.as_bytes()),
        ),
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", now.to_string()),
        ("webhook-signature", standard),
    ] {
        let value = HeaderValue::try_from(value).map_err(|error| error.to_string())?;
        headers.insert(HeaderName::from_static(name), value);
    }
    Ok((headers, body))
}

/// Time of an event.
fn created_at(event: &Value) -> Option<Time> {
    Time::parse_rfc3339(event["created_at"].as_str()?)
}

/// Events that were listed, so that each is forwarded once.
#[derive(Default)]
struct Seen {
    /// Start of the next list: the overlap before the newest event. `None` before the first poll.
    since: Option<Time>,
    /// Times of the listed events by id.
    events: BTreeMap<String, Time>,
}

impl Seen {
    /// Sets the start of the first list. Without an event, it has all of them.
    fn start(&mut self, newest: Option<Time>) {
        let newest = newest.unwrap_or(Time::from_millis(0));
        self.since = Some(newest.before(OVERLAP));
    }

    /// Whether an event is listed for the first time.
    fn is_new(&mut self, event: &Value) -> bool {
        let (Some(id), Some(at)) = (event["id"].as_str(), created_at(event)) else {
            return false;
        };
        self.events.insert(id.to_owned(), at).is_none()
    }

    /// Moves the start of the list, and forgets the events before it.
    fn forget(&mut self) {
        if let Some(newest) = self.events.values().max() {
            let start = newest.before(OVERLAP);
            self.since = Some(start);
            self.events.retain(|_, at| *at >= start);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_that_appears_late_is_new_and_none_is_new_twice() {
        let event = |id: &str, second: u64| {
            let at = Time::from_millis(1_795_253_400_000 + second * 1000);
            json!({ "id": id, "created_at": at.rfc3339() })
        };
        let mut seen = Seen::default();
        seen.start(created_at(&event("b", 100)));
        assert!(seen.is_new(&event("a", 60)) && seen.is_new(&event("b", 100)));
        seen.forget();
        assert_eq!(seen.since, created_at(&event("", 40)));
        // Of another node, older than the newest.
        assert!(seen.is_new(&event("c", 90)));
        for (id, second) in [("a", 60), ("b", 100), ("c", 90)] {
            assert!(!seen.is_new(&event(id, second)), "{id}");
        }
        assert!(seen.is_new(&event("d", 200)));
        seen.forget();
        assert_eq!(seen.events.keys().collect::<Vec<_>>(), ["d"]);
    }

    #[test]
    fn a_forwarded_event_has_the_headers_of_a_delivery() {
        let id = "4c6d1f0a5b7e48c29d3e6f8a1b2c3d4e";
        let secret = Secret::new("whsec_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefgh");
        let (headers, body) = signed(&secret, id, &json!({ "id": id })).unwrap();
        let sent = headers["x-service-timestamp"].to_str().unwrap();
        let made = sign(
            &secret,
            sent.parse().unwrap(),
            EventId::parse(id).unwrap(),
            body.as_bytes(),
        );
        assert_eq!(headers["x-service-signature"], made);
        assert_eq!(headers["x-service-event-id"], headers["webhook-id"]);
        assert!(
            headers["webhook-signature"]
                .to_str()
                .unwrap()
                .starts_with("v1,")
        );
        assert!(signed(&secret, "x", &json!({})).is_err());
    }
}
