//! A merchant's server for events: records the exact bytes and responds as the test configures it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hmac::{Hmac, KeyInit as _, Mac as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::harness::{Server, TEST_TIMEOUT, merge};

/// Reaction of a receiver to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Responds with this status and a short body.
    Status(u16),
    /// Responds with this status, additional header lines and body.
    Full(u16, String, Vec<u8>),
    Silence,
    /// Responds with 200 once notified.
    Held(Arc<Notify>),
    Reset,
    /// Closes the connection in the middle of the response.
    HangUp,
    /// Responds with 200 and sends the body slowly, byte by byte.
    SlowBody,
    /// Responds with this status and additional header lines, and stops in the middle of the body.
    Unfinished(u16, String),
    EndlessBody,
    EndlessHeaders,
}

#[derive(Clone, Debug)]
pub(crate) struct Got {
    /// Request line and headers, including the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    pub(crate) at: SystemTime,
}

impl Got {
    /// All values of a header with this name, in any case.
    pub(crate) fn headers(&self, name: &str) -> Vec<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let pairs = lines.filter_map(|line| line.split_once(": "));
        pairs
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .collect()
    }

    /// Value of a header that must occur exactly once.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> &str {
        let values = self.headers(name);
        assert_eq!(values.len(), 1, "{name}: {}", self.head);
        values[0]
    }

    pub(crate) fn event_id(&self) -> &str {
        self.header("x-service-event-id")
    }

    /// Time of arrival, in milliseconds since 1970.
    pub(crate) fn at_unix_ms(&self) -> f64 {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap();
        since.as_secs_f64() * 1000.0
    }

    pub(crate) fn timestamp(&self) -> i64 {
        self.header("x-service-timestamp").parse().unwrap()
    }

    /// The body's JSON.
    pub(crate) fn event(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub(crate) fn kind(&self) -> String {
        self.event()["type"].as_str().unwrap().to_owned()
    }

    /// Whether the secret signed exactly these bytes. Asserts the format that the SPEC requires.
    pub(crate) fn is_signed_by(&self, secret: &str) -> bool {
        let (id, timestamp) = (self.event_id(), self.header("x-service-timestamp"));
        let lower_hex = |text: &str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        assert!(id.len() == 32 && lower_hex(id), "{id}");
        assert!(
            timestamp.len() == 10 && timestamp.bytes().all(|b| b.is_ascii_digit()),
            "{timestamp}"
        );
        self.header("x-service-signature") == signature(secret, timestamp, id, &self.body)
    }
}

/// `v1=` and the hex HMAC-SHA256 of `timestamp.id.body`, keyed with the secret as shown.
pub(crate) fn signature(secret: &str, timestamp: &str, id: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(timestamp.as_bytes());
    mac.update(b".");
    mac.update(id.as_bytes());
    mac.update(b".");
    mac.update(body);
    format!("v1={}", hex::encode(mac.finalize().into_bytes()))
}

/// A listener that acts as a merchant's server until the test ends.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    script: Arc<Script>,
}

struct Script {
    got: Mutex<Vec<Got>>,
    next: Mutex<VecDeque<Reply>>,
    otherwise: Mutex<Reply>,
}

impl Receiver {
    /// Responds to every request with 200.
    pub(crate) async fn new() -> Self {
        Self::answering(Reply::Status(200)).await
    }

    /// Responds to every request in the same way.
    pub(crate) async fn answering(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let script = Arc::new(Script {
            got: Mutex::default(),
            next: Mutex::default(),
            otherwise: Mutex::new(reply),
        });
        let shared = Arc::clone(&script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&shared);
                tokio::spawn(async move { drop(serve(stream, &script).await) });
            }
        });
        Self { address, script }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?shop=1", self.address)
    }

    /// Sets the reaction to all requests from now on.
    pub(crate) fn answer(&self, reply: Reply) {
        *self.script.otherwise.lock() = reply;
    }

    /// Sets the reactions to the next requests, one for each. Later requests get the usual reaction.
    pub(crate) fn answer_next(&self, replies: impl IntoIterator<Item = Reply>) {
        self.script.next.lock().extend(replies);
    }

    /// All received requests, oldest first.
    pub(crate) fn got(&self) -> Vec<Got> {
        self.script.got.lock().clone()
    }

    /// Waits until at least this many requests have arrived.
    #[track_caller]
    pub(crate) fn wait(&self, number: usize) -> impl Future<Output = Vec<Got>> {
        let caller = std::panic::Location::caller();
        async move {
            let began = Instant::now();
            loop {
                let got = self.got();
                if got.len() >= number {
                    return got;
                }
                let late = began.elapsed() > TEST_TIMEOUT;
                assert!(!late, "{} of {number} arrived: {caller}", got.len());
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }
}

async fn serve(mut stream: TcpStream, script: &Script) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    loop {
        let end = loop {
            if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
        let mut got = Got {
            head,
            body: Vec::new(),
            at: SystemTime::now(),
        };
        let length = got.headers("content-length").first().copied();
        let length: usize = length.unwrap_or("0").parse().unwrap();
        while buffer.len() < end + length {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        got.body = buffer[end..end + length].to_vec();
        buffer.drain(..end + length);
        script.got.lock().push(got);
        let reply = script.next.lock().pop_front();
        let reply = reply.unwrap_or_else(|| script.otherwise.lock().clone());
        if !answer(&mut stream, reply).await? {
            return Ok(());
        }
    }
}

/// Sends the reply. False if the connection must be closed.
pub(crate) async fn answer(stream: &mut TcpStream, reply: Reply) -> std::io::Result<bool> {
    let (status, headers, body) = match reply {
        Reply::Status(status) => (status, String::new(), b"said".to_vec()),
        Reply::Held(told) => {
            told.notified().await;
            (200, String::new(), b"said".to_vec())
        }
        Reply::Full(status, headers, body) => (status, headers, body),
        Reply::Silence => {
            // Wait until the client closes the connection.
            let _ = stream.read_u8().await;
            return Ok(false);
        }
        Reply::Reset => {
            stream.set_zero_linger()?;
            return Ok(false);
        }
        Reply::HangUp => {
            let half = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf";
            stream.write_all(half).await?;
            return Ok(false);
        }
        Reply::SlowBody => {
            let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4000\r\n\r\n";
            stream.write_all(head).await?;
            loop {
                stream.write_all(b"a").await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Reply::Unfinished(status, headers) => {
            let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: 9\r\n{headers}\r\nhalf");
            stream.write_all(head.as_bytes()).await?;
            let _ = stream.read_u8().await;
            return Ok(false);
        }
        Reply::EndlessBody => {
            let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(head).await?;
            loop {
                let chunk = format!("400\r\n{}\r\n", "a".repeat(1024));
                stream.write_all(chunk.as_bytes()).await?;
            }
        }
        Reply::EndlessHeaders => {
            stream.write_all(b"HTTP/1.1 200 OK\r\n").await?;
            loop {
                stream
                    .write_all(&b"x-more: aaaaaaaaaaaaaaa\r\n".repeat(64))
                    .await?;
            }
        }
    };
    if [204, 304].contains(&status) {
        // These statuses allow neither a body nor a `Content-Length`.
        let head = format!("HTTP/1.1 {status} Said\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await?;
        return Ok(true);
    }
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Said\r\n{headers}content-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    Ok(true)
}

pub(crate) struct Hook {
    pub(crate) id: String,
    pub(crate) secret: String,
}

impl Server {
    /// Creates a test endpoint for a merchant; `more` overrides or adds fields.
    pub(crate) async fn hook(&self, merchant: u64, to: &Receiver, more: Value) -> Hook {
        let mut body = json!({ "url": to.url(), "environment": "test" });
        merge(&mut body, more);
        let path = format!("/merchants/{merchant}/webhook-endpoints");
        let made = self
            .admin("POST", &path, Some(&body))
            .await
            .expect(201)
            .json();
        Hook {
            id: made["id"].as_str().unwrap().to_owned(),
            secret: made["secret"].as_str().unwrap().to_owned(),
        }
    }

    /// Performs an action on an endpoint, for example `test` or `deliver`.
    pub(crate) async fn hook_act(&self, hook: &Hook, act: &str, body: Value) -> Value {
        let path = format!("/webhook-endpoints/{}/{act}", hook.id);
        let answer = self.admin("POST", &path, Some(&body)).await;
        assert!(answer.status / 100 == 2, "{}", answer.text);
        answer.json()
    }

    pub(crate) async fn change_hook(&self, hook: &Hook, patch: Value) -> Value {
        let path = format!("/webhook-endpoints/{}", hook.id);
        self.admin("PATCH", &path, Some(&patch))
            .await
            .expect(200)
            .json()
    }

    /// All deliveries of an endpoint, newest first.
    pub(crate) async fn deliveries(&self, hook: &Hook) -> Vec<Value> {
        let path = format!("/deliveries?limit=100&endpoint_id={}", hook.id);
        let (mut all, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.admin("GET", &format!("{path}{cursor}"), None).await;
            let page = page.expect(200).json();
            all.extend(page["deliveries"].as_array().unwrap().clone());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return all,
            }
        }
    }

    pub(crate) async fn delivery(&self, id: &Value) -> Value {
        let path = format!("/deliveries/{}", id.as_str().unwrap());
        self.admin("GET", &path, None).await.expect(200).json()
    }

    /// Waits until no delivery of an endpoint is pending.
    pub(crate) async fn settled(&self, hook: &Hook) -> Vec<Value> {
        self.wait_for("the deliveries' end", async || {
            let all = self.deliveries(hook).await;
            all.iter()
                .all(|each| each["status"] != "pending")
                .then_some(all)
        })
        .await
    }

    /// Waits until a delivery has at least this many attempts.
    pub(crate) async fn attempted(&self, id: &Value, times: usize) -> Value {
        self.wait_for("the attempt", async || {
            let now = self.delivery(id).await;
            (now["attempts"].as_array().unwrap().len() >= times).then_some(now)
        })
        .await
    }

    /// Seconds from now to a delivery's next attempt.
    pub(crate) async fn seconds_to(&self, delivery: &Value) -> i64 {
        let next = delivery["next_attempt_at"].as_str().unwrap();
        let next: jiff::Timestamp = next.parse().unwrap();
        next.as_second() - self.now().await
    }

    /// Advances the clock until a delivery has another attempt. A circuit breaker may delay the attempt by a
    /// minute.
    pub(crate) async fn attempt_again(&self, delivery: &Value) -> Value {
        let made = delivery["attempts"].as_array().unwrap().len();
        let seconds = self.seconds_to(delivery).await.max(0);
        self.advance(u64::try_from(seconds).unwrap() + 62).await;
        self.attempted(&delivery["id"], made + 1).await
    }
}
