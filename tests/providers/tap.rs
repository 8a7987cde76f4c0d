//! A wiretap between the simulators and the gateway: it notes every callback's very bytes, and passes
//! them on or keeps them.

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

use crate::harness::{Answer, PATIENCE, Server};

/// A callback as the vendor sent it.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    /// Whose address it was sent to.
    pub(crate) account: String,
    /// What follows the account in the path, with the query.
    rest: String,
    headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// When it came here.
    pub(crate) came_at: SystemTime,
    /// What the gateway answered; none where the letter was kept.
    pub(crate) answered: Option<u16>,
}

impl Letter {
    /// Whether it names one of these.
    pub(crate) fn names(&self, words: &[String]) -> bool {
        let text = String::from_utf8_lossy(&self.body);
        let path = &self.rest;
        words
            .iter()
            .any(|word| text.contains(word) || path.contains(word))
    }

    /// The same with other words in its body.
    pub(crate) fn with(&self, word: &str, other: &str) -> Self {
        let text = String::from_utf8(self.body.clone()).unwrap();
        Self {
            body: text.replace(word, other).into_bytes(),
            ..self.clone()
        }
    }
}

/// The tap of one server.
pub(crate) struct Tap {
    inner: Arc<Inner>,
}

struct Inner {
    address: SocketAddr,
    gateway: String,
    http: reqwest::Client,
    letters: Mutex<Vec<Letter>>,
    /// Accounts whose letters are kept.
    kept: Mutex<HashSet<String>>,
}

impl Tap {
    /// Puts one in front of a server for these accounts. It lives as long as the runtime that this is
    /// called in.
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

    /// From now on an account's letters are taken, answered 200 and not passed on.
    pub(crate) fn keep(&self, account: &str) {
        self.inner.kept.lock().insert(account.to_owned());
    }

    /// They are passed on again.
    pub(crate) fn pass(&self, account: &str) {
        self.inner.kept.lock().remove(account);
    }

    /// All letters that name one of these words, oldest first.
    pub(crate) fn letters(&self, words: &[String]) -> Vec<Letter> {
        let letters = self.inner.letters.lock();
        letters
            .iter()
            .filter(|letter| letter.names(words))
            .cloned()
            .collect()
    }

    /// Waits until so many letters have come that name one of these words.
    pub(crate) async fn wait(&self, words: &[String], number: usize) -> Vec<Letter> {
        let began = Instant::now();
        loop {
            let letters = self.letters(words);
            if letters.len() >= number {
                return letters;
            }
            let late = began.elapsed() > PATIENCE;
            assert!(
                !late,
                "{} of {number} callbacks: {letters:?}",
                letters.len()
            );
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }

    /// Sends a letter once more, to any account's address.
    pub(crate) async fn send(&self, letter: &Letter, account: &str) -> Answer {
        self.send_to(&self.inner.gateway, letter, account).await
    }

    /// Sends a letter once more, to another gateway.
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

/// Notes a letter and passes it on.
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
