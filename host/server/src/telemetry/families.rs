//! All metrics with their names, meanings and labels. They are described at the start. Counters and histograms
//! with known labels are also created then, with the value 0, so that rates and alerts do not miss the first
//! event.
//!
//! `config/monitor.md` contains the same table for operators. A test compares it with a running gateway.

use std::collections::BTreeSet;

use kassette_gateway::Gateway;
use parking_lot::Mutex;

use self::Kind::{Counter, Gauge, Histogram};
use self::Values::{Account, Known, Open, Slot};

/// Type of a metric in Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Values of a label. All sets are bounded. No value identifies a person, a payment or a merchant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Known(&'static [&'static str]),
    /// The configured accounts. If a metric has this label, its label `environment` is the account's environment.
    Account,
    /// The slots for which a module has ever been offered.
    Slot,
    /// Other values from a closed set in the code: routes, statuses, functions.
    Open,
}

/// A metric.
struct Family {
    name: &'static str,
    kind: Kind,
    /// Labels in the order in which they are recorded. A different order would create another series.
    labels: &'static [(&'static str, Values)],
    help: &'static str,
}

/// Subjects whose changed files a running gateway can reject.
const REFUSABLE: [&str; 4] = {
    let [one, two, three, four] = crate::status::Subject::ALL;
    [one.as_str(), two.as_str(), three.as_str(), four.as_str()]
};
const ENVIRONMENT: (&str, Values) = ("environment", Known(&["live", "test"]));
const PROVIDER: (&str, Values) = ("provider", Account);
const SLOT: (&str, Values) = ("slot", Slot);

const fn family(
    kind: Kind,
    name: &'static str,
    labels: &'static [(&'static str, Values)],
    help: &'static str,
) -> Family {
    Family {
        name,
        kind,
        labels,
        help,
    }
}

const FAMILIES: &[Family] = &[
    // The process
    family(
        Counter,
        "process_cpu_seconds_total",
        &[],
        "CPU time, whole seconds.",
    ),
    family(
        Gauge,
        "process_start_time_seconds",
        &[],
        "Start time of the process, seconds since 1970.",
    ),
    family(
        Gauge,
        "process_resident_memory_bytes",
        &[],
        "Memory in use.",
    ),
    family(
        Gauge,
        "process_virtual_memory_bytes",
        &[],
        "Address space in use, including the space that modules reserve.",
    ),
    family(
        Gauge,
        "process_virtual_memory_max_bytes",
        &[],
        "Maximum address space (ulimit -v).",
    ),
    family(
        Gauge,
        "process_open_fds",
        &[],
        "Open files and connections.",
    ),
    family(
        Gauge,
        "process_max_fds",
        &[],
        "Maximum number of open files and connections (LimitNOFILE).",
    ),
    family(Gauge, "process_threads", &[], "Threads."),
    family(
        Gauge,
        "kassette_build_info",
        &[("version", Open), ("build", Open)],
        "Always 1: the running release, and the build that KASSETTE_BUILD named at compile time.",
    ),
    family(Gauge, "kassette_ready", &[], "1 if /readyz returns 200."),
    family(
        Gauge,
        "kassette_unready",
        &[("reason", Known(super::readiness::REASONS))],
        "1 for the reason why /readyz does not return 200.",
    ),
    family(
        Gauge,
        crate::status::facts::REFUSED_GAUGE,
        &[("subject", Known(&REFUSABLE))],
        "1 while a changed file is refused: configuration, rates, public_certificate, admin_certificate.",
    ),
    family(
        Gauge,
        "kassette_clock_time_seconds",
        &[],
        "The gateway's clock. Compare it with the clock of Prometheus: abs(kassette_clock_time_seconds - time()) > 30.",
    ),
    family(
        Gauge,
        "kassette_clock_behind_seconds",
        &[],
        "Time by which the clock is behind the newest payment: it was set back, or it was ahead when that payment was created.",
    ),
    family(
        Gauge,
        "kassette_clock_offset_seconds",
        &[],
        "Time by which the clock is ahead of the clock of the provider that answered last over TLS; NaN before the first answer.",
    ),
    family(
        Gauge,
        "kassette_rates_age_seconds",
        &[("source", Known(&["file", "ecb"]))],
        "Age of the exchange rates of file and of ecb, by their own date; NaN without rates.",
    ),
    family(
        Counter,
        "kassette_rates_fetch_failures_total",
        &[],
        "Failed attempts to fetch the European Central Bank's rates.",
    ),
    family(
        Gauge,
        super::certificates::NAME,
        &[("listener", Open)],
        "End of the certificate of tls_cert (public) or admin_tls_cert (admin); exists only if that is set.",
    ),
    family(
        Counter,
        "kassette_log_lines_left_out_total",
        &[("kind", Open)],
        "Lines of the log omitted because there were too many.",
    ),
    // Requests
    family(
        Counter,
        "kassette_http_requests_total",
        &[
            ("listener", Open),
            ("route", Open),
            ("method", Open),
            ("status", Open),
        ],
        "Requests, by the route's template.",
    ),
    family(
        Histogram,
        "kassette_http_request_duration_seconds",
        &[("listener", Open), ("route", Open), ("method", Open)],
        "Time from a request to its response.",
    ),
    family(
        Counter,
        "kassette_http_shed_total",
        &[(
            "class",
            Known(&[
                "reads",
                "writes",
                "modules",
                "starts",
                "exchanges",
                "callbacks",
            ]),
        )],
        "Requests that got 503 because limits.in_hand of their class was used up.",
    ),
    family(
        Gauge,
        "kassette_http_held_bytes",
        &[],
        "Bytes of requests and responses in flight beyond each connection's own allowance.",
    ),
    family(
        Counter,
        "kassette_http_budget_refusals_total",
        &[],
        "Requests and responses refused because their sender used too many bytes.",
    ),
    family(
        Counter,
        "kassette_http2_pauses_total",
        &[],
        "Pauses of 25 ms in reading connections that send too many frames.",
    ),
    family(
        Counter,
        "kassette_connections_refused_total",
        &[],
        "Connections closed at once because there were too many.",
    ),
    family(
        Counter,
        "kassette_connections_timed_out_total",
        &[("waited_for", Known(&["head", "request", "answer"]))],
        "Connections closed because their peer was too slow.",
    ),
    family(
        Counter,
        "kassette_name_lookups_waited_total",
        &[],
        "Name lookups that waited because 512 were under way.",
    ),
    family(
        Counter,
        "kassette_uploads_waited_total",
        &[],
        "Uploads of modules that waited for the previous one.",
    ),
    // Payments
    family(
        Counter,
        "kassette_payments_created_total",
        &[ENVIRONMENT],
        "Payments that were created.",
    ),
    family(
        Counter,
        "kassette_transitions_total",
        &[
            (
                "to",
                Known(&[
                    "created",
                    "pending",
                    "processing",
                    "review",
                    "verification_pending",
                    "completed",
                    "failed",
                    "cancelled",
                    "expired",
                ]),
            ),
            ENVIRONMENT,
        ],
        "Entries of payments' timelines, by the status after each entry.",
    ),
    family(
        Counter,
        "kassette_starts_total",
        &[
            PROVIDER,
            (
                "outcome",
                Known(&["open", "ask", "declined", "unavailable", "uncertain"]),
            ),
            ENVIRONMENT,
        ],
        "Starts at providers, by their outcome.",
    ),
    family(
        Counter,
        "kassette_fallbacks_total",
        &[ENVIRONMENT],
        "Starts that continued at the next account in rank.",
    ),
    family(
        Counter,
        "kassette_captures_total",
        &[
            ("outcome", Known(&["captured", "open", "over"])),
            ENVIRONMENT,
        ],
        "Captures, by the state of the attempt afterwards.",
    ),
    family(
        Counter,
        "kassette_references_taken_total",
        &[ENVIRONMENT],
        "Reports with a reference of another attempt. They are refused; check both payments.",
    ),
    family(
        Counter,
        "kassette_refunds_total",
        &[
            PROVIDER,
            ENVIRONMENT,
            (
                "outcome",
                Known(&[
                    "succeeded",
                    "pending",
                    "failed",
                    "refused",
                    "unavailable",
                    "uncertain",
                    "absent",
                ]),
            ),
        ],
        "Calls that refund money or query a refund.",
    ),
    family(
        Gauge,
        "kassette_payments_in_review",
        &[ENVIRONMENT],
        "Payments in review. Exists after the gateway has read the payments from before its start: minutes for a million.",
    ),
    family(
        Gauge,
        "kassette_work_open",
        &[
            (
                "kind",
                Known(&[
                    "surplus",
                    "late",
                    "excess",
                    "refund",
                    "dispute",
                    "unsettled",
                    "unknown",
                    "negative",
                    "authorization",
                    "method_refused",
                    "unreadable",
                    "fraud_warning",
                    "rate_old",
                ]),
            ),
            ENVIRONMENT,
        ],
        "Open work items, 10,000 at most; environment is unknown for an account that is no longer configured.",
    ),
    // Providers
    family(
        Gauge,
        "kassette_provider_health",
        &[
            PROVIDER,
            ENVIRONMENT,
            (
                "state",
                Known(&["operational", "degraded", "down", "stale"]),
            ),
        ],
        "1 for an account's state.",
    ),
    family(
        Gauge,
        "kassette_provider_unwell",
        &[
            PROVIDER,
            ENVIRONMENT,
            (
                "reason",
                Known(&[
                    "unchecked",
                    "vendor",
                    "no_answer",
                    "module",
                    "calls",
                    "misconfigured",
                ]),
            ),
        ],
        "1 for the reason why an account is not operational.",
    ),
    family(
        Gauge,
        "kassette_provider_enabled",
        &[PROVIDER, ENVIRONMENT],
        "1 if an account gets new attempts.",
    ),
    family(
        Gauge,
        "kassette_provider_permits_held",
        &[("kind", Known(PERMITS)), ENVIRONMENT],
        "Permits in use for calls and requests that wait for providers.",
    ),
    family(
        Counter,
        "kassette_provider_permits_refused_total",
        &[("kind", Known(PERMITS)), ENVIRONMENT],
        "Calls and requests that found no free permit.",
    ),
    family(
        Counter,
        "kassette_callbacks_total",
        &[
            PROVIDER,
            (
                "outcome",
                Known(&[
                    "read",
                    "forged",
                    "malformed",
                    "later",
                    "full",
                    "busy",
                    "failed",
                    "limited",
                ]),
            ),
            ENVIRONMENT,
        ],
        "Callbacks, by their outcome.",
    ),
    family(
        Counter,
        "kassette_callback_addresses_dropped_total",
        &[PROVIDER, ENVIRONMENT],
        "Addresses with verified callbacks that were forgotten to make space for others.",
    ),
    family(
        Counter,
        "kassette_callback_notices_dropped_total",
        &[ENVIRONMENT],
        "Unverified notices that waited for a start and were dropped to make space for others.",
    ),
    family(
        Counter,
        "kassette_unreadable_total",
        &[
            PROVIDER,
            (
                "part",
                Known(&[
                    "capture", "dispute", "fee", "invoice", "order", "other", "payment", "refund",
                ]),
            ),
        ],
        "Parts of a provider's answers that the account's module could not read: capture, dispute, fee, invoice, order, payment, refund, other.",
    ),
    family(
        Counter,
        "kassette_reconciliations_put_off_total",
        &[],
        "Due test payments that were postponed because too many test payments were due; they are read again a minute later.",
    ),
    // Shops
    family(
        Counter,
        "kassette_connect_exchanges_total",
        &[(
            "outcome",
            Known(&[
                "connected",
                "code_refused",
                "under_way",
                "wrong_proof",
                "no_control",
                "failed",
            ]),
        )],
        "Shops that tried to connect.",
    ),
    // Webhooks
    family(
        Gauge,
        "kassette_webhook_pending",
        &[],
        "Pending deliveries, test and live together: they wait for the first attempt, for the next one, or for a disabled endpoint.",
    ),
    family(
        Gauge,
        "kassette_webhook_oldest_seconds",
        &[ENVIRONMENT],
        "Age of the oldest pending delivery.",
    ),
    family(
        Counter,
        "kassette_webhook_attempts_total",
        &[
            (
                "outcome",
                Known(&[
                    "delivered",
                    "failed",
                    "refused",
                    "gone",
                    "redirected",
                    "timeout",
                    "broken",
                    "unreachable",
                    "blocked",
                    "withheld",
                ]),
            ),
            ENVIRONMENT,
        ],
        "Attempts to deliver an event.",
    ),
    family(
        Counter,
        "kassette_webhook_deliveries_total",
        &[
            ("status", Known(&["delivered", "exhausted", "cancelled"])),
            ENVIRONMENT,
        ],
        "Deliveries that ended: delivered, exhausted, cancelled.",
    ),
    family(
        Counter,
        "kassette_webhook_record_retries_total",
        &[],
        "Repeated tries to record attempts because the store accepted no writes. During that time, few other attempts are made.",
    ),
    family(
        Gauge,
        "kassette_webhook_circuits",
        &[("state", Known(&["open", "half_open"]))],
        "Endpoints with delayed attempts because they kept failing.",
    ),
    family(
        Gauge,
        "kassette_webhook_attempts_under_way",
        &[("pool", Known(&["quick", "slow"]))],
        "Attempts to endpoints that respond at once (quick, 128 at most), and to slow endpoints (slow, 384).",
    ),
    family(
        Histogram,
        "kassette_webhook_first_attempt_seconds",
        &[ENVIRONMENT],
        "Time from an event to its first attempt.",
    ),
    family(
        Histogram,
        "kassette_webhook_attempt_seconds",
        &[ENVIRONMENT],
        "Duration of attempts.",
    ),
    // Modules
    family(
        Histogram,
        "kassette_plugin_call_seconds",
        &[("slot", Open), ("function", Open)],
        "Duration of module calls, including their providers' responses.",
    ),
    family(
        Counter,
        "kassette_routing_records_total",
        &[("outcome", Known(&["written", "dropped", "failed"]))],
        "Decisions for the routing log.",
    ),
    family(
        Counter,
        "kassette_conversation_records_total",
        &[(
            "outcome",
            Known(&["written", "dropped", "failed", "unproved"]),
        )],
        "Calls of provider modules for the routing log, if plugins.record_conversations is on.",
    ),
    family(
        Counter,
        "kassette_shadow_decisions_total",
        &[("outcome", Known(&["queued", "dropped"]))],
        "Live decisions for a candidate in the shadow: queued, dropped (the queue was full).",
    ),
    family(
        Counter,
        "kassette_alerts_total",
        &[("outcome", Known(&["taken", "failed"]))],
        "Messages to alerts_url: taken, failed (after six tries).",
    ),
    family(
        Counter,
        "kassette_canary_rollbacks_total",
        &[
            SLOT,
            (
                "reason",
                Known(&["fault", "starts", "completions", "divergence"]),
            ),
        ],
        "Canaries that were rolled back automatically: fault, starts or completions that fail more often, divergence. Alert on any.",
    ),
    family(
        Counter,
        "kassette_plugin_remembered_total",
        &[SLOT],
        "Answers from the cache, without a call (plugins.remembered_mib).",
    ),
    family(
        Counter,
        "kassette_plugin_faults_total",
        &[
            SLOT,
            (
                "kind",
                Known(&[
                    "deadline",
                    "timeout",
                    "memory",
                    "stack",
                    "trap",
                    "busy",
                    "bad-reply",
                    "faulty",
                ]),
            ),
        ],
        "Calls that failed: because of the module (deadline, memory, stack, trap, bad-reply and faulty), its provider (timeout) or the gateway (busy).",
    ),
    family(
        Counter,
        "kassette_plugin_benched_total",
        &[SLOT],
        "Versions that were quarantined because they kept failing.",
    ),
    family(
        Counter,
        "kassette_plugin_swaps_total",
        &[SLOT],
        "Versions that became active.",
    ),
    family(
        Counter,
        "kassette_plugin_refusals_total",
        &[SLOT],
        "Files and uploads that were refused.",
    ),
    family(
        Counter,
        "kassette_plugin_cache_total",
        &[("outcome", Known(&["hit", "miss", "refused"]))],
        "Lookups of a module's machine code: hit, miss, refused (not authentic, compiled again).",
    ),
    // The store
    family(
        Gauge,
        "kassette_store_size_bytes",
        &[],
        "Size of the store on its disk.",
    ),
    family(
        Gauge,
        "kassette_nodes",
        &[],
        "Nodes that serve the store, as of this node's last heartbeat.",
    ),
    family(
        Gauge,
        "kassette_node_beat_age_seconds",
        &[],
        "Time since the store received this node's last heartbeat.",
    ),
    family(
        Gauge,
        "kassette_node_lag",
        &[],
        "Changes of keys, approvals and similar data that the slowest node has yet to apply.",
    ),
    family(
        Histogram,
        "kassette_database_wait_seconds",
        &[("pool", Known(&["requests", "workers", "creates", "nonces"]))],
        "Time that a statement waited for a connection to PostgreSQL: requests, workers, creates, nonces.",
    ),
    family(
        Counter,
        "kassette_database_timeouts_total",
        &[(
            "waited_for",
            Known(&["connection", "lock", "statement", "answer"]),
        )],
        "Time-outs of statements, by the cause: connection (2 s), lock (another transaction's, 2 s), statement (its own end, 5 s), answer (any, 10 s).",
    ),
    family(
        Counter,
        "kassette_database_retries_total",
        &[],
        "Statements and transactions that were repeated: they had collided with others, or their connection was lost.",
    ),
    family(
        Counter,
        "kassette_leases_lapsed_total",
        &[("of", Known(&["payment", "delivery"]))],
        "Work (payment, delivery) that another node took over after the end of its lease: its node ended, was cut off or postponed it.",
    ),
    family(
        Gauge,
        "kassette_store_disk_free_bytes",
        &[],
        "Free space on the store's disk for this process, in bytes.",
    ),
    family(
        Gauge,
        "kassette_store_disk_reserved_bytes",
        &[],
        "Free space below which the store accepts no writes, in bytes.",
    ),
    family(
        Gauge,
        "kassette_backup_last_success_timestamp_seconds",
        &[],
        "The made_at of the last complete backup from this process; 0 before the first one.",
    ),
    family(
        Histogram,
        "kassette_store_commit_seconds",
        &[],
        "Time until groups of changes were on the disk.",
    ),
    family(
        Histogram,
        "kassette_store_group_operations",
        &[],
        "Operations per group of changes.",
    ),
    family(
        Gauge,
        "kassette_store_queue_operations",
        &[],
        "Operations that waited when the last group was formed.",
    ),
    family(
        Counter,
        "kassette_store_queue_full_total",
        &[],
        "Operations refused because too many waited.",
    ),
    family(
        Histogram,
        "kassette_store_checkpoint_seconds",
        &[],
        "Time that the database took to catch up with the log.",
    ),
    family(
        Counter,
        "kassette_store_recoveries_total",
        &[],
        "Number of times the store continued after a failure of its disk.",
    ),
];

/// Kinds of permits for calls to providers.
const PERMITS: &[&str] = &["request", "start", "callback", "unproved", "query"];

/// Labels of a metric with their known values. `None` if the metric does not exist.
#[cfg(test)]
pub(crate) fn values_of(name: &str) -> Option<Vec<(&'static str, &'static [&'static str])>> {
    let family = FAMILIES.iter().find(|family| family.name == name)?;
    let values = family.labels.iter().map(|(label, values)| match values {
        Known(values) => (*label, *values),
        Account | Slot | Open => (*label, &[][..]),
    });
    Some(values.collect())
}

/// Describes all metrics. Must be called after the recorder is installed.
pub(super) fn describe() {
    for Family {
        name, kind, help, ..
    } in FAMILIES
    {
        match kind {
            Counter => metrics::describe_counter!(*name, *help),
            Gauge => metrics::describe_gauge!(*name, *help),
            Histogram => metrics::describe_histogram!(*name, *help),
        }
    }
}

/// Accounts and slots whose metrics have been created.
#[derive(Default)]
pub(super) struct Zeros(Mutex<BTreeSet<String>>);

impl Zeros {
    /// Creates the metrics of new accounts and slots.
    pub(super) fn fill(&self, gateway: &Gateway) {
        let mut known = self.0.lock();
        for account in gateway.settings().accounts.values() {
            let (id, environment) = (account.id.as_str(), account.environment.as_str());
            if known.insert(format!("{id} {environment}")) {
                fill(Account, &|label| match label {
                    "environment" => Some(environment.to_owned()),
                    "provider" => Some(id.to_owned()),
                    _ => None,
                });
            }
        }
        for status in gateway.runtime().iter().flat_map(|runtime| runtime.slots()) {
            let slot = status.slot.as_str();
            if known.insert(slot.to_owned()) {
                fill(Slot, &|label| (label == "slot").then(|| slot.to_owned()));
            }
        }
    }
}

/// Creates the metrics whose labels are all known.
pub(super) fn fill_known() {
    fill(Open, &|_| None);
}

/// Creates the metrics that have a label of this kind; `of` returns its value. With [`Open`], creates the metrics
/// without an account and a slot.
fn fill(values: Values, of: &dyn Fn(&str) -> Option<String>) {
    for family in FAMILIES {
        let is_of = |kind: Values| family.labels.iter().any(|(_, values)| *values == kind);
        let wanted = match values {
            Account | Slot => is_of(values),
            Known(_) | Open => !is_of(Account) && !is_of(Slot),
        };
        // Gauges are set when their value is known.
        if wanted && family.kind != Gauge && !is_of(Open) {
            family.fill(of);
        }
    }
}

impl Family {
    /// Creates a series for each combination of the known values.
    fn fill(&self, of: &dyn Fn(&str) -> Option<String>) {
        let mut all: Vec<Vec<(&'static str, String)>> = vec![Vec::new()];
        for (label, values) in self.labels {
            let values: Vec<String> = match (of(label), values) {
                (Some(value), _) => vec![value],
                (None, Known(values)) => values.iter().map(|&value| value.to_owned()).collect(),
                (None, _) => return,
            };
            let with = |labels: &Vec<(&'static str, String)>, value: &String| {
                let mut labels = labels.clone();
                labels.push((*label, value.clone()));
                labels
            };
            all = all
                .iter()
                .flat_map(|labels| values.iter().map(|value| with(labels, value)))
                .collect();
        }
        for labels in all {
            match self.kind {
                Counter => metrics::counter!(self.name, &labels).increment(0),
                Histogram => drop(metrics::histogram!(self.name, &labels)),
                Gauge => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::for_tests;
    use kassette_domain::payment::Status;
    use kassette_domain::rates::RateSource;
    use kassette_domain::routing::Availability;
    use kassette_domain::work::WorkKind;
    use kassette_gateway::health::UnhealthyReason;

    fn values(family: &str, label: &str) -> Vec<&'static str> {
        let family = FAMILIES.iter().find(|each| each.name == family).unwrap();
        let (_, values) = family
            .labels
            .iter()
            .find(|(name, _)| *name == label)
            .unwrap();
        match values {
            Known(values) => values.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_zero_at_first_has_the_words_of_the_code() {
        let mut statuses = Status::ALL.map(Status::as_str).to_vec();
        statuses.sort_unstable();
        let mut known = values("kassette_transitions_total", "to");
        known.sort_unstable();
        assert_eq!(known, statuses);
        let states = Availability::ALL.map(Availability::as_str);
        assert_eq!(values("kassette_provider_health", "state"), states);
        let reasons = UnhealthyReason::ALL.map(UnhealthyReason::as_str);
        assert_eq!(values("kassette_provider_unwell", "reason"), reasons);
        let sources = RateSource::ALL.map(RateSource::as_str);
        assert_eq!(values("kassette_rates_age_seconds", "source"), sources);
        let kinds = WorkKind::ALL.map(WorkKind::as_str);
        assert_eq!(values("kassette_work_open", "kind"), kinds);
    }

    #[test]
    fn alarms_and_dashboard_name_metrics_that_there_are() {
        const ALERTS: &str = include_str!("../../../../config/deploy/alerts.yml");
        const DASHBOARD: &str = include_str!("../../../../config/deploy/dashboard.json");
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let is_family = |name: &str| {
            let of_histogram = name.strip_suffix("_bucket");
            FAMILIES.iter().any(|family| {
                let is_histogram = family.kind == Histogram;
                family.name == name || is_histogram && of_histogram == Some(family.name)
            })
        };
        let board: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
        for text in [ALERTS, DASHBOARD] {
            let words = text.split(|letter| !is_part(letter));
            let begins =
                |word: &&str| word.starts_with("kassette_") || word.starts_with("process_");
            let names: Vec<_> = words.filter(begins).collect();
            assert!(names.len() > 10, "{names:?}");
            for name in names {
                assert!(is_family(name), "{name}");
            }
        }
        for panel in board["panels"].as_array().unwrap() {
            assert!(panel["targets"][0]["expr"].is_string(), "{panel}");
        }
    }

    #[test]
    fn what_can_be_there_from_the_beginning_is_and_what_counts_keeps_its_value() {
        let (recorder, measured) = for_tests();
        metrics::with_local_recorder(&recorder, || {
            describe();
            metrics::counter!("kassette_fallbacks_total", "environment" => "live").increment(3);
            fill_known();
        });
        let text = measured.render();
        for line in [
            "# HELP kassette_fallbacks_total Starts that continued at the next account in rank.",
            "# TYPE kassette_fallbacks_total counter",
            "kassette_fallbacks_total{environment=\"live\"} 3",
            "kassette_fallbacks_total{environment=\"test\"} 0",
            "kassette_webhook_attempt_seconds_count{environment=\"test\"} 0",
            "# TYPE kassette_store_group_operations histogram",
        ] {
            assert!(text.contains(line), "{line}\nin\n{text}");
        }
        assert!(!text.contains("kassette_starts_total{"), "{text}");
    }
}
