//! A shop that receives Kassette's webhooks.
//!
//! ```sh
//! KASSETTE_WEBHOOK_SECRETS=whsec_... cargo run --release --example webhook-receiver FOLDER PORT
//! ```
//!
//! FOLDER contains orders.json, the shop's orders, and events.log, with one line per event: its id, its type, and
//! whether it paid an order. The log stands for a database that stores all three in one transaction. During a
//! rotation the variable contains both secrets, separated by a space.

use std::error::Error;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::Value;
use sha2::Sha256;
use tokio::net::TcpListener;

// -- verify
const TOLERANCE: u64 = 300; // seconds

/// The event in a body, which is given as the bytes that arrived.
fn verify(
    secrets: &[String],
    headers: &HeaderMap,
    body: &[u8],
    now: u64,
) -> Result<Value, &'static str> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let event_id = header("x-service-event-id").unwrap_or_default();
    let timestamp = header("x-service-timestamp").unwrap_or_default();
    let signature = header("x-service-signature").unwrap_or_default();
    let lower_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    if event_id.len() != 32 || !lower_hex(event_id) {
        return Err("malformed event id");
    }
    let digits = timestamp.len() == 10 && timestamp.bytes().all(|b| b.is_ascii_digit());
    let sent: u64 = timestamp.parse().unwrap_or_default();
    if !digits || now.abs_diff(sent) > TOLERANCE {
        return Err("malformed or old timestamp");
    }
    let digest = signature
        .strip_prefix("v1=")
        .filter(|digest| digest.len() == 64 && lower_hex(digest))
        .and_then(|digest| hex::decode(digest).ok())
        .ok_or("malformed signature")?;
    let mut right = false;
    for secret in secrets {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|_| "no key")?;
        mac.update(format!("{timestamp}.{event_id}.").as_bytes());
        mac.update(body);
        right |= mac.verify_slice(&digest).is_ok(); // takes the same time for every digest
    }
    if !right {
        return Err("wrong signature");
    }
    let event: Value = serde_json::from_slice(body).map_err(|_| "no JSON")?;
    if event["id"] != event_id {
        return Err("the body is of another event");
    }
    Ok(event)
}
// -- end

/// Whether an event reports that one of our orders is paid.
fn pays(event: &Value, orders: &[Value]) -> bool {
    let data = &event["data"];
    let ours = ["payment_id", "order_id", "amount", "currency"];
    event["type"] == "payment.completed"
        && data["status"] == "completed"
        && data["settlement_status"] == "confirmed"
        && data["test_mode"] == false
        && orders
            .iter()
            .any(|order| ours.iter().all(|name| data[name] == order[name]))
}

struct Shop {
    secrets: Vec<String>,
    orders: Vec<Value>,
    log: Mutex<PathBuf>,
}

/// Processes an event unless it is in the log already. Returns once the result is on disk.
fn take(shop: &Shop, event: &Value) -> std::io::Result<()> {
    let path = shop.log.lock().unwrap_or_else(PoisonError::into_inner);
    let id = event["id"].as_str().unwrap_or_default();
    let kind = event["type"].as_str().unwrap_or_default();
    let taken = std::fs::read_to_string(&*path).unwrap_or_default();
    if taken.lines().any(|line| line.starts_with(id)) {
        return Ok(());
    }
    let outcome = if pays(event, &shop.orders) {
        "paid"
    } else {
        "seen"
    };
    let mut log = File::options().append(true).create(true).open(&*path)?;
    log.write_all(format!("{id} {kind} {outcome}\n").as_bytes())?;
    log.sync_all()
}

async fn receive(
    State(shop): State<Arc<Shop>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, &'static str) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |since| since.as_secs());
    let event = match verify(&shop.secrets, &headers, &body, now) {
        Ok(event) => event,
        Err(why) => return (StatusCode::BAD_REQUEST, why),
    };
    // A repeated event gets the same response; otherwise it would be sent again.
    match take(&shop, &event) {
        Ok(()) => (StatusCode::OK, "ok"),
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "try again"),
    }
}

/// Receives webhooks until the process ends.
pub(crate) async fn serve(
    folder: &Path,
    secrets: &str,
    listener: TcpListener,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let shop = Shop {
        secrets: secrets.split_whitespace().map(str::to_owned).collect(),
        orders: serde_json::from_slice(&std::fs::read(folder.join("orders.json"))?)?,
        log: Mutex::new(folder.join("events.log")),
    };
    let routes = Router::new()
        .fallback(post(receive))
        .with_state(Arc::new(shop));
    Ok(axum::serve(listener, routes).await?)
}

#[tokio::main]
#[allow(dead_code, clippy::print_stdout, clippy::allow_attributes)] // the tests call `serve` themselves
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(folder), Some(port)) = (arguments.next(), arguments.next()) else {
        return Err("say: webhook-receiver FOLDER PORT".into());
    };
    let secrets = std::env::var("KASSETTE_WEBHOOK_SECRETS")?;
    let listener = TcpListener::bind(("127.0.0.1", port.parse()?)).await?;
    println!("listening on {}", listener.local_addr()?.port());
    serve(folder.as_ref(), &secrets, listener).await
}
