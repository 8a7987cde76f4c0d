//! The operators' configuration after all checks. The server reads it from files.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::candidate::CanaryLimits;
use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::policy::RateLimit;
use kassette_domain::release::Release;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::RetrySchedule;
use kassette_http::{CertificateDer, Guard, HostPattern, Proxy};
use kassette_store::Retention;
use url::Url;

/// The gateway's settings. Replaced as a whole when a file changes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Origin of all URLs that the gateway issues, without a trailing slash.
    pub public_url: String,
    /// How long a payment can be paid after creation. Default 24 h.
    pub payment_life: Duration,
    /// How long an attempt can be paid. Default 60 min.
    pub attempt_life: Duration,
    /// Time limit of a start with all its fallbacks. Default 15 s.
    pub start_deadline: Duration,
    /// Time limit of one call to a provider module, waits included. Default 8 s, so that a fallback fits into
    /// the start's time limit.
    pub provider_deadline: Duration,
    /// Time limit of a methods listing. Default 100 ms.
    pub listing_deadline: Duration,
    /// Whether a method that a merchant's policy does not name is allowed in live. False, except under `dev`.
    pub live_default: bool,
    /// Whether loopback and plain HTTP are allowed for simulated accounts (dev).
    pub plain_loopback: bool,
    /// Rate limit per key, unless the merchant's policy sets another.
    pub rate_limit: RateLimit,
    /// Age from which health data is stale. Default 15 min.
    pub health_max_age: Duration,
    /// How often an account is probed while no payment provides health data about it. Default 1 min.
    pub health_probe_every: Duration,
    /// Times at which providers are queried about attempts.
    pub queries: QuerySchedule,
    pub webhooks: Webhooks,
    /// How long data that may be deleted is stored.
    pub retention: Retention,
    /// Percentage of listings that are written to the routing log, 0 to 100. Default 0.
    pub listing_sample_percent: u8,
    /// Whether calls to provider modules are written to the routing log, with their full content. Default
    /// false.
    pub record_conversations: bool,
    /// Whether an uploaded module must be on trial before it may serve. Default false.
    pub is_staging_required: bool,
    /// Address of the operators' alert service. `None` means that no alerts are sent.
    pub alerts_url: Option<Url>,
    /// Limits of canaries.
    pub trial_limits: CanaryLimits,
    /// The shop plugin release that shops are offered. `None` while none is published.
    pub release: Option<Release>,
    /// The operator's settings per method, for its module.
    pub methods: BTreeMap<MethodId, Vec<(String, String)>>,
    /// The provider accounts.
    pub accounts: BTreeMap<AccountId, Account>,
}

impl Settings {
    /// Default settings without accounts, for an origin without a trailing slash.
    pub fn new(public_url: impl Into<String>) -> Self {
        Self {
            public_url: public_url.into(),
            payment_life: Duration::from_secs(24 * 3600),
            attempt_life: Duration::from_secs(3600),
            start_deadline: Duration::from_secs(15),
            provider_deadline: Duration::from_secs(8),
            listing_deadline: Duration::from_millis(100),
            live_default: false,
            plain_loopback: false,
            rate_limit: RateLimit::default(),
            health_max_age: Duration::from_secs(15 * 60),
            health_probe_every: Duration::from_secs(60),
            queries: QuerySchedule::default(),
            webhooks: Webhooks::default(),
            retention: Retention::default(),
            listing_sample_percent: 0,
            record_conversations: false,
            is_staging_required: false,
            alerts_url: None,
            trial_limits: CanaryLimits::default(),
            release: None,
            methods: BTreeMap::new(),
            accounts: BTreeMap::new(),
        }
    }
}

/// Settings for the delivery of events.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// Pauses between the attempts of a delivery.
    pub schedule: RetrySchedule,
    /// Time limit of one attempt: name resolution, connection, request and response. Default 10 s.
    pub timeout: Duration,
    /// Maximum additional delay of an attempt by the circuit of an endpoint that keeps failing. Default 60 s,
    /// which is also the maximum.
    pub circuit_hold: Duration,
    /// How long an ended delivery stays in the log, counted from when it was queued. `None` means
    /// permanently.
    pub keep: Option<Duration>,
    /// Whether loopback addresses are allowed, also over plain HTTP (dev).
    pub allow_loopback: bool,
    /// Hosts that events of test payments may be sent to although their names are internal or resolve to
    /// private networks.
    pub test_hosts: Vec<TestHost>,
    /// Certificate authorities that are trusted for these hosts, in addition to the public ones.
    pub test_authorities: Vec<CertificateDer<'static>>,
    /// Whether to run only a quarter of the attempts at the same time, because the process may open few
    /// files.
    pub few_files: bool,
    /// The gateway's own public and admin origins, which are never destinations.
    pub own_origins: Vec<String>,
    /// Proxy for events and for requests to shops. Read only at the start.
    pub proxy: Option<Proxy>,
}

/// An internal host that events of test payments may be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestHost {
    pub host: HostPattern,
    /// Owners whose endpoints may be on this host.
    pub owners: Vec<KeyOwner>,
}

impl Webhooks {
    /// Internal hosts that events of an owner may be sent to. Empty for live payments.
    pub(crate) fn inner_hosts(
        &self,
        owner: KeyOwner,
        environment: Environment,
    ) -> Vec<HostPattern> {
        let allowed = self
            .test_hosts
            .iter()
            .filter(|host| environment == Environment::Test && host.owners.contains(&owner));
        allowed.map(|host| host.host.clone()).collect()
    }

    /// The check of destinations, which also filters the addresses that their names resolve to.
    pub const fn guard(&self) -> Guard {
        Guard {
            allow_loopback: self.allow_loopback,
        }
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            schedule: RetrySchedule::default(),
            timeout: Duration::from_secs(10),
            circuit_hold: Duration::from_secs(60),
            keep: None,
            allow_loopback: false,
            test_hosts: Vec::new(),
            test_authorities: Vec::new(),
            few_files: false,
            own_origins: Vec::new(),
            proxy: None,
        }
    }
}

/// Merchants whose payments an account serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merchants {
    All,
    Only(Vec<MerchantId>),
}

/// A configured provider account.
#[derive(Clone, Debug)]
pub struct Account {
    /// `provider_id` in the API.
    pub id: AccountId,
    /// Name of its provider module, such as `sandbox`.
    pub module: String,
    /// Name for payers and merchants.
    pub name: String,
    pub environment: Environment,
    /// Whether it is a simulator. `serve` refuses simulators in live.
    pub simulated: bool,
    /// Whether the configuration enables it. An operator's switch in the store can still disable it.
    pub enabled: bool,
    /// Merchants whose payments it serves.
    pub merchants: Merchants,
    /// Methods it is used for. Other methods of its module are not offered.
    pub methods: BTreeMap<MethodId, Terms>,
    /// Note that is shown next to the account's name.
    pub verification_note: Option<String>,
    pub verification_url: Option<String>,
    /// `[settings]` of the file, for the module.
    pub settings: Vec<(String, String)>,
    /// `[secrets]` of the file.
    pub secrets: Vec<AccountSecret>,
    /// Hosts that the module may send requests to: `api.example.com` or `*.example.com`, with a port if it is
    /// not 443.
    pub hosts: Vec<String>,
    /// Hosts that payers may be sent to.
    pub redirect_hosts: Vec<String>,
}

/// A secret of an account, with the hosts that it may be sent to.
#[derive(Clone, Debug)]
pub struct AccountSecret {
    /// Name by which the module refers to it.
    pub name: String,
    /// The value, followed by the previous one during a rotation.
    pub values: Vec<Secret>,
    /// Hosts that it may be sent to. Empty means all hosts of the account.
    pub hosts: Vec<String>,
}

/// Terms of an account for a method.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Minimum and maximum amount per currency, in minor units.
    pub limits: BTreeMap<Currency, (Option<Minor>, Option<Minor>)>,
    /// Variable part of the fee, in hundredths of a percent.
    pub fee_basis_points: Option<u32>,
    pub fee_fixed: BTreeMap<Currency, Minor>,
    /// The operator's priority. Higher values come first.
    pub priority: i32,
}
