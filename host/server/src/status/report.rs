//! Evaluates each part of the gateway.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::money::{Currency, Margin};
use kassette_domain::rates::RateSource;
use kassette_domain::routing::Availability;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_runtime::SlotState;
use kassette_store::{Fault, Listed, NodeStatus, Paging, Vitals};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::alarms::Observed;
use super::certificate::Certificate;
use super::facts::{Facts, Noted};
use super::file::{StatusFile, WRITE_EVERY};
use super::{Finding, Part, Report, State};

/// Maximum time to wait for an answer of the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(2);
/// Age of a node's last heartbeat above which it counts as lapsed; nodes send two per second.
const LAPSED: Duration = Duration::from_millis(1500);
/// Age of the last backup, or of the server if there was none, that needs attention: a daily backup was missed.
const BACKUP_AGE: Duration = Duration::from_secs(26 * 3600);
/// Age at which exchange rates need attention.
const RATES_AGE: Duration = Duration::from_secs(7 * 24 * 3600);
/// Multiple of the reserve below which free disk space needs attention.
const RESERVES: u64 = 4;
/// Maximum number of work items, and of merchants, that are read.
const MOST: usize = 1000;
const BATCH: usize = 100;

/// Creates reports.
pub(crate) struct Reporter {
    gateway: Gateway,
    facts: Arc<Facts>,
    version: String,
    started_at: Time,
}

impl Reporter {
    /// A reporter for a server that starts now.
    pub(crate) fn new(gateway: Gateway, facts: Arc<Facts>, version: String) -> Self {
        let started_at = gateway.clock().now();
        Self {
            gateway,
            facts,
            version,
            started_at,
        }
    }

    /// Evaluates all parts. A part that cannot be evaluated explains why.
    pub(crate) async fn report(&self) -> Report {
        let (noted, now) = (self.facts.noted(), self.gateway.clock().now());
        let vitals = answered(self.gateway.store().vitals()).await;
        let started = self.started_at.rfc3339();
        let version = format!("Kassette {}, since {started}", self.version);
        let mut parts = vec![
            Part::new("version", State::Ok, None, version),
            self.store().await,
            self.nodes(&noted).await,
            disk(&vitals),
            self.backups(&vitals, now),
            self.clock(&vitals, now).await,
            configuration(&noted),
            certificates(&noted, now),
            self.rates(&noted, now).await,
            self.accounts(now).await,
            self.modules(),
            self.webhooks().await,
            self.work(now).await,
            self.reviews(now).await,
        ];
        let alarms = Observed {
            parts: &parts,
            vitals: vitals.as_ref().ok(),
            noted: &noted,
            live: self.live_accounts().await,
            rates: self
                .gateway
                .rates()
                .values()
                .map(|table| table.reference().date)
                .collect(),
            started_at: self.started_at,
            now,
        };
        let alarms = alarms.part();
        parts.push(alarms);
        Report::new(parts)
    }

    /// Writes the report into a data directory at intervals until `ending` is cancelled.
    pub(crate) async fn write_file_until(
        self: Arc<Self>,
        data_dir: std::path::PathBuf,
        ending: CancellationToken,
    ) {
        let mut ticks = tokio::time::interval(WRITE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut failed = false;
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            let (report, off) = (self.report().await, self.switched_off().await);
            // The reader compares the file's age with the machine's clock, whereas `dev` can move the
            // gateway's.
            let now = kassette_gateway::clock::Clock::now(&kassette_gateway::clock::SystemClock);
            let (file, folder) = (
                StatusFile::new(now.rfc3339(), report, off),
                data_dir.clone(),
            );
            let written = tokio::task::spawn_blocking(move || file.write(&folder)).await;
            let error = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(error) = error.as_ref().filter(|_| !failed) {
                tracing::warn!("status.json was not written: {error}");
            }
            failed = error.is_some();
        }
    }

    /// Nodes that ended within a day without shutting down, with the time when each was last seen.
    pub(crate) fn missing_nodes(&self, present: &[NodeStatus]) -> Vec<(String, Time)> {
        self.facts.noted().missing(present)
    }

    async fn switched_off(&self) -> Vec<String> {
        let Ok(switches) = self.gateway.switches().await else {
            return Vec::new();
        };
        let settings = self.gateway.settings();
        let off = settings.accounts.keys().filter(|id| switches.is_off(id));
        off.map(ToString::to_string).collect()
    }

    /// Health of the enabled live accounts.
    async fn live_accounts(&self) -> Vec<Availability> {
        let off = self.switched_off().await;
        let settings = self.gateway.settings();
        let live = settings.accounts.values().filter(|account| {
            let is_on = account.enabled && !off.iter().any(|id| id == account.id.as_str());
            account.environment == Environment::Live && is_on
        });
        live.map(|account| self.gateway.account_health(&account.id).health.status)
            .collect()
    }

    async fn store(&self) -> Part {
        match answered(self.gateway.store().probe()).await {
            Ok(()) => Part::new("store", State::Ok, None, "the store takes writes"),
            Err(why) => Part::new(
                "store",
                State::Failing,
                None,
                format!("the store takes no writes: {why}"),
            ),
        }
    }

    async fn nodes(&self, noted: &Noted) -> Part {
        let nodes = match answered(self.gateway.store().nodes()).await {
            Ok(nodes) => nodes,
            Err(why) => return unknown("nodes", &why),
        };
        let now = self.gateway.clock().now();
        let mut findings = Vec::new();
        let live = nodes.iter().filter(|node| node.beat_age <= LAPSED).count();
        if let Some(expected) = noted.expected_nodes
            && live < usize::try_from(expected).unwrap_or(usize::MAX)
        {
            let why = format!("{live} of {expected} expected nodes serve");
            findings.push(Finding::new(State::Attention, None, why));
        }
        self.facts.note_nodes(&nodes, now);
        for (name, since) in self.facts.noted().missing(&nodes) {
            let why = format!(
                "the node {name} ended without a word, last seen at {}",
                since.rfc3339()
            );
            findings.push(Finding::new(State::Attention, Some(since), why));
        }
        let own = nodes.iter().find(|node| node.is_self);
        for node in &nodes {
            if node.beat_age > LAPSED {
                let since =
                    Time::from_millis(now.as_millis().saturating_sub(
                        u64::try_from(node.beat_age.as_millis()).unwrap_or(u64::MAX),
                    ));
                let why = format!(
                    "the node {} was last seen at {}",
                    node.name,
                    since.rfc3339()
                );
                findings.push(Finding::new(State::Attention, Some(since), why));
                continue;
            }
            let drift = own.map_or_else(Vec::new, |own| node.info.drift(&own.info));
            if !drift.is_empty() {
                let why = format!("the node {} differs in {}", node.name, drift.join(", "));
                findings.push(Finding::new(State::Attention, None, why));
            }
        }
        Part::from_findings("nodes", findings, format!("{live} serving"))
    }

    /// Without a backup since the server started, the age counts from the start.
    fn backups(&self, vitals: &Result<Vitals, String>, now: Time) -> Part {
        let made = match vitals {
            Ok(vitals) => vitals.backed_up,
            Err(why) => return unknown("backups", why),
        };
        let Some(made) = made else {
            let whose = "the database's own backups are not known here";
            return Part::new("backups", State::Ok, None, whose);
        };
        let never = made == Time::default();
        let since = if never { self.started_at } else { made };
        let last = match never {
            true => format!("none since the server started at {}", since.rfc3339()),
            false => format!("the last one is of {}", made.rfc3339()),
        };
        let state = match now.since(since) > BACKUP_AGE {
            true => State::Attention,
            false => State::Ok,
        };
        Part::new("backups", state, Some(since), last)
    }

    async fn clock(&self, vitals: &Result<Vitals, String>, now: Time) -> Part {
        let mut findings = Vec::new();
        if let Ok(Vitals {
            newest: Some(newest),
            ..
        }) = vitals
            && *newest > now
        {
            let why = format!(
                "the clock is {} s behind the newest payment",
                newest.since(now).as_secs()
            );
            findings.push(Finding::new(State::Attention, None, why));
        }
        match answered(self.gateway.store().ledger()).await {
            Ok(ledger) => findings.extend(ledger.jump.map(|jump| {
                let why = format!(
                    "the clock jumped from {} to {}: check it, then run kassette finance confirm-clock",
                    jump.from.rfc3339(),
                    jump.to.rfc3339()
                );
                Finding::new(State::Attention, Some(jump.to), why)
            })),
            Err(why) => findings.push(Finding::new(State::Attention, None, why)),
        }
        Part::from_findings("clock", findings, now.rfc3339())
    }

    async fn rates(&self, noted: &Noted, now: Time) -> Part {
        let mut findings = Vec::new();
        let tables = self.gateway.rates();
        let mut sources = Vec::new();
        for (source, table) in tables.iter() {
            let date = table.reference().date;
            let days = now.since(date).as_secs() / (24 * 3600);
            sources.push(format!("{}: {days} days old", source.as_str()));
            for currency in Currency::ALL {
                if let Some((rate, date)) = table.refused(currency) {
                    let used = match table.rate(currency, Margin::NONE) {
                        Some(used) => format!("{used} is still used"),
                        None => format!("payments in {currency} are refused"),
                    };
                    let source = source.as_str();
                    let why = format!(
                        "the rate {rate} of {currency} that {source} has of {} is refused because it jumps, {used}: \
                         correct it, or accept it with `kassette rates accept {source} {currency}`",
                        date.rfc3339()
                    );
                    findings.push(Finding::new(State::Attention, Some(date), why));
                }
            }
            let unchecked = Currency::ALL
                .into_iter()
                .filter(|it| table.is_unchecked(*it));
            let unchecked = unchecked.count();
            if unchecked > 0 && *source == RateSource::File {
                sources.push(format!(
                    "{unchecked} first rates of file were compared with nothing"
                ));
            }
            if now.since(date) > RATES_AGE {
                let why = format!("the rates of {} are {days} days old", source.as_str());
                findings.push(Finding::new(
                    State::Attention,
                    Some(date.after(RATES_AGE)),
                    why,
                ));
            }
        }
        if let Some(refused) = noted.refused.get(&super::Subject::Rates) {
            let why = format!("the file of exchange rates is refused: {}", refused.why);
            findings.push(Finding::new(State::Attention, Some(refused.at), why));
        }
        let mut cursor = None;
        for _ in 0..MOST / BATCH {
            let paging = Paging {
                limit: BATCH,
                cursor,
            };
            let page = match answered(self.gateway.store().merchants(paging)).await {
                Ok(Listed::Page(page)) => page,
                Ok(Listed::BadCursor) => break,
                Err(why) => return unknown("rates", &why),
            };
            for merchant in page.items {
                for (currency, set) in &merchant.rates {
                    if now.since(set.at) > RATES_AGE {
                        let days = now.since(set.at).as_secs() / (24 * 3600);
                        let why = format!(
                            "merchant {}'s own rate of {currency} is {days} days old",
                            merchant.id
                        );
                        let since = Some(set.at.after(RATES_AGE));
                        findings.push(Finding::new(State::Attention, since, why));
                    }
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let well = match sources.is_empty() {
            true => "no source is configured".to_owned(),
            false => sources.join("; "),
        };
        Part::from_findings("rates", findings, well)
    }

    async fn accounts(&self, now: Time) -> Part {
        let switches = match answered(self.gateway.switches()).await {
            Ok(switches) => switches,
            Err(why) => return unknown("accounts", &why),
        };
        let settings = self.gateway.settings();
        let (mut findings, mut well) = (Vec::new(), 0);
        let mut off = Vec::new();
        for account in settings.accounts.values() {
            if !account.enabled || switches.is_off(&account.id) {
                let by = if account.enabled {
                    "the switch"
                } else {
                    "its file"
                };
                off.push(format!("{} is off by {by}", account.id));
                continue;
            }
            let observed = self.gateway.account_health(&account.id);
            let troubles = self.gateway.account_troubles(account, &observed);
            let is_live = account.environment == Environment::Live && !account.simulated;
            let state = match observed.health.status {
                Availability::Operational if troubles.is_empty() => {
                    well += 1;
                    continue;
                }
                Availability::Down | Availability::Stale if is_live => State::Failing,
                _ => State::Attention,
            };
            let why = format!("{}: {}", account.id, troubles.join("; "));
            let since = observed.since.filter(|since| *since <= now);
            findings.push(Finding::new(state, since, why));
        }
        let mut detail = vec![format!("{well} operational")];
        detail.extend(off);
        if findings.is_empty() {
            return Part::new("accounts", State::Ok, None, detail.join("; "));
        }
        let part = Part::from_findings("accounts", findings, String::new());
        Part {
            detail: format!("{}; {}", part.detail, detail.join("; ")),
            ..part
        }
    }

    fn modules(&self) -> Part {
        let Some(runtime) = self.gateway.runtime() else {
            return Part::new("modules", State::Ok, None, "there are none");
        };
        let (mut findings, mut trials) = (Vec::new(), Vec::new());
        let slots = runtime.slots();
        for status in &slots {
            let slot = &status.slot;
            let mut note = |state, since, why: String| {
                findings.push(Finding::new(state, since, format!("{slot}: {why}")));
            };
            if status.set_aside {
                let why = "its history is not authentic and was set aside; promote, pin or upload the version that is \
                           to serve";
                note(State::Failing, None, why.to_owned());
            }
            match status.state {
                SlotState::Failed => note(State::Failing, None, "no version serves".to_owned()),
                SlotState::Quarantined => {
                    note(
                        State::Attention,
                        None,
                        "the active version is quarantined after faults".to_owned(),
                    );
                }
                SlotState::Serving | SlotState::Disabled => {}
            }
            if let Some(error) = &status.last_error {
                note(
                    State::Attention,
                    None,
                    format!("the last file or upload was refused: {error}"),
                );
            }
            if let Some(candidate) = &status.candidate {
                trials.push(format!("{slot} tries {}", candidate.digest));
            }
        }
        let well = match trials.is_empty() {
            true => format!("{} slots", slots.len()),
            false => trials.join("; "),
        };
        Part::from_findings("modules", findings, well)
    }

    async fn webhooks(&self) -> Part {
        let mut findings = Vec::new();
        for (id, since) in self.gateway.failing_endpoints() {
            let endpoint = match answered(self.gateway.store().endpoint(id)).await {
                Ok(Some(endpoint)) => endpoint,
                // Deleted in the meantime.
                Ok(None) => continue,
                Err(why) => return unknown("webhooks", &why),
            };
            let owner = match endpoint.owner {
                KeyOwner::Merchant(id) => format!("merchant {id}"),
                KeyOwner::Reseller(id) => format!("reseller {id}"),
            };
            let why = format!(
                "the endpoint {id} of {owner} keeps failing ({})",
                endpoint.environment
            );
            findings.push(Finding::new(State::Attention, since, why));
        }
        Part::from_findings("webhooks", findings, "no endpoint keeps failing")
    }

    /// Open items by kind. Items of the test environment need no attention.
    async fn work(&self, now: Time) -> Part {
        let (mut live, mut test, mut oldest, mut cursor) = (0, 0, None::<Time>, None);
        for _ in 0..MOST / BATCH {
            let paging = Paging {
                limit: BATCH,
                cursor,
            };
            let page = match answered(self.gateway.store().work(true, paging)).await {
                Ok(Listed::Page(page)) => page,
                Ok(Listed::BadCursor) => break,
                Err(why) => return unknown("work", &why),
            };
            for item in page.items {
                if item.environment == Environment::Test {
                    test += 1;
                    continue;
                }
                live += 1;
                oldest = Some(oldest.map_or(item.opened_at, |oldest| oldest.min(item.opened_at)));
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let counted = match oldest {
            Some(oldest) => format!(
                "{live} open items, the oldest for {}; {test} of the test environment",
                age(oldest, now)
            ),
            None => format!("no open items; {test} of the test environment"),
        };
        let state = if live > 0 {
            State::Attention
        } else {
            State::Ok
        };
        Part::new("work", state, oldest, counted)
    }

    async fn reviews(&self, now: Time) -> Part {
        let Some((live, test, oldest)) = self.gateway.reviews_by_age().await else {
            return Part::new(
                "reviews",
                State::Ok,
                None,
                "payments of before the start are still looked through",
            );
        };
        let counted = match oldest {
            Some(oldest) => format!(
                "{live} payments, the oldest made {} ago; {test} of the test environment",
                age(oldest, now)
            ),
            None => format!("no payment waits for a decision; {test} of the test environment"),
        };
        let state = if live > 0 {
            State::Attention
        } else {
            State::Ok
        };
        Part::new("reviews", state, oldest, counted)
    }
}

/// An answer of the store, or the reason why there is none in time.
async fn answered<T>(answer: impl Future<Output = Result<T, Fault>>) -> Result<T, String> {
    match timeout(STORE_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(|fault| fault.to_string()),
        Err(_) => Err("the store did not answer in time".to_owned()),
    }
}

/// A part that cannot be evaluated.
fn unknown(name: &str, why: &str) -> Part {
    Part::new(
        name,
        State::Attention,
        None,
        format!("it is not known: {why}"),
    )
}

fn age(since: Time, now: Time) -> String {
    match now.since(since).as_secs() {
        seconds if seconds < 3600 => format!("{} min", seconds / 60),
        seconds if seconds < 48 * 3600 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / (24 * 3600)),
    }
}

fn disk(vitals: &Result<Vitals, String>) -> Part {
    let vitals = match vitals {
        Ok(vitals) => vitals,
        Err(why) => return unknown("disk", why),
    };
    let Some(free) = vitals.free else {
        return Part::new(
            "disk",
            State::Ok,
            None,
            "the store's disk is the database's",
        );
    };
    let state = match free {
        free if free <= vitals.reserved => State::Failing,
        free if free <= vitals.reserved.saturating_mul(RESERVES) => State::Attention,
        _ => State::Ok,
    };
    let mib = |bytes: u64| bytes >> 20;
    let detail = format!(
        "{} MiB free; with {} MiB the store takes nothing new; it uses {} MiB",
        mib(free),
        mib(vitals.reserved),
        mib(vitals.used)
    );
    Part::new("disk", state, None, detail)
}

fn configuration(noted: &Noted) -> Part {
    let mut findings = Vec::new();
    if let Some(refused) = noted.refused.get(&super::Subject::Configuration) {
        let why = format!(
            "a change is refused since {}, what was there before goes on: {}",
            refused.at.rfc3339(),
            refused.why
        );
        findings.push(Finding::new(State::Attention, Some(refused.at), why));
    }
    if !noted.restart_needed.is_empty() {
        let why = format!(
            "{}: take effect with a restart",
            noted.restart_needed.join(", ")
        );
        findings.push(Finding::new(State::Attention, None, why));
    }
    let taken = noted.configured_at.map(Time::rfc3339).unwrap_or_default();
    Part::from_findings("configuration", findings, format!("taken over at {taken}"))
}

fn certificates(noted: &Noted, now: Time) -> Part {
    let (mut findings, mut well) = (Vec::new(), Vec::new());
    for (listener, certificate) in &noted.certificates {
        findings.extend(finding(listener, certificate, now));
        well.push(format!(
            "{listener}: {} days left",
            certificate.days_left(now)
        ));
    }
    for (subject, refused) in &noted.refused {
        if matches!(
            subject,
            super::Subject::PublicCertificate | super::Subject::AdminCertificate
        ) {
            let why = format!("a replaced certificate is refused: {}", refused.why);
            findings.push(Finding::new(State::Attention, Some(refused.at), why));
        }
    }
    let well = match well.is_empty() {
        true => "no listener has one".to_owned(),
        false => well.join("; "),
    };
    Part::from_findings("certificates", findings, well)
}

fn finding(listener: &str, certificate: &Certificate, now: Time) -> Option<Finding> {
    if let Some(why) = certificate.refusal(now) {
        let since = (now >= certificate.not_after).then_some(certificate.not_after);
        let why = format!("the certificate of the {listener} listener: {why}");
        return Some(Finding::new(State::Failing, since, why));
    }
    certificate.ends_soon(now).then(|| {
        let days = certificate.days_left(now);
        let why =
            format!("the certificate of the {listener} listener ends in {days} days: renew it");
        Finding::new(State::Attention, None, why)
    })
}
