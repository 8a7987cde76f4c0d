//! A gateway with a store in memory, two merchants, a reseller, operators and payments.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Version};
use kassette_domain::audit::Audited;
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::operator::Role;
use kassette_domain::policy::RateLimit;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_gateway::settings::{Account, AccountSecret, Merchants, Settings, Terms, Webhooks};
use kassette_http::{Client, Guard};
use kassette_runtime::{PoolSizes, Runtime, RuntimeConfig};
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{Listed, Paging, PaymentFilter, SledStore, Store};
use serde_json::{Value, json};

use crate::modules::{METHODS, Scripted};
use crate::talk::{self, Answer, Request, Words};

/// Host name of the admin API.
pub(crate) const ADMIN: &str = "admin.example";
/// Text in everything that belongs to the other merchant, and nowhere else.
pub(crate) const OTHERS: &str = "zqothers";
/// Value of an account's secret.
const VENDOR_SECRET: &str = "vendor-secret-of-the-account-zq";
/// Number of inputs after which a new world is created, to keep it small.
const INPUTS: u32 = 5_000;

pub(crate) struct World {
    runtime: tokio::runtime::Runtime,
    pub(crate) public: Router,
    pub(crate) admin: Router,
    store: Arc<dyn Store>,
    clock: Arc<AdjustableClock>,
    /// Values by name, for inputs.
    pub(crate) words: Words,
    /// Credentials by name, for inputs.
    pub(crate) credentials: Words,
    /// Texts that no response may contain.
    pub(crate) secrets: Vec<String>,
    /// Nonces of accepted requests, and the time of each.
    pub(crate) nonces: HashMap<Vec<u8>, u64>,
    inputs: u32,
    /// Counter for values that are new for each input.
    drawn: u64,
    _folder: tempfile::TempDir,
}

/// State that a rejected request must not change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Id of the newest payment.
    payment: Option<String>,
    /// Id of the newest entry of the audit log.
    pub(crate) line: Option<u64>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// A folder in memory if possible, because each commit syncs.
pub(crate) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    }
    .unwrap()
}

/// Runs an input in this thread's world. With `modules` the admin API uses the real runtime.
pub(crate) fn within(modules: bool, act: impl FnOnce(&mut World)) {
    WORLD.with_borrow_mut(|kept| {
        // A world in which a rule was broken is not used again.
        let mut world = kept.take().unwrap_or_else(|| World::new(modules));
        act(&mut world);
        world.inputs += 1;
        *kept = (world.inputs < INPUTS).then_some(world);
    });
}

fn account(name: &str, environment: Environment) -> Account {
    let terms = |method| (method, Terms::default());
    Account {
        id: AccountId::parse(name).unwrap(),
        module: "sandbox".into(),
        name: "Sandbox".into(),
        environment,
        simulated: environment == Environment::Test,
        enabled: true,
        merchants: Merchants::All,
        methods: METHODS.map(terms).into(),
        verification_note: None,
        verification_url: None,
        settings: vec![],
        secrets: vec![AccountSecret {
            name: "callback-secret".into(),
            values: vec![kassette_domain::secret::Secret::new(VENDOR_SECRET)],
            hosts: vec![],
        }],
        hosts: vec![],
        redirect_hosts: vec!["pay.vendor.example".into()],
    }
}

/// Settings, with limits that no input reaches.
fn settings() -> Settings {
    let accounts = [
        account("first-test", Environment::Test),
        account("second-test", Environment::Test),
        account("first-live", Environment::Live),
    ];
    Settings {
        listing_deadline: Duration::from_secs(10),
        live_default: true,
        rate_limit: RateLimit {
            per_second: 1_000_000,
            burst: 1_000_000,
        },
        health_max_age: Duration::from_secs(365 * 86_400),
        webhooks: Webhooks {
            own_origins: vec!["https://pay.example".into()],
            ..Webhooks::default()
        },
        accounts: accounts.map(|each| (each.id.clone(), each)).into(),
        ..Settings::new("https://pay.example")
    }
}

impl World {
    fn new(modules: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let folder = folder();
        let entered = runtime.enter();
        let store: Arc<dyn Store> = SledStore::open(&OpenOptions {
            path: folder.path().join("store"),
            master: MasterKey::from_bytes([7; 32]),
            cache_bytes: 16 << 20,
        })
        .unwrap();
        let clock = Arc::new(AdjustableClock::new());
        let client = Client::new(Guard::default());
        let gateway = Gateway::delivering_through(
            Arc::clone(&store),
            Arc::new(Scripted),
            clock.clone(),
            settings(),
            client.clone(),
        );
        let operators = match modules {
            false => gateway.clone(),
            true => {
                let told = Arc::clone(&clock);
                let modules = folder.path().join("plugins");
                std::fs::create_dir(&modules).unwrap();
                let mut config = RuntimeConfig::new(modules, Arc::new(move || told.now()));
                config.pool = PoolSizes {
                    methods: 1,
                    providers: 1,
                };
                let engine = Runtime::start(config, client).unwrap();
                Gateway::new(Arc::clone(&store), engine, clock.clone(), settings())
            }
        };
        drop(entered);
        let mut world = Self {
            runtime,
            public: kassette_server::fuzzing::public(gateway.clone()),
            admin: kassette_server::fuzzing::admin(operators, ADMIN),
            store,
            clock,
            words: Words::new(),
            credentials: Words::new(),
            secrets: vec![VENDOR_SECRET.into()],
            nonces: HashMap::new(),
            inputs: 0,
            drawn: 0,
            _folder: folder,
        };
        world.wait(gateway.warm_up()).unwrap();
        for (word, role) in [
            ("viewer", Role::Viewer),
            ("operator", Role::Operator),
            ("admin", Role::Admin),
            // An operator that an input may remove.
            ("spare", Role::Viewer),
        ] {
            world.operator(word, role);
        }
        world.furnish();
        world
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Current time of the world, in seconds since 1970.
    pub(crate) fn now(&self) -> u64 {
        self.clock.now().as_secs()
    }

    /// Advances the clock by the time of a request, for rate limits and timers.
    pub(crate) fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    fn operator(&mut self, word: &'static str, role: Role) {
        let now = self.clock.now();
        let (operator, token) = kassette_server::fuzzing::operator(word, role, now).unwrap();
        let line = Audited {
            operator: "system".into(),
            operator_id: None,
            actor: "test".into(),
            reason: None,
            action: "operator.create".into(),
            object: format!("operator/{}", operator.id),
            before: None,
            after: None,
        };
        let made = self.store.create_operator(operator, line, now);
        let made = self.wait(made).unwrap().unwrap();
        if word == "spare" {
            self.words.insert("operator_id", made.id.to_string());
        }
        self.credential(word, token.expose());
    }

    fn credential(&mut self, word: &'static str, shown: &str) {
        self.secrets.push(shown.to_owned());
        self.credentials.insert(word, shown.to_owned());
    }

    /// Sends a request to prepare the world. It must succeed.
    fn ask(&self, admin: bool, key: &str, method: Method, target: &str, body: &Value) -> Value {
        let bearer = format!("Bearer {}", self.credentials[key]);
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static(ADMIN));
        headers.insert(AUTHORIZATION, bearer.parse().unwrap());
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if admin {
            headers.insert("x-audit-actor", HeaderValue::from_static("ann"));
            headers.insert("x-audit-reason", HeaderValue::from_static("a test"));
        }
        let asked = Request {
            method,
            target: target.to_owned(),
            headers,
            version: Version::HTTP_11,
            body: body.to_string().into_bytes(),
            credential: None,
        };
        let router = if admin { &self.admin } else { &self.public };
        let answer = self.wait(talk::send(router, &asked));
        assert!(answer.status < 300, "{target}: {}", answer.text());
        answer.json().unwrap_or_default()
    }

    fn manage(&self, method: Method, path: &str, body: &Value) -> Value {
        self.ask(true, "admin", method, &format!("/admin/v1{path}"), body)
    }

    fn key(&mut self, word: &'static str, path: &str, body: &Value) {
        let made = self.manage(Method::POST, path, body);
        self.credential(word, made["key"].as_str().unwrap());
        if word == "test" {
            self.words.insert("key_id", said(&made, "key_id"));
        }
    }

    /// Creates two merchants with keys, a reseller of the first, webhook endpoints, and payments in several
    /// states.
    fn furnish(&mut self) {
        let create = |name: &str| {
            json!({ "name": name, "live_approved": true,
                "fx_rates": { "EUR": "1.08", "GBP": "1.25" }, "policy": { "provider_choice": true } })
        };
        self.manage(Method::POST, "/merchants", &create("Demo shop"));
        let other = create(&format!("{OTHERS} shop"));
        self.manage(Method::POST, "/merchants", &other);
        self.key(
            "test",
            "/merchants/1/keys",
            &json!({ "environment": "test" }),
        );
        self.key(
            "live",
            "/merchants/1/keys",
            &json!({ "environment": "live" }),
        );
        let reads = json!({ "environment": "test", "scopes": ["payments:read"] });
        self.key("reads", "/merchants/1/keys", &reads);
        self.key(
            "otherkey",
            "/merchants/2/keys",
            &json!({ "environment": "test" }),
        );
        let domain = json!({ "domain": "shop.example", "include_subdomains": true });
        self.manage(Method::POST, "/merchants/1/domains", &domain);
        for (merchant, host) in [(1, "hooks.shop.example"), (2, "hooks.zqothers.example")] {
            let body = json!({ "url": format!("https://{host}/in"), "environment": "test" });
            let path = format!("/merchants/{merchant}/webhook-endpoints");
            let made = self.manage(Method::POST, &path, &body);
            self.secrets.push(said(&made, "secret"));
            self.words.insert("endpoint", said(&made, "id"));
        }
        let code = json!({ "environment": "test", "site_url": "https://shop.example" });
        let code = self.manage(Method::POST, "/merchants/1/connect-codes", &code);
        self.words.insert("code", said(&code, "code"));
        let consent = self.manage(Method::POST, "/merchants/1/consent-codes", &json!({}));
        self.words.insert("consent", said(&consent, "code"));

        self.manage(Method::POST, "/resellers", &json!({ "name": "Agency" }));
        let because = json!({ "enabled": true, "actor": "ann", "reason": "because" });
        self.manage(Method::PUT, "/resellers/1/live-rollout", &because);
        let granted = json!({ "status": "authorized", "actor": "ann", "reason": "because" });
        self.manage(Method::PUT, "/resellers/1/delegations/1", &granted);
        self.key(
            "rtest",
            "/resellers/1/keys",
            &json!({ "environment": "test" }),
        );
        self.key(
            "rlive",
            "/resellers/1/keys",
            &json!({ "environment": "live" }),
        );
        let invite = json!({ "email": "owner@shop.example", "business_name": "Shop",
            "client_ref": "first" });
        let invited = self.ask(
            false,
            "rtest",
            Method::POST,
            "/api/v1/reseller/invitations",
            &invite,
        );
        self.words
            .insert("invitation", last(&invited, "invitation_url"));

        let order = json!({ "client_ref": "resold", "merchant_id": 1, "order_id": "resold",
            "amount": "12.00", "currency": "EUR", "checkout_mode": "direct", "payment_method": "ideal" });
        let resold = self.ask(
            false,
            "rtest",
            Method::POST,
            "/api/v1/reseller/payments",
            &order,
        );
        self.words.insert("resold", said(&resold, "payment_id"));
        let hidden = format!("{OTHERS}-order");
        let payments = [
            ("hosted", "test", "hosted", "first", None),
            ("asking", "test", "hosted", "ask", None),
            ("other", "otherkey", "hosted", hidden.as_str(), None),
            ("alive", "live", "direct", "alive", None),
            (
                "reviewed",
                "test",
                "direct",
                "third",
                Some(" review 4990 EUR"),
            ),
            (
                "processing",
                "test",
                "direct",
                "fourth",
                Some(" processing 0 EUR"),
            ),
            (
                "excess",
                "test",
                "direct",
                "fifth",
                Some(" completed 5990 EUR"),
            ),
            ("payment", "test", "direct", "second", Some("")),
        ];
        for (word, key, mode, order, news) in payments {
            let mut body = json!({ "order_id": order, "idempotency_key": format!("{order}-attempt"),
                "amount": "49.90", "currency": "EUR", "checkout_mode": mode });
            if mode == "direct" {
                body["payment_method"] = "ideal".into();
            }
            let made = self.ask(false, key, Method::POST, "/api/v1/payments", &body);
            let id = said(&made, "payment_id");
            self.words.insert(word, id.clone());
            if word == "hosted" {
                self.words.insert("checkout", last(&made, "checkout_url"));
            }
            if word == "asking" {
                self.words.insert("asked", last(&made, "checkout_url"));
            }
            if let Some(news) = news {
                let body = json!({ "payment_id": id, "payment_method": "ideal" });
                let started = self.ask(false, key, Method::POST, "/api/v1/payments/start", &body);
                let attempt = last(&started, "redirect_url");
                self.hear(&format!("{attempt}{news}"));
                self.words.insert("attempt", attempt);
            }
        }
    }

    /// Sends a callback about a payment.
    fn hear(&self, news: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("x-proof", HeaderValue::from_static("genuine"));
        let asked = Request {
            method: Method::POST,
            target: "/callbacks/first-test".into(),
            headers,
            version: Version::HTTP_11,
            body: news.into(),
            credential: None,
        };
        let answer = self.wait(talk::send(&self.public, &asked));
        assert_eq!(answer.status, 200, "{news}: {}", answer.text());
    }

    /// The values by name, with some that are new for each input.
    pub(crate) fn draw(&mut self) -> Words {
        let mut words = self.words.clone();
        for word in ["new", "newer"] {
            self.drawn += 1;
            words.insert(word, format!("drawn-{:010}", self.drawn));
        }
        words
    }

    /// The newest payment and audit log entry.
    pub(crate) fn count(&self) -> Counted {
        let one = || Paging {
            limit: 1,
            cursor: None,
        };
        self.wait(async {
            let payments = self.store.payments(PaymentFilter::default(), one());
            let Listed::Page(payments) = payments.await.unwrap() else {
                panic!("no page of payments");
            };
            let Listed::Page(lines) = self.store.audit_log(one()).await.unwrap() else {
                panic!("no page of the audit log");
            };
            Counted {
                payment: payments.items.first().map(|each| each.id.to_string()),
                line: lines.items.first().map(|each| each.id),
            }
        })
    }
}

/// Text of a field. Empty if it is missing.
pub(crate) fn said(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Text after the last slash of a field.
pub(crate) fn last(value: &Value, field: &str) -> String {
    let text = said(value, field);
    text.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Adds values of a response, so that the next request can use them.
pub(crate) fn learn(words: &mut Words, answer: &Answer) {
    let Some(value) = answer.json() else {
        return;
    };
    for (word, field) in [
        ("payment", "payment_id"),
        ("key_id", "key_id"),
        ("endpoint", "id"),
        ("operator_id", "operator_id"),
        ("cursor", "next_cursor"),
        ("delivery", "delivery_id"),
    ] {
        if let Some(text) = value[field].as_str() {
            words.insert(word, text.to_owned());
        }
    }
    for (word, field) in [
        ("checkout", "checkout_url"),
        ("attempt", "redirect_url"),
        ("invitation", "invitation_url"),
    ] {
        if value[field].is_string() {
            words.insert(word, last(&value, field));
        }
    }
}
