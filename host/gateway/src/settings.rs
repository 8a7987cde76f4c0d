//! What operators configure, in checked form. The server reads it from files.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::candidate::CanaryLimits;
use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::policy::RateLimit;
use kassette_domain::release::Release;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::RetrySchedule;
use kassette_http::{CertificateDer, Guard, HostPattern};
use kassette_store::Retention;
use url::Url;

/// The gateway's settings; replaced as a whole when a file changes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Origin of every URL that is given out; no slash at the end.
    pub public_url: String,
    /// How long a payment can be paid after creation. Default 24 h.
    pub payment_life: Duration,
    /// How long an attempt can be paid. Default 60 min.
    pub attempt_life: Duration,
    /// How long a start may take with all its fallbacks. Default 15 s.
    pub start_deadline: Duration,
    /// How long one call to a provider's module may take, waits included. Default 8 s, so that a
    /// fallback fits into the start's deadline.
    pub provider_deadline: Duration,
    /// How long a methods listing may take. Default 100 ms.
    pub listing_deadline: Duration,
    /// What a method that a merchant's policy does not name means in live: false but under `dev`.
    pub live_default: bool,
    /// Whether loopback and plain http are allowed for simulated accounts (dev).
    pub plain_loopback: bool,
    /// Requests per key, where the merchant's policy says nothing.
    pub rate_limit: RateLimit,
    /// Health older than this makes an account stale. Default 15 min.
    pub health_max_age: Duration,
    /// How often an account that no payment has told anything about is probed. Default 1 min.
    pub health_probe_every: Duration,
    /// When vendors are asked where payments stand.
    pub queries: QuerySchedule,
    pub webhooks: Webhooks,
    /// How long is kept what need not be kept for ever.
    pub retention: Retention,
    /// Of a hundred listings so many are written into the routing log, 0 to 100. Default 0.
    pub listing_sample_percent: u8,
    /// Whether calls of provider modules are written into the routing log, with all that is said. Default: no.
    pub record_conversations: bool,
    /// Whether a module that is uploaded is put on trial before it may serve. Default: no.
    pub is_staging_required: bool,
    /// Where operators are told of what needs them at once; none: nowhere.
    pub alerts_url: Option<Url>,
    /// What a canary is allowed.
    pub trial_limits: CanaryLimits,
    /// The shop plugin's release that shops are told of; none while none is published.
    pub release: Option<Release>,
    /// The operator's settings per method, given to its module.
    pub methods: BTreeMap<MethodId, Vec<(String, String)>>,
    /// The provider accounts.
    pub accounts: BTreeMap<AccountId, Account>,
}

impl Settings {
    /// The defaults, without any account, for an origin without a slash at the end.
    pub fn of(public_url: impl Into<String>) -> Self {
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

/// How events are delivered.
#[derive(Clone, Debug)]
pub struct Webhooks {
    /// The pauses between a delivery's attempts.
    pub schedule: RetrySchedule,
    /// For one attempt: name, connection, request and answer. Default 10 s.
    pub timeout: Duration,
    /// How long beyond its time the circuit of an endpoint that keeps failing may hold an attempt
    /// back. Default 60 s, which is the most.
    pub circuit_hold: Duration,
    /// How long a delivery that is over stays in the log, from when it was queued; none: for ever.
    pub keep: Option<Duration>,
    /// Whether loopback is a destination, over plain http too (dev).
    pub allow_loopback: bool,
    /// Hosts that test events may go to though their names are inner ones or lead to private networks.
    pub test_hosts: Vec<HostPattern>,
    /// Authorities whose certificates are believed there, beside the public ones.
    pub test_authorities: Vec<CertificateDer<'static>>,
    /// Whether a quarter of the attempts alone are under way at once, because the process may open few
    /// files.
    pub few_files: bool,
    /// Our own public and admin origins: never a destination.
    pub own_origins: Vec<String>,
}

impl Webhooks {
    /// Judges destinations, and filters what their names resolve to.
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
        }
    }
}

/// Whose payments an account takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merchants {
    All,
    Only(Vec<MerchantId>),
}

/// A configured provider account.
#[derive(Clone, Debug)]
pub struct Account {
    /// The wire's `provider_id`.
    pub id: AccountId,
    /// The module that speaks to it: `sandbox`.
    pub module: String,
    /// Shown to payers and merchants.
    pub name: String,
    pub environment: Environment,
    /// Whether it is a simulator (refused in live under `serve`).
    pub simulated: bool,
    /// Whether the configuration has it on; an operator's switch in the store overrides.
    pub enabled: bool,
    /// Whose payments it takes.
    pub merchants: Merchants,
    /// Methods it is used for; others that its module could take are not offered.
    pub methods: BTreeMap<MethodId, Terms>,
    /// Shown beside the account's name.
    pub verification_note: Option<String>,
    /// A link beside the note.
    pub verification_url: Option<String>,
    /// `[settings]` of the file, for the module.
    pub settings: Vec<(String, String)>,
    /// `[secrets]` of the file.
    pub secrets: Vec<AccountSecret>,
    /// Hosts that the module may send requests to: `api.example.com`, `*.example.com`, with a port
    /// where it is not 443.
    pub hosts: Vec<String>,
    /// Hosts that payers may be sent to.
    pub redirect_hosts: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct AccountSecret {
    /// Name under which the module knows it.
    pub name: String,
    /// The value, and before it was rotated the old one.
    pub values: Vec<Secret>,
    /// Hosts that may see it; empty: all of the account's.
    pub hosts: Vec<String>,
}

/// On what terms an account takes a method.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Smallest and largest amount per currency.
    pub limits: BTreeMap<Currency, (Option<Minor>, Option<Minor>)>,
    /// What it charges: hundredths of a percent, plus a fixed part per currency.
    pub fee_basis_points: Option<u32>,
    /// The fixed part of the fee.
    pub fee_fixed: BTreeMap<Currency, Minor>,
    /// The operator's priority, higher first.
    pub priority: i32,
}
