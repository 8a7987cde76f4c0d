//! A merchant's server with scripted answers that records its requests.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Heard {
    /// `POST /hook HTTP/1.1`
    pub(crate) line: String,
    /// Names in lower case.
    pub(crate) headers: HashMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Heard {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

/// Reaction of a receiver to a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Status, further header lines, body.
    Answer(u16, &'static str, &'static str),
    /// No answer, and the connection stays open.
    Silence,
    /// A body that never ends.
    Endless,
    /// The connection breaks.
    Reset,
}

/// Maximum time that a test waits for anything.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) const OK: Reply = Reply::Answer(200, "", "ok");
pub(crate) const FAILURE: Reply = Reply::Answer(500, "", "no");

/// A running receiver.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// Answers to the next requests. The last one is repeated.
    replies: Mutex<Vec<Reply>>,
    heard: Mutex<Vec<Heard>>,
    arrived: Notify,
}

impl Receiver {
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            replies: Mutex::new(replies.into_iter().collect()),
            heard: Mutex::default(),
            arrived: Notify::new(),
        });
        tokio::spawn({
            let shared = Arc::clone(&shared);
            async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let shared = Arc::clone(&shared);
                    // An error of one peer ends only its connection.
                    tokio::spawn(async move { serve(stream, &shared).await.ok() });
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?shop=1", self.address)
    }

    /// Sets the answer to all further requests.
    pub(crate) fn reply(&self, reply: Reply) {
        *self.shared.replies.lock() = vec![reply];
    }

    pub(crate) fn heard(&self) -> Vec<Heard> {
        self.shared.heard.lock().clone()
    }

    /// Waits for this many requests.
    pub(crate) async fn hears(&self, count: usize) -> Vec<Heard> {
        let hears = async {
            loop {
                let arrived = self.shared.arrived.notified();
                let heard = self.heard();
                if heard.len() >= count {
                    return heard;
                }
                arrived.await;
            }
        };
        let heard = tokio::time::timeout(TEST_TIMEOUT, hears).await;
        heard.unwrap_or_else(|_| panic!("{} of {count} arrived", self.heard().len()))
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(());
        }
        let mut headers = HashMap::new();
        loop {
            let mut header = String::new();
            stream.read_line(&mut header).await?;
            let Some((name, value)) = header.split_once(':') else {
                break;
            };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length");
        let length = length.map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await?;
        let reply = {
            let mut replies = shared.replies.lock();
            if replies.len() > 1 {
                replies.remove(0)
            } else {
                replies[0].clone()
            }
        };
        let line = line.trim().to_owned();
        shared.heard.lock().push(Heard {
            line,
            headers,
            body,
        });
        shared.arrived.notify_waiters();
        match reply {
            Reply::Answer(status, more, text) => {
                let length = text.len();
                let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{more}\r\n");
                stream.write_all(format!("{head}{text}").as_bytes()).await?;
            }
            Reply::Silence => std::future::pending().await,
            Reply::Endless => {
                stream.write_all(b"HTTP/1.1 200 X\r\n\r\n").await?;
                loop {
                    stream.write_all(&[b'x'; 1024]).await?;
                }
            }
            Reply::Reset => return Ok(()),
        }
    }
}
