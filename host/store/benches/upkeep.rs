//! How long backup, restore, verify and compact take, and how large a store is before and after, on the
//! disk and, in a process that does nothing else, in memory.
//!
//! `cargo bench -p kassette-store --bench upkeep -- [payments] [paid] [folder]`
//!
//! Every fourth payment has an attempt that was paid, with its timeline and events; or every one, every
//! other one, none, where `paid` is 1, 2, 0.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a measurement, run by hand"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::id::PaymentId;
use kassette_domain::provider::ProviderStatus;
use kassette_store::sled::maintenance::{
    AuditNote, BackupSource, always, backup, compact, restore, verify,
};
use kassette_store::sled::{MasterKey, OpenOptions, SledStore};
use kassette_store::suite::fixtures::{NOW, new_payment, news, open, report, started};
use kassette_store::{About, Payments as _, StoreHealth as _};

/// Creations at once.
const WRITERS: usize = 256;
/// The argument of the process that opens a store.
const OPENED: &str = "opened";

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    // Cargo adds the flag.
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .peekable();
    if arguments.next_if_eq(OPENED).is_some() {
        let options = options(PathBuf::from(arguments.next().unwrap()));
        let store = SledStore::open(&options).unwrap();
        println!("{:8} {:8} MiB resident", "opened", resident() >> 20);
        return store.shut_down().await.unwrap();
    }
    let payments: usize = arguments
        .next()
        .map_or(20_000, |text| text.parse().unwrap());
    let paid: usize = arguments.next().map_or(4, |text| text.parse().unwrap());
    let folder = arguments
        .next()
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = folder.join(format!("kassette-upkeep-{}", std::process::id()));
    let options = |name: &str| options(folder.join(name));
    let store = SledStore::open(&options("store")).unwrap();
    let began = Instant::now();
    fill(&store, payments, paid).await;
    told("fill", began, &format!("{} MiB resident", resident() >> 20));
    store.shut_down().await.unwrap();
    drop(store);
    reopen(&options("store"));
    let began = Instant::now();
    let report = verify(&options("store"), &()).unwrap();
    assert!(report.is_whole());
    told("verify", began, &format!("{:?}", report.rows));
    let (began, mut file) = (Instant::now(), Vec::new());
    let saved = backup(&options("store"), &mut file, NOW, &()).unwrap();
    let (bytes, rows) = (saved.bytes, saved.rows.values().sum::<u64>());
    let each = format!(
        "{} bytes in {:.1} rows a payment",
        bytes / saved.payments,
        rows as f64 / saved.payments as f64
    );
    told("backup", began, &format!("{} MiB, {each}", bytes >> 20));
    let began = Instant::now();
    restore(
        &options("copy"),
        BackupSource::new(file.as_slice()),
        false,
        AuditNote::at(NOW),
        &(),
        &always,
    )
    .unwrap();
    told("restore", began, "");
    let began = Instant::now();
    let compacted = compact(&options("store"), AuditNote::at(NOW), &(), &always).unwrap();
    let each = compacted.bytes_after / compacted.payments;
    told(
        "compact",
        began,
        &format!("{compacted:?}, {each} bytes a payment"),
    );
    reopen(&options("store"));
    std::fs::remove_dir_all(folder).unwrap();
}

/// With the cache that a server has by default.
fn options(path: PathBuf) -> OpenOptions {
    OpenOptions {
        path,
        master: MasterKey::from_bytes([7; 32]),
        cache_bytes: 16 << 20,
    }
}

/// Opens a store in a separate process, which prints its memory usage.
fn reopen(options: &OpenOptions) {
    let mut other = Command::new(std::env::current_exe().unwrap());
    assert!(
        other
            .args([Path::new(OPENED), &options.path])
            .status()
            .unwrap()
            .success()
    );
}

/// Resident memory of this process, bytes (proc(5)).
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB"));
    kib.unwrap().parse::<u64>().unwrap() << 10
}

async fn fill(store: &Arc<SledStore>, payments: usize, paid: usize) {
    let writers = (0..WRITERS).map(|writer| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for each in (writer..payments).step_by(WRITERS) {
                one(&store, each, paid).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}

async fn one(store: &SledStore, number: usize, paid: usize) {
    let at = NOW.after(Duration::from_millis(number as u64));
    let name = format!("{number}");
    let mut new = new_payment(&name);
    let mut random = [0; 10];
    random.copy_from_slice(&new.id.as_bytes()[..10]);
    new.id = PaymentId::made_at(at, random);
    let about = About::Payment(new.id);
    store.create(new, None, at).await.unwrap();
    if paid == 0 || !number.is_multiple_of(paid) {
        return;
    }
    let reference = format!("vendor-{name}");
    for step in [
        open(&name, "sandbox-test"),
        started(&name, &reference),
        news(&name, report(&reference, ProviderStatus::Completed)),
    ] {
        store.step(about.clone(), step, None, at).await.unwrap();
    }
}

fn told(what: &str, began: Instant, more: &str) {
    println!("{what:8} {:8.2} s  {more}", began.elapsed().as_secs_f64());
}
