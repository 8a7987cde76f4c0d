//! A gateway over a store in a temporary folder, with a merchant and two accounts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Attempt;
use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, AttemptId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::merchant::{Merchant, SetRate};
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money, Rate};
use kassette_domain::order::{IdempotencyKey, OrderId};
use kassette_domain::payment::{CheckoutMode, Origin, Payment, Request, Status};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{
    CallbackReply, CallbackRequest, Notice, Payer, Report, Subject, Verb,
};
use kassette_domain::site::VerifiedDomain;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::callback::CallbackAnswer;
use kassette_gateway::clock::{AdjustableClock, Clock};
use kassette_gateway::create::CreateOutcome;
use kassette_gateway::settings::{Account, Merchants, Settings, Terms};
use kassette_gateway::start::{Start, Starter};
use kassette_http::{Client, Guard};
use kassette_store::sled::{MasterKey, OpenOptions};
use kassette_store::{About, NewMerchant, SledStore, Store};

use crate::modules::{Scripted, Vendor};

pub(crate) struct World {
    pub(crate) gateway: Gateway,
    pub(crate) vendor: Arc<Vendor>,
    pub(crate) clock: Arc<AdjustableClock>,
    pub(crate) merchant: Merchant,
    pub(crate) store: Arc<dyn Store>,
    _folder: tempfile::TempDir,
}

pub(crate) fn audited() -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "ann".into(),
        reason: Some("because".into()),
        action: "payment.review".into(),
        object: "payment".into(),
        before: None,
        after: None,
    }
}

pub(crate) fn account_id(name: &str) -> AccountId {
    AccountId::parse(name).unwrap()
}

fn account(name: &str, priority: i32) -> Account {
    let terms = Terms {
        priority,
        ..Terms::default()
    };
    Account {
        id: account_id(name),
        module: "sandbox".into(),
        name: name.into(),
        environment: Environment::Test,
        simulated: true,
        enabled: true,
        merchants: Merchants::All,
        methods: BTreeMap::from([(MethodId::Ideal, terms.clone()), (MethodId::Paypal, terms)]),
        verification_note: None,
        verification_url: None,
        settings: vec![],
        secrets: vec![],
        hosts: vec!["localhost:4010".into()],
        redirect_hosts: vec!["pay.example".into()],
    }
}

/// Two accounts in the test environment: `alpha` before `beta`.
pub(crate) fn settings() -> Settings {
    let accounts = [account("alpha", 10), account("beta", 0)];
    Settings {
        accounts: accounts.map(|each| (each.id.clone(), each)).into(),
        ..Settings::new("https://pay.shop.example")
    }
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with(settings(), Policy::default()).await
    }

    pub(crate) async fn with(settings: Settings, policy: Policy) -> Self {
        let client = Client::new(settings.webhooks.guard());
        Self::through(settings, policy, client).await
    }

    /// A world whose events are sent through this client.
    pub(crate) async fn through(settings: Settings, policy: Policy, client: Client) -> Self {
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
            id: kassette_domain::id::MerchantId(0),
            name: "Demo shop".into(),
            live_approved: true,
            rates: BTreeMap::from([(Currency::EUR, rate)]),
            policy,
            brand: Default::default(),
            domains: vec![VerifiedDomain {
                domain: "shop.example".into(),
                include_subdomains: false,
            }],
            created_at: clock.now(),
        };
        let new = NewMerchant { merchant };
        let made = store.create_merchant(new, audited(), clock.now()).await;
        let vendor = Vendor::new();
        let world = Self {
            gateway: gateway(&store, &vendor, &clock, settings, client),
            vendor,
            clock,
            merchant: made.unwrap(),
            store,
            _folder: folder,
        };
        world.gateway.warm_up().await.unwrap();
        world
    }

    pub(crate) async fn second(&self) -> Gateway {
        let client = Client::new(Guard::default());
        let second = gateway(&self.store, &self.vendor, &self.clock, settings(), client);
        second.warm_up().await.unwrap();
        second
    }

    pub(crate) fn request(&self, name: &str, mode: CheckoutMode) -> Request {
        Request {
            merchant: self.merchant.id,
            origin: Origin::Merchant {
                idempotency_key: IdempotencyKey::parse(&format!("request-{name}")).unwrap(),
            },
            environment: Environment::Test,
            order_id: OrderId::parse(name).unwrap(),
            due: Money {
                amount: Minor(4990),
                currency: Currency::EUR,
            },
            mode,
            method: (mode == CheckoutMode::Direct).then_some(MethodId::Ideal),
            email: None,
            return_url: None,
            extras: kassette_domain::extras::Extras::default(),
        }
    }

    pub(crate) async fn pay(&self, mode: CheckoutMode) -> Payment {
        self.made(self.request("order", mode)).await
    }

    pub(crate) async fn made(&self, request: Request) -> Payment {
        match self.gateway.create(request, None).await.unwrap() {
            CreateOutcome::Created(payment) => payment,
            CreateOutcome::Replayed(_) => panic!("it was made before"),
        }
    }

    pub(crate) async fn direct(&self) -> Payment {
        self.pay(CheckoutMode::Direct).await
    }

    pub(crate) async fn hosted(&self) -> Payment {
        self.pay(CheckoutMode::Hosted).await
    }

    /// A direct payment that waits for its payer at `alpha`.
    pub(crate) async fn waiting(&self) -> (PaymentId, AttemptId) {
        let payment = self.direct().await;
        let started = self.gateway.start(by_api(&payment)).await.unwrap();
        (payment.id, started.attempt.id)
    }

    pub(crate) async fn aggregate(&self, payment: PaymentId) -> PaymentAggregate {
        let aggregate = self.store.aggregate(About::Payment(payment)).await;
        aggregate.unwrap().unwrap()
    }

    /// Performs due actions until the payment has the expected status.
    pub(crate) async fn becomes(&self, payment: PaymentId, status: Status) -> PaymentAggregate {
        for _ in 0..100 {
            let aggregate = self.aggregate(payment).await;
            if aggregate.payment.status == status {
                return aggregate;
            }
            self.gateway.do_what_is_due().await.unwrap();
        }
        let aggregate = self.aggregate(payment).await;
        panic!("{status:?} was never reached: {aggregate:?}")
    }

    /// A callback of an account with one notice.
    pub(crate) async fn callback(&self, about: Subject, report: Option<Report>) -> CallbackAnswer {
        self.callback_of("alpha", about, report).await
    }

    pub(crate) async fn callback_of(
        &self,
        account: &str,
        about: Subject,
        report: Option<Report>,
    ) -> CallbackAnswer {
        self.vendor.answer_callback(Ok(heard(about, report)));
        called_back(&self.gateway, account).await
    }

    /// An unverified callback of `alpha` from an address.
    pub(crate) async fn unproved(&self, about: Subject, from: [u8; 4]) -> CallbackAnswer {
        let said = CallbackReply {
            proved: false,
            ..heard(about, None)
        };
        self.vendor.answer_callback(Ok(said));
        let alpha = account_id("alpha");
        let incoming = incoming();
        let from = from.into();
        let judged = self
            .gateway
            .judge_callback(&alpha, &incoming, Some(from))
            .await;
        assert!(judged.unproved());
        self.gateway.handle_callback(&alpha, judged, from).await
    }

    pub(crate) async fn transitions_to(&self, payment: PaymentId, status: Status) -> usize {
        let history = self.store.history(payment).await.unwrap().unwrap();
        let into = |each: &&kassette_domain::lifecycle::Transition| {
            each.applied && each.to == status && each.from != status
        };
        history.transitions.iter().filter(into).count()
    }

    pub(crate) async fn events(&self, payment: PaymentId) -> Vec<String> {
        let history = self.store.history(payment).await.unwrap().unwrap();
        let name = |event: &kassette_domain::event::Event| event.kind.as_str().to_owned();
        history.events.iter().map(name).collect()
    }

    pub(crate) fn later(&self, seconds: u64) -> Time {
        self.clock.advance(Duration::from_secs(seconds));
        self.clock.now()
    }
}

fn gateway(
    store: &Arc<dyn Store>,
    vendor: &Arc<Vendor>,
    clock: &Arc<AdjustableClock>,
    settings: Settings,
    client: Client,
) -> Gateway {
    let modules = Arc::new(Scripted(Arc::clone(vendor)));
    let clock: Arc<dyn Clock> = clock.clone();
    Gateway::delivering_through(Arc::clone(store), modules, clock, settings, client)
}

/// A callback from an address that has sent verified callbacks of the account.
pub(crate) async fn called_back(gateway: &Gateway, account: &str) -> CallbackAnswer {
    let account = account_id(account);
    let judged = gateway.judge_callback(&account, &incoming(), None).await;
    let from = [192, 0, 2, 1].into();
    gateway.handle_callback(&account, judged, from).await
}

pub(crate) fn heard(about: Subject, report: Option<Report>) -> CallbackReply {
    CallbackReply {
        proved: true,
        notices: vec![Notice {
            about,
            reference: None,
            report,
        }],
        status: 200,
        media_type: "text/plain".into(),
        body: "[accepted]".into(),
    }
}

pub(crate) fn incoming() -> CallbackRequest {
    CallbackRequest {
        verb: Verb::Post,
        path: String::new(),
        query: String::new(),
        headers: vec![],
        body: vec![],
    }
}

pub(crate) fn by_api(payment: &Payment) -> Start {
    Start {
        payment: payment.id,
        method: MethodId::Ideal,
        provider: None,
        starter: Starter::Api,
        seen: None,
        payer: Payer::default(),
    }
}

pub(crate) fn by_page(payment: &Payment, method: MethodId) -> Start {
    Start {
        starter: Starter::Page,
        method,
        ..by_api(payment)
    }
}

pub(crate) fn at(attempt: &Attempt) -> &str {
    attempt.account.as_str()
}
