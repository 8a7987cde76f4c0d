//! Groups of operations, and reads while one is not yet on disk.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use parking_lot::Mutex;

use super::super::durable::{Durable, LeftOut};
use super::super::engine::Seams;
use super::*;
use crate::suite::fixtures::*;
use crate::{Created, Fault, Health as _, Payments as _};

/// Holds syncs back until it is told to let one through.
struct Gate {
    inner: Box<dyn Durable>,
    shut: Arc<AtomicBool>,
    reached: tokio::sync::mpsc::UnboundedSender<()>,
    verdicts: Arc<Mutex<mpsc::Receiver<()>>>,
}

impl Durable for Gate {
    fn sync(&mut self) -> io::Result<()> {
        if self.shut.load(Ordering::SeqCst) {
            let _ = self.reached.send(());
            self.verdicts.lock().recv().map_err(io::Error::other)?;
        }
        self.inner.sync()
    }

    fn acknowledge(&mut self, group: u64) -> io::Result<()> {
        self.inner.acknowledge(group)
    }
}

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
    let verdicts = Arc::new(Mutex::new(verdicts));
    let seams = Seams {
        durable: Box::new(move |inner| {
            Box::new(Gate {
                inner,
                shut: Arc::clone(&gate),
                reached: reached.clone(),
                verdicts: Arc::clone(&verdicts),
            })
        }),
        ..Seams::default()
    };
    let store = SledStore::start(&options(folder.path()), LeftOut::default(), seams);
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
    // The tree shows it by now.
    let id = kassette_domain::id::PaymentId::from_bytes(id_of("new"));
    let key = super::super::keys::payment(id);
    assert!(store.tree().get(key).unwrap().is_some());
    let reader = tokio::spawn({
        let store = store.clone();
        async move { store.ledger(payment_of("new")).await }
    });
    let lister = tokio::spawn({
        let store = store.clone();
        async move { store.payments(Default::default(), first(9)).await }
    });
    assert!(waits(&writer).await && waits(&reader).await && waits(&lister).await);
    // What the group does not touch is read at once.
    let old = store.ledger(payment_of("old")).await.unwrap();
    assert!(old.is_some());
    gated.shut.store(false, Ordering::SeqCst);
    gated.verdict.send(()).unwrap();
    assert!(matches!(writer.await.unwrap(), Ok(Created::New(_))));
    assert!(reader.await.unwrap().unwrap().is_some());
    assert_eq!(page(lister.await.unwrap().unwrap()).items.len(), 2);
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
    assert_eq!(after.commits - before.commits, 2);
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
    assert!(matches!(refused, Err(Fault::Unavailable(_))), "{refused:?}");
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
