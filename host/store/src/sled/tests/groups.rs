//! Groups of operations, and reads while a group is not yet on disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use kassette_domain::key::TokenHash;
use kassette_domain::provider::ProviderStatus;
use kassette_engine::{DiskHooks, Span, Syncing, number_in};
use parking_lot::Mutex;

use super::*;
use crate::suite::fixtures::*;
use crate::{
    Created, Deliveries as _, Fault, Nonces as _, Payments as _, Reserved, StoreHealth as _,
    Trials as _,
};

struct Gated {
    store: Arc<SledStore>,
    shut: Arc<AtomicBool>,
    reached: tokio::sync::mpsc::UnboundedReceiver<()>,
    verdict: mpsc::Sender<()>,
    _folder: TempDir,
}

fn gated() -> Gated {
    let folder = tempfile::tempdir().unwrap();
    let shut = Arc::new(AtomicBool::new(false));
    let (reached, reached_rx) = tokio::sync::mpsc::unbounded_channel();
    let (verdict, verdicts) = mpsc::channel();
    let gate = Arc::clone(&shut);
    let verdicts = Mutex::new(verdicts);
    let hooks = DiskHooks {
        // Holds syncs of the log back until one is released.
        before_sync: Box::new(move |syncing| {
            if syncing == Syncing::Log && gate.load(Ordering::SeqCst) {
                let _ = reached.send(());
                verdicts.lock().recv().map_err(io::Error::other)?;
            }
            Ok(())
        }),
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks);
    Gated {
        store: store.unwrap(),
        shut,
        reached: reached_rx,
        verdict,
        _folder: folder,
    }
}

/// Whether a future is still waiting after everything that could run has run.
async fn waits<T>(task: &tokio::task::JoinHandle<T>) -> bool {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    !task.is_finished()
}

#[tokio::test]
async fn a_read_never_shows_what_is_not_yet_on_disk() {
    let mut gated = gated();
    let store = gated.store.clone();
    store.create(new_payment("old"), None, NOW).await.unwrap();
    gated.shut.store(true, Ordering::SeqCst);
    let writer = tokio::spawn({
        let store = store.clone();
        async move { store.create(new_payment("new"), None, NOW).await }
    });
    gated.reached.recv().await.unwrap();
    // It does not delay any caller either.
    let list = || async {
        let listed = store.payments(Default::default(), first(9)).await;
        page(listed.unwrap()).items.len()
    };
    assert!(store.aggregate(payment_of("new")).await.unwrap().is_none());
    assert!(store.replay(request("new")).await.unwrap().is_none());
    assert!(store.aggregate(payment_of("old")).await.unwrap().is_some());
    assert_eq!(list().await, 1);
    assert!(waits(&writer).await);
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    assert!(matches!(writer.await.unwrap(), Ok(Created::New(_))));
    assert!(store.aggregate(payment_of("new")).await.unwrap().is_some());
    assert_eq!(list().await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_is_seen_whole_or_not_at_all() {
    use crate::rows::schema;
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for name in 0..300 {
                let new = new_payment(&name.to_string());
                store.create(new, None, NOW).await.unwrap();
            }
        }
    });
    // Each is a separate group, of which two rows are read here.
    let mut looks = 0;
    while !writer.is_finished() || looks < 300 {
        let read = store.read(|view| {
            let group = view.get(kassette_engine::GROUP)?;
            let groups = group.map(|row| number_in(kassette_engine::GROUP, &row).unwrap());
            let payments = view.keys(&Span::prefix(schema::PAYMENTS), 1_000)?;
            Ok((groups.unwrap_or_default(), payments.len()))
        });
        let (groups, payments) = read.await.unwrap();
        assert_eq!(groups, u64::try_from(payments).unwrap());
        looks += 1;
    }
    writer.await.unwrap();
}

#[tokio::test]
async fn writers_that_wait_share_one_sync() {
    let mut gated = gated();
    let store = gated.store.clone();
    gated.shut.store(true, Ordering::SeqCst);
    let before = store.counters();
    let create = |name: String| {
        let store = store.clone();
        tokio::spawn(async move { store.create(new_payment(&name), None, NOW).await })
    };
    let mut writers = vec![create("first".into())];
    gated.reached.recv().await.unwrap();
    writers.extend((0..100).map(|each| create(each.to_string())));
    assert!(waits(&writers[100]).await);
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    for writer in writers {
        assert!(matches!(writer.await.unwrap(), Ok(Created::New(_))));
    }
    let after = store.counters();
    assert_eq!(after.operations - before.operations, 101);
    // One is being written to the disk, and all others share the second.
    assert_eq!(after.commits - before.commits, 2);
}

#[tokio::test]
async fn a_caller_passes_by_sweeps_that_were_begun_before() {
    let mut gated = gated();
    let store = gated.store.clone();
    let shared: Arc<dyn Store> = store.clone();
    shop(&shared).await;
    let endpoint = listen(&shared, endpoint("a", NOW)).await.id;
    gated.shut.store(true, Ordering::SeqCst);
    let first = tokio::spawn({
        let store = store.clone();
        async move { store.create(new_payment("first"), None, NOW).await }
    });
    gated.reached.recv().await.unwrap();
    let sweeps: Vec<_> = (0..200)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.sweep(endpoint, NOW).await })
        })
        .collect();
    assert!(waits(&sweeps[199]).await);
    let caller = tokio::spawn({
        let store = store.clone();
        async move { store.probe().await }
    });
    assert!(waits(&caller).await);
    let before = store.counters().operations;
    gated.verdict.send(()).unwrap();
    gated.reached.recv().await.unwrap();
    // The caller's group is being written to the disk.
    let sweeps_before = store.counters().operations - before - 1;
    assert!(sweeps_before < 20, "{sweeps_before} sweeps came first");
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    caller.await.unwrap().unwrap();
    first.await.unwrap().unwrap();
    for sweep in sweeps {
        sweep.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_is_said_and_nothing_of_it_is_written() {
    let mut gated = gated();
    let store = gated.store.clone();
    gated.shut.store(true, Ordering::SeqCst);
    let create = |name: String| {
        let store = store.clone();
        tokio::spawn(async move { store.create(new_payment(&name), None, NOW).await })
    };
    let writer = create("first".into());
    gated.reached.recv().await.unwrap();
    let mut probes = Vec::new();
    let refused = loop {
        let mut probe = store.probe();
        match futures_poll(&mut probe) {
            Some(answer) => break answer,
            None => probes.push(probe),
        }
    };
    assert_eq!(refused, Err(Fault::Busy));
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    assert!(matches!(writer.await.unwrap(), Ok(Created::New(_))));
    for probe in probes {
        probe.await.unwrap();
    }
}

/// Polls once.
fn futures_poll<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(answer) => Some(answer),
        std::task::Poll::Pending => None,
    }
}

/// An epoch of the log holds fewer than this many groups of one payment each.
const CHAPTER: u64 = 150;

#[tokio::test]
async fn the_log_is_not_written_over_before_the_database_has_it() {
    held_back(Syncing::Database).await;
}

#[tokio::test]
async fn an_epoch_on_its_way_into_the_database_is_read_as_before() {
    held_back(Syncing::Epoch).await;
}

/// Holds the database back until writers wait for it.
async fn held_back(at: Syncing) {
    let folder = tempfile::tempdir().unwrap();
    let (verdict, verdicts) = mpsc::channel::<()>();
    let verdicts = Mutex::new(verdicts);
    let hooks = DiskHooks {
        before_sync: Box::new(move |syncing| match syncing == at {
            true => verdicts.lock().recv().map_err(io::Error::other),
            false => Ok(()),
        }),
        ..DiskHooks::default()
    };
    let store = SledStore::start(&options(folder.path()), hooks).unwrap();
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for name in 0..4 * CHAPTER {
                let new = new_payment(&name.to_string());
                store.create(new, None, NOW).await.unwrap();
            }
        }
    });
    // Until it makes no progress for the duration of many groups.
    let (mut commits, mut still) = (0, 0);
    while still < 100_000 && !writer.is_finished() {
        tokio::task::yield_now().await;
        let now = store.counters().commits;
        still = if now == commits { still + 1 } else { 0 };
        commits = now;
    }
    assert!(commits < 2 * CHAPTER, "{commits}");
    for name in 0..commits {
        let read = store.aggregate(payment_of(&name.to_string())).await;
        assert!(read.unwrap().is_some(), "{name}");
    }
    for _ in 0..8 {
        verdict.send(()).unwrap();
    }
    writer.await.unwrap();
    drop(verdict);
}

/// Readers cache a payment continuously. They must not cache its state from before a step that was answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_a_step_did_is_read_after_its_answer_while_others_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    let shared: Arc<dyn Store> = store.clone();
    let id = create(&shared, "a", NOW).await.id;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers = (0..3).map(|_| {
        let (store, is_over) = (Arc::clone(&store), Arc::clone(&is_over));
        tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                store.payment(id).await.unwrap();
                tokio::task::yield_now().await;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    done(&shared, payment_of("a"), open("a", "sandbox-test"), NOW).await;
    done(&shared, payment_of("a"), started("a", "vendor-1"), NOW).await;
    for number in 0..500 {
        let status = [ProviderStatus::Processing, ProviderStatus::Review][number % 2];
        let step = news("a", report("vendor-1", status));
        let (aggregate, _) = done(&shared, payment_of("a"), step, later(number as u64)).await;
        let token = TokenHash::hash(&token("a"));
        let read = store.by_checkout(token).await.unwrap();
        assert_eq!(read.as_ref(), Some(&aggregate), "step {number}");
        let read = store.payment(id).await.unwrap();
        assert_eq!(read.as_deref(), Some(&aggregate.payment), "step {number}");
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.unwrap();
    }
}

#[tokio::test]
async fn a_caller_that_goes_away_takes_nothing_back() {
    let mut gated = gated();
    let store = gated.store.clone();
    gated.shut.store(true, Ordering::SeqCst);
    let writer = tokio::spawn({
        let store = store.clone();
        async move { store.create(new_payment("a"), None, NOW).await }
    });
    gated.reached.recv().await.unwrap();
    writer.abort();
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    let replay = store.create(new_payment("a"), None, NOW).await.unwrap();
    assert!(matches!(replay, Created::Replay(_)), "{replay:?}");
}

#[tokio::test]
async fn what_waits_when_the_store_is_closed_is_done_first() {
    let mut gated = gated();
    let store = gated.store.clone();
    gated.shut.store(true, Ordering::SeqCst);
    let create = |name: &'static str| {
        let store = store.clone();
        tokio::spawn(async move { store.create(new_payment(name), None, NOW).await })
    };
    let one = create("a");
    gated.reached.recv().await.unwrap();
    let two = create("b");
    assert!(waits(&two).await);
    let closing = tokio::spawn({
        let store = store.clone();
        async move { store.shut_down().await }
    });
    assert!(waits(&closing).await);
    let late = store.create(new_payment("c"), None, NOW).await;
    assert_eq!(late, Err(Fault::Stopping));
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    for task in [one, two] {
        assert!(matches!(task.await.unwrap(), Ok(Created::New(_))));
    }
    closing.await.unwrap().unwrap();
}

/// Payment `a` is being synced, and payment `b` waits for that.
async fn one_synced_one_waiting(
    gated: &mut Gated,
) -> [tokio::task::JoinHandle<Result<Created, Fault>>; 2] {
    gated.shut.store(true, Ordering::SeqCst);
    let create = |name: &'static str| {
        let store = gated.store.clone();
        tokio::spawn(async move { store.create(new_payment(name), None, NOW).await })
    };
    let one = create("a");
    gated.reached.recv().await.unwrap();
    let two = create("b");
    assert!(waits(&two).await);
    [one, two]
}

#[tokio::test]
async fn a_group_is_answered_after_its_own_sync() {
    let mut gated = gated();
    let [one, two] = one_synced_one_waiting(&mut gated).await;
    assert!(waits(&one).await && waits(&two).await);
    gated.verdict.send(()).unwrap();
    assert!(matches!(one.await.unwrap(), Ok(Created::New(_))));
    gated.reached.recv().await.unwrap();
    assert!(waits(&two).await);
    gated.verdict.send(()).unwrap();
    assert!(matches!(two.await.unwrap(), Ok(Created::New(_))));
}

#[tokio::test]
async fn the_same_request_is_not_answered_before_the_first_is_on_disk() {
    let mut gated = gated();
    let store = gated.store.clone();
    let [one, two] = one_synced_one_waiting(&mut gated).await;
    // Changes nothing, but returns data that the first group has written.
    let replay = tokio::spawn(async move { store.create(new_payment("a"), None, NOW).await });
    assert!(waits(&replay).await);
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    assert!(matches!(replay.await.unwrap(), Ok(Created::Replay(_))));
    one.await.unwrap().unwrap();
    two.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_failed_sync_fails_what_waits_behind_it_too() {
    let mut gated = gated();
    let [one, two] = one_synced_one_waiting(&mut gated).await;
    let store = gated.store.clone();
    gated.shut.store(false, Ordering::SeqCst);
    drop(gated.verdict);
    assert_eq!(one.await.unwrap(), Err(Fault::Stopping));
    // Nothing of it was attempted.
    let waited = two.await.unwrap();
    assert!(matches!(waited, Err(Fault::Unavailable(_))), "{waited:?}");
    // It continues automatically; data in doubt is complete or missing.
    while store.probe().await.is_err() {
        tokio::task::yield_now().await;
    }
    let there = store.aggregate(payment_of("a")).await.unwrap().is_some();
    let again = store.create(new_payment("a"), None, NOW).await.unwrap();
    assert_eq!(there, matches!(again, Created::Replay(_)));
    let again = store.create(new_payment("b"), None, NOW).await.unwrap();
    assert!(matches!(again, Created::New(_)), "{again:?}");
}

#[tokio::test]
async fn nonces_of_a_group_are_one_row_that_goes_as_a_whole() {
    let mut gated = gated();
    let store = gated.store.clone();
    let is_nonce = |(key, _): &(Vec<u8>, _)| key.starts_with(crate::rows::schema::NONCES);
    let rows = || {
        store
            .memtable()
            .all()
            .unwrap()
            .into_iter()
            .filter(is_nonce)
            .count()
    };
    gated.shut.store(true, Ordering::SeqCst);
    let take = |name: String| {
        let store = store.clone();
        tokio::spawn(async move { store.reserve_nonce(nonce_of(&name, NOW), NOW).await })
    };
    let mut takers = vec![take("first".into())];
    gated.reached.recv().await.unwrap();
    takers.extend((0..100).map(|each| take(each.to_string())));
    assert!(waits(&takers[100]).await);
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    for taker in takers {
        assert_eq!(taker.await.unwrap(), Ok(Reserved::Fresh));
    }
    // The first had its own group; the others waited for it and share one or a few.
    assert!((1..=4).contains(&rows()), "{}", rows());
    let later = NOW.after(kassette_domain::signing::NONCE_LIFE);
    for each in 0..4 {
        let reservation = nonce_of(&format!("later{each}"), later);
        let taken = store.reserve_nonce(reservation, later).await;
        assert_eq!(taken, Ok(Reserved::Fresh));
    }
    assert_eq!(rows(), 4, "only the latest are left");
}

#[tokio::test]
async fn counts_of_a_trial_are_read_without_the_writing_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = SledStore::open(&options(folder.path())).unwrap();
    store.watch();
    let of = || trial("method.ideal", NOW);
    let is_written = || store.most().contains_key("CountTrial");
    for nothing in [vec![], vec![(5, Default::default())]] {
        assert_eq!(store.count_trial(of(), nothing).await, Ok(vec![]));
    }
    assert!(!is_written());
    store.count_trial(of(), vec![(5, counts(1))]).await.unwrap();
    assert!(is_written());
}
