//! HTTP/1.1 client: a response counts only when complete, and no request is repeated implicitly.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than a start at a provider that hangs.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(40);
/// Pause between two repetitions of a request.
const AGAIN: Duration = Duration::from_millis(50);
/// Maximum response size in bytes: as much as the admin listener buffers for one address.
const LONGEST: usize = 64 << 20;

/// No complete response arrived. The outcome of the request is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost;

/// A complete response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) replayed: bool,
    pub(crate) text: String,
}

impl Answer {
    /// Whether the response only says that the request can be repeated.
    pub(crate) const fn says_later(&self) -> bool {
        self.status == 503
    }

    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text).map_err(|error| format!("{error}: {}", self.text))
    }

    /// Body as JSON, if the response has this status.
    pub(crate) fn expect(&self, status: u16) -> Result<Value, String> {
        if self.status == status {
            self.json()
        } else {
            Err(format!(
                "{} instead of {status}: {}",
                self.status, self.text
            ))
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a str,
    pub(crate) path: &'a str,
    pub(crate) key: Option<&'a str>,
    pub(crate) body: Option<&'a str>,
    pub(crate) form: bool,
}

impl<'a> Ask<'a> {
    pub(crate) const fn get(path: &'a str, key: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            key: Some(key),
            body: None,
            form: false,
        }
    }

    pub(crate) const fn post(path: &'a str, key: &'a str, body: &'a str) -> Self {
        Self {
            method: "POST",
            path,
            key: Some(key),
            body: Some(body),
            form: false,
        }
    }
}

/// A connection that is kept open, and opened again after a failure.
pub(crate) struct Line {
    to: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    /// Maximum time for a response.
    pub(crate) patience: Duration,
    /// Time for which requests that get a 503 or no response are repeated.
    pub(crate) again: Duration,
}

impl Line {
    /// Creates a connection to an address such as `127.0.0.1:8080`.
    pub(crate) fn to(address: &str) -> Self {
        Self {
            to: address.to_owned(),
            stream: None,
            buffer: Vec::new(),
            patience: RESPONSE_TIMEOUT,
            again: Duration::ZERO,
        }
    }

    /// Sends a request and reads the response.
    pub(crate) async fn call(&mut self, ask: Ask<'_>) -> Result<Answer, Lost> {
        let began = Instant::now();
        loop {
            let answer = self.once(ask).await;
            let later = answer.as_ref().map_or(true, Answer::says_later);
            if !later || began.elapsed() >= self.again {
                return answer;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn once(&mut self, ask: Ask<'_>) -> Result<Answer, Lost> {
        let answer = tokio::time::timeout(self.patience, self.exchange(ask)).await;
        match answer {
            Ok(Some((answer, kept))) => {
                if !kept {
                    self.stream = None;
                }
                Ok(answer)
            }
            Ok(None) | Err(_) => {
                self.stream = None;
                Err(Lost)
            }
        }
    }

    async fn exchange(&mut self, ask: Ask<'_>) -> Option<(Answer, bool)> {
        if self.stream.is_none() {
            let stream = TcpStream::connect(&self.to).await.ok()?;
            stream.set_nodelay(true).ok()?;
            self.stream = Some(stream);
        }
        let stream = self.stream.as_mut()?;
        let mut head = format!(
            "{} {} HTTP/1.1\r\nhost: {}\r\n",
            ask.method, ask.path, self.to
        );
        if let Some(key) = ask.key {
            head.push_str("authorization: Bearer ");
            head.push_str(key);
            head.push_str("\r\n");
        }
        if let Some(body) = ask.body {
            let kind = if ask.form {
                "application/x-www-form-urlencoded"
            } else {
                "application/json"
            };
            head.push_str(&format!(
                "content-type: {kind}\r\ncontent-length: {}\r\n",
                body.len()
            ));
        }
        head.push_str("\r\n");
        head.push_str(ask.body.unwrap_or_default());
        stream.write_all(head.as_bytes()).await.ok()?;
        self.buffer.clear();
        let end = loop {
            if let Some(at) = find(&self.buffer, b"\r\n\r\n") {
                break at + 4;
            }
            more(stream, &mut self.buffer).await?;
        };
        let head = Head::read(std::str::from_utf8(&self.buffer[..end]).ok()?)?;
        let whole = end.checked_add(head.length)?;
        while self.buffer.len() < whole {
            more(stream, &mut self.buffer).await?;
        }
        let text = String::from_utf8(self.buffer[end..whole].to_vec()).ok()?;
        let answer = Answer {
            status: head.status,
            location: head.location,
            replayed: head.replayed,
            text,
        };
        Some((answer, head.kept))
    }
}

async fn more(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<()> {
    let read = stream.read_buf(buffer).await.ok()?;
    (read > 0 && buffer.len() < LONGEST).then_some(())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

struct Head {
    status: u16,
    length: usize,
    location: Option<String>,
    replayed: bool,
    kept: bool,
}

impl Head {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let mut head = Self {
            status,
            length: 0,
            location: None,
            replayed: false,
            kept: true,
        };
        let mut told = matches!(status, 204 | 304);
        for line in lines {
            let Some((name, value)) = line.split_once(": ") else {
                continue;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    head.length = value.parse().ok()?;
                    told = true;
                }
                "location" => head.location = Some(value.to_owned()),
                "idempotent-replayed" => head.replayed = value == "true",
                "connection" => head.kept = !value.eq_ignore_ascii_case("close"),
                _ => {}
            }
        }
        // A response without a length could be incomplete.
        told.then_some(head)
    }
}
