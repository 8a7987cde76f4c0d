//! Tests that compare the table of limits in config/README.md with the code: numbers and metrics.

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

const PAGE: &str = include_str!("../../../config/README.md");
/// Header row of the table.
const TABLE: &str = "| What | By | How much | Where it is used up | Metric |";
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
        (
            "Connections",
            "listener",
            vec![number(admin.overall), OTHERS, FEW_FILES, LEAST_FILES],
        ),
        ("Connections", "address", vec![number(admin.per_address)]),
        (
            "Time on a connection",
            "connection",
            vec![
                times.head.as_secs(),
                kib(HEAD_BYTES),
                times.idle.as_secs(),
                times.write.as_secs(),
                kib(LEAST_TAKEN),
                times.linger.as_secs(),
            ],
        ),
        (
            "Bytes of requests and answers",
            "connection",
            vec![kib(REQUEST_BYTES), kib(OWN), number(OVER_BUDGET_STREAMS)],
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
        ("", "all of them", vec![mib(public.bytes), mib(admin.bytes)]),
        (
            "Frames of HTTP/2",
            "connection",
            vec![number(SPARE), number(SPARE_PER_SECOND), millis(PACE)],
        ),
        ("Requests with a key", "key", vec![millis(times.pause)]),
        ("Requests without one", "address", vec![]),
        ("Requests in hand", "class", vec![]),
        ("Starts in hand", "environment", both(Kind::Request).into()),
        ("Calls that start", "environment", both(Kind::Start).into()),
        (
            "Calls that ask, capture, close or give back",
            "environment",
            both(Kind::Query).into(),
        ),
        (
            "Refunds",
            "attempt",
            vec![number(PaymentAggregate::MAX_REFUNDS)],
        ),
        (
            "Calls that read callbacks",
            "environment",
            [&both(Kind::Callback)[..], &[days], &both(Kind::Unproved)].concat(),
        ),
        (
            "Proved callbacks",
            "account",
            vec![PROVED.per_second.into()],
        ),
        (
            "Callbacks from addresses that have proved none",
            "address",
            vec![unproved.per_second.into(), unproved.burst.into()],
        ),
        (
            "",
            "account",
            vec![of_account.per_second.into(), of_account.burst.into()],
        ),
        ("Callbacks in hand", "all of them", vec![]),
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
        ("Names looked up", "all", vec![number(LOOK_UPS)]),
        ("Uploads", "all", vec![]),
        (
            "Decisions that wait for the routing log",
            "all",
            vec![number(ROUTING_RECORDS)],
        ),
        (
            "Calls of providers' modules that wait for the routing log",
            "all",
            vec![
                number(CONVERSATIONS_WAITING >> 20),
                number(CONVERSATION_BYTES >> 10),
            ],
        ),
        (
            "Recorded callbacks that prove nothing",
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
            "Callbacks that prove nothing",
            "address and account",
            vec![unproved.per_second.into(), unproved.burst.into()],
        ),
        (
            "Addresses that have proved",
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
            "address that has proved no callback",
            vec![1, number(CACHED_REQUESTS_OF_STRANGERS)],
        ),
        // A constant of the store.
        ("Proved notices", "account", vec![10_000]),
        (
            "Unproved notices",
            "address",
            vec![
                number(UNPROVED_NOTICES_PER_ADDRESS),
                number(UNPROVED_NOTICES),
            ],
        ),
        (
            "Lines of the log",
            "kind",
            vec![
                FREQUENT_LINES_PER_SECOND.into(),
                REFUSALS_PER_SECOND.into(),
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
fn the_most_that_requests_and_answers_take_is_told() {
    let (_, after) = PAGE.split_once("\nAt most, requests and answers").unwrap();
    let (told, _) = after.split_once("\n\n").unwrap();
    let (public, admin) = (Caps::default(), Caps::operators());
    let most = |caps: Caps| mib(caps.overall * OWN + caps.bytes);
    let of_address = mib(public.per_address * OWN + public.bytes_per_address);
    assert_eq!(
        numbers(told),
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

#[test]
fn each_limit_in_the_table_has_a_metric_that_is_there() {
    let mut metric = "";
    for row in rows() {
        let told = row.metric.replace(BEFORE, metric);
        let names: Vec<_> = code(&told)
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
        for word in code(&told).filter(|word| !word.starts_with("kassette_")) {
            assert!(known.contains(&word), "{}: {word}", row.what);
        }
        if !row.metric.contains(BEFORE) {
            metric = row.metric;
        }
    }
}
