//! Native test environment for a provider module: a simulator of its vendor, and a host with real HTTP requests,
//! secrets, tokens and callbacks.
//!
//! A module is tested against its simulator with plain `cargo test`, without compiling it to WebAssembly: it runs
//! as a Rust library, with [`NativeHost`](host::NativeHost) and [`World`] in place of the host's `http`, `secrets`
//! and clock. Features of the real host only (limits, allowed hosts, redaction of secrets) are tested in its own
//! crate.
//!
//! If `KASSETTE_RECORDED_REQUESTS` names a folder, every request to a simulator is recorded there; see `record` in
//! [`kassette_sim::SimConfig`].
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::allow_attributes,
    reason = "part of tests: a panic is how it says what is wrong"
)]

mod host;
pub mod payloads;
pub mod suite;

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    marker::PhantomData,
    net::SocketAddr,
    path::Path,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use kassette_plugin::{
    provider::{
        Account, Action, Attempt, CallbackFailure, CallbackReply, CallbackRequest, Condition,
        Environment, Given, Money, Open, Order, Paid, Payer, Provider, QueryFailure, QueryPurpose,
        RefundFailure, Refundable, Report, StartFailure, Started, Verb, http::Response,
    },
    testing::with_host,
};
use kassette_sim::{BookEntry, Fault, Sim, SimAccount, SimConfig};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    runtime::Runtime,
};

use host::{NativeHost, Secret, client};

/// Time at which every world starts, in milliseconds since 1970.
pub const BEGIN_MS: u64 = 1_800_000_000_000;

/// Maximum time to wait for a callback.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(10);

/// A simulated account of one vendor, and the provider module for it.
pub struct World<P> {
    pub sim: Sim,
    module: &'static str,
    id: String,
    environment: Environment,
    runtime: Runtime,
    clock: Arc<AtomicU64>,
    folder: tempfile::TempDir,
    tokens: Rc<RefCell<HashMap<String, String>>>,
    secrets: RefCell<HashMap<String, Secret>>,
    settings: RefCell<Vec<(String, String)>>,
    lose: Rc<RefCell<Option<&'static str>>>,
    hasty: Rc<Cell<bool>>,
    sent: Rc<RefCell<Vec<String>>>,
    kept: Rc<RefCell<HashMap<String, Response>>>,
    callbacks: TcpListener,
    attempts: AtomicU64,
    provider: PhantomData<P>,
}

/// The open payment from a start. Panics on any other result.
pub fn open(started: Result<Started, StartFailure>) -> Open {
    match started {
        Ok(Started::Open(open)) => open,
        other => panic!("not open: {other:?}"),
    }
}

fn start(
    runtime: &Runtime,
    folder: &Path,
    clock: &Arc<AtomicU64>,
    module: &str,
    environment: Environment,
) -> Sim {
    let clock = Arc::clone(clock);
    let environment = match environment {
        Environment::Test => kassette_sim::Environment::Test,
        Environment::Live => kassette_sim::Environment::Live,
    };
    let config = SimConfig {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        data_dir: folder.to_owned(),
        accounts: vec![SimAccount {
            provider_id: format!("{module}-{}", environment.as_str()),
            module: module.into(),
            environment,
            client_id: "clientOfTheWorld".into(),
            api_key: "secretOfTheWorld".into(),
            callback_secret: "newsOfTheWorld".into(),
            callback_url: None,
            public_base: None,
        }],
        clock: Arc::new(move || clock.load(Ordering::SeqCst)),
        record: std::env::var_os("KASSETTE_RECORDED_REQUESTS").map(Into::into),
    };
    runtime.block_on(Sim::start(config)).unwrap()
}

impl<P: Provider> World<P> {
    /// A world with the test account `<module>-test` at the module's simulator.
    #[must_use]
    pub fn new(module: &'static str) -> Self {
        Self::with_module(module, Environment::Test)
    }

    /// A world with an account in this environment.
    #[must_use]
    pub fn with_module(module: &'static str, environment: Environment) -> Self {
        let runtime = Runtime::new().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AtomicU64::new(BEGIN_MS));
        let sim = start(&runtime, folder.path(), &clock, module, environment);
        let id = sim.provider_ids().remove(0);
        let callbacks = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let world = Self {
            sim,
            module,
            id,
            environment,
            runtime,
            clock,
            folder,
            tokens: Rc::default(),
            secrets: RefCell::default(),
            settings: RefCell::default(),
            lose: Rc::default(),
            hasty: Rc::default(),
            sent: Rc::default(),
            kept: Rc::default(),
            callbacks,
            attempts: AtomicU64::new(0),
            provider: PhantomData,
        };
        world
            .sim
            .set_callback_url(&world.id, &world.callback_url())
            .unwrap();
        world.configure();
        world
    }

    /// Takes the account's settings and secrets from the simulator's profile.
    fn configure(&self) {
        let profile = self.sim.profile(&self.id).unwrap();
        let description = P::describe();
        let known = |name: &str| description.settings.iter().any(|need| need.name == name);
        for (name, _) in &profile.settings {
            assert!(known(name), "the module does not know the setting {name}");
        }
        for need in description.settings.iter().filter(|need| need.required) {
            let given = profile.settings.iter().any(|(name, _)| *name == need.name);
            assert!(given, "the simulator gives no setting {}", need.name);
        }
        let secrets = description.secrets.iter().filter_map(|need| {
            let given = profile.secrets.iter().find(|(name, _)| *name == need.name);
            assert!(
                given.is_some() || !need.required,
                "the simulator gives no secret {}",
                need.name
            );
            let (name, value) = given?;
            Some((name.clone(), Secret::new(value, need.encoding)))
        });
        *self.secrets.borrow_mut() = secrets.collect();
        *self.settings.borrow_mut() = profile.settings;
    }

    /// Id of the account.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// URL to which the simulator sends callbacks.
    pub fn callback_url(&self) -> String {
        format!(
            "http://{}/callbacks/{}",
            self.callbacks.local_addr().unwrap(),
            self.id
        )
    }

    /// Restarts the vendor. It keeps its books and loses its tokens.
    pub fn restart(&mut self) {
        let placeholder = tempfile::tempdir().unwrap();
        let begin = |folder: &Path| {
            start(
                &self.runtime,
                folder,
                &self.clock,
                self.module,
                self.environment,
            )
        };
        let other = begin(placeholder.path());
        let old = std::mem::replace(&mut self.sim, other);
        self.runtime.block_on(old.shutdown());
        self.sim = begin(self.folder.path());
        self.sim
            .set_callback_url(&self.id, &self.callback_url())
            .unwrap();
    }

    /// URL to which the payer's form is posted.
    pub fn payer_base(&self) -> String {
        format!("http://{}/{}/pay", self.sim.addr(), self.id)
    }

    /// Replaces a secret on the gateway's side only, and drops all tokens.
    pub fn change_secret(&self, name: &str, value: &str) {
        let needs = P::describe().secrets;
        let need = needs.iter().find(|need| need.name == name).unwrap();
        let secret = Secret::new(value, need.encoding);
        self.secrets.borrow_mut().insert(name.to_owned(), secret);
        self.tokens.borrow_mut().clear();
    }

    /// Replaces a secret and keeps the previous value valid for signatures, as during a rotation.
    pub fn rotate_secret(&self, name: &str, value: &str) {
        let mut secrets = self.secrets.borrow_mut();
        secrets.get_mut(name).unwrap().rotate(value);
    }

    /// Replaces a setting.
    pub fn change_setting(&self, name: &str, value: &str) {
        let mut settings = self.settings.borrow_mut();
        settings.retain(|(known, _)| known != name);
        settings.push((name.to_owned(), value.to_owned()));
    }

    /// The account as the host passes it to the module.
    pub fn account(&self) -> Account {
        Account {
            id: self.id.clone(),
            environment: self.environment,
            now: self.now(),
            callback_url: self.callback_url(),
            settings: self.settings.borrow().clone(),
        }
    }

    /// Current time in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// A new attempt for 49.90 in a currency, which expires in an hour.
    pub fn attempt(&self, method: &str, currency: &str) -> Attempt {
        let number = self.attempts.fetch_add(1, Ordering::SeqCst);
        Attempt {
            id: format!("{number:032x}"),
            method: method.into(),
            due: Money {
                amount: 4990,
                currency: currency.into(),
            },
            merchant_order: "order-1".into(),
            merchant: "Demo shop".into(),
            return_url: "http://127.0.0.1:1/return".into(),
            cancel_url: "http://127.0.0.1:1/cancel".into(),
            expires: self.now() + 3_600_000,
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
            secrets: self.secrets.borrow().clone(),
            lose: Rc::clone(&self.lose),
            hasty: Rc::clone(&self.hasty),
            sent: Rc::clone(&self.sent),
            kept: Rc::clone(&self.kept),
        };
        with_host(host, act)
    }

    /// Calls the module's `start`.
    ///
    /// # Errors
    /// The error of the module.
    pub fn start(&self, attempt: &Attempt) -> Result<Started, StartFailure> {
        self.within(|| P::start(self.account(), attempt.clone()))
    }

    /// Calls the module's `query` with the query string of the payer's return.
    ///
    /// # Errors
    /// The error of the module.
    pub fn query_returned(
        &self,
        attempt: &Attempt,
        reference: Option<&str>,
        purpose: QueryPurpose,
        return_query: Option<&str>,
    ) -> Result<Report, QueryFailure> {
        let (reference, return_query) = (
            reference.map(str::to_owned),
            return_query.map(str::to_owned),
        );
        self.within(|| {
            P::query(
                self.account(),
                attempt.clone(),
                reference,
                purpose,
                return_query,
            )
        })
    }

    /// Calls the module's `query`.
    ///
    /// # Errors
    /// The error of the module.
    pub fn query(
        &self,
        attempt: &Attempt,
        reference: Option<&str>,
        purpose: QueryPurpose,
    ) -> Result<Report, QueryFailure> {
        self.query_returned(attempt, reference, purpose, None)
    }

    /// Calls the module's `callback`.
    ///
    /// # Errors
    /// The error of the module.
    pub fn callback(&self, incoming: &CallbackRequest) -> Result<CallbackReply, CallbackFailure> {
        self.within(|| P::callback(self.account(), incoming.clone()))
    }

    /// Calls the module's `refund_terms`.
    pub fn refund_terms(&self) -> Vec<Refundable> {
        self.within(|| P::refund_terms(self.account()))
    }

    /// Calls the module's `refund`.
    ///
    /// # Errors
    /// The error of the module.
    pub fn give_back(&self, paid: &Paid, order: &Order) -> Result<Given, RefundFailure> {
        self.within(|| P::refund(self.account(), paid.clone(), order.clone()))
    }

    /// Calls the module's `query_refund`.
    ///
    /// # Errors
    /// The error of the module.
    pub fn query_refund(&self, paid: &Paid, order: &Order) -> Result<Given, QueryFailure> {
        self.within(|| P::query_refund(self.account(), paid.clone(), order.clone()))
    }

    /// Payment methods that the module supports.
    pub fn methods(&self) -> Vec<String> {
        let methods = P::describe().methods.into_iter();
        methods.map(|support| support.method).collect()
    }

    /// A new refund order for an amount in minor units.
    pub fn order(&self, amount: u64, currency: &str) -> Order {
        let number = self.attempts.fetch_add(1, Ordering::SeqCst);
        Order {
            id: format!("{number:032x}"),
            amount: Money {
                amount,
                currency: currency.into(),
            },
            reason: Some("The parcel came back".into()),
            asked_at: self.now(),
            reference: None,
        }
    }

    /// Calls the module's `health`.
    pub fn health(&self) -> Condition {
        self.within(|| P::health(self.account()))
    }

    /// Orders a fault of the simulator for one call.
    pub fn fault(&self, fault: Fault) {
        if matches!(
            fault,
            Fault::TimeoutBeforeEffect | Fault::TimeoutAfterEffect
        ) {
            self.hasty.set(true);
        }
        self.sim.set_fault(&self.id, fault, 1).unwrap();
    }

    /// Closes the port of the account's API and waits until it is closed.
    pub fn refuse_connections(&self) {
        self.sim
            .set_fault(&self.id, Fault::RefuseConnection, 12)
            .unwrap();
        while std::net::TcpStream::connect(self.sim.api_addr(&self.id).unwrap()).is_ok() {
            std::thread::yield_now();
        }
    }

    /// Loses the next response from a URL with this ending. The request takes effect.
    pub fn lose_answer_of(&self, end: &'static str) {
        *self.lose.borrow_mut() = Some(end);
    }

    /// All requests sent so far, such as `POST /v1/sessions`, oldest first.
    pub fn sent(&self) -> Vec<String> {
        self.sent.borrow().clone()
    }

    /// Advances the clock of module and simulator.
    pub fn advance(&self, ms: u64) {
        self.clock.fetch_add(ms, Ordering::SeqCst);
        self.sim.clock_moved();
    }

    /// Advances the clock to the time at which the vendor confirms or rejects pending requests. Does nothing if it
    /// has none.
    pub fn confirm(&self) {
        if let Some(at) = self.sim.confirms_at(&self.id).unwrap() {
            self.advance(at.saturating_sub(self.now()));
        }
    }

    /// Entries of the simulator's books.
    pub fn entries(&self) -> Vec<BookEntry> {
        self.sim.books(&self.id).unwrap()
    }

    /// The only entry of the simulator's books. Panics if there is not exactly one.
    pub fn entry(&self) -> BookEntry {
        let mut entries = self.entries();
        assert_eq!(entries.len(), 1);
        entries.remove(0)
    }

    /// Submits the payer's form with an outcome: `approve`, `decline`, `review` or `pending`; for a paid payment
    /// `refund`, `refund_fails`, `dispute`, `dispute_won` or `dispute_lost`. Returns the status and the `location`
    /// header of the response.
    pub fn choose(&self, started: &Open, outcome: &str) -> (u16, Option<String>) {
        self.submit(started, &[("outcome", outcome)])
    }

    /// Submits the payer's form with a partial refund, such as `10.00`.
    pub fn refund(&self, started: &Open, amount: &str) -> (u16, Option<String>) {
        self.submit(started, &[("outcome", "refund"), ("amount", amount)])
    }

    /// URL of the vendor's page for the payer.
    pub fn page<'a>(&self, started: &'a Open) -> &'a str {
        match &started.action {
            Action::Redirect(page) => page,
            Action::Show(show) => show.link.as_deref().unwrap(),
            Action::Post(_) => panic!("a form is not paid here"),
        }
    }

    fn submit(&self, started: &Open, fields: &[(&str, &str)]) -> (u16, Option<String>) {
        let page = self.page(started);
        let token = page.rsplit('/').next().unwrap();
        let mut form = vec![("session", token)];
        form.extend(fields);
        let call = async {
            let client = client(Duration::from_secs(30));
            client.post(self.payer_base()).form(&form).send().await
        };
        let answer = self.runtime.block_on(call).unwrap();
        let location = answer.headers().get("location");
        let location = location.map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), location)
    }

    /// Runs an action of the simulator, such as a refund in the vendor's dashboard.
    pub fn at_the_vendor<T>(&self, act: impl Future<Output = T>) -> T {
        self.runtime.block_on(act)
    }

    /// Refunds a part of a payment, in minor units, like a person in the vendor's dashboard. Returns the refund's
    /// id.
    pub fn refund_part(&self, started: &Open, amount: u64) -> String {
        let refunded = self.sim.refund_part(&self.id, &started.reference, amount);
        self.runtime.block_on(refunded).unwrap()
    }

    /// Waits for a callback and answers it with 200. First advances the clock so that the vendor confirms pending
    /// requests at once.
    pub fn next_callback(&self) -> CallbackRequest {
        self.confirm();
        self.runtime.block_on(async {
            let arrives = tokio::time::timeout(CALLBACK_TIMEOUT, self.callbacks.accept()).await;
            let (mut stream, _) = arrives.expect("no callback arrives").unwrap();
            let mut bytes = Vec::new();
            let (head, body) = loop {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                assert!(read > 0, "the callback breaks off");
                bytes.extend_from_slice(&part[..read]);
                if let Some(whole) = split(&bytes) {
                    break whole;
                }
            };
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .await
                .unwrap();
            incoming(&head, body, &self.id)
        })
    }
}

/// The request as the host passes it to the module.
fn incoming(head: &str, body: Vec<u8>, id: &str) -> CallbackRequest {
    let header = |line: &str| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let target = head.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let prefix = format!("/callbacks/{id}");
    CallbackRequest {
        verb: Verb::Post,
        path: path.strip_prefix(&prefix).unwrap().to_owned(),
        query: query.to_owned(),
        headers: head.lines().filter_map(header).collect(),
        body,
    }
}

/// Head and body of a request. `None` if it is not complete yet.
fn split(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let at = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))?;
    let body = &bytes[at + 4..];
    (body.len() == length.parse::<usize>().unwrap()).then(|| (head, body.to_vec()))
}
