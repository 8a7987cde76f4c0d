//! A provider's server, and a module that calls it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kassette_runtime::{AccountAccess, ProviderModule, StartOutcome};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{Data, NOW, access, attempt, request};

/// A server that answers every request with a status, or none.
pub struct Vendor {
    pub address: SocketAddr,
    pub requests: Arc<AtomicUsize>,
}

impl Vendor {
    pub async fn start(answers: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else {
                        break;
                    };
                    head.push(byte);
                }
                seen.fetch_add(1, Ordering::SeqCst);
                if answers {
                    let answer =
                        b"HTTP/1.1 201 Created\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
                    stream.write_all(answer).await.unwrap();
                } else {
                    held.push(stream);
                }
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://{}/v1/orders", self.address)
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

pub struct Bench {
    pub module: Arc<ProviderModule>,
    pub access: AccountAccess,
}

impl Bench {
    pub fn new(vendor: &Vendor, bytes: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let runtime = super::runtime_with(folder.path(), |config| {
            config.limits.native.wall = Duration::from_millis(700);
        });
        runtime
            .install(&super::slot("provider.vendor"), bytes, NOW)
            .unwrap();
        let module = runtime.provider("vendor").unwrap();
        Self {
            module,
            access: access(&vendor.address.to_string()),
        }
    }

    pub async fn start(&self) -> StartOutcome {
        self.module.start(&self.access, &attempt()).await
    }
}

/// Sends one request (0 for GET, 1 for POST) and continues with `then`.
pub fn sending(data: &mut Data, verb: u8, url: &str, then: &str) -> String {
    let request = request(data, verb, url);
    let answer = data.put(&[0; 24]);
    format!("(call $send (i32.const {request}) (i32.const {answer})) {then}")
}
