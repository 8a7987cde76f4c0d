//! A flipped bit or a truncated file anywhere in a closed store: the store is refused with a remedy, or the
//! damage is reported by a read, or has no effect. The store never shows other data, and nothing is silently
//! missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::lifecycle::{PaymentAggregate, StartResult, Step};
use kassette_domain::provider::{PayerAction, ProviderStatus};
use kassette_engine::SEGMENT_BYTES;

use super::*;
use crate::sled::OpenError;
use crate::suite::fixtures::*;
use crate::{Created, Directory as _, Fault, History, Payments as _, StoreHealth as _};

/// Number of payments in the damaged store: enough for a log of several segments.
const PAYMENTS: usize = 300;
/// Number of damages of the log. A quarter of it for each other file.
const TRIES: usize = 64;
/// Maximum time for opening and reading, because a damaged store must not hang.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// Data before the damage.
struct Before {
    payments: Vec<(String, PaymentAggregate, History)>,
}

/// Creates a store in two sessions, so that the snapshot, the log and overwritten pages all matter.
async fn made(path: &Path) -> Before {
    let mut payments = Vec::new();
    for sitting in 0..2 {
        let store = SledStore::open(&options(path)).unwrap();
        let dynamic: Arc<dyn Store> = store.clone();
        for number in (0..PAYMENTS).filter(|number| number % 2 == sitting) {
            let name = number.to_string();
            create(&dynamic, &name, NOW).await;
            let attempt = format!("attempt of {name}");
            let step = open(&attempt, "sandbox-test");
            done(&dynamic, payment_of(&name), step, NOW).await;
            let step = started_by_form(number, &attempt, &format!("vendor-{name}"));
            done(&dynamic, payment_of(&name), step, NOW).await;
            if number % 3 > 0 {
                let report = report(&format!("vendor-{name}"), ProviderStatus::Completed);
                let step = news(&format!("attempt of {name}"), report);
                done(&dynamic, payment_of(&name), step, NOW).await;
            }
        }
        store.shut_down().await.unwrap();
    }
    let log = fs::metadata(options(path).path.join("db"))
        .map(|log| log.len())
        .unwrap();
    let several = 2 * u64::try_from(SEGMENT_BYTES).unwrap();
    assert!(log > several, "a log of {log} bytes has too few segments");
    let store = SledStore::open(&options(path)).unwrap();
    for number in 0..PAYMENTS {
        let name = number.to_string();
        let aggregate = store.aggregate(payment_of(&name)).await.unwrap().unwrap();
        let history = store.history(aggregate.payment.id).await.unwrap().unwrap();
        payments.push((name, aggregate, history));
    }
    store.shut_down().await.unwrap();
    Before { payments }
}

/// A start whose form is as long as a row, or as a page.
fn started_by_form(number: usize, attempt: &str, reference: &str) -> Step {
    let length = [10, 2_000, 20_000, 80_000][number % 4];
    Step::Started {
        held: None,
        attempt: attempt_id(attempt),
        result: StartResult::Open {
            reference: Some(reference.into()),
            action: PayerAction::Post {
                url: "https://pay.example/form".into(),
                fields: vec![("field".into(), (number % 10).to_string().repeat(length))],
            },
            until: None,
        },
        next: None,
    }
}

/// Effect of a damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Refused,
    Reported,
    Harmless,
}

/// Checks a read that was right before: it must be right, or report the damage.
fn right<T: PartialEq + std::fmt::Debug>(
    what: &str,
    read: Result<T, Fault>,
    before: &T,
    reported: &mut bool,
) -> Result<(), String> {
    match read {
        Ok(read) if read == *before => Ok(()),
        Ok(read) => Err(format!("{what} is silently {read:?}")),
        Err(Fault::Corrupt(_)) => {
            *reported = true;
            Ok(())
        }
        Err(other) => Err(format!("{what} is told as {other:?}")),
    }
}

async fn read(path: &Path, before: &Before) -> Result<Met, String> {
    let store = match SledStore::open(&options(path)) {
        Ok(store) => store,
        Err(error @ OpenError::Engine(kassette_engine::OpenError::Damaged { .. })) => {
            let told = error.to_string();
            assert!(told.contains("kassette verify") && told.contains("kassette restore"));
            return Ok(Met::Refused);
        }
        Err(other) => return Err(format!("it is refused as {other:?}")),
    };
    let mut reported = false;
    for (name, aggregate, history) in &before.payments {
        let found = store.aggregate(payment_of(name)).await;
        right("a payment", found, &Some(aggregate.clone()), &mut reported)?;
        let found = store.history(aggregate.payment.id).await;
        right("a history", found, &Some(history.clone()), &mut reported)?;
        let replay = store.replay(request(name)).await;
        let replay = replay.map(|replay| match replay {
            Some(Created::Replay(payment)) => Some(payment),
            _ => None,
        });
        right(
            "a replay",
            replay,
            &Some(aggregate.payment.clone()),
            &mut reported,
        )?;
        let by_token = store
            .by_checkout(kassette_domain::key::TokenHash::hash(&token(name)))
            .await;
        right("a token", by_token, &Some(aggregate.clone()), &mut reported)?;
        let by_reference = store
            .aggregate(crate::About::Reference {
                account: account("sandbox-test"),
                reference: format!("vendor-{name}"),
            })
            .await;
        right(
            "a reference",
            by_reference,
            &Some(aggregate.clone()),
            &mut reported,
        )?;
    }
    let listed = listed(&store).await.map(|mut ids| {
        ids.sort();
        ids
    });
    let mut ids: Vec<PaymentId> = before
        .payments
        .iter()
        .map(|(_, aggregate, _)| aggregate.payment.id)
        .collect();
    ids.sort();
    right("the list", listed, &ids, &mut reported)?;
    let audits = store.audit_log(first(100)).await;
    right("the audit log", audits.map(|_| ()), &(), &mut reported)?;
    // It may also refuse to close properly.
    let _closed = store.shut_down().await;
    Ok(if reported {
        Met::Reported
    } else {
        Met::Harmless
    })
}

/// All payments, page by page.
async fn listed(store: &SledStore) -> Result<Vec<PaymentId>, Fault> {
    let mut paging = first(100);
    let mut ids = Vec::new();
    loop {
        let found = page(store.payments(Default::default(), paging.clone()).await?);
        ids.extend(found.items.iter().map(|payment| payment.id));
        match found.next {
            None => return Ok(ids),
            next => paging.cursor = next,
        }
    }
}

pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// SplitMix64: the same damages in each run.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *seed;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    usize::try_from((z ^ (z >> 31)) >> 1).unwrap()
}

/// Opens and reads in a separate thread, because it may panic or hang.
fn judged(path: PathBuf, before: &Arc<Before>) -> Result<Met, String> {
    let (send, verdict) = mpsc::channel();
    let before = Arc::clone(before);
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _ = send.send(runtime.block_on(read(&path, &before)));
    });
    match verdict.recv_timeout(OPEN_TIMEOUT) {
        Ok(verdict) => verdict,
        Err(mpsc::RecvTimeoutError::Timeout) => Err("it hangs".into()),
        Err(mpsc::RecvTimeoutError::Disconnected) => Err("it panics".into()),
    }
}

#[test]
fn damage_to_a_closed_store_is_refused_or_reported_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let before = Arc::new(runtime.block_on(made(&whole)));
    assert_eq!(judged(whole.clone(), &before), Ok(Met::Harmless));
    let mut seed = 11;
    let mut tally: Vec<(String, [usize; 3])> = Vec::new();
    let mut wrong = Vec::new();
    for file in files(&whole) {
        let name = file.strip_prefix(&whole).unwrap().to_owned();
        let good = fs::read(&file).unwrap();
        if good.is_empty() {
            continue;
        }
        // Only in the used part: most of the log's last segment is empty.
        let used = good.iter().rposition(|byte| *byte != 0).unwrap_or_default() + 1;
        let mut met = [0; 3];
        let tries = if name.ends_with("db") {
            TRIES
        } else {
            TRIES / 4
        };
        for number in 0..tries {
            let mut bad = good.clone();
            let place = next(&mut seed) % used;
            let cut = number % 4 == 0;
            if cut {
                bad.truncate(place);
            } else {
                bad[place] ^= 1 << (next(&mut seed) % 8);
            }
            let copied = folder.path().join("damaged");
            copy(&whole, &copied);
            fs::write(copied.join(&name), bad).unwrap();
            match judged(copied.clone(), &before) {
                Ok(how) => met[how as usize] += 1,
                Err(why) => wrong.push(format!(
                    "{} {} at {place} of {used}: {why}",
                    name.display(),
                    if cut { "cut" } else { "flipped" },
                )),
            }
            let _ = fs::remove_dir_all(copied);
        }
        tally.push((name.display().to_string(), met));
    }
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
    let noticed: usize = tally.iter().map(|(_, met)| met[0] + met[1]).sum();
    assert!(noticed > 0, "refused, reported, harmless: {tally:?}");
}
