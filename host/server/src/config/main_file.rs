//! `kassette.toml`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kassette_domain::id::{MerchantId, ResellerId};
use kassette_domain::key::KeyOwner;
use kassette_domain::lifecycle::QuerySchedule;
use kassette_domain::policy::RateLimit;
use kassette_domain::secret::Secret;
use kassette_domain::webhook::{ATTEMPTS, RetrySchedule};
use kassette_gateway::settings;
use kassette_http::{CertificateDer, HostPattern, Proxy, Resolver};
use kassette_runtime::SlotKey;
use serde::{Deserialize, Deserializer};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;
use url::Url;

use super::ConfigError;
use super::Profile;
use super::limits::Limits;
use super::rates::{Rates, guard};
use crate::proxies::Proxies;
use crate::telemetry::LogFormat;

/// Seconds per day.
const DAY: u64 = 24 * 3600;
/// Environment variable with the address of the database.
const STORE_URL: &str = "KASSETTE_STORE_URL";
/// Environment variable with the address of the database for its owner.
const STORE_OWNER_URL: &str = "KASSETTE_STORE_OWNER_URL";
/// Environment variable with the node's name.
const STORE_NODE: &str = "KASSETTE_NODE";
/// Maximum length of a node's name, in bytes.
const MOST_NODE_NAME: usize = 64;
/// Maximum finite retention, in days: 100 years.
const MOST_DAYS: u64 = 36_500;
/// Maximum drain, in seconds. Load balancers probe every few seconds.
const MOST_DRAIN: u64 = 300;

/// The main file. All settings except `public_url` have a default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MainFile {
    /// Origin of all URLs that the gateway publishes.
    pub(crate) public_url: Option<String>,
    /// Address of the listener for the public API and the pages.
    pub(crate) listen: SocketAddr,
    /// Address of the listener for operators.
    pub(crate) admin_listen: SocketAddr,
    /// Folder of the store.
    pub(crate) data_dir: PathBuf,
    /// Folder of the modules.
    pub(crate) plugin_dir: PathBuf,
    /// File with the master key: 32 bytes in base64, mode 0600. `KASSETTE_MASTER_KEY` takes precedence.
    pub(crate) master_key_file: Option<PathBuf>,
    /// Certificate chain of the public listener (PEM).
    pub(crate) tls_cert: Option<PathBuf>,
    /// Private key for `tls_cert`.
    pub(crate) tls_key: Option<PathBuf>,
    /// Certificate chain of the admin listener (PEM).
    pub(crate) admin_tls_cert: Option<PathBuf>,
    /// Private key for `admin_tls_cert`.
    pub(crate) admin_tls_key: Option<PathBuf>,
    /// Addresses and networks whose `X-Forwarded-For` is trusted.
    pub(crate) trusted_proxies: Proxies,
    /// Host names that the admin API accepts in addition to its own address.
    pub(crate) admin_hosts: Vec<String>,
    /// Authorities that may sign the certificates of providers' hosts, in addition to the public ones (PEM).
    pub(crate) provider_ca_file: Option<PathBuf>,
    /// Whether the sandbox's payer page is served under `/sandbox/`.
    pub(crate) sandbox: bool,
    /// URL that receives urgent alerts for operators.
    pub(crate) alerts_url: Option<String>,
    /// Seconds that a stopping server still serves requests while it reports that it is not ready.
    pub(crate) drain_seconds: u64,
    /// Rate limit per key.
    #[serde(deserialize_with = "rate_limit")]
    pub(crate) rate_limit: RateLimit,
    pub(crate) limits: Limits,
    pub(crate) payments: Payments,
    pub(crate) rates: Rates,
    pub(crate) webhooks: Webhooks,
    pub(crate) outgoing: Outgoing,
    pub(crate) store: Store,
    pub(crate) plugins: Plugins,
    /// Data that is deleted after some time.
    pub(crate) retention: Retention,
    pub(crate) log: Log,
}

/// Reads a rate and rejects unknown fields. `RateLimit` itself cannot: a merchant's policy contains the same
/// fields, and its reader checks its own names.
fn rate_limit<'de, D: Deserializer<'de>>(from: D) -> Result<RateLimit, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Rate {
        per_second: u32,
        burst: u32,
    }
    let Rate { per_second, burst } = Rate::deserialize(from)?;
    Ok(RateLimit { per_second, burst })
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Webhooks {
    /// Pauses between the eight attempts, in seconds. Each pause is varied by up to ten percent.
    retry_seconds: [u64; ATTEMPTS - 1],
    timeout_ms: u64,
    circuit_hold_seconds: u64,
    /// Hosts in the internal network that may receive events of test payments, with the owners of the endpoints.
    test_hosts: Vec<TestHost>,
    /// Authorities (PEM) that sign the certificates of those hosts.
    pub(crate) test_ca_file: Option<PathBuf>,
}

/// A host, and the merchants and resellers whose endpoints may be there.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "TestHostTable")]
struct TestHost(settings::TestHost);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TestHostTable {
    host: String,
    #[serde(default)]
    merchants: Vec<u64>,
    #[serde(default)]
    resellers: Vec<u64>,
}

impl TryFrom<TestHostTable> for TestHost {
    type Error = String;

    /// Accepts only a full host name: no address, no wildcard.
    fn try_from(table: TestHostTable) -> Result<Self, String> {
        let text = table.host;
        let host = text.parse::<HostPattern>().ok();
        let host = host.filter(|host| host.is_name() && !host.is_loopback());
        let host = host.ok_or_else(|| {
            format!("webhooks.test_hosts: {text:?} must be one host's name, such as \"staging.internal\" or \"staging.internal:8443\"")
        })?;
        let merchants = table.merchants.into_iter().map(MerchantId);
        let resellers = table.resellers.into_iter().map(ResellerId);
        let owners: Vec<KeyOwner> = merchants
            .map(KeyOwner::Merchant)
            .chain(resellers.map(KeyOwner::Reseller))
            .collect();
        if owners.is_empty() {
            return Err(format!(
                "webhooks.test_hosts: name the `merchants` or `resellers` that may use {text:?}"
            ));
        }
        Ok(Self(settings::TestHost { host, owners }))
    }
}

impl Default for Webhooks {
    fn default() -> Self {
        Self {
            retry_seconds: [5, 300, 1800, 7200, 18_000, 36_000, 36_000],
            timeout_ms: 10_000,
            circuit_hold_seconds: 60,
            test_hosts: Vec::new(),
            test_ca_file: None,
        }
    }
}

impl Webhooks {
    /// Settings for the gateway. `own_origins` stays empty here: the server's origins are known only after it
    /// listens.
    pub(super) fn settings(
        &self,
        retention: &Retention,
        outgoing: &Outgoing,
        allow_loopback: bool,
        test_authorities: Vec<CertificateDer<'static>>,
    ) -> settings::Webhooks {
        settings::Webhooks {
            schedule: RetrySchedule::new(self.retry_seconds.map(Duration::from_secs)),
            timeout: Duration::from_millis(self.timeout_ms),
            circuit_hold: Duration::from_secs(self.circuit_hold_seconds),
            keep: days(retention.delivery_days),
            allow_loopback,
            test_hosts: self.test_hosts.iter().map(|host| host.0.clone()).collect(),
            test_authorities,
            few_files: false,
            own_origins: Vec::new(),
            proxy: outgoing.proxy_to_merchants(),
        }
    }

    /// The first setting outside its range, with the range.
    fn problem(&self) -> Option<String> {
        /// One day. A merchant that misses an event for longer reads the payment instead.
        const MOST: u64 = 24 * 3600;
        let longest = self.retry_seconds.into_iter().max().unwrap_or_default();
        [
            ("retry_seconds", longest, 0, MOST),
            ("timeout_ms", self.timeout_ms, 100, 10_000),
            ("circuit_hold_seconds", self.circuit_hold_seconds, 0, 60),
        ]
        .into_iter()
        .find(|(_, value, least, most)| !(least..=most).contains(&value))
        .map(|(name, value, least, most)| {
            format!("webhooks.{name} = {value} must be between {least} and {most}")
        })
    }
}

/// Proxy for outgoing connections.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Outgoing {
    /// Address of the proxy. `None` for direct connections.
    pub(super) proxy: Option<String>,
    pub(super) resolve: Resolve,
    /// Whether the proxy may resolve host names that merchants have chosen. With `true`, the operator declares
    /// that the proxy rejects private addresses.
    pub(super) webhooks: bool,
}

/// Who resolves host names if there is a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Resolve {
    Gateway,
    Proxy,
}

impl Default for Outgoing {
    fn default() -> Self {
        Self {
            proxy: None,
            resolve: Resolve::Gateway,
            webhooks: false,
        }
    }
}

impl Outgoing {
    fn read(&self) -> Option<Result<Proxy, &'static str>> {
        let resolver = match self.resolve {
            Resolve::Gateway => Resolver::Gateway,
            Resolve::Proxy => Resolver::Proxy,
        };
        let proxy = self.proxy.as_deref();
        proxy.map(|proxy| Proxy::parse(proxy, resolver))
    }

    /// Proxy for connections to hosts that operators configured.
    pub(crate) fn proxy(&self) -> Option<Proxy> {
        self.read()?.ok()
    }

    /// Proxy for connections to hosts that merchants configured. Unless `webhooks` is set, the gateway resolves
    /// these names.
    pub(super) fn proxy_to_merchants(&self) -> Option<Proxy> {
        let proxy = self.proxy()?;
        Some(match self.webhooks {
            true => proxy,
            false => proxy.resolving(Resolver::Gateway),
        })
    }

    fn problem(&self) -> Option<String> {
        let (has_proxy, is_default) = (self.proxy.is_some(), *self == Self::default());
        if !has_proxy && !is_default {
            return Some("outgoing.resolve and outgoing.webhooks need outgoing.proxy".to_owned());
        }
        let why = self.read()?.err()?;
        Some(format!(
            "outgoing.proxy {why}; it must be as \"http://proxy.internal:3128\""
        ))
    }
}

/// Lifetimes, deadlines and the schedule of queries.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Payments {
    life_seconds: u64,
    attempt_life_seconds: u64,
    start_deadline_ms: u64,
    provider_deadline_ms: u64,
    listing_deadline_ms: u64,
    health_max_age_seconds: u64,
    health_probe_every_seconds: u64,
    query_minutes: Vec<u64>,
    query_before_end_minutes: u64,
    query_days: u64,
    silence_hours: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    /// Address of the database that replaces the store in `data_dir`.
    url: Option<Secret>,
    /// Address of the same database for its owner, used by `migrate` and `copy`.
    owner_url: Option<Secret>,
    /// Name of this node.
    node: Option<String>,
    /// Size of the page cache, in MiB.
    pub(crate) cache_mib: u64,
    /// Number of nodes that should serve the database. 0 means any number.
    expected_nodes: u32,
}

impl Store {
    /// Address of the database. `None` if the store is in `data_dir`. The environment variable takes precedence
    /// over the file, because the address can hold a password.
    pub(crate) fn url(&self) -> Option<Secret> {
        url_of_environment().or_else(|| self.url.clone())
    }

    /// Address of the database for its owner. `None` if the serving role is the owner. The environment variable
    /// takes precedence over the file.
    pub(crate) fn owner_url(&self) -> Option<Secret> {
        of_environment(STORE_OWNER_URL).or_else(|| self.owner_url.clone())
    }

    /// Number of nodes that should serve the database. `None` for any number.
    pub(crate) const fn expected_nodes(&self) -> Option<u32> {
        match self.expected_nodes {
            0 => None,
            expected => Some(expected),
        }
    }

    /// Name of this node, by default the machine's. The environment variable takes precedence over the file,
    /// because all nodes may share the file.
    pub(crate) fn node(&self) -> String {
        let set = std::env::var(STORE_NODE).ok();
        let set = set
            .filter(|name| !name.is_empty())
            .or_else(|| self.node.clone());
        set.unwrap_or_else(host_name)
    }

    /// Returns an error text if the node's name is invalid.
    fn problem(&self) -> Option<String> {
        let name = self.node();
        let allowed = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || ".-_".contains(letter)
        };
        let fits = (1..=MOST_NODE_NAME).contains(&name.len()) && name.chars().all(allowed);
        (!fits).then(|| {
            format!("store.node = {name:?} must be 1 to {MOST_NODE_NAME} of a-z, 0-9, \".\", \"-\" and \"_\"")
        })
    }
}

/// The machine's name without the characters that a node's name may not have; "node" if that is empty.
fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let allowed = |letter: &char| letter.is_ascii_alphanumeric() || ".-".contains(*letter);
    let name: String = name.chars().filter(allowed).take(MOST_NODE_NAME).collect();
    if name.is_empty() {
        "node".to_owned()
    } else {
        name
    }
}

/// Address of the database from the environment. `None` if the variable is unset or empty.
pub(crate) fn url_of_environment() -> Option<Secret> {
    of_environment(STORE_URL)
}

fn of_environment(name: &str) -> Option<Secret> {
    let value = std::env::var(name).ok()?;
    (!value.is_empty()).then(|| Secret::new(value))
}

/// Settings of the runtime for modules.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plugins {
    /// Memory for cached responses of method modules, in MiB. 0 disables the cache.
    pub(crate) remembered_mib: usize,
    /// Whether a module must pass the checks of `plugin check` before it serves for the first time.
    pub(crate) check_before_use: bool,
    /// Keys whose signatures modules need, by slot.
    pub(crate) keys: Vec<SlotKey>,
    /// Effect of an upload that does not specify one.
    pub(crate) uploads: Uploads,
    /// Whether calls to provider modules are recorded in the routing log.
    pub(super) record_conversations: bool,
    canary_min_payments: u64,
    canary_margin_percent: u16,
    canary_max_differing_percent: u8,
}

/// Whether an upload may serve immediately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Uploads {
    /// The upload serves immediately, unless the call specifies otherwise.
    Activate,
    /// The upload always starts as a trial, regardless of the call.
    ShadowFirst,
}

impl Plugins {
    pub(super) const fn trial_limits(&self) -> kassette_domain::candidate::CanaryLimits {
        kassette_domain::candidate::CanaryLimits {
            min_sample: self.canary_min_payments,
            margin_percent: self.canary_margin_percent,
            max_divergence_percent: match self.canary_max_differing_percent {
                100 => None,
                most => Some(most),
            },
        }
    }

    /// Recorded conversations contain personal data and are deleted only with the routing log. Returns an error
    /// text if the log is kept longer than personal data.
    fn outlives_personal_data(&self, retention: &Retention) -> Option<String> {
        let (personal, log) = (retention.personal_data_days, retention.routing_log_days);
        let outlives = personal > 0 && (log == 0 || log > personal);
        (self.record_conversations && outlives).then(|| {
            format!(
                "plugins.record_conversations keeps what is known of payers for retention.routing_log_days, which \
                 must then be between 1 and retention.personal_data_days = {personal}"
            )
        })
    }

    fn problems(&self) -> impl Iterator<Item = String> {
        let bounds = [
            ("remembered_mib", self.remembered_mib as u64, 0, 1024),
            (
                "canary_min_payments",
                self.canary_min_payments,
                1,
                1_000_000,
            ),
            (
                "canary_margin_percent",
                self.canary_margin_percent.into(),
                0,
                1_000,
            ),
            (
                "canary_max_differing_percent",
                self.canary_max_differing_percent.into(),
                0,
                100,
            ),
        ];
        let wrong = bounds
            .into_iter()
            .filter(|(_, value, least, most)| !(least..=most).contains(&value));
        wrong.map(|(name, _, least, most)| {
            format!("plugins.{name} must be between {least} and {most}")
        })
    }
}

/// Maximum size of the routing log, in MiB: 1 TiB.
const MOST_LOG_MIB: u64 = 1 << 20;

/// Retention periods in days (0: forever), and the size and the content of the routing log.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    decision_days: u64,
    personal_data_days: u64,
    delivery_days: u64,
    routing_log_days: u64,
    routing_log_mib: u64,
    pub(super) listing_sample_percent: u8,
}

/// `None`, that is forever, for 0 days.
fn days(days: u64) -> Option<Duration> {
    (days > 0).then(|| Duration::from_secs(days * DAY))
}

#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) format: LogFormat,
    /// Log filter in the syntax of `RUST_LOG`. That variable takes precedence.
    pub(crate) filter: String,
}

impl Default for MainFile {
    fn default() -> Self {
        Self {
            public_url: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            admin_listen: SocketAddr::from(([127, 0, 0, 1], 8081)),
            data_dir: "data".into(),
            plugin_dir: "plugins".into(),
            master_key_file: None,
            tls_cert: None,
            tls_key: None,
            admin_tls_cert: None,
            admin_tls_key: None,
            trusted_proxies: Proxies::default(),
            admin_hosts: Vec::new(),
            provider_ca_file: None,
            sandbox: true,
            alerts_url: None,
            drain_seconds: 0,
            rate_limit: RateLimit::default(),
            limits: Limits::default(),
            payments: Payments::default(),
            rates: Rates::default(),
            webhooks: Webhooks::default(),
            outgoing: Outgoing::default(),
            store: Store::default(),
            plugins: Plugins::default(),
            retention: Retention::default(),
            log: Log::default(),
        }
    }
}

impl Default for Payments {
    fn default() -> Self {
        Self {
            life_seconds: 24 * 3600,
            attempt_life_seconds: 3600,
            start_deadline_ms: 15_000,
            provider_deadline_ms: 8_000,
            listing_deadline_ms: 100,
            health_max_age_seconds: 15 * 60,
            health_probe_every_seconds: 60,
            query_minutes: vec![1, 3, 7, 15, 30],
            query_before_end_minutes: 2,
            query_days: 35,
            silence_hours: 24,
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self {
            url: None,
            owner_url: None,
            node: None,
            cache_mib: 8,
            expected_nodes: 0,
        }
    }
}

impl Default for Plugins {
    fn default() -> Self {
        // Room for some thousand responses. Questions contain the time in whole seconds, so they repeat within one
        // second.
        Self {
            remembered_mib: 4,
            check_before_use: true,
            keys: Vec::new(),
            uploads: Uploads::Activate,
            record_conversations: false,
            canary_min_payments: 20,
            canary_margin_percent: 0,
            canary_max_differing_percent: 100,
        }
    }
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            decision_days: 400,
            personal_data_days: 0,
            delivery_days: 90,
            routing_log_days: 30,
            routing_log_mib: 1024,
            // Listings ask all methods but move no money. Recorded listings would leave less room for payments.
            listing_sample_percent: 0,
        }
    }
}

impl Retention {
    pub(crate) fn rules(&self) -> kassette_store::Retention {
        kassette_store::Retention {
            decisions: days(self.decision_days),
            personal_data: days(self.personal_data_days),
            routing_log: days(self.routing_log_days),
            routing_log_bytes: (self.routing_log_mib > 0).then_some(self.routing_log_mib << 20),
        }
    }

    /// Describes settings outside their ranges. A payment can be paid for at most 90 days and is queried for some
    /// more days; events may be retried for up to a week. Pending payments and events are kept regardless of these
    /// settings.
    fn problems(&self) -> impl Iterator<Item = String> {
        [
            ("decision_days", self.decision_days, 7),
            ("personal_data_days", self.personal_data_days, 7),
            ("delivery_days", self.delivery_days, 7),
            ("routing_log_days", self.routing_log_days, 1),
        ]
        .into_iter()
        .filter(|(_, days, least)| *days != 0 && !(*least..=MOST_DAYS).contains(days))
        .map(|(name, days, least)| {
            format!(
                "retention.{name} = {days} must be 0 (for ever) or between {least} and {MOST_DAYS}"
            )
        })
        .chain((self.routing_log_mib > MOST_LOG_MIB).then(|| {
            format!("retention.routing_log_mib must be between 0 (as large as it gets) and {MOST_LOG_MIB}")
        }))
        .chain((self.listing_sample_percent > 100).then(|| {
            "retention.listing_sample_percent must be between 0 and 100".to_owned()
        }))
    }
}

impl Default for Log {
    fn default() -> Self {
        Self {
            format: LogFormat::Json,
            filter: "info".into(),
        }
    }
}

impl Log {
    /// Returns an error text if the filter cannot be parsed or sets no level for everything. A misspelled level
    /// parses as the name of a module, and the server would log nothing.
    fn problem(&self) -> Option<String> {
        let filter = &self.filter;
        let unread = EnvFilter::builder().parse(filter).is_err();
        let is_level = |word: &str| word.trim().parse::<LevelFilter>().is_ok();
        if !unread && filter.split(',').any(is_level) {
            return None;
        }
        Some(format!(
            "log.filter = {filter:?} must name a level for everything (error, warn, info, debug, trace or off), as \"info\" or \"info,kassette_gateway=debug\""
        ))
    }
}

impl Payments {
    pub(crate) const fn life(&self) -> Duration {
        Duration::from_secs(self.life_seconds)
    }

    pub(crate) const fn attempt_life(&self) -> Duration {
        Duration::from_secs(self.attempt_life_seconds)
    }

    pub(crate) const fn start_deadline(&self) -> Duration {
        Duration::from_millis(self.start_deadline_ms)
    }

    pub(crate) const fn provider_deadline(&self) -> Duration {
        Duration::from_millis(self.provider_deadline_ms)
    }

    pub(crate) const fn listing_deadline(&self) -> Duration {
        Duration::from_millis(self.listing_deadline_ms)
    }

    pub(crate) const fn health_max_age(&self) -> Duration {
        Duration::from_secs(self.health_max_age_seconds)
    }

    pub(crate) const fn health_probe_every(&self) -> Duration {
        Duration::from_secs(self.health_probe_every_seconds)
    }

    /// Schedule of status queries to providers.
    pub(crate) fn queries(&self) -> QuerySchedule {
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        QuerySchedule {
            first: self.query_minutes.iter().copied().map(minutes).collect(),
            before_end: minutes(self.query_before_end_minutes),
            days: u8::try_from(self.query_days).unwrap_or(QuerySchedule::DAYS),
            silence: minutes(self.silence_hours * 60),
        }
    }

    /// Checks `query_minutes`: a few ascending times within one day.
    fn query_problem(&self) -> Option<String> {
        const DAY: u64 = 24 * 60;
        let minutes = &self.query_minutes;
        let fits = (1..=QuerySchedule::FIRST).contains(&minutes.len())
            && minutes.windows(2).all(|two| two[0] < two[1])
            && minutes.iter().all(|minute| (1..=DAY).contains(minute));
        (!fits).then(|| {
            format!(
                "payments.query_minutes must be 1 to {} whole minutes, each later than the one before, \
                 between 1 and {DAY}",
                QuerySchedule::FIRST
            )
        })
    }

    /// Describes settings outside their ranges.
    fn problems(&self) -> impl Iterator<Item = String> {
        [
            (
                "query_before_end_minutes",
                self.query_before_end_minutes,
                0,
                24 * 60,
            ),
            (
                "query_days",
                self.query_days,
                1,
                u64::from(QuerySchedule::DAYS),
            ),
            ("silence_hours", self.silence_hours, 1, 30 * 24),
            ("life_seconds", self.life_seconds, 60, 90 * 24 * 3600),
            (
                "attempt_life_seconds",
                self.attempt_life_seconds,
                60,
                90 * 24 * 3600,
            ),
            ("start_deadline_ms", self.start_deadline_ms, 1_000, 60_000),
            (
                "provider_deadline_ms",
                self.provider_deadline_ms,
                500,
                60_000,
            ),
            ("listing_deadline_ms", self.listing_deadline_ms, 10, 5_000),
            (
                "health_max_age_seconds",
                self.health_max_age_seconds,
                10,
                24 * 3600,
            ),
            (
                "health_probe_every_seconds",
                self.health_probe_every_seconds,
                1,
                3600,
            ),
        ]
        .into_iter()
        .filter(|(_, value, least, most)| !(least..=most).contains(&value))
        .map(|(name, value, least, most)| {
            format!("payments.{name} = {value} must be between {least} and {most}")
        })
    }
}

impl MainFile {
    /// URL for alerts. `None` if it is not set or the guard rejects it.
    pub(super) fn alerts_url(&self, profile: Profile) -> Option<Url> {
        guard(profile).judge(self.alerts_url.as_deref()?).ok()
    }

    /// Returns the reason why the guard rejects the URL. `None` if the URL is accepted or not set.
    pub(super) fn alerts_problem(&self, profile: Profile) -> Option<String> {
        let why = guard(profile).judge(self.alerts_url.as_deref()?).err()?;
        Some(format!("alerts_url: {why}"))
    }

    /// The settings that name a file of authorities, each with its file.
    pub(super) fn authority_files(&self) -> [(&'static str, Option<&Path>); 2] {
        let hooks = self.webhooks.test_ca_file.as_deref();
        let providers = self.provider_ca_file.as_deref();
        [
            ("webhooks.test_ca_file", hooks),
            ("provider_ca_file", providers),
        ]
    }

    /// Problems that the types cannot express.
    pub(super) fn problems(&self, path: &Path) -> Vec<ConfigError> {
        let rate = self.rate_limit;
        let mut problems: Vec<String> = self.payments.problems().collect();
        problems.extend(self.payments.query_problem());
        problems.extend(self.webhooks.problem());
        problems.extend(self.outgoing.problem());
        problems.extend(self.store.problem());
        problems.extend(self.limits.problem());
        problems.extend(self.retention.problems());
        if rate.per_second == 0 || rate.burst == 0 {
            problems.push("rate_limit: per_second and burst must be at least 1".into());
        }
        if self.drain_seconds > MOST_DRAIN {
            problems.push(format!("drain_seconds must be between 0 and {MOST_DRAIN}"));
        }
        if !(8..=65_536).contains(&self.store.cache_mib) {
            problems.push("store.cache_mib must be between 8 and 65536".into());
        }
        problems.extend(self.plugins.problems());
        problems.extend(self.plugins.outlives_personal_data(&self.retention));
        problems.extend(self.log.problem());
        if self.tls_cert.is_some() != self.tls_key.is_some()
            || self.admin_tls_cert.is_some() != self.admin_tls_key.is_some()
        {
            problems.push("a TLS certificate and its key must be set together: tls_cert and tls_key, admin_tls_cert and admin_tls_key".into());
        }
        problems
            .into_iter()
            .map(|why| ConfigError::new(path, why))
            .collect()
    }

    /// The origin that `serve` needs: https, without a path.
    pub(crate) fn public_origin(&self) -> Result<String, String> {
        let text = self.public_url.as_deref().ok_or("public_url is missing: set it to the https origin that customers see, such as \"https://pay.example.com\"")?;
        let bad = || {
            format!(
                "public_url = {text:?} must be an https origin without a path, such as \"https://pay.example.com\""
            )
        };
        let url = Url::parse(text).map_err(|_| bad())?;
        let plain = url.scheme() == "https"
            && url.host_str().is_some()
            && url.path() == "/"
            && url.query().is_none()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none();
        if plain {
            Ok(url.origin().ascii_serialization())
        } else {
            Err(bad())
        }
    }
}
