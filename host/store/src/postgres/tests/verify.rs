//! Findings of `verify`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::Store;
use crate::payment_steps::OUT_OF_BALANCE;
use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{PostgresStore, verify};
use crate::report::VerifyReport;
use crate::suite::fixtures::*;
use crate::suite::full;

/// Kinds of rows, as reports name them.
const KINDS: [&str; 37] = [
    "account-switch",
    "api-key",
    "api-key-seen",
    "attempt",
    "audit-end",
    "audit-line",
    "connect-code",
    "connection",
    "consent-code",
    "delegation",
    "delivery",
    "due",
    "endpoint",
    "event",
    "event-by-time",
    "invitation",
    "ledger",
    "merchant",
    "movement",
    "nonces",
    "notes",
    "operator",
    "parked-notice",
    "payment",
    "reference",
    "reference-for-search",
    "refund-by-id",
    "reseller",
    "retention-laggard",
    "routing-batch",
    "search-mark",
    "timeline",
    "trial",
    "webhook-event",
    "work",
    // Counters without a row of their own.
    "merchant-count",
    "reseller-count",
];

/// A statement that causes damage, the kind of row in the finding, and a part of its text.
const DAMAGE: [(&str, &str, &str); 59] = [
    ("DELETE FROM due", "payment", "no row says when"),
    (
        "UPDATE due SET due_at = due_at + 1",
        "payment",
        "does not follow",
    ),
    (
        "INSERT INTO due (payment, due_at) VALUES (gen_random_uuid(), 1)",
        "due",
        "is missing",
    ),
    (
        "UPDATE payment SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "payment",
        "authentic",
    ),
    (
        "UPDATE payment SET order_id = 'another'",
        "payment",
        "columns",
    ),
    ("UPDATE payment SET status = -1", "payment", "columns"),
    (
        "DELETE FROM payment",
        "timeline",
        "nothing that is there needs it",
    ),
    ("DELETE FROM attempt", "attempt", "it is missing"),
    (
        "UPDATE attempt SET ordinal = 7",
        "attempt",
        "nothing that is there needs it",
    ),
    (
        "UPDATE attempt SET in_use = NOT in_use",
        "attempt",
        "columns",
    ),
    (
        "UPDATE attempt SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "attempt",
        "authentic",
    ),
    (
        "DELETE FROM timeline WHERE kind = 0",
        "payment",
        "routing decisions is missing",
    ),
    (
        "DELETE FROM timeline WHERE kind = 1",
        "payment",
        "lines of its timeline is missing",
    ),
    (
        "DELETE FROM timeline WHERE kind = 2",
        "payment",
        "events is missing",
    ),
    (
        "DELETE FROM timeline WHERE kind = 3",
        "payment",
        "its notes are missing",
    ),
    (
        "UPDATE timeline SET body = overlay(body PLACING '\\x00' FROM 30) WHERE kind = 3",
        "notes",
        "it is not authentic",
    ),
    (
        "DELETE FROM reference WHERE payment IS NOT NULL",
        "reference",
        "it is missing",
    ),
    (
        "UPDATE reference SET ordinal = 7 WHERE payment IS NOT NULL",
        "reference",
        "elsewhere",
    ),
    (
        "DELETE FROM search_reference",
        "reference-for-search",
        "it is missing",
    ),
    ("DELETE FROM search_mark", "search-mark", "it is missing"),
    ("DELETE FROM refund", "refund-by-id", "it is missing"),
    ("DELETE FROM movement", "payment", OUT_OF_BALANCE),
    (
        "UPDATE movement SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "movement",
        "authentic",
    ),
    (
        "UPDATE movement SET booked_at = booked_at + 1",
        "movement",
        "columns",
    ),
    ("DELETE FROM ledger", "ledger", "it is missing"),
    (
        "UPDATE ledger SET body = set_byte(body, 18, get_byte(body, 18) # 1)",
        "ledger",
        "authentic",
    ),
    (
        "UPDATE ledger SET closed_until = closed_until - 1",
        "ledger",
        "columns",
    ),
    ("DELETE FROM event", "event-by-time", "it is missing"),
    (
        "UPDATE event SET kind = kind + 1",
        "event-by-time",
        "leads elsewhere",
    ),
    ("UPDATE work SET is_open = NOT is_open", "work", "columns"),
    (
        "UPDATE work SET attempt = gen_random_uuid()",
        "work",
        "another payment's",
    ),
    ("UPDATE parked SET until = 1", "parked-notice", "columns"),
    (
        "UPDATE laggard SET payment = gen_random_uuid()",
        "retention-laggard",
        "is missing",
    ),
    (
        "DELETE FROM delivery",
        "webhook-event",
        "a delivery of it is missing",
    ),
    (
        "UPDATE delivery SET next_at = NULL WHERE status = 0",
        "delivery",
        "due and over",
    ),
    (
        "DELETE FROM event_body",
        "delivery",
        "the event that it is of is missing",
    ),
    (
        "UPDATE event_body SET deliveries = 0",
        "delivery",
        "counts fewer",
    ),
    (
        "UPDATE event_body SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "webhook-event",
        "authentic",
    ),
    ("UPDATE endpoint SET wants = 0", "endpoint", "what it wants"),
    (
        "DELETE FROM merchant",
        "endpoint",
        "the merchant whose it is is missing",
    ),
    (
        "DELETE FROM reseller",
        "delegation",
        "the reseller whose it is is missing",
    ),
    (
        "DELETE FROM reseller",
        "endpoint",
        "the reseller whose it is is missing",
    ),
    (
        "UPDATE endpoint SET reseller = 9 WHERE merchant = 0",
        "endpoint",
        "columns",
    ),
    (
        "DELETE FROM delegation",
        "invitation",
        "what came of it is missing",
    ),
    (
        "DELETE FROM connection",
        "connect-code",
        "what it was redeemed for is missing",
    ),
    (
        "DELETE FROM api_key",
        "connection",
        "the key that was made is missing",
    ),
    ("UPDATE operator SET created_at = 0", "operator", "columns"),
    (
        "UPDATE routing_log SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "routing-batch",
        "authentic",
    ),
    (
        "UPDATE routing_log SET number = number + 7",
        "routing-batch",
        "authentic",
    ),
    (
        "UPDATE routing_log SET records = records + 1",
        "routing-batch",
        "columns",
    ),
    (
        "UPDATE routing_log SET bytes = bytes - 1",
        "routing-batch",
        "columns",
    ),
    (
        "UPDATE trial SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "trial",
        "authentic",
    ),
    ("UPDATE trial SET slot = slot || 's'", "trial", "authentic"),
    ("DELETE FROM audit WHERE number = 2", "audit-line", "2"),
    (
        "UPDATE audit_end SET body = set_byte(body, 18, get_byte(body, 18) # 1)",
        "audit-end",
        "authentic",
    ),
    ("UPDATE audit_end SET body = NULL", "audit-line", ""),
    (
        "UPDATE operator SET body = set_byte(body, 30, get_byte(body, 30) # 1)",
        "operator",
        "authentic",
    ),
    (
        "UPDATE account_switch SET body = set_byte(body, 18, get_byte(body, 18) # 1)",
        "account-switch",
        "authentic",
    ),
    (
        "UPDATE counter SET value = value + 1 WHERE name = 'reseller'",
        "reseller-count",
        "it counts",
    ),
];

/// A served database with rows of every kind. `None` without PostgreSQL.
async fn filled() -> Option<(Scratch, Arc<PostgresStore>)> {
    if !Scratch::available().unwrap() {
        eprintln!("NOT RUN: no PostgreSQL is installed");
        return None;
    }
    let scratch = Scratch::new().await.unwrap();
    let store = PostgresStore::open(&scratch.options()).await.unwrap();
    let shared: Arc<dyn Store> = store.clone();
    full::fill(&shared).await;
    Some((scratch, store))
}

async fn read(scratch: &Scratch) -> VerifyReport {
    verify(&scratch.options(), &()).await.unwrap()
}

#[tokio::test]
async fn a_database_that_was_not_harmed_is_whole() {
    let Some((scratch, _store)) = filled().await else {
        return;
    };
    let report = read(&scratch).await;
    assert_eq!(report.findings, []);
    assert_eq!((report.payments, report.audit_lines), (5, 14));
    let there: BTreeSet<_> = report.rows.keys().copied().collect();
    let known = BTreeSet::from(KINDS);
    assert_eq!(
        known.difference(&there).collect::<Vec<_>>(),
        [
            &"audit-end",
            &"ledger",
            &"merchant-count",
            &"reseller-count"
        ]
    );
    assert!(there.is_subset(&known), "{there:?}");
}

#[tokio::test]
async fn a_database_is_whole_while_it_is_written() {
    let Some((scratch, store)) = filled().await else {
        return;
    };
    let shared: Arc<dyn Store> = store.clone();
    let write = async {
        for number in 0..20 {
            pay(&shared, &format!("meanwhile-{number}")).await;
        }
    };
    let look = async {
        for _ in 0..5 {
            assert_eq!(read(&scratch).await.findings, []);
        }
    };
    tokio::join!(write, look);
    assert_eq!(read(&scratch).await.payments, 25);
}

#[tokio::test]
async fn planted_damage_is_found() {
    let known = BTreeSet::from(KINDS);
    let Some((scratch, store)) = filled().await else {
        return;
    };
    let target = Target::parse(&scratch.options().url).unwrap();
    let mut client = target.connect().await.unwrap();
    for (plant, kind, what) in DAMAGE {
        assert!(known.contains(kind), "{kind}");
        // Never committed, so that the next case starts with intact data.
        let harmed = client.transaction().await.unwrap();
        assert_ne!(harmed.execute(plant, &[]).await.unwrap(), 0, "{plant}");
        let report = verify::read(&harmed, &store.secrets, &()).await.unwrap();
        let is_told = report
            .findings
            .iter()
            .any(|found| found.kind == kind && found.what.contains(what));
        assert!(is_told, "{plant}: {:?}", report.findings);
    }
    assert_eq!(read(&scratch).await.findings, []);
}
