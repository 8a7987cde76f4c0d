//! All metrics with their names, meanings and labels. They are described at the start. Counters and histograms
//! with known labels are also created then, with the value 0, so that rates and alerts do not miss the first
//! event.
//!
//! `config/README.md` contains the same table for operators. A test compares it with a running gateway.

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
        "Time on processors, whole seconds.",
    ),
    family(
        Gauge,
        "process_start_time_seconds",
        &[],
        "When the process was started, seconds since 1970.",
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
        "Address space in use.",
    ),
    family(
        Gauge,
        "process_virtual_memory_max_bytes",
        &[],
        "How much address space there may be in use.",
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
        "How many files and connections may be open.",
    ),
    family(Gauge, "process_threads", &[], "Threads."),
    family(
        Gauge,
        "kassette_build_info",
        &[("version", Open), ("build", Open)],
        "Always 1; the labels say which release runs.",
    ),
    family(Gauge, "kassette_ready", &[], "Whether /readyz answers 200."),
    family(
        Gauge,
        "kassette_unready",
        &[("reason", Known(super::readiness::REASONS))],
        "1 for the reason for which /readyz answers 503.",
    ),
    family(
        Gauge,
        crate::status::facts::REFUSED_GAUGE,
        &[("subject", Known(&REFUSABLE))],
        "1 while a changed file is refused and what was there before goes on.",
    ),
    family(
        Gauge,
        "kassette_clock_time_seconds",
        &[],
        "The gateway's clock, seconds since 1970.",
    ),
    family(
        Gauge,
        "kassette_clock_behind_seconds",
        &[],
        "How far the clock is behind the time at which the newest payment was made.",
    ),
    family(
        Gauge,
        "kassette_clock_offset_seconds",
        &[],
        "How far the clock is ahead of the vendor's that answered last over TLS; negative: behind.",
    ),
    family(
        Gauge,
        "kassette_rates_age_seconds",
        &[("source", Known(&["file", "ecb"]))],
        "How old a source's exchange rates are, by its own date; NaN where there are none.",
    ),
    family(
        Counter,
        "kassette_rates_fetch_failures_total",
        &[],
        "Tries to fetch the European Central Bank's exchange rates that brought none.",
    ),
    family(
        Gauge,
        super::certificates::NAME,
        &[("listener", Open)],
        "When the certificate that a listener shows ends, seconds since 1970.",
    ),
    family(
        Counter,
        "kassette_log_lines_left_out_total",
        &[("kind", Open)],
        "Lines of the log that were not written because too many of their kind came.",
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
        "Requests that were answered.",
    ),
    family(
        Histogram,
        "kassette_http_request_duration_seconds",
        &[("listener", Open), ("route", Open), ("method", Open)],
        "How long requests took to answer.",
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
        "Requests that were answered 503 because too many of their class were in hand.",
    ),
    family(
        Gauge,
        "kassette_http_held_bytes",
        &[],
        "Bytes of requests and answers in hand beyond what each connection has of its own.",
    ),
    family(
        Counter,
        "kassette_http_budget_refusals_total",
        &[],
        "Requests and answers that were refused because their sender held too many bytes.",
    ),
    family(
        Counter,
        "kassette_http2_pauses_total",
        &[],
        "Pauses of 25 ms in reading an HTTP/2 connection that sends too many frames.",
    ),
    family(
        Counter,
        "kassette_connections_refused_total",
        &[],
        "Connections that were closed at once because there were too many.",
    ),
    family(
        Counter,
        "kassette_connections_timed_out_total",
        &[("waited_for", Known(&["head", "request", "answer"]))],
        "Connections that were closed because their peer was too slow.",
    ),
    family(
        Counter,
        "kassette_name_lookups_waited_total",
        &[],
        "Look-ups of names that waited because too many were under way.",
    ),
    family(
        Counter,
        "kassette_uploads_waited_total",
        &[],
        "Uploads of modules that waited for the one before.",
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
        "Lines of payments' timelines by the status that each led to or stayed in.",
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
        "Starts of attempts by what the provider answered.",
    ),
    family(
        Counter,
        "kassette_fallbacks_total",
        &[ENVIRONMENT],
        "Starts that went on at the next account in rank.",
    ),
    family(
        Counter,
        "kassette_captures_total",
        &[
            ("outcome", Known(&["captured", "open", "over"])),
            ENVIRONMENT,
        ],
        "Captures that were asked for, by where the attempt stood afterwards.",
    ),
    family(
        Counter,
        "kassette_references_taken_total",
        &[ENVIRONMENT],
        "Reports of a provider under a reference that another attempt has; each was refused.",
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
        "Calls about refunds by what the provider answered.",
    ),
    family(
        Gauge,
        "kassette_payments_in_review",
        &[ENVIRONMENT],
        "Payments that wait for a person.",
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
        "Open lines of the work list, up to 10,000.",
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
        "1 for the state that an account is in.",
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
        "1 for the reason for which an account is not operational.",
    ),
    family(
        Gauge,
        "kassette_provider_enabled",
        &[PROVIDER, ENVIRONMENT],
        "Whether an account gets new attempts.",
    ),
    family(
        Gauge,
        "kassette_provider_permits_held",
        &[("kind", Known(PERMITS)), ENVIRONMENT],
        "Permits for requests and calls that wait for a provider which are held.",
    ),
    family(
        Counter,
        "kassette_provider_permits_refused_total",
        &[("kind", Known(PERMITS)), ENVIRONMENT],
        "Requests and calls that found no such permit.",
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
        "Callbacks by what became of them.",
    ),
    family(
        Counter,
        "kassette_callback_addresses_dropped_total",
        &[PROVIDER, ENVIRONMENT],
        "Addresses that had proved callbacks and were forgotten because there were too many.",
    ),
    family(
        Counter,
        "kassette_callback_notices_dropped_total",
        &[ENVIRONMENT],
        "Unproved notices that waited for a start and were dropped because there were too many.",
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
        "Parts of providers' answers that their modules could not read.",
    ),
    family(
        Counter,
        "kassette_reconciliations_put_off_total",
        &[],
        "Test payments that were due while too many others were, and are found again when their claims have run out.",
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
        "Attempts of shops to connect, by what became of them.",
    ),
    // Webhooks
    family(
        Gauge,
        "kassette_webhook_pending",
        &[],
        "Deliveries that wait.",
    ),
    family(
        Gauge,
        "kassette_webhook_oldest_seconds",
        &[ENVIRONMENT],
        "How long ago the oldest of them was queued.",
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
        "Deliveries that ended.",
    ),
    family(
        Counter,
        "kassette_webhook_record_retries_total",
        &[],
        "How often the record of attempts was tried again because the store took nothing.",
    ),
    family(
        Gauge,
        "kassette_webhook_circuits",
        &[("state", Known(&["open", "half_open"]))],
        "Endpoints that are left alone because they kept failing.",
    ),
    family(
        Gauge,
        "kassette_webhook_attempts_under_way",
        &[("pool", Known(&["quick", "slow"]))],
        "Attempts to deliver that are under way.",
    ),
    family(
        Histogram,
        "kassette_webhook_first_attempt_seconds",
        &[ENVIRONMENT],
        "From an event to the first attempt to deliver it.",
    ),
    family(
        Histogram,
        "kassette_webhook_attempt_seconds",
        &[ENVIRONMENT],
        "How long attempts to deliver took.",
    ),
    // Modules
    family(
        Histogram,
        "kassette_plugin_call_seconds",
        &[("slot", Open), ("function", Open)],
        "How long calls of modules took.",
    ),
    family(
        Counter,
        "kassette_routing_records_total",
        &[("outcome", Known(&["written", "dropped", "failed"]))],
        "Decisions for the routing log, by what became of them.",
    ),
    family(
        Counter,
        "kassette_conversation_records_total",
        &[(
            "outcome",
            Known(&["written", "dropped", "failed", "unproved"]),
        )],
        "Calls of providers' modules for the routing log, by what became of them.",
    ),
    family(
        Counter,
        "kassette_shadow_decisions_total",
        &[("outcome", Known(&["queued", "dropped"]))],
        "Live decisions for a candidate in the shadow, by whether there was room.",
    ),
    family(
        Counter,
        "kassette_alerts_total",
        &[("outcome", Known(&["taken", "failed"]))],
        "Alerts to the operators' service, by what became of them.",
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
        "Canaries that were rolled back by themselves.",
    ),
    family(
        Counter,
        "kassette_plugin_remembered_total",
        &[SLOT],
        "Answers of modules that took no call because they were remembered.",
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
        "Calls of modules that failed.",
    ),
    family(
        Counter,
        "kassette_plugin_benched_total",
        &[SLOT],
        "Versions that were set aside because they kept failing.",
    ),
    family(
        Counter,
        "kassette_plugin_swaps_total",
        &[SLOT],
        "Versions that took over.",
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
        "Looks for the machine code of a module.",
    ),
    // The store
    family(
        Gauge,
        "kassette_store_size_bytes",
        &[],
        "Bytes that the store takes on its disk.",
    ),
    family(
        Gauge,
        "kassette_nodes",
        &[],
        "Nodes that serve the store, as of this one's last beat.",
    ),
    family(
        Gauge,
        "kassette_node_beat_age_seconds",
        &[],
        "How long ago the store last heard of this node.",
    ),
    family(
        Gauge,
        "kassette_node_lag",
        &[],
        "Changes of keys, approvals and the like that the node furthest behind has not taken in.",
    ),
    family(
        Histogram,
        "kassette_database_wait_seconds",
        &[("pool", Known(&["requests", "workers", "creates", "nonces"]))],
        "How long a statement waited for a connection to the database.",
    ),
    family(
        Counter,
        "kassette_database_timeouts_total",
        &[(
            "waited_for",
            Known(&["connection", "lock", "statement", "answer"]),
        )],
        "What a statement waited for in vain: a connection (2 s), another transaction's lock (2 s), its own end (5 s), or any answer (10 s).",
    ),
    family(
        Counter,
        "kassette_database_retries_total",
        &[],
        "Statements and transactions that were tried again: they had collided with others, or their connection was lost.",
    ),
    family(
        Counter,
        "kassette_leases_lapsed_total",
        &[("of", Known(&["payment", "delivery"]))],
        "Payments and deliveries that were claimed anew after the lease of a node that did not give it back.",
    ),
    family(
        Gauge,
        "kassette_store_disk_free_bytes",
        &[],
        "Bytes that may still be written to the store's file system.",
    ),
    family(
        Gauge,
        "kassette_store_disk_reserved_bytes",
        &[],
        "Bytes that have to stay free there: with less the store takes nothing new.",
    ),
    family(
        Gauge,
        "kassette_backup_last_success_timestamp_seconds",
        &[],
        "The moment of the last backup that was taken whole from this process; 0: none.",
    ),
    family(
        Histogram,
        "kassette_store_commit_seconds",
        &[],
        "How long groups of changes took to be on the disk.",
    ),
    family(
        Histogram,
        "kassette_store_group_operations",
        &[],
        "Operations in a group.",
    ),
    family(
        Gauge,
        "kassette_store_queue_operations",
        &[],
        "Operations that waited when the last group was made.",
    ),
    family(
        Counter,
        "kassette_store_queue_full_total",
        &[],
        "Operations that were refused because too many waited.",
    ),
    family(
        Histogram,
        "kassette_store_checkpoint_seconds",
        &[],
        "How long it took to bring the database behind the log.",
    ),
    family(
        Counter,
        "kassette_store_recoveries_total",
        &[],
        "How often the store went on after its disk had failed.",
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
            "# HELP kassette_fallbacks_total Starts that went on at the next account in rank.",
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
