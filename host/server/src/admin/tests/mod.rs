//! Tests of the operators' API through its router, with a real store.

mod access;
mod audit;
#[path = "../../../../../tests/openapi/contract.rs"]
mod contract;
mod dev;
mod document;
mod export;
mod keys;
mod merchants;
mod operators;
mod payments;
mod plain;
mod providers;
mod replays;
mod resellers;
mod slots;
mod status;
mod uploads;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Method, Request, StatusCode};
use kassette_domain::audit::{Audited, SYSTEM};
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_domain::operator::Role;
use kassette_domain::secret::Secret;
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock};
use kassette_gateway::settings::{Account, Merchants};
use kassette_http::{Client, Guard};
use kassette_runtime::{PoolSizes, Runtime, RuntimeConfig};
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{SledStore, Store};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use self::contract::{Contract, Exchange};
use super::{AdminState, router};
use crate::config::{Config, MainFile, Profile};

/// Host name of the listener.
const NAME: &str = "admin.test:8081";

/// The document of all calls, including those of `dev`, which otherwise return 404.
static CONTRACT: LazyLock<Contract> =
    LazyLock::new(|| Contract::new(serde_json::to_value(super::document::openapi(true)).unwrap()));

/// A gateway with an operator of each role.
pub(crate) struct World {
    gateway: Gateway,
    clock: Arc<AdjustableClock>,
    router: Router,
    viewer: Secret,
    operator: Secret,
    admin: Secret,
    _folder: tempfile::TempDir,
}

/// A response.
struct Answer {
    status: StatusCode,
    body: Value,
}

impl World {
    async fn new() -> Self {
        Self::named(NAME.to_owned()).await
    }

    /// The same with another host name.
    pub(crate) async fn named(name: String) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(AdjustableClock::new());
        let store = SledStore::open(&OpenOptions {
            path: folder.path().join("store"),
            master: MasterKey::from_bytes([7; 32]),
            cache_bytes: 8 << 20,
        })
        .unwrap();
        let told = Arc::clone(&clock);
        let mut config = RuntimeConfig::new(folder.path(), Arc::new(move || told.now()));
        config.pool = PoolSizes {
            methods: 1,
            providers: 1,
        };
        let runtime = Runtime::start(config, Client::new(Guard::default())).unwrap();
        let mut settings = configured().settings("https://pay.example", Profile::Serve);
        settings.webhooks.own_origins = vec!["https://pay.example".into()];
        let gateway = Gateway::new(
            Arc::clone(&store) as Arc<dyn Store>,
            runtime,
            Arc::clone(&clock) as Arc<dyn Clock>,
            settings,
        );
        let router = router(AdminState::new(gateway.clone(), vec![name], None));
        let viewer = operator(&gateway, Role::Viewer).await;
        let operator_token = operator(&gateway, Role::Operator).await;
        let admin = operator(&gateway, Role::Admin).await;
        Self {
            gateway,
            clock,
            router,
            viewer,
            operator: operator_token,
            admin,
            _folder: folder,
        }
    }

    /// The API.
    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// Token of an admin.
    pub(crate) const fn admin(&self) -> &Secret {
        &self.admin
    }

    /// Token of a viewer.
    pub(crate) const fn viewer(&self) -> &Secret {
        &self.viewer
    }

    async fn send(&self, request: Request<Body>) -> Response {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Calls as an operator with an optional JSON body, and compares the call with the document.
    async fn call(
        &self,
        token: &Secret,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Answer {
        let (name, sent) = (method.clone(), body.clone());
        let response = self.send(request(Some(token), method, path, body)).await;
        let (parts, body) = response.into_parts();
        let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let body = match bytes.is_empty() {
            true => Value::Null,
            false => serde_json::from_slice(&bytes).unwrap(),
        };
        let exchange = Exchange {
            method: name.as_str(),
            path,
            sent: sent.as_ref(),
            status: parts.status.as_u16(),
            answered: (!bytes.is_empty()).then_some(&body),
        };
        if let Err(otherwise) = CONTRACT.check(&exchange) {
            panic!("{name} {path} is not as the document says: {otherwise}");
        }
        Answer {
            status: parts.status,
            body,
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.call(&self.viewer, Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: Value) -> Answer {
        self.call(&self.admin, Method::POST, path, Some(body)).await
    }

    async fn patch(&self, path: &str, body: Value) -> Answer {
        self.call(&self.operator, Method::PATCH, path, Some(body))
            .await
    }

    async fn put(&self, path: &str, body: Value) -> Answer {
        self.call(&self.admin, Method::PUT, path, Some(body)).await
    }

    async fn delete(&self, path: &str) -> Answer {
        self.call(&self.admin, Method::DELETE, path, None).await
    }

    /// Creates a merchant; returns its number.
    async fn merchant(&self, live_approved: bool) -> u64 {
        let body = json!({ "name": "Shop", "live_approved": live_approved });
        let made = self.post("/merchants", body).await;
        assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
        made.body["merchant_id"].as_u64().unwrap()
    }

    /// The latest entry of the audit log.
    async fn last_line(&self) -> Value {
        self.get("/audit?limit=1").await.body["entries"][0].clone()
    }
}

impl Answer {
    /// Asserts a refusal in the common form of errors.
    #[track_caller]
    fn refused(&self, status: u16) -> &str {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        let object = self.body.as_object().unwrap();
        assert!(object["code"].is_string(), "{}", self.body);
        object["error"].as_str().unwrap()
    }

    #[track_caller]
    fn is(&self, status: u16) -> &Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        &self.body
    }
}

fn request(
    token: Option<&Secret>,
    method: Method,
    path: &str,
    body: Option<Value>,
) -> Request<Body> {
    let asked = method.clone();
    let mut request = Request::builder()
        .method(method)
        .uri(format!("/admin/v1{path}"))
        .header(HOST, NAME);
    if let Some(token) = token {
        request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
    }
    if needs_reason(&asked, path) {
        request = request
            .header("x-audit-actor", "Tests")
            .header("x-audit-reason", "a test");
    }
    match body {
        Some(body) => request
            .header(CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .unwrap(),
        None => request.body(Body::empty()).unwrap(),
    }
}

/// Whether a call may need an attribution. The body's attribution takes precedence.
fn needs_reason(method: &Method, path: &str) -> bool {
    match *method {
        Method::POST => path == "/merchants" || path.ends_with("/rotate"),
        Method::PATCH => path.starts_with("/merchants/"),
        Method::DELETE => path.starts_with("/keys/"),
        _ => false,
    }
}

async fn operator(gateway: &Gateway, role: Role) -> Secret {
    let now = gateway.clock().now();
    let name = format!("{role:?}").to_lowercase();
    let (operator, token) = super::operators::draw(name, role, None, now).unwrap();
    let audited = Audited {
        operator: SYSTEM.into(),
        operator_id: None,
        actor: "test".into(),
        reason: None,
        action: "operator.create".into(),
        object: format!("operator/{}", operator.id),
        before: None,
        after: None,
    };
    gateway
        .store()
        .create_operator(operator, audited, now)
        .await
        .unwrap();
    token
}

/// A configuration with two accounts.
fn configured() -> Config {
    let account = |id: &str| Account {
        id: AccountId::parse(id).unwrap(),
        module: "sandbox".into(),
        name: "Sandbox".into(),
        environment: Environment::Test,
        simulated: true,
        enabled: true,
        merchants: Merchants::All,
        methods: BTreeMap::new(),
        verification_note: None,
        verification_url: None,
        settings: Vec::new(),
        secrets: Vec::new(),
        hosts: Vec::new(),
        redirect_hosts: Vec::new(),
    };
    let accounts = ["first-test", "second-test"].map(account);
    Config {
        main: MainFile::default(),
        folder: "config".into(),
        methods: BTreeMap::new(),
        accounts: accounts
            .into_iter()
            .map(|account| (account.id.clone(), account))
            .collect(),
        releases: None,
        test_authorities: Vec::new(),
        provider_authorities: Vec::new(),
    }
}
