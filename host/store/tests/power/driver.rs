//! The recorded process: opens the store, continues the plan from the store's state, prints acknowledgements, and
//! ends regularly or immediately, like `kill -9`.

use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kassette_store::sled::maintenance::{self, AuditNote, always};
use kassette_store::sled::{MasterKey, OpenOptions, SledStore};
use kassette_store::suite::fixtures::{NOW, audited, operator};
use kassette_store::{
    About, Created, Directory as _, Payments as _, Stepped, Store, StoreHealth as _,
};

use crate::plan::{self, Plan, Script};
use crate::{everything, pruning};

/// Number of concurrent workers.
const WORKERS: usize = 8;

/// The way in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    InOrder,
    AtOnce,
    /// Regularly; then the store is rewritten: compacted, sealed under another master key, and sealed under the
    /// first one again.
    WrittenAnew,
}

pub(crate) fn options(root: &Path) -> OpenOptions {
    OpenOptions {
        // Two folders that do not exist at first.
        path: root.join("data/store"),
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: 8 << 20,
    }
}

/// The same options with the other master key.
pub(crate) fn other_key(root: &Path) -> OpenOptions {
    OpenOptions {
        master: MasterKey::from_bytes([8; 32]),
        ..options(root)
    }
}

/// Environment variable with the task of the process.
pub(crate) const TOLD: &str = "KASSETTE_POWER_DRIVER";

/// Environment variable with the digests of the expected states after each deed of `everything`, separated by
/// spaces.
pub(crate) const STATES: &str = "KASSETTE_POWER_STATES";

/// Runs the process. `told` contains kind and number of the plan, number of operations, end, and folder.
pub(crate) fn main(told: &str) {
    std::io::stdin()
        .lock()
        .read_line(&mut String::new())
        .unwrap();
    let mut words = told.splitn(5, ' ');
    let kind = words.next().unwrap();
    let mut number = || words.next().unwrap().parse::<usize>().unwrap();
    let (plan, operations) = (Plan::read(kind, number()), number());
    let end = match words.next().unwrap() {
        "in-order" => End::InOrder,
        "written-anew" => End::WrittenAnew,
        _ => End::AtOnce,
    };
    let root = Path::new(words.next().unwrap());
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()
        .unwrap()
        .block_on(drive(root, plan, operations, end));
}

async fn drive(root: &Path, plan: Plan, operations: usize, end: End) {
    let store = SledStore::open(&options(root)).unwrap();
    let scripts = Arc::new(plan.scripts);
    let left = Arc::new(AtomicUsize::new(operations));
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let (store, scripts, left) =
                (Arc::clone(&store), Arc::clone(&scripts), Arc::clone(&left));
            tokio::spawn(async move { work(&store, &scripts, worker, &left).await })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    if end == End::AtOnce {
        std::process::exit(0);
    }
    store.shut_down().await.unwrap();
    drop(store);
    if end == End::WrittenAnew {
        let (first, other) = (options(root), other_key(root));
        let note = || AuditNote::at(NOW);
        maintenance::compact(&first, note(), &(), &always).unwrap();
        maintenance::rekey(&first, &other.master, note(), &(), &always).unwrap();
        maintenance::rekey(&other, &first.master, note(), &(), &always).unwrap();
    }
}

/// Runs a worker's scripts, alternating between them.
async fn work(store: &Arc<SledStore>, scripts: &[Script], worker: usize, left: &AtomicUsize) {
    let mut open = Vec::new();
    for (number, script) in scripts.iter().enumerate() {
        if number % WORKERS == worker {
            let done = stands(store, script).await;
            say("seen", number, done);
            open.push((number, script, done));
        }
    }
    while !open.is_empty() {
        // Few enough scripts that the same pages are written repeatedly.
        for (number, script, done) in open.iter_mut().take(4) {
            if *done == script.length() {
                continue;
            }
            if left
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
                    left.checked_sub(1)
                })
                .is_err()
            {
                return;
            }
            say("begun", *number, *done + 1);
            act(store, script, *done).await;
            *done += 1;
            say("done", *number, *done);
        }
        open.retain(|(_, script, done)| *done < script.length());
    }
}

/// Prints a script's progress, which the recorder records among the calls.
fn say(what: &str, number: usize, steps: usize) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{what} {number} {steps}\n").as_bytes())
        .unwrap();
    out.flush().unwrap();
}

/// Number of a script's steps that the store contains.
async fn stands(store: &Arc<SledStore>, script: &Script) -> usize {
    match script {
        Script::Payment { number, .. } => {
            let about = About::Payment(plan::payment(*number));
            let aggregate = store.aggregate(about).await.unwrap();
            let history = store.history(plan::payment(*number)).await.unwrap();
            let stands = script.expected().iter().position(|each| match each {
                None => aggregate.is_none(),
                Some(each) => {
                    aggregate.as_ref() == Some(&each.aggregate)
                        && history.as_ref().is_some_and(|history| {
                            history.transitions == each.transitions
                                && history.events.len() == each.events.len()
                        })
                }
            });
            // If a step changes nothing, the earlier state is as good as the later one.
            stands.unwrap()
        }
        Script::Operator { number } => {
            let operator = operator(&number.to_string(), NOW);
            if store.operator(operator.hash).await.unwrap().is_some() {
                return 1;
            }
            // Only the audit log shows whether it existed before. It is created again.
            0
        }
        Script::Everything => {
            let states = std::env::var(STATES).unwrap();
            let state = everything::state(&dynamic(store)).await.to_string();
            let stands = states.split(' ').position(|each| each == state);
            stands.unwrap()
        }
        Script::Pruning { deliveries } => {
            let stands = pruning::stands(&dynamic(store), *deliveries).await;
            stands.unwrap()
        }
    }
}

pub(crate) fn dynamic(store: &Arc<SledStore>) -> Arc<dyn Store> {
    Arc::clone(store) as Arc<dyn Store>
}

async fn act(store: &Arc<SledStore>, script: &Script, done: usize) {
    match script {
        Script::Payment { number, .. } if done == 0 => {
            let new = plan::new_payment(*number);
            let created = store.create(new, None, NOW).await.unwrap();
            assert!(matches!(created, Created::New(_)), "{created:?}");
        }
        Script::Payment { number, steps } => {
            let about = About::Payment(plan::payment(*number));
            let (step, at) = (steps[done - 1].clone(), plan::at_step(done - 1));
            let stepped = store.step(about, step, None, at).await.unwrap();
            assert!(matches!(stepped, Stepped::Done { .. }), "{stepped:?}");
        }
        Script::Operator { number } if done == 0 => {
            let audited = audited("operator.create");
            store
                .create_operator(operator(&number.to_string(), NOW), audited, NOW)
                .await
                .unwrap();
        }
        Script::Operator { number } => {
            let audited = audited("operator.delete");
            let removed = store
                .remove_operator(operator(&number.to_string(), NOW).id, audited, NOW)
                .await
                .unwrap();
            assert!(removed.is_some());
        }
        Script::Everything => everything::act(&dynamic(store), done).await,
        Script::Pruning { .. } => pruning::act(&dynamic(store)).await,
    }
}
