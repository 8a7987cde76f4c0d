//! HTTP/1.1 by hand: an answer counts only once all of it has arrived, and nothing is sent twice
//! behind the caller's back.

use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longer than a start may take at a vendor that hangs.
const PATIENCE: Duration = Duration::from_secs(40);
/// Between two times that the same is asked.
const AGAIN: Duration = Duration::from_millis(50);
/// Longest answer: as much as one address may hold of the admin listener's memory.
const LONGEST: usize = 64 << 20;

/// No whole answer came: what became of the request is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost;

/// An answer, read whole.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) replayed: bool,
    pub(crate) text: String,
}

impl Answer {
    /// Whether it says no more than that the request can be sent again.
    pub(crate) const fn says_later(&self) -> bool {
        self.status == 503
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.text).map_err(|error| format!("{error}: {}", self.text))
    }

    /// The body as JSON where the status is this one.
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

/// A request.
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

    /// A POST of JSON.
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

/// A connection that is kept open, and made anew after it was lost.
pub(crate) struct Line {
    to: String,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
    /// How long an answer may take.
    pub(crate) patience: Duration,
    /// For how long it asks again where it is told to come later.
    pub(crate) again: Duration,
}

impl Line {
    /// To `127.0.0.1:8080`.
    pub(crate) fn to(address: &str) -> Self {
        Self {
            to: address.to_owned(),
            stream: None,
            buffer: Vec::new(),
            patience: PATIENCE,
            again: Duration::ZERO,
        }
    }

    /// Asks and reads the answer.
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
        // An answer of unknown length cannot be told from half of one.
        told.then_some(head)
    }
}
