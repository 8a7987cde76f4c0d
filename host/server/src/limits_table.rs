//! Tests that compare the table of limits in config/security.md with the code: numbers and metrics.

use std::time::Duration;

use kassette_domain::key::Environment::{Live, Test};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_gateway::limits::{
    CONVERSATION_BYTES, CONVERSATIONS_WAITING, FREQUENT_LINES_PER_SECOND, IN_TEST_AT_ONCE,
    IN_TEST_MOST, Kind, RECONCILED_AT_ONCE, ROUTING_RECORDS, SHADOWED, UNPROVED_CONVERSATION_BYTES,
    UNPROVED_NOTICES, UNPROVED_NOTICES_PER_ADDRESS, WAITING_MOST,
};
use kassette_http::LOOK_UPS;
use kassette_runtime::{
    CACHED_REQUESTS, CACHED_REQUESTS_OF_STRANGERS, INTERPRETED_AT_ONCE, MODULE_LINES_PER_SECOND,
    PERMIT_WAIT,
};

use crate::admission::InFlightLimits;
use crate::api::documented_limits::{
    MOST_PROVEN, PROVED, PROVEN_FOR, UNPROVED_OF_ACCOUNT, UNPROVED_OF_ADDRESS,
};
use crate::listen::Caps;
use crate::listen::documented_limits::{
    HEAD_BYTES, LEAST_TAKEN, OTHERS, OVER_BUDGET_STREAMS, PACE, REQUEST_BYTES, SPARE,
    SPARE_PER_SECOND, Timeouts,
};
use crate::serve::{FEW_FILES, LEAST_FILES};
use crate::telemetry::{FAILURES_PER_SECOND, LINES_PER_SECOND, REFUSALS_PER_SECOND, values_of};
use crate::web::budget::OWN;

const PAGE: &str = include_str!("../../../config/security.md");
/// Header row of the table.
const TABLE: &str = "| Resource | Counted per | Limit | Above the limit | Metric |";
/// Text that refers to the metrics of the previous row.
const BEFORE: &str = "the same";
/// Statuses of responses, which are not limits.
const STATUSES: [u64; 5] = [408, 409, 422, 429, 503];

struct Row {
    what: &'static str,
    by: &'static str,
    numbers: Vec<u64>,
    metric: &'static str,
}

fn rows() -> Vec<Row> {
    let (_, table) = PAGE.split_once(TABLE).unwrap();
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [what, by, .., metric] = cells[..] else {
            panic!("five cells: {row}");
        };
        let numbers = cells.iter().flat_map(|cell| numbers(cell)).collect();
        Row {
            what,
            by,
            numbers,
            metric,
        }
    })
    .collect()
}

/// Numbers of a text, except in code.
fn numbers(text: &str) -> Vec<u64> {
    let plain: String = text.split('`').step_by(2).collect();
    let words = plain.split_whitespace();
    let words = words.map(|word| word.trim_matches(|c: char| !c.is_ascii_alphanumeric()));
    let numbers = words.filter_map(|word| word.replace(',', "").parse().ok());
    numbers
        .filter(|number| !STATUSES.contains(number))
        .collect()
}

/// Contents of a text's code spans.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn number(value: impl TryInto<u64>) -> u64 {
    value.try_into().ok().unwrap()
}

fn kib(bytes: usize) -> u64 {
    assert_eq!(bytes % 1024, 0);
    number(bytes / 1024)
}

fn mib(bytes: usize) -> u64 {
    assert_eq!(kib(bytes) % 1024, 0);
    kib(bytes) / 1024
}

fn millis(time: Duration) -> u64 {
    number(time.as_millis())
}

/// Expected rows in order, with the numbers from the code.
fn held() -> Vec<(&'static str, &'static str, Vec<u64>)> {
    let (public, admin, times) = (Caps::default(), Caps::operators(), Timeouts::USUAL);
    let InFlightLimits { callbacks, .. } = InFlightLimits::default();
    assert!(callbacks > 0);
    assert_eq!(times.head, times.body);
    let both = |kind: Kind| [kind.permits(Live), kind.permits(Test)].map(number);
    let (unproved, of_account) = (UNPROVED_OF_ADDRESS, UNPROVED_OF_ACCOUNT);
    let days = PROVEN_FOR.as_secs() / 86_400;
    let interpreted = u64::from(INTERPRETED_AT_ONCE);
    vec![
        ("Connections", "listener", vec![number(admin.overall)]),
        (
            "Connections from an address",
            "address",
            vec![number(admin.per_address)],
        ),
        (
            "Time for a TLS handshake",
            "connection",
            vec![kib(HEAD_BYTES), times.head.as_secs()],
        ),
        (
            "Time without a request",
            "connection",
            vec![times.idle.as_secs()],
        ),
        (
            "Time in which the peer accepts less",
            "connection",
            vec![kib(LEAST_TAKEN), times.write.as_secs()],
        ),
        (
            "Time after the end of HTTP/2",
            "connection",
            vec![times.linger.as_secs()],
        ),
        (
            "Bytes of requests and responses",
            "connection",
            vec![kib(OWN)],
        ),
        (
            "",
            "address",
            vec![
                mib(public.bytes_per_address),
                mib(admin.bytes_per_address),
                kib(OWN),
            ],
        ),
        ("", "listener", vec![mib(public.bytes), mib(admin.bytes)]),
        (
            "Frames of HTTP/2",
            "connection",
            vec![number(SPARE), number(SPARE_PER_SECOND), millis(PACE)],
        ),
        ("Requests with a key", "key", vec![millis(times.pause)]),
        ("Requests without a key", "address", vec![]),
        ("Requests in flight", "class", vec![]),
        (
            "Starts in flight",
            "environment",
            both(Kind::Request).into(),
        ),
        ("Calls that start", "environment", both(Kind::Start).into()),
        (
            "Calls that query, capture, close or refund",
            "environment",
            both(Kind::Query).into(),
        ),
        (
            "Calls that read callbacks from addresses with a verified callback",
            "environment",
            both(Kind::Callback).into(),
        ),
        (
            "Calls that read callbacks from all other addresses",
            "environment",
            both(Kind::Unproved).into(),
        ),
        (
            "Refunds",
            "attempt",
            vec![number(PaymentAggregate::MAX_REFUNDS)],
        ),
        (
            "Verified callbacks",
            "account",
            vec![PROVED.per_second.into()],
        ),
        (
            "Callbacks from unverified addresses",
            "address",
            vec![unproved.per_second.into(), unproved.burst.into()],
        ),
        (
            "",
            "account",
            vec![of_account.per_second.into(), of_account.burst.into()],
        ),
        ("Callbacks in flight", "all", vec![]),
        (
            "Unverified callbacks from addresses with a verified callback",
            "address and account",
            vec![unproved.per_second.into(), unproved.burst.into()],
        ),
        (
            "Addresses with verified callbacks",
            "account",
            vec![number(MOST_PROVEN), days],
        ),
        (
            "Requests of modules",
            "account",
            vec![number(CACHED_REQUESTS)],
        ),
        (
            "",
            "unverified address",
            vec![1, number(CACHED_REQUESTS_OF_STRANGERS)],
        ),
        // A constant of the store.
        ("Verified notices", "account", vec![10_000]),
        (
            "Unverified notices",
            "address",
            vec![
                number(UNPROVED_NOTICES_PER_ADDRESS),
                number(UNPROVED_NOTICES),
            ],
        ),
        (
            "Payments reconciled at once",
            "environment",
            vec![
                number(RECONCILED_AT_ONCE),
                number(WAITING_MOST),
                number(IN_TEST_AT_ONCE),
                number(IN_TEST_MOST - IN_TEST_AT_ONCE),
            ],
        ),
        (
            "Calls of provider modules that carry an interpreter",
            "environment",
            vec![interpreted, interpreted / 2, millis(PERMIT_WAIT)],
        ),
        ("Name lookups", "all", vec![number(LOOK_UPS)]),
        ("Uploads", "all", vec![]),
        (
            "Decisions that wait for the routing log",
            "all",
            vec![number(ROUTING_RECORDS)],
        ),
        (
            "Calls of provider modules that wait for the routing log",
            "all",
            vec![
                number(CONVERSATIONS_WAITING >> 20),
                number(CONVERSATION_BYTES >> 10),
            ],
        ),
        (
            "Recorded unverified callbacks",
            "all",
            vec![number(UNPROVED_CONVERSATION_BYTES >> 10)],
        ),
        (
            "Decisions that wait for a candidate in the shadow, and are compared in a second",
            "slot",
            vec![number(SHADOWED)],
        ),
        ("Replays", "all", vec![]),
        ("Exchanges of a connect code", "code", vec![]),
        (
            "Lines of the log",
            "kind",
            vec![
                FREQUENT_LINES_PER_SECOND.into(),
                REFUSALS_PER_SECOND.into(),
                1,
                MODULE_LINES_PER_SECOND.into(),
                LINES_PER_SECOND.into(),
            ],
        ),
    ]
}

#[test]
fn each_limit_in_the_table_is_the_one_that_holds() {
    let rows = rows();
    let held = held();
    for (row, (what, by, numbers)) in rows.iter().zip(&held) {
        assert!(row.what.starts_with(what), "{what}: {}", row.what);
        assert_eq!(row.what.is_empty(), what.is_empty(), "{what} {by}");
        assert_eq!((row.by, &row.numbers), (*by, numbers), "{what}");
    }
    assert_eq!(rows.len(), held.len());
    assert_eq!(FAILURES_PER_SECOND, FREQUENT_LINES_PER_SECOND);
}

#[test]
fn paragraphs_below_the_table_have_the_numbers_of_the_code() {
    assert_eq!(
        numbers(paragraph("Connections and files")),
        [OTHERS, FEW_FILES, LEAST_FILES]
    );
    assert_eq!(
        numbers(paragraph("Bytes of a request")),
        [kib(REQUEST_BYTES), number(OVER_BUDGET_STREAMS)]
    );
    let (public, admin) = (Caps::default(), Caps::operators());
    let most = |caps: Caps| mib(caps.overall * OWN + caps.bytes);
    let of_address = mib(public.per_address * OWN + public.bytes_per_address);
    assert_eq!(
        numbers(paragraph("Memory")),
        [
            most(public),
            kib(OWN),
            mib(public.bytes),
            most(admin),
            kib(HEAD_BYTES),
            // A TLS record is 16 KiB.
            2 * 16,
            of_address
        ]
    );
}

/// Paragraph of the page that starts with a title in bold.
fn paragraph(title: &str) -> &'static str {
    let (_, after) = PAGE.split_once(&format!("\n**{title}.**")).unwrap();
    after.split_once("\n\n").unwrap().0
}

#[test]
fn each_limit_in_the_table_has_a_metric_that_is_there() {
    let mut metric = "";
    for row in rows() {
        let documented = row.metric.replace(BEFORE, metric);
        let names: Vec<_> = code(&documented)
            .filter(|word| word.starts_with("kassette_"))
            .collect();
        assert!(!names.is_empty(), "{} {} has no metric", row.what, row.by);
        let mut known = Vec::new();
        for name in names {
            let (name, labels) = name.split_once('{').unwrap_or((name, ""));
            let values = values_of(name).unwrap_or_else(|| panic!("there is no {name}"));
            let labels = labels.trim_end_matches('}').split(',');
            for label in labels.filter(|label| !label.is_empty()) {
                let (label, _) = label.split_once('=').unwrap_or((label, ""));
                assert!(
                    values.iter().any(|(name, _)| *name == label),
                    "{name}: {label}"
                );
            }
            for (label, values) in values {
                known.push(label);
                known.extend(values);
            }
        }
        for word in code(&documented).filter(|word| !word.starts_with("kassette_")) {
            assert!(known.contains(&word), "{}: {word}", row.what);
        }
        if !row.metric.contains(BEFORE) {
            metric = row.metric;
        }
    }
}
