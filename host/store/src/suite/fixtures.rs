//! Payments, keys and reports for tests.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::attempt::Choice;
use kassette_domain::audit::Audited;
use kassette_domain::candidate::Counts;
use kassette_domain::connect::{ConnectCode, SiteUrl};
use kassette_domain::conversation::{
    self, CallOutcome, Conversation, HttpAnswer, HttpRequest, ProviderCall,
};
use kassette_domain::extras::{Description, Extras, Metadata, Notes};
use kassette_domain::id::{
    AccountId, AttemptId, ConnectCodeId, Digest, EndpointId, KeyId, MerchantId, OperatorId,
    PaymentId, ResellerId, Slot,
};
use kassette_domain::key::{ApiKey, Environment, KeyOwner, Scope, TokenHash};
use kassette_domain::lifecycle::{Change, PaymentAggregate, StartResult, Step, Via};
use kassette_domain::merchant::Merchant;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor, Money};
use kassette_domain::operator::{Operator, Role};
use kassette_domain::order::{Email, IdempotencyKey, OrderId};
use kassette_domain::payment::{
    CheckoutMode, Judgement, NewPayment, Origin, Payment, Purpose, Request, RoutingDecision,
};
use kassette_domain::policy::Policy;
use kassette_domain::provider::{
    self, AttemptFacts, Open, Particulars, Payer, PayerAction, ProviderSettlement, ProviderStatus,
    Report, Started, Verb,
};
use kassette_domain::routing::{
    AccountCandidate, Availability, Context, Health, RoutingRecord, Verdict,
};
use kassette_domain::secret::Secret;
use kassette_domain::signing::{NONCE_LIFE, Nonce};
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_domain::webhook::{Endpoint, EndpointCreator, EndpointSecrets, EventFilter};

use crate::{
    About, ConnectExchange, Created, EndpointCreated, Listed, NewMerchant, Page, Paging,
    Reservation, Stepped, Store, Trial,
};

/// Start time of all tests.
pub const NOW: Time = Time::from_secs(1_800_000_000);
/// E-mail address of the payer.
pub const EMAIL: &str = "payer.of.the.suite@example.org";

pub fn later(seconds: u64) -> Time {
    NOW.after(Duration::from_secs(seconds))
}

/// Sixteen bytes derived from a name.
pub fn id_of(name: &str) -> [u8; 16] {
    let mut id = [0; 16];
    id.copy_from_slice(&Digest::hash(name.as_bytes()).0[..16]);
    id
}

pub fn account(name: &str) -> AccountId {
    AccountId::parse(name).unwrap()
}

/// A request of merchant 1 under the idempotency key `request-<name>`.
pub fn request(name: &str) -> Request {
    Request {
        merchant: MerchantId(1),
        origin: Origin::Merchant {
            idempotency_key: IdempotencyKey::parse(&format!("request-{name}")).unwrap(),
        },
        environment: Environment::Test,
        order_id: OrderId::parse(&format!("order {name}")).unwrap(),
        due: Money {
            amount: Minor(4990),
            currency: Currency::EUR,
        },
        mode: CheckoutMode::Hosted,
        method: None,
        email: Some(Email::parse(EMAIL).unwrap()),
        return_url: Some(ReturnUrl::parse("https://shop.example/done", false).unwrap()),
        extras: Extras::default(),
    }
}

/// Notes with metadata and a description.
pub fn notes() -> Notes {
    let mut metadata = Metadata::default();
    metadata.add("cart".into(), "c-1042".into()).unwrap();
    Notes {
        metadata,
        description: Some(Description::parse("Two tickets").unwrap()),
    }
}

/// A payment whose id and token are derived from the name.
pub fn new_payment(name: &str) -> NewPayment {
    of_request(name, request(name))
}

pub fn of_request(name: &str, request: Request) -> NewPayment {
    NewPayment {
        id: PaymentId::from_bytes(id_of(name)),
        request,
        usd: Minor(5389),
        rate: kassette_domain::money::Rate::ONE,
        rate_table: Some(kassette_domain::rates::TableRef {
            source: kassette_domain::rates::RateSource::Ecb,
            date: NOW,
        }),
        token: Secret::new(token(name)),
        expires_at: later(24 * 3600),
        risk_review: false,
        fee_refundable: false,
        decision: None,
    }
}

/// The checkout token of a payment.
pub fn token(name: &str) -> String {
    format!("checkout-token-of-{name}")
}

pub fn decision(name: &str) -> RoutingDecision {
    RoutingDecision {
        at: NOW,
        slot: Slot::parse("method.ideal").unwrap(),
        digest: Digest::hash(b"module"),
        purpose: Purpose::Start,
        chosen: Some(account(name)),
        explanation: format!("{name} is cheapest"),
        verdicts: vec![Judgement {
            account: account(name),
            eligible: true,
            reason: "cheapest".into(),
        }],
    }
}

/// An attempt at an account.
pub fn choice(name: &str, at: &str) -> Choice {
    Choice {
        attempt: AttemptId::from_bytes(id_of(name)),
        return_token: Secret::new(format!("return-token-of-{name}")),
        account: account(at),
        slot: Slot::parse("provider.sandbox").unwrap(),
        digest: Digest::hash(b"module"),
        method: MethodId::Ideal,
        expires_at: later(3600),
        busy_until: later(30),
        payer: Payer {
            email: Some(Secret::new(EMAIL)),
            ip: Some("203.0.113.77".into()),
            language: Some("nl".into()),
            country: Some("NL".into()),
        },
        decision: Some(decision(at)),
    }
}

pub fn open(name: &str, at: &str) -> Step {
    Step::Open(Box::new(choice(name, at)))
}

pub fn attempt_id(name: &str) -> AttemptId {
    AttemptId::from_bytes(id_of(name))
}

/// The provider created the attempt's payment under a reference.
pub fn started(name: &str, reference: &str) -> Step {
    Step::Started {
        held: None,
        attempt: attempt_id(name),
        result: StartResult::Open {
            reference: Some(reference.into()),
            action: PayerAction::Redirect(format!("https://pay.example/secret-link-of-{name}")),
            until: None,
        },
        next: None,
    }
}

pub fn report(reference: &str, status: ProviderStatus) -> Report {
    let paid = status == ProviderStatus::Completed;
    Report {
        reference: reference.into(),
        status,
        settlement: if paid {
            ProviderSettlement::Confirmed
        } else {
            ProviderSettlement::Pending
        },
        received: Minor(if paid { 4990 } else { 0 }),
        currency: "EUR".into(),
        returned: Minor(0),
        detail: "as the vendor says".into(),
        particulars: Particulars::default(),
    }
}

pub fn news(name: &str, report: Report) -> Step {
    Step::Report {
        attempt: attempt_id(name),
        report,
        via: Via::Callback,
        asked: None,
    }
}

pub fn audited(action: &str) -> Audited {
    Audited {
        operator: "root".into(),
        operator_id: None,
        actor: "ann".into(),
        reason: Some("because".into()),
        action: action.into(),
        object: "something/1".into(),
        before: None,
        after: Some("{}".into()),
    }
}

pub fn merchant(live_approved: bool) -> NewMerchant {
    NewMerchant {
        merchant: Merchant {
            id: MerchantId(0),
            name: "Shop".into(),
            live_approved,
            rates: BTreeMap::new(),
            policy: Policy::default(),
            brand: Default::default(),
            domains: vec![],
            created_at: NOW,
        },
    }
}

/// Creates a merchant. The first is the one of the suite's payments.
pub async fn shop(store: &Arc<dyn Store>) -> MerchantId {
    let made = store
        .create_merchant(merchant(true), audited("merchant.create"), NOW)
        .await;
    made.unwrap().id
}

/// An endpoint of merchant 1 for every event of the test environment.
pub fn endpoint(name: &str, created_at: Time) -> Endpoint {
    Endpoint {
        id: EndpointId::from_bytes(id_of(name)),
        owner: KeyOwner::Merchant(MerchantId(1)),
        environment: Environment::Test,
        url: format!("https://{name}.example/webhooks"),
        event_types: EventFilter::All,
        enabled: true,
        created_at,
        created_by: EndpointCreator::Key(KeyId::from_bytes(id_of(name))),
        off: Vec::new(),
    }
}

/// The secrets of an endpoint.
pub fn secrets(name: &str) -> EndpointSecrets {
    EndpointSecrets::new(Secret::new(format!("whsec_{name}")))
}

/// Creates an endpoint with the secret of `a`.
pub async fn listen(store: &Arc<dyn Store>, endpoint: Endpoint) -> Endpoint {
    let created = store
        .create_endpoint(endpoint, secrets("a"), audited("endpoint.create"), NOW)
        .await;
    match created.unwrap() {
        EndpointCreated::Done(endpoint) => endpoint,
        other => panic!("{other:?}"),
    }
}

/// A connect code of merchant 1 for a site.
pub fn connect_code(name: &str, site: &str, environment: Environment) -> ConnectCode {
    ConnectCode {
        id: ConnectCodeId::from_bytes(id_of(name)),
        hash: TokenHash::hash(name),
        merchant: MerchantId(1),
        environment,
        origin: SiteUrl::parse(site, false).unwrap().origin().clone(),
        scopes: Scope::MERCHANT.to_vec(),
        created_at: NOW,
        expires_at: NOW.after(ConnectCode::LIFE),
        wrong: 0,
        fetches: 0,
        redeemed_at: None,
    }
}

/// Everything that redeeming a code creates, with names derived from `made`.
pub fn exchange_of(code: &ConnectCode, made: &str) -> ConnectExchange {
    ConnectExchange {
        code: code.hash,
        key: api_key(made, KeyOwner::Merchant(code.merchant), code.environment),
        endpoint: Endpoint {
            environment: code.environment,
            ..endpoint(made, NOW)
        },
        endpoint_secrets: secrets(made),
        domain: "shop.example".into(),
    }
}

pub fn api_key(name: &str, owner: KeyOwner, environment: Environment) -> ApiKey {
    ApiKey {
        id: KeyId::from_bytes(id_of(name)),
        hash: TokenHash::hash(name),
        owner,
        environment,
        scopes: Scope::MERCHANT.to_vec(),
        hint: "abcd".into(),
        created_at: NOW,
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    }
}

pub fn operator(name: &str, created_at: Time) -> Operator {
    Operator {
        id: OperatorId::from_bytes(id_of(name)),
        name: name.into(),
        role: Role::Operator,
        hash: TokenHash::hash(name),
        created_at,
        expires_at: None,
    }
}

/// Creates a payment of the suite at a time.
pub async fn create(store: &Arc<dyn Store>, name: &str, now: Time) -> Payment {
    match store.create(new_payment(name), None, now).await.unwrap() {
        Created::New(payment) => payment,
        other => panic!("{other:?}"),
    }
}

/// Executes a step of a payment, which must succeed.
pub async fn done(
    store: &Arc<dyn Store>,
    about: About,
    step: Step,
    now: Time,
) -> (PaymentAggregate, Change) {
    match store.step(about, step, None, now).await.unwrap() {
        Stepped::Done {
            aggregate, change, ..
        } => (aggregate, *change),
        other => panic!("{other:?}"),
    }
}

pub fn payment_of(name: &str) -> About {
    About::Payment(PaymentId::from_bytes(id_of(name)))
}

/// A payment with one attempt at `sandbox-test`, which the provider knows as `vendor-<name>`.
pub async fn pay(store: &Arc<dyn Store>, name: &str) -> PaymentAggregate {
    create(store, name, NOW).await;
    let attempt = format!("attempt of {name}");
    done(store, payment_of(name), open(&attempt, "sandbox-test"), NOW).await;
    let step = started(&attempt, &format!("vendor-{name}"));
    done(store, payment_of(name), step, NOW).await.0
}

pub fn first(limit: usize) -> Paging {
    Paging {
        limit,
        cursor: None,
    }
}

pub fn page<T: std::fmt::Debug>(listed: Listed<T>) -> Page<T> {
    match listed {
        Listed::Page(page) => page,
        Listed::BadCursor => panic!("the cursor was refused"),
    }
}

/// All readable data about a payment and about all payments together.
pub async fn everything(store: &Arc<dyn Store>, name: &str) -> String {
    let id = PaymentId::from_bytes(id_of(name));
    let aggregate = store.aggregate(About::Payment(id)).await.unwrap();
    let history = store.history(id).await.unwrap();
    let due = store.next_due().await.unwrap();
    let accounts = store.accounts_in_use().await.unwrap();
    // Without the cursors, which are sealed again each time.
    let payments = store.payments(Default::default(), first(100)).await;
    let payments = page(payments.unwrap()).items;
    let work = page(store.work(false, first(100)).await.unwrap()).items;
    let audit = page(store.audit_log(first(100)).await.unwrap()).items;
    let secrets: Vec<_> = aggregate
        .iter()
        .flat_map(|aggregate| &aggregate.attempts)
        .map(|attempt| attempt.return_token.expose().to_owned())
        .collect();
    format!(
        "{aggregate:?} {secrets:?} {history:?} {due:?} {accounts:?} {payments:?} {work:?} {audit:?}"
    )
}

/// A decision of a method's module among three accounts, derived from its number.
pub fn routing_record(method: MethodId, number: u64) -> RoutingRecord {
    let candidate = |(name, fee): (&str, u64)| AccountCandidate {
        id: account(name),
        minimum: Some(Minor(100)),
        maximum: Some(Minor(1_000_000)),
        fee: Some(Minor(fee + number % 7)),
        priority: 10,
        health: Health {
            status: Availability::Operational,
            success: Some(990),
            latency: Some(180 + u32::try_from(number % 50).unwrap()),
            samples: 400 + u32::try_from(number % 100).unwrap(),
        },
    };
    let names = [("mollie-live", 29), ("adyen-live", 35), ("stripe-live", 41)];
    let verdict = |(name, _)| Verdict {
        id: account(name),
        outcome: Ok(format!("{name} is next by fee")),
    };
    let now = NOW.after(Duration::from_millis(number));
    RoutingRecord {
        at: now,
        merchant: MerchantId(1 + number % 20),
        method,
        digest: Digest::hash(b"module"),
        purpose: Purpose::Start,
        payment: Some(PaymentId::from_bytes(id_of(&number.to_string()))),
        attempt: Some(attempt_id(&number.to_string())),
        context: Context {
            amount: Some(Minor(1000 + number % 9000)),
            currency: Currency::EUR,
            usd: Some(Minor(1080 + number % 9000)),
            environment: Environment::Live,
            email_known: number.is_multiple_of(3),
            country: Some("NL".into()),
            now: now.whole_second(),
            settings: vec![
                ("prefer".into(), "lowest-fee".into()),
                ("spread".into(), "mollie-live=60,adyen-live=40".into()),
            ],
            candidates: names.map(candidate).into(),
        },
        answer: Some(Ok(names.map(verdict).into())),
        chosen: Some(account("mollie-live")),
    }
}

/// A recorded start at a provider's slot.
pub fn conversation(slot: &str, number: u64) -> Conversation {
    let slot = Slot::parse(slot).unwrap();
    let url = "https://api.vendor.example/v1/payments".to_owned();
    let body = format!("{{\"number\":{number}}}").into_bytes();
    Conversation {
        digest: Digest::hash(b"module"),
        payment: Some(PaymentId::from_bytes(id_of(&number.to_string()))),
        account: provider::AccountFacts {
            id: account("vendor-live"),
            environment: Environment::Live,
            now: NOW.after(Duration::from_millis(number)),
            callback_url: "https://pay.example/callbacks/vendor-live".into(),
            settings: vec![("merchant".into(), "shop".into())],
        },
        payer_hosts: vec!["pay.vendor.example".into()],
        plain_loopback: false,
        call: ProviderCall::Start(AttemptFacts {
            id: attempt_id(&number.to_string()),
            method: MethodId::Ideal,
            due: Money {
                amount: Minor(1000 + number),
                currency: Currency::EUR,
            },
            order: format!("order-{number}"),
            merchant: "Shop".into(),
            return_url: "https://pay.example/return/x".into(),
            cancel_url: "https://pay.example/return/x?cancel=1".into(),
            expires: NOW.after(Duration::from_secs(3600)),
            payer: Payer {
                email: Some(Secret::new(EMAIL)),
                ..Payer::default()
            },
            answers: vec![("bank".into(), Secret::new("ing"))],
        }),
        exchanges: vec![
            conversation::HostCall::Secret {
                asked: Digest::hash(slot.as_str().as_bytes()),
                answer: Some(vec![1]),
            },
            conversation::HostCall::Http {
                request: HttpRequest {
                    verb: Verb::Post,
                    url,
                    headers: vec![("content-type".into(), "application/json".into())],
                    body: body.clone(),
                    secrets: vec!["bearer api-key".into()],
                },
                answer: Ok(HttpAnswer {
                    status: 201,
                    headers: vec![],
                    body,
                }),
            },
        ],
        outcome: CallOutcome::Start(Ok(Started::Open(Open {
            reference: format!("pay_{number}"),
            action: PayerAction::Redirect("https://pay.vendor.example/1".into()),
            until: None,
        }))),
        slot,
    }
}

/// A trial of one version.
pub fn trial(slot: &str, since: Time) -> Trial {
    Trial {
        slot: Slot::parse(slot).unwrap(),
        digest: Digest::hash(b"candidate"),
        since,
    }
}

/// Counts with a different value for each figure, multiplied by `times`.
pub fn counts(times: u64) -> Counts {
    Counts::of_figures([1, 2, 3, 4, 5, 6, 7, 8, 9, 10].map(|figure| figure * times))
}

/// A nonce of reseller 1, in use for 601 seconds.
pub fn nonce_of(name: &str, now: Time) -> Reservation {
    Reservation {
        reseller: ResellerId(1),
        nonce: Nonce::parse(&format!("{name:0>16}")).unwrap(),
        until: now.after(NONCE_LIFE),
        at_most: 10_000,
    }
}
