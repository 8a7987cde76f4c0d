//! A proxy between the simulators and the gateway that records the exact bytes of every callback, and passes it on
//! or holds it back.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use parking_lot::Mutex;
use serde_json::json;

use crate::harness::{Answer, Server, TEST_TIMEOUT};

/// A callback as the simulator sent it.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// ID of the account in the callback's address.
    pub(crate) account: String,
    /// Rest of the path after the account, and the query.
    rest: String,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// Time of arrival at the proxy.
    pub(crate) came_at: SystemTime,
    /// Status of the gateway's response. `None` if the callback was held back.
    pub(crate) answered: Option<u16>,
}

impl Letter {
    /// Whether the callback contains one of these texts.
    pub(crate) fn names(&self, words: &[String]) -> bool {
        let text = String::from_utf8_lossy(&self.body);
        let path = &self.rest;
        words
            .iter()
            .any(|word| text.contains(word) || path.contains(word))
    }

    /// A copy with one text in the body replaced by another.
    pub(crate) fn with(&self, word: &str, other: &str) -> Self {
        let text = String::from_utf8(self.body.clone()).unwrap();
        Self {
            body: text.replace(word, other).into_bytes(),
            ..self.clone()
        }
    }
}

/// The proxy of a server.
pub(crate) struct Tap {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    gateway: String,
    http: reqwest::Client,
    letters: Mutex<Vec<Letter>>,
    /// Accounts whose callbacks are held back.
    kept: Mutex<HashSet<String>>,
}

impl Tap {
    /// Starts a proxy for these accounts of a server. It lives as long as the current runtime.
    pub(crate) async fn before(server: &Server, accounts: &[String]) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            gateway: server.base().to_owned(),
            http: server.http.clone(),
            letters: Mutex::default(),
            kept: Mutex::default(),
        });
        let routes = Router::new().fallback(pass).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        for account in accounts {
            let url = format!("http://{}/callbacks/{account}", inner.address);
            let body = json!({ "provider_id": account, "url": url });
            let told = server.admin("POST", "/dev/callbacks", Some(&body));
            told.await.expect(200);
        }
        Self { inner }
    }

    /// Holds an account's callbacks back from now on: they get a 200 and are not passed on.
    pub(crate) fn keep(&self, account: &str) {
        self.inner.kept.lock().insert(account.to_owned());
    }

    /// Passes the account's callbacks on again.
    pub(crate) fn pass(&self, account: &str) {
        self.inner.kept.lock().remove(account);
    }

    /// All callbacks that contain one of these texts, oldest first.
    pub(crate) fn letters(&self, words: &[String]) -> Vec<Letter> {
        let letters = self.inner.letters.lock();
        letters
            .iter()
            .filter(|letter| letter.names(words))
            .cloned()
            .collect()
    }

    /// Waits for at least this many callbacks that contain one of these texts.
    pub(crate) async fn wait(&self, words: &[String], number: usize) -> Vec<Letter> {
        let began = Instant::now();
        loop {
            let letters = self.letters(words);
            if letters.len() >= number {
                return letters;
            }
            let late = began.elapsed() > TEST_TIMEOUT;
            assert!(
                !late,
                "{} of {number} callbacks: {letters:?}",
                letters.len()
            );
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Sends a callback again, to any account's address.
    pub(crate) async fn send(&self, letter: &Letter, account: &str) -> Answer {
        self.send_to(&self.inner.gateway, letter, account).await
    }

    /// Sends a callback again, to another gateway.
    pub(crate) async fn send_to(&self, gateway: &str, letter: &Letter, account: &str) -> Answer {
        let url = format!("{gateway}/callbacks/{account}{}", letter.rest);
        let request = self.inner.http.post(url).headers(letter.headers.clone());
        let response = request.body(letter.body.clone()).send().await.unwrap();
        Answer {
            status: response.status().as_u16(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        }
    }
}

/// Records a callback and passes it on.
async fn pass(
    State(inner): State<Arc<Inner>>,
    uri: Uri,
    mut headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, String) {
    for own in [header::HOST, header::CONTENT_LENGTH, header::CONNECTION] {
        headers.remove(own);
    }
    let path = uri.path_and_query().map_or("", |path| path.as_str());
    let path = path.strip_prefix("/callbacks/").unwrap_or(path);
    let end = path.find(['/', '?']).unwrap_or(path.len());
    let (account, rest) = path.split_at(end);
    let mut letter = Letter {
        account: account.to_owned(),
        rest: rest.to_owned(),
        headers: headers.clone(),
        body: body.to_vec(),
        came_at: SystemTime::now(),
        answered: None,
    };
    if inner.kept.lock().contains(account) {
        inner.letters.lock().push(letter);
        return (StatusCode::OK, String::new());
    }
    let url = format!("{}/callbacks/{path}", inner.gateway);
    let request = inner.http.post(url).headers(headers).body(body);
    let Ok(response) = request.send().await else {
        return (StatusCode::BAD_GATEWAY, String::new());
    };
    let status = response.status();
    let text = response.text().await.unwrap_or_default();
    letter.answered = Some(status.as_u16());
    inner.letters.lock().push(letter);
    (status, text)
}
