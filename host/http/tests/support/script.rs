//! A plain-text server that follows a script, and a client that may reach it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kassette_http::{Client, Guard, HeaderMap, Method, Request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A listener that answers every connection with a script and counts connections and requests.
pub struct Server {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<AtomicUsize>,
}

impl Server {
    /// Each request on a connection gets the next answer. After the last answer the connection is closed. An empty
    /// answer means that the server does not respond.
    pub async fn start(answers: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (connections, requests) = (Arc::default(), Arc::default());
        let server = Self {
            address,
            connections: Arc::clone(&connections),
            requests: Arc::clone(&requests),
        };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, answers, Arc::clone(&requests)));
            }
        });
        server
    }

    pub fn url(&self, path: &str) -> url::Url {
        format!("http://{}{path}", self.address).parse().unwrap()
    }

    pub fn seen(&self) -> (usize, usize) {
        (
            self.connections.load(Ordering::SeqCst),
            self.requests.load(Ordering::SeqCst),
        )
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: &'static [&'static str],
    requests: Arc<AtomicUsize>,
) {
    for answer in answers {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return,
            }
        }
        requests.fetch_add(1, Ordering::SeqCst);
        if answer.is_empty() {
            std::future::pending::<()>().await;
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}

pub fn request(method: Method, url: url::Url) -> Request<'static> {
    Request {
        method,
        url,
        headers: HeaderMap::new(),
        body: bytes::Bytes::new(),
        deadline: Duration::from_secs(10),
        max_response: 1024,
        hosts: None,
    }
}

pub fn dev() -> Client {
    Client::new(Guard {
        allow_loopback: true,
    })
}

pub const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
