//! The floor: an axum server whose handlers only parse and serialize JSON like that of the gateway. It runs in a
//! separate process on a runtime with the gateway's settings.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::routing::{get, post};
use axum::serve::ListenerExt as _;
use axum::{Json, Router};
use http::StatusCode;
use http::request::Parts;
use kassette_domain::signing::{Nonce, SignedRequest, Stamp};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader};

use super::gateway::process_time;

/// Argument that starts this program as a floor.
pub(crate) const ARGUMENT: &str = "floor";
/// Argument that starts this program as a listener that discards its input.
pub(crate) const DISCARD: &str = "discard";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    order_id: String,
    #[expect(dead_code, reason = "it is parsed, as the gateway parses it")]
    idempotency_key: String,
    amount: String,
    currency: String,
    #[expect(dead_code, reason = "it is parsed, as the gateway parses it")]
    customer_email: String,
    #[expect(dead_code, reason = "it is parsed, as the gateway parses it")]
    return_url: String,
}

#[derive(Clone, Serialize)]
struct Payment {
    payment_id: &'static str,
    order_id: String,
    status: &'static str,
    settlement_status: &'static str,
    amount: String,
    currency: String,
    usd_amount: &'static str,
    payment_method: Option<&'static str>,
    test_mode: bool,
    checkout_url: &'static str,
}

fn payment(order_id: String, amount: String, currency: String) -> Payment {
    Payment {
        payment_id: "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
        order_id,
        status: "created",
        settlement_status: "pending",
        amount,
        currency,
        usd_amount: "53.89",
        payment_method: None,
        test_mode: true,
        checkout_url: "https://pay.example/checkout/Zk3v8yq0S1n5m7Qw2E4r6T8y0U1i3O5p7A9s1D3f5G7",
    }
}

async fn read() -> Json<&'static Payment> {
    static STORED: LazyLock<Payment> =
        LazyLock::new(|| payment("order-1042".into(), "49.90".into(), "EUR".into()));
    Json(&STORED)
}

async fn create(Json(create): Json<Create>) -> (StatusCode, Json<Payment>) {
    let made = payment(create.order_id, create.amount, create.currency);
    (StatusCode::CREATED, Json(made))
}

/// Path at which the signature of a request is ignored.
pub(crate) const IGNORED: &str = "/api/v1/reseller/payments/ignored";
/// Path at which the signature of a request is checked.
pub(crate) const CHECKED: &str = "/api/v1/reseller/payments/checked";

/// Parses a signed request and checks its signature like the gateway.
async fn read_signed(parts: Parts) -> Result<Json<&'static Payment>, StatusCode> {
    let header = |name: &str| {
        let mut values = parts.headers.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().map_err(|_| StatusCode::UNAUTHORIZED),
            _ => Err(StatusCode::UNAUTHORIZED),
        }
    };
    let (_, key) = header("authorization")?
        .split_once(' ')
        .ok_or(StatusCode::UNAUTHORIZED)?;
    let timestamp = header("x-service-timestamp")?;
    let nonce = Nonce::parse(header("x-service-nonce")?).ok_or(StatusCode::UNAUTHORIZED)?;
    let target = parts
        .uri
        .path_and_query()
        .map_or("", |target| target.as_str());
    let request = SignedRequest {
        method: parts.method.as_str(),
        target,
        timestamp,
        nonce: nonce.as_str(),
        body: b"",
    };
    let stamp = Stamp::parse(timestamp).ok_or(StatusCode::UNAUTHORIZED)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = Time::from_secs(since.map_or(0, |since| since.as_secs()));
    let signature = header("x-service-signature")?;
    if stamp.is_fresh(now) && request.is_signed(key, signature.as_bytes()) {
        Ok(read().await)
    } else {
        Err(StatusCode::UNAUTHORIZED)
    }
}

/// Prints the address and serves until the process is killed.
pub(crate) fn serve() {
    let router = Router::new()
        .route("/api/v1/payments", post(create))
        .route("/api/v1/payments/{id}", get(read))
        .route(IGNORED, get(read))
        .route(CHECKED, get(read_signed));
    serve_on_loopback(router);
}

/// Serves on a free port until the process is killed. Prints the address first.
pub(crate) fn serve_on_loopback(router: Router) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap());
    serve_on(listener, router);
}

/// Serves until the process is killed, on a runtime with the gateway's settings.
pub(crate) fn serve_on(listener: std::net::TcpListener, router: Router) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        listener.set_nonblocking(true).unwrap();
        let listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let listener = listener.tap_io(|stream| stream.set_nodelay(true).unwrap());
        axum::serve(listener, router).await.unwrap();
    });
}

/// Accepts connections and discards their input until the process is killed. Prints the address first.
pub(crate) fn discard() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                // The copy ends when the peer closes the connection.
                let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
            });
        }
    });
}

/// A running floor.
pub(crate) struct Floor {
    child: Child,
    /// Address on which it listens.
    pub(crate) address: SocketAddr,
}

impl Floor {
    /// Starts this program as a floor.
    pub(crate) fn start() -> Self {
        Self::serving(ARGUMENT)
    }

    /// Starts this program with an argument.
    pub(crate) fn serving(argument: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg(argument)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            child,
            address: line.trim().parse().unwrap(),
        }
    }

    /// Processor time used so far.
    pub(crate) fn cpu(&self) -> Duration {
        process_time(self.child.id())
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
