//! Damage that `verify` detects.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

use kassette_domain::audit::{AuditEntry, ChainBreak};
use kassette_domain::delegation::DelegationDecision;
use kassette_domain::event::EventType;
use kassette_domain::id::{MerchantId, PaymentId, ResellerId};
use kassette_domain::webhook::{Endpoint, EventFilter};
use kassette_engine::{Db, IVec};

use super::*;
use crate::Fault;
use crate::rows::schema;
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::tests::damage::copy;
use crate::sled::verifier::kinds::Kind;

/// Kinds whose missing rows cannot be detected, because no other row refers to them.
const TRACELESS: [&str; 9] = [
    "account-switch",
    "api-key-seen",
    "ledger",
    "nonces",
    "nonces-freed",
    "probe",
    "retention",
    "retention-laggard",
    "trial",
];

async fn damaged(plant: impl FnOnce(&Db)) -> (TempDir, Result<VerifyReport, MaintenanceError>) {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let stopped = Stopped::open(&options(&folder)).unwrap();
    plant(&stopped.db);
    stopped.db.flush().unwrap();
    drop(stopped);
    // Except in such a small store, the log does not reach back to the first group.
    for log in kassette_engine::LOG_FILES {
        std::fs::remove_file(options(&folder).path.join(log)).unwrap();
    }
    let report = verify(&options(&folder), &());
    (folder, report)
}

/// Kinds of the findings. A store that cannot be opened counts as one finding without a kind.
fn kinds_found(report: Result<VerifyReport, MaintenanceError>) -> Vec<&'static str> {
    match report {
        Ok(report) => report.findings.iter().map(|finding| finding.kind).collect(),
        // The format version is a row too.
        Err(MaintenanceError::Open(
            OpenError::Engine(kassette_engine::OpenError::Damaged { .. }) | OpenError::Newer { .. },
        )) => {
            vec!["none"]
        }
        Err(other) => panic!("{other}"),
    }
}

fn first_of(db: &Db, kind: &Kind) -> (IVec, IVec) {
    let first = db.scan_prefix(kind.prefix).next();
    first.unwrap_or_else(|| panic!("no {}", kind.name)).unwrap()
}

#[tokio::test]
async fn a_store_that_nobody_harmed_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    closed(full(&options(&folder)).await).await;
    let report = whole(&options(&folder));
    assert_eq!((report.payments, report.audit_lines), (5, 14));
    let all: BTreeSet<&str> = KINDS.all().iter().map(|kind| kind.name).collect();
    let there: BTreeSet<&str> = report.rows.keys().copied().collect();
    assert_eq!(there, all, "the tests below look at every kind");
}

#[tokio::test]
async fn a_row_that_is_missing_is_found_whatever_its_kind() {
    for kind in KINDS.all() {
        let (_folder, report) = damaged(|db| {
            let (key, _) = first_of(db, kind);
            db.remove(key).unwrap();
        })
        .await;
        let found = kinds_found(report);
        assert_eq!(
            found.is_empty(),
            TRACELESS.contains(&kind.name),
            "{}",
            kind.name
        );
    }
}

#[tokio::test]
async fn a_row_that_was_changed_is_found_whatever_its_kind() {
    for kind in KINDS.all() {
        let (_folder, report) = damaged(|db| {
            let (key, row) = first_of(db, kind);
            let mut row = row.to_vec();
            match row.last_mut() {
                Some(last) => *last ^= 1,
                None => row.push(1),
            }
            db.insert(key, row).unwrap();
        })
        .await;
        assert!(!kinds_found(report).is_empty(), "{}", kind.name);
    }
}

#[tokio::test]
async fn an_altered_operator_or_payment_is_unreadable_and_the_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let bob = operator("bob", NOW);
    let made = store.create_operator(bob.clone(), audited("operator.create"), NOW);
    made.await.unwrap().unwrap();
    let kept = store.aggregate(payment_of("c")).await.unwrap();
    closed(store).await;
    let stopped = Stopped::open(&options(&folder)).unwrap();
    let ann = operator("ann", NOW).hash;
    let id = |name: &str| PaymentId::from_bytes(id_of(name));
    for (key, at) in [
        (schema::operator(ann), None),
        // After the header and the merchant come amounts and the status.
        (schema::payment(id("a")), Some(40)),
        (schema::payment(id("b")), Some(60)),
    ] {
        let mut row = stopped.db.get(&key).unwrap().unwrap().to_vec();
        let at = at.unwrap_or(row.len() - 1);
        row[at] ^= 1;
        stopped.db.insert(key, row).unwrap();
    }
    stopped.db.flush().unwrap();
    drop(stopped);
    for log in kassette_engine::LOG_FILES {
        std::fs::remove_file(options(&folder).path.join(log)).unwrap();
    }
    let store = SledStore::open(&options(&folder)).unwrap();
    let operator = store.operator(ann).await;
    assert!(matches!(operator, Err(Fault::Corrupt(_))), "{operator:?}");
    assert_eq!(store.operator(bob.hash).await, Ok(Some(bob)));
    for name in ["a", "b"] {
        let read = store.aggregate(payment_of(name)).await;
        assert!(matches!(read, Err(Fault::Corrupt(_))), "{read:?}");
        let replayed = store.create(new_payment(name), None, NOW).await;
        assert!(matches!(replayed, Err(Fault::Corrupt(_))), "{replayed:?}");
    }
    assert_eq!(store.aggregate(payment_of("c")).await, Ok(kept));
    closed(store).await;
}

#[tokio::test]
async fn a_delegation_from_before_it_was_revoked_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    closed(store).await;
    let key = schema::resellers::delegation(ResellerId(1), MerchantId(2));
    let row = |place: &OpenOptions| {
        let stopped = Stopped::open(place).unwrap();
        stopped.db.get(&key).unwrap().unwrap()
    };
    let before = row(&options(&folder));
    let store = SledStore::open(&options(&folder)).unwrap();
    let line = audited("delegation.revoke");
    let revoked = store.set_delegation(
        ResellerId(1),
        MerchantId(2),
        DelegationDecision::Revoke,
        line,
        later(9),
    );
    revoked.await.unwrap().unwrap();
    closed(store).await;
    whole(&options(&folder));
    let stopped = Stopped::open(&options(&folder)).unwrap();
    stopped.db.insert(&*key, before).unwrap();
    stopped.db.flush().unwrap();
    drop(stopped);
    for log in kassette_engine::LOG_FILES {
        std::fs::remove_file(options(&folder).path.join(log)).unwrap();
    }
    assert_eq!(kinds_found(verify(&options(&folder), &())), ["delegation"]);
}

#[tokio::test]
async fn an_index_that_leads_elsewhere_is_named() {
    let (_folder, report) = damaged(|db| {
        let (_, other) = db.scan_prefix(b"rtn/").nth(1).unwrap().unwrap();
        let (key, _) = db.scan_prefix(b"rtn/").next().unwrap().unwrap();
        let key_of_other = db.scan_prefix(b"rtn/").nth(1).unwrap().unwrap().0;
        let attempt_key: AttemptKey = records::decode(&sealer(), &key_of_other, &other).unwrap();
        db.insert(
            &key,
            records::encode(&sealer(), &key, &attempt_key).unwrap(),
        )
        .unwrap();
    })
    .await;
    let findings = report.unwrap().findings;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].kind, "attempt-by-return");
    assert!(findings[0].what.contains("elsewhere"), "{findings:?}");
}

#[tokio::test]
async fn a_payment_of_which_nothing_is_left_is_missed() {
    let (_folder, report) = damaged(|db| {
        let id = id_of("b");
        for row in db.iter() {
            let (key, value) = row.unwrap();
            let about = |bytes: &[u8]| bytes.windows(16).any(|window| window == id);
            let shared = key.starts_with(schema::PAYMENT_INDEX);
            if !shared && (about(&key) || about(&value)) {
                db.remove(key).unwrap();
            }
        }
    })
    .await;
    let found = kinds_found(report);
    assert!(found.contains(&"payment index"), "{found:?}");
}

#[tokio::test]
async fn a_row_of_no_known_kind_is_named() {
    let (_folder, report) = damaged(|db| {
        db.insert(b"xyz/1", b"something").unwrap();
    })
    .await;
    assert_eq!(kinds_found(report), ["unknown"]);
}

#[tokio::test]
async fn a_changed_line_of_the_audit_log_is_named_by_its_number() {
    let (folder, report) = damaged(|db| {
        let key = schema::audit(3);
        let mut entry: AuditEntry =
            records::decode(&sealer(), &key, &db.get(&key).unwrap().unwrap()).unwrap();
        entry.audited.actor = "nobody".into();
        db.insert(&key, records::encode(&sealer(), &key, &entry).unwrap())
            .unwrap();
    })
    .await;
    assert_eq!(kinds_found(report), ["audit-line"]);
    let chain = verify_audit(&options(&folder)).unwrap();
    assert_eq!(chain.breaks(), [ChainBreak::Altered(3)]);
    let store = SledStore::open(&options(&folder)).unwrap();
    assert_eq!(
        store.verify_audit().await.unwrap(),
        chain,
        "a running one says the same"
    );
    closed(store).await;
}

#[tokio::test]
async fn lines_that_are_written_meanwhile_do_not_break_the_audit_log() {
    let folder = tempfile::tempdir().unwrap();
    let store = full(&options(&folder)).await;
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for _ in 0..50 {
                store.audit(audited("x.y"), NOW).await.unwrap();
            }
        }
    });
    while !writer.is_finished() {
        assert_eq!(store.verify_audit().await.unwrap().breaks(), []);
    }
    writer.await.unwrap();
    assert_eq!(store.verify_audit().await.unwrap().last().unwrap().0, 64);
    closed(store).await;
}

#[tokio::test]
async fn there_is_nothing_to_verify_where_no_store_is() {
    let folder = tempfile::tempdir().unwrap();
    let refused = verify(&options(&folder), &());
    assert!(
        matches!(refused, Err(MaintenanceError::NoStore(_))),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// A roster as stored.
type Wanted = Vec<(EndpointId, u32)>;

/// Findings of `verify` after a merchant's roster was rewritten.
async fn rosters(filter: EventFilter, write: impl Fn(u32) -> u32) -> Vec<&'static str> {
    let folder = tempfile::tempdir().unwrap();
    let options = options(&folder);
    let store = full(&options).await;
    let listening = endpoint("listening", NOW);
    let before = store.endpoint(listening.id).await.unwrap().unwrap();
    let after = Endpoint {
        event_types: filter,
        ..before.clone()
    };
    let replaced = store.replace_endpoint(before, after, audited("endpoint.update"), NOW);
    replaced.await.unwrap();
    closed(store).await;
    let stopped = Stopped::open(&options).unwrap();
    let key = schema::webhooks::roster(listening.owner, listening.environment);
    let row = stopped.db.get(&key).unwrap().unwrap();
    let mut roster: Wanted = records::decode(&sealer(), &key, &row).unwrap();
    let of_it = roster.iter_mut().find(|(id, _)| *id == listening.id);
    let (_, wants) = of_it.unwrap();
    *wants = write(*wants);
    let row = records::encode(&sealer(), &key, &roster).unwrap();
    stopped.db.insert(&key, row).unwrap();
    stopped.db.flush().unwrap();
    drop(stopped);
    for log in kassette_engine::LOG_FILES {
        std::fs::remove_file(options.path.join(log)).unwrap();
    }
    kinds_found(verify(&options, &()))
}

#[tokio::test]
async fn a_roster_of_an_endpoint_that_names_every_kind_is_whole() {
    let each = EventFilter::only(&EventType::ALL);
    assert_eq!(rosters(each, |wants| wants).await, [""; 0]);
}

#[tokio::test]
async fn a_roster_that_says_more_or_less_than_its_endpoint_is_found() {
    let all = || EventFilter::All;
    let each = || EventFilter::only(&EventType::ALL);
    for (filter, wants) in [
        (all(), 0x7fe),
        (all(), 0),
        (each(), 0x8000_77ff),
        (each(), 0x7fe),
        (EventFilter::only(&[]), 1 << 31),
        (EventFilter::only(&[EventType::PaymentCompleted]), 1 << 5),
    ] {
        let found = rosters(filter.clone(), |_| wants).await;
        assert!(
            found.contains(&"endpoint-roster"),
            "{filter:?} {wants:x}: {found:?}"
        );
    }
}

/// Number of payments in the store whose bits are flipped: enough for many pages.
const PAYMENTS: usize = 300;
/// Number of bits that are flipped in it, one at a time.
const FLIPS: usize = 50;

/// Number of audit log lines after them, in several segments. sled reads all records of the last segment when
/// it opens.
const LINES: usize = 3_000;
/// Size of a line in bytes.
const LINE: usize = 4_000;

/// A closed store of several segments. Returns its keys and the number of used bytes of its `db`.
async fn filled(folder: &TempDir) -> (Vec<IVec>, usize) {
    let options = options(folder);
    let store = SledStore::open(&options).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    for number in 0..PAYMENTS {
        create(&shared, &number.to_string(), NOW).await;
    }
    let line = |number: usize| {
        let mut line = audited("x.y");
        line.reason = Some(number.to_string().repeat(LINE)[..LINE].to_owned());
        store.audit(line, NOW)
    };
    let lines: Vec<usize> = (0..LINES).collect();
    for lines in lines.chunks(100) {
        for written in futures_util::future::join_all(lines.iter().copied().map(line)).await {
            written.unwrap();
        }
    }
    drop(shared);
    closed(store).await;
    whole(&options);
    let stopped = Stopped::open(&options).unwrap();
    let keys = stopped.db.iter().keys().map(Result::unwrap).collect();
    drop(stopped);
    let database = std::fs::read(options.path.join("db")).unwrap();
    let used = database.iter().rposition(|byte| *byte != 0).unwrap();
    (keys, used)
}

fn flip(store: &Path, file: &str, at: usize) {
    let path = store.join(file);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

/// Places of `db` that a report names.
fn places(report: &VerifyReport) -> Vec<Range<usize>> {
    let places = report
        .findings
        .iter()
        .filter(|finding| finding.kind == "file" && finding.row == "db");
    places
        .map(|finding| {
            let (bytes, _) = finding.what.split_once(": ").unwrap();
            let (first, last) = bytes
                .strip_prefix("bytes ")
                .and_then(|bytes| bytes.split_once(" to "))
                .unwrap();
            first.parse().unwrap()..last.parse::<usize>().unwrap() + 1
        })
        .collect()
}

/// Whether a report names a key as unreadable.
fn unread(report: &VerifyReport, key: &[u8]) -> bool {
    let mut unread = report
        .findings
        .iter()
        .filter(|finding| finding.kind == "unreadable");
    unread.any(|finding| {
        let (behind, before) = finding.row.split_once("..").unwrap();
        let key = hex::encode(key);
        (behind.is_empty() || *key > *behind) && (before.is_empty() || *key < *before)
    })
}

/// Report of `verify` about a store, and whether each key is unreadable.
fn told(options: &OpenOptions, keys: &[IVec]) -> (VerifyReport, Vec<bool>) {
    let report = verify(options, &()).unwrap();
    for finding in &report.findings {
        assert!(finding.advice.contains("kassette restore"), "{finding:?}");
    }
    let sealer = Sealer::new(&options.master);
    let folder = options.take_folder().unwrap();
    let read = match crate::sled::open::open_rows(&folder, &sealer) {
        Ok((db, _)) => keys.iter().map(|key| db.get(key).is_ok()).collect(),
        Err(_) => Vec::new(),
    };
    (report, read)
}

#[tokio::test]
async fn a_flipped_bit_is_told_by_the_bytes_that_hold_it_and_the_rows_that_are_lost() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, used) = filled(&folder).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let damaged = options(&elsewhere);
    let (mut by_rows, mut unopened) = (Vec::new(), 0);
    for at in (0..used).step_by(used / FLIPS) {
        copy(&options(&folder).path, &damaged.path);
        flip(&damaged.path, "db", at);
        let (report, read) = told(&damaged, &keys);
        let named = places(&report);
        if report.is_whole() {
            // There is no page at this place.
            assert!(read.iter().all(|read| *read), "{at}");
            assert_eq!(kassette_engine::unreadable(&damaged.path).unwrap(), []);
        } else {
            assert_eq!(named.len(), 1, "{at}: {:?}", report.findings);
            assert!(named[0].contains(&at), "{at}: {named:?}");
            assert_eq!(report.findings[0].kind, "file", "the place comes first");
        }
        if read.is_empty() {
            assert!(report.findings.iter().any(|found| found.kind == "store"));
            unopened += 1;
        } else {
            for (key, read) in keys.iter().zip(&read) {
                assert_eq!(unread(&report, key), !read, "{at}: {}", hex::encode(key));
            }
            by_rows.extend(read.contains(&false).then(|| (at, named[0].clone())));
        }
        std::fs::remove_dir_all(&damaged.path).unwrap();
    }
    assert!(by_rows.len() > FLIPS / 4, "{by_rows:?}, {unopened}");
    assert!(unopened > 0, "none in the last segment: {used}");
    // Two damaged places.
    let (first, place) = &by_rows[0];
    let (last, _) = by_rows.iter().rfind(|(_, other)| other != place).unwrap();
    copy(&options(&folder).path, &damaged.path);
    flip(&damaged.path, "db", *first);
    flip(&damaged.path, "db", *last);
    let (report, read) = told(&damaged, &keys);
    let named = places(&report);
    assert_eq!(named.len(), 2, "{:?}", report.findings);
    for at in [first, last] {
        assert!(named.iter().any(|place| place.contains(at)), "{named:?}");
    }
    for (key, read) in keys.iter().zip(&read) {
        assert!(*read || unread(&report, key), "{}", hex::encode(key));
    }
}

#[tokio::test]
async fn a_damaged_store_that_does_not_open_is_told_by_the_place_and_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    filled(&folder).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let damaged = options(&elsewhere);
    let files = std::fs::read_dir(&options(&folder).path).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let snapshot = names.into_iter().find(|name| name.starts_with("snap."));
    for (file, at) in [(snapshot.unwrap().as_str(), 100), ("checkpointed", 3)] {
        copy(&options(&folder).path, &damaged.path);
        if file == "checkpointed" {
            // A file of a store that has run, and whose log is missing.
            closed(SledStore::open(&damaged).unwrap()).await;
            for log in kassette_engine::LOG_FILES {
                std::fs::remove_file(damaged.path.join(log)).unwrap();
            }
        }
        flip(&damaged.path, file, at);
        let (report, read) = told(&damaged, &[]);
        assert!(read.is_empty() && report.rows.is_empty());
        let found: Vec<_> = report.findings.iter().collect();
        assert_eq!((found[0].kind, found[0].row.as_str()), ("file", file));
        let last = found.last().unwrap();
        assert_eq!(last.kind, "store");
        assert!(last.what.starts_with("it does not open: "), "{found:?}");
        std::fs::remove_dir_all(&damaged.path).unwrap();
    }
}

#[tokio::test]
async fn a_log_that_lost_changes_is_told_with_where_it_stops_reading_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(&folder)).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    let mut records = Vec::new();
    for number in 0..3 {
        create(&shared, &number.to_string(), NOW).await;
        let logs = kassette_engine::LOG_FILES.map(|name| {
            let log = std::fs::read(options(&folder).path.join(name)).unwrap();
            log.iter().rposition(|byte| *byte != 0)
        });
        records.push(logs);
    }
    // The state after the process is killed.
    let elsewhere = tempfile::tempdir().unwrap();
    let damaged = options(&elsewhere);
    copy(&options(&folder).path, &damaged.path);
    drop(shared);
    closed(store).await;
    let log = usize::from(records[1][1] != records[2][1]);
    let [second, third] = [1, 2].map(|record| records[record][log].unwrap());
    assert!(second < third, "{records:?}");
    let name = kassette_engine::LOG_FILES[log];
    flip(&damaged.path, name, third);
    let report = verify(&damaged, &()).unwrap();
    let [found] = &report.findings[..] else {
        panic!("{:?}", report.findings)
    };
    let begins = (second + 1).next_multiple_of(4096);
    assert_eq!(found.kind, "store");
    assert!(
        found.what.contains(&format!("byte {begins} of `{name}`")),
        "{third}: {found:?}"
    );
    assert!(found.what.contains("acknowledged"), "{found:?}");
}
