//! A simulator and a host for the module, natively: HTTP that really goes out, secrets, a token.
use std::{
    cell::RefCell,
    collections::HashMap,
    net::SocketAddr,
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use hmac::{Hmac, KeyInit, Mac};
use kassette_plugin::{
    provider::{
        Account, Acknowledged, Attempt, Condition, Environment, Failure as StartFailure, Incoming,
        Money, Open, Payer, Provider, QueryFailure, Refused, Report, Started, Verb, Wish,
        http::{Credential, Failure, Request, Response},
        secrets::Algorithm,
    },
    testing::{Host, with_host},
};
use kassette_provider_sandbox::Sandbox;
use kassette_sim::{BookEntry, Fault, Sim, SimAccount, SimConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    runtime::Runtime,
};

pub(crate) const ID: &str = "sandbox-test";
const SECRETS: [(&str, &str); 3] = [
    ("client-id", "client"),
    ("client-secret", "secret"),
    ("callback-secret", "news"),
];
/// How long the module's host waits for an answer: the time-out faults are met with it.
const DEADLINE: Duration = Duration::from_millis(500);

pub(crate) struct World {
    pub(crate) sim: Sim,
    runtime: Runtime,
    clock: Arc<AtomicU64>,
    folder: tempfile::TempDir,
    tokens: Rc<RefCell<HashMap<String, String>>>,
    lose: Rc<RefCell<Option<&'static str>>>,
    news: TcpListener,
    attempts: AtomicU64,
}

/// The open payment that a start led to.
pub(crate) fn open(started: Result<Started, StartFailure>) -> Open {
    match started {
        Ok(Started::Open(open)) => open,
        other => panic!("not open: {other:?}"),
    }
}

fn start(runtime: &Runtime, folder: &Path, clock: &Arc<AtomicU64>) -> Sim {
    let clock = Arc::clone(clock);
    let config = SimConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder.to_owned(),
        accounts: vec![SimAccount {
            provider_id: ID.into(),
            module: "sandbox".into(),
            environment: kassette_sim::Environment::Test,
            client_id: "client".into(),
            api_key: "secret".into(),
            callback_secret: "news".into(),
            callback_url: None,
            public_base: None,
        }],
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
    };
    runtime.block_on(Sim::start(config)).unwrap()
}

impl World {
    pub(crate) fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(1_800_000_000_000));
        let sim = start(&runtime, folder.path(), &clock);
        let news = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let url = format!("http://{}/callbacks/{ID}", news.local_addr().unwrap());
        sim.set_callback_url(ID, &url).unwrap();
        Self {
            sim,
            runtime,
            clock,
            folder,
            tokens: Rc::default(),
            lose: Rc::default(),
            news,
            attempts: AtomicU64::new(0),
        }
    }

    /// The vendor goes down and comes back; it keeps its books and forgets its tokens.
    pub(crate) fn restart(&mut self) {
        let placeholder = tempfile::tempdir().unwrap();
        let other = start(&self.runtime, placeholder.path(), &self.clock);
        let old = std::mem::replace(&mut self.sim, other);
        self.runtime.block_on(old.shutdown());
        self.sim = start(&self.runtime, self.folder.path(), &self.clock);
    }

    pub(crate) fn payer_base(&self) -> String {
        format!("http://{}/{ID}/pay", self.sim.addr())
    }

    fn account(&self) -> Account {
        Account {
            id: ID.into(),
            environment: Environment::Test,
            now: self.clock.load(Ordering::SeqCst),
            callback_url: String::new(),
            settings: vec![(
                "base-url".into(),
                format!("http://{}/", self.sim.api_addr(ID).unwrap()),
            )],
        }
    }

    pub(crate) fn attempt(&self, method: &str) -> Attempt {
        let number = self.attempts.fetch_add(1, Ordering::SeqCst);
        Attempt {
            id: format!("{number:032x}"),
            method: method.into(),
            due: Money {
                amount: 4990,
                currency: "EUR".into(),
            },
            order: "order-1".into(),
            merchant: "Demo shop".into(),
            return_url: "http://127.0.0.1:1/return".into(),
            cancel_url: "http://127.0.0.1:1/return".into(),
            expires: self.clock.load(Ordering::SeqCst) + 3_600_000,
            payer: Payer {
                email: None,
                ip: None,
                language: None,
                country: None,
            },
            answers: Vec::new(),
        }
    }

    fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        let host = NativeHost {
            runtime: self.runtime.handle().clone(),
            tokens: Rc::clone(&self.tokens),
            lose: Rc::clone(&self.lose),
        };
        with_host(host, act)
    }

    pub(crate) fn start(&self, attempt: &Attempt) -> Result<Started, StartFailure> {
        self.within(|| Sandbox::start(self.account(), attempt.clone()))
    }

    pub(crate) fn query(
        &self,
        attempt: &Attempt,
        reference: Option<&str>,
        wish: Wish,
    ) -> Result<Report, QueryFailure> {
        let reference = reference.map(str::to_owned);
        self.within(|| Sandbox::query(self.account(), attempt.clone(), reference, wish, None))
    }

    pub(crate) fn callback(&self, incoming: &Incoming) -> Result<Acknowledged, Refused> {
        self.within(|| Sandbox::callback(self.account(), incoming.clone()))
    }

    pub(crate) fn health(&self) -> Condition {
        self.within(|| Sandbox::health(self.account()))
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.sim.set_fault(ID, fault, 1).unwrap();
    }

    /// Closes the account's port and waits until it is closed.
    pub(crate) fn refuse_connections(&self) {
        self.sim.set_fault(ID, Fault::RefuseConnection, 12).unwrap();
        while std::net::TcpStream::connect(self.sim.api_addr(ID).unwrap()).is_ok() {
            std::thread::yield_now();
        }
    }

    /// The next answer to a path that ends so is lost on the way.
    pub(crate) fn lose_answer_of(&self, path: &'static str) {
        *self.lose.borrow_mut() = Some(path);
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn entries(&self) -> Vec<BookEntry> {
        self.sim.books(ID).unwrap()
    }

    pub(crate) fn entry(&self) -> BookEntry {
        let mut entries = self.entries();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }

    /// What the payer's form sends; the answer's status.
    pub(crate) fn choose(&self, started: &Open, outcome: &str) -> u16 {
        let kassette_plugin::provider::Action::Redirect(page) = &started.action else {
            panic!("only redirects are paid here");
        };
        let token = page.rsplit('/').next().unwrap();
        let form = [("session", token), ("outcome", outcome)];
        let call = async {
            let client = client(Duration::from_secs(30));
            client.post(self.payer_base()).form(&form).send().await
        };
        self.runtime.block_on(call).unwrap().status().as_u16()
    }

    /// Waits for a callback and answers it with 200.
    pub(crate) fn next_callback(&self) -> Incoming {
        self.runtime.block_on(async {
            let (mut stream, _) = self.news.accept().await.unwrap();
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                bytes.extend_from_slice(&part[..read]);
                if let Some(whole) = split(&bytes) {
                    break whole;
                }
            };
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await
                .unwrap();
            let header = |line: &str| {
                let (name, value) = line.split_once(": ")?;
                Some((name.to_owned(), value.to_owned()))
            };
            let headers = head.lines().filter_map(header).collect();
            Incoming {
                verb: Verb::Post,
                path: String::new(),
                query: String::new(),
                headers,
                body,
            }
        })
    }
}

/// Head and body of a request, once it is whole.
fn split(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let body = &bytes[at + 4..];
    (body.len() == length.parse::<usize>().unwrap()).then(|| (head, body.to_vec()))
}

fn client(patience: Duration) -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(patience)
        .build()
        .unwrap()
}

/// Does for the module what the real host does.
struct NativeHost {
    runtime: tokio::runtime::Handle,
    tokens: Rc<RefCell<HashMap<String, String>>>,
    lose: Rc<RefCell<Option<&'static str>>>,
}

impl NativeHost {
    fn secret(&self, name: &str) -> Option<String> {
        let configured = SECRETS.iter().find(|(known, _)| *known == name);
        let configured = configured.map(|(_, value)| (*value).to_owned());
        configured.or_else(|| self.tokens.borrow().get(name).cloned())
    }

    async fn call(&self, request: &Request) -> Result<Response, Failure> {
        let method = match request.verb {
            Verb::Post => reqwest::Method::POST,
            _ => reqwest::Method::GET,
        };
        let mut call = client(DEADLINE)
            .request(method, &request.url)
            .body(request.body.clone());
        for (name, value) in &request.headers {
            call = call.header(name, value);
        }
        for credential in &request.credentials {
            call = match credential {
                Credential::Bearer(name) => match self.secret(name) {
                    Some(secret) => call.bearer_auth(secret),
                    None => return Err(Failure::NotSent(format!("no secret {name}"))),
                },
                Credential::Basic(basic) => {
                    let password = basic.password.as_deref().and_then(|name| self.secret(name));
                    call.basic_auth(self.secret(&basic.user).unwrap(), password)
                }
                other => panic!("the module does not use {other:?}"),
            };
        }
        let answer = call
            .send()
            .await
            .map_err(|error| match error.is_connect() {
                true => Failure::NotSent(error.to_string()),
                false => Failure::NoAnswer(error.to_string()),
            })?;
        let status = answer.status().as_u16();
        let body = answer
            .bytes()
            .await
            .map_err(|error| Failure::NoAnswer(error.to_string()))?;
        Ok(Response {
            status,
            headers: Vec::new(),
            body: body.to_vec(),
        })
    }
}

impl Host for NativeHost {
    fn send(&mut self, request: &Request) -> Result<Response, Failure> {
        let mut answer = self.runtime.block_on(self.call(request))?;
        if let Some(keep) = request.keep.as_ref().filter(|_| answer.status == 200) {
            let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
            let token = body
                .pointer(&keep.pointer)
                .unwrap()
                .as_str()
                .unwrap()
                .to_owned();
            self.tokens.borrow_mut().insert(keep.token.clone(), token);
            answer.body = b"{}".to_vec();
        }
        let lost = self
            .lose
            .borrow()
            .is_some_and(|path| request.url.ends_with(path));
        if lost {
            *self.lose.borrow_mut() = None;
            return Err(Failure::NoAnswer("lost on the way".into()));
        }
        Ok(answer)
    }

    fn ready(&mut self, name: &str) -> bool {
        self.secret(name).is_some()
    }

    fn sign(&mut self, name: &str, _: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(self.secret(name)?.as_bytes()).unwrap();
        mac.update(message);
        Some(mac.finalize().into_bytes().to_vec())
    }
}
