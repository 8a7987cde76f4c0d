//! A router with its own store, a merchant and keys.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, StatusCode};
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, Digest, KeyId, MerchantId, ResellerId, Slot};
use kassette_domain::key::{
    ApiKey, Environment, KeyOwner, Scope, TokenHash, TokenKind, read_token,
};
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Rate};
use kassette_domain::policy::{Policy, RateLimit};
use kassette_domain::provider::{
    AttemptFacts, CallbackFailure, CallbackReply, CallbackRequest, Condition, Given, PaidFacts,
    ProviderDescription, QueryFailure, RefundFailure, RefundOrder, RefundQuery, RefundTerms,
    Report, StartFailure, Started,
};
use kassette_gateway::Gateway;
use kassette_gateway::clock::{AdjustableClock, Clock as _};
use kassette_gateway::modules::{Access, Calling, Method, Modules, Provider, ProviderQuery};
use kassette_gateway::settings::{Account, Merchants, Settings};
use kassette_runtime::CallError;
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{KeyIssued, NewMerchant, Replaced, SledStore, Store};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::admission::InFlightLimits;
use crate::api::{ApiState, router};
use crate::proxies::Proxies;

/// No module, or one that reads callbacks.
struct FewModules(Option<Arc<Reader>>);

impl Modules for FewModules {
    fn method(&self, _: MethodId, _: Environment) -> Option<Arc<dyn Method>> {
        None
    }
    fn methods(&self) -> Vec<MethodId> {
        Vec::new()
    }
    fn provider(&self, _: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        let reader = self.0.clone()?;
        Some(reader)
    }
    fn provider_version(&self, _: &Slot, _: &Digest) -> Option<Arc<dyn Provider>> {
        None
    }
    fn previous_provider(&self, _: &str, _: Environment) -> Option<Arc<dyn Provider>> {
        None
    }
    fn is_disabled(&self, _: &Slot) -> bool {
        false
    }
    fn forget_tokens(&self, _: &AccountId) {}
}

/// Verifies only callbacks with the body `genuine`.
struct Reader {
    slot: Slot,
    description: ProviderDescription,
}

impl Reader {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            slot: Slot::of_provider("sandbox").unwrap(),
            description: ProviderDescription {
                id: "sandbox".into(),
                label: "Sandbox".into(),
                version: "1".into(),
                services: vec![],
                settings: vec![],
                secrets: vec![],
                tokens: vec![],
            },
        })
    }
}

impl Provider for Reader {
    fn slot(&self) -> &Slot {
        &self.slot
    }
    fn digest(&self) -> Digest {
        Digest::hash(b"reader")
    }
    fn description(&self) -> &ProviderDescription {
        &self.description
    }
    fn check_settings(
        &self,
        _: Environment,
        _: &[(String, String)],
    ) -> Result<Result<(), String>, CallError> {
        Ok(Ok(()))
    }
    fn start<'a>(
        &'a self,
        _: &'a Access,
        _: &'a AttemptFacts,
    ) -> Calling<'a, Result<Started, StartFailure>> {
        Box::pin(async { Err(StartFailure::Unavailable("it only reads".into())) })
    }
    fn callback<'a>(
        &'a self,
        _: &'a Access,
        incoming: &'a CallbackRequest,
    ) -> Calling<'a, Result<Result<CallbackReply, CallbackFailure>, CallError>> {
        let read = match incoming.body.as_slice() {
            b"genuine" => Ok(CallbackReply {
                proved: true,
                notices: vec![],
                status: 200,
                media_type: "text/plain".into(),
                body: "[accepted]".into(),
            }),
            _ => Err(CallbackFailure::Forged("another body".into())),
        };
        Box::pin(async move { Ok(read) })
    }
    fn query<'a>(
        &'a self,
        _: &'a Access,
        _: &'a ProviderQuery,
    ) -> Calling<'a, Result<Result<Report, QueryFailure>, CallError>> {
        Box::pin(async { Ok(Err(QueryFailure::Absent)) })
    }
    fn refund_terms<'a>(
        &'a self,
        _: &'a Access,
    ) -> Calling<'a, Result<Vec<RefundTerms>, CallError>> {
        Box::pin(async { Ok(Vec::new()) })
    }
    fn refund<'a>(
        &'a self,
        _: &'a Access,
        _: &'a PaidFacts,
        _: &'a RefundOrder,
    ) -> Calling<'a, Result<Given, RefundFailure>> {
        Box::pin(async { Err(RefundFailure::Unavailable("it gives nothing back".into())) })
    }
    fn query_refund<'a>(
        &'a self,
        _: &'a Access,
        _: &'a PaidFacts,
        _: &'a RefundOrder,
        _: RefundQuery,
    ) -> Calling<'a, Result<Result<Given, QueryFailure>, CallError>> {
        Box::pin(async { Ok(Err(QueryFailure::Absent)) })
    }
    fn health<'a>(&'a self, _: &'a Access) -> Calling<'a, Result<Condition, CallError>> {
        Box::pin(async { Ok(Condition::Operational) })
    }
}

pub(super) struct World {
    pub(super) store: Arc<dyn Store>,
    pub(super) clock: Arc<AdjustableClock>,
    pub(super) merchant: Merchant,
    pub(super) gateway: Gateway,
    router: Router,
    _folder: tempfile::TempDir,
}

/// A response.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answer {
    pub(super) fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }

    /// The message of an error response.
    pub(super) fn error(&self) -> String {
        let value = self.json();
        let object = value.as_object().unwrap();
        assert!(object["code"].is_string(), "{value}");
        object["error"].as_str().unwrap().to_owned()
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

pub(super) const NARROW: RateLimit = RateLimit {
    per_second: 1,
    burst: 20,
};

pub(super) fn audited() -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "ann".into(),
        reason: None,
        action: "merchant.create".into(),
        object: "merchant/1".into(),
        before: None,
        after: None,
    }
}

fn account() -> Account {
    Account {
        id: AccountId::parse("sandbox-test").unwrap(),
        module: "sandbox".into(),
        name: "Sandbox".into(),
        environment: Environment::Test,
        simulated: true,
        enabled: true,
        merchants: Merchants::All,
        methods: BTreeMap::new(),
        verification_note: None,
        verification_url: None,
        settings: vec![],
        secrets: vec![],
        hosts: vec![],
        redirect_hosts: vec![],
    }
}

fn settings() -> Settings {
    let account = account();
    Settings {
        rate_limit: NARROW,
        accounts: BTreeMap::from([(account.id.clone(), account)]),
        ..Settings::new("https://pay.example")
    }
}

impl World {
    pub(super) async fn new() -> Self {
        Self::over(FewModules(None)).await
    }

    /// A world with a module that verifies only callbacks with the body `genuine`.
    pub(super) async fn reading_callbacks() -> Self {
        Self::over(FewModules(Some(Reader::new()))).await
    }

    async fn over(modules: FewModules) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = OpenOptions {
            path: folder.path().join("store"),
            master: MasterKey::from_bytes([7; 32]),
            cache_bytes: 16 << 20,
        };
        let store: Arc<dyn Store> = SledStore::open(&options).unwrap();
        let clock = Arc::new(AdjustableClock::new());
        let rate = SetRate {
            rate: Rate::parse("1.08").unwrap(),
            at: clock.now(),
        };
        let merchant = Merchant {
            id: MerchantId(0),
            name: "Demo shop".into(),
            live_approved: true,
            rates: BTreeMap::from([(Currency::EUR, rate)]),
            policy: Policy::default(),
            brand: Default::default(),
            domains: vec![],
            created_at: clock.now(),
        };
        let new = NewMerchant { merchant };
        let made = store.create_merchant(new, audited(), clock.now()).await;
        let modules = Arc::new(modules);
        let gateway = Gateway::with_modules(Arc::clone(&store), modules, clock.clone(), settings());
        Self {
            store,
            clock,
            merchant: made.unwrap(),
            router: router(ApiState::new(
                gateway.clone(),
                Proxies::default(),
                InFlightLimits::default(),
            )),
            gateway,
            _folder: folder,
        }
    }

    /// Creates a key of the merchant.
    pub(super) async fn key(&self, environment: Environment, scopes: &[Scope]) -> String {
        let owner = KeyOwner::Merchant(self.merchant.id);
        self.key_of(owner, environment, scopes).await
    }

    /// Creates a reseller with live rollout; returns its number.
    pub(super) async fn reseller(&self) -> ResellerId {
        let now = self.clock.now();
        let made = self.store.create_reseller("Agency".into(), audited(), now);
        let id = made.await.unwrap().id;
        let rolled_out = self.store.set_live_rollout(id, true, audited(), now);
        assert!(rolled_out.await.unwrap().is_some());
        id
    }

    /// Creates a key of a merchant or a reseller.
    pub(super) async fn key_of(
        &self,
        owner: KeyOwner,
        environment: Environment,
        scopes: &[Scope],
    ) -> String {
        let kind = match owner {
            KeyOwner::Merchant(_) => TokenKind::Merchant(environment),
            KeyOwner::Reseller(_) => TokenKind::Reseller(environment),
        };
        let shown = kind.generate(getrandom::fill).unwrap();
        let (_, hash) = read_token(shown.expose()).unwrap();
        let mut id = [0; 16];
        getrandom::fill(&mut id).unwrap();
        let key = ApiKey {
            id: KeyId::from_bytes(id),
            hash,
            owner,
            environment,
            scopes: scopes.to_vec(),
            hint: "abcd".into(),
            created_at: self.clock.now(),
            expires_at: None,
            revoked_at: None,
            last_used_at: None,
        };
        let issued = self.store.issue_key(key, audited(), self.clock.now()).await;
        assert!(matches!(issued.unwrap(), KeyIssued::Done(_)));
        shown.expose().to_owned()
    }

    /// Creates a test key with the merchant's default scopes.
    pub(super) async fn test_key(&self) -> String {
        self.key(Environment::Test, &Scope::MERCHANT).await
    }

    pub(super) async fn revoke(&self, key: &str) {
        let found = self.store.key(TokenHash::hash(key)).await.unwrap().unwrap();
        let now = self.clock.now();
        self.store
            .revoke_key(found.id, audited(), now)
            .await
            .unwrap();
    }

    pub(super) async fn change(&self, change: impl FnOnce(&mut Merchant)) {
        let before = self
            .store
            .merchant(self.merchant.id)
            .await
            .unwrap()
            .unwrap();
        let mut after = before.clone();
        change(&mut after);
        let now = self.clock.now();
        let done = self
            .store
            .replace_merchant(before, after, audited(), now)
            .await;
        assert!(matches!(done.unwrap(), Replaced::Done(_)));
    }

    pub(super) async fn configure(&self, change: impl FnOnce(&mut Settings)) {
        let mut settings = settings();
        change(&mut settings);
        self.gateway.configure(settings).await.unwrap();
    }

    pub(super) async fn send(&self, request: Request) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(body.to_vec()).unwrap(),
        }
    }

    /// Sends a request with additional headers.
    pub(super) async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(body.into()).unwrap()).await
    }

    pub(super) async fn get(&self, key: &str, path: &str) -> Answer {
        let bearer = format!("Bearer {key}");
        self.ask(
            "GET",
            path,
            &[(AUTHORIZATION.as_str(), &bearer)],
            Body::empty(),
        )
        .await
    }

    pub(super) async fn post(&self, key: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {key}");
        let headers = [
            (AUTHORIZATION.as_str(), bearer.as_str()),
            (CONTENT_TYPE.as_str(), "application/json"),
        ];
        self.ask("POST", path, &headers, body.to_string()).await
    }

    /// Repeats a request until the response is 429. `None` if that does not happen.
    pub(super) async fn exhaust(&self, headers: &[(&str, &str)], path: &str) -> Option<Answer> {
        for _ in 0..NARROW.burst * 2 {
            let answer = self.ask("GET", path, headers, Body::empty()).await;
            if answer.status == StatusCode::TOO_MANY_REQUESTS.as_u16() {
                return Some(answer);
            }
        }
        None
    }
}
