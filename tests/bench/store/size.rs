//! A thousand and a million stored payments: speed, memory, disk space, and duration of opening after a kill and
//! after an orderly shutdown.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_store::StoreHealth;
use kassette_store::sled::SledStore;

use super::super::figure::{Figure, Goal, median};
use super::super::options::Options;
use super::work::{self, End};

/// Argument that starts this program to fill a store, before folder, number of payments and seconds.
pub(crate) const ARGUMENT: &str = "fill-a-store";
/// Number of payments in the small stores.
const FEW: usize = 1000;
/// Number of alternating measurements of both. A machine varies more over minutes than the stores differ.
const PAIRS: u32 = 9;
/// Folders of the store with many payments and of those with few, relative to the folder of the process.
const MANY_FOLDER: &str = "many";
const FEW_FOLDER: &str = "few";
/// Number of connections in the goals.
const WRITERS: usize = 32;
/// Bytes of a megabyte in the goals.
const MB: f64 = 1e6;

/// Fills a store in a separate process, so that its memory is only that of the store. Prints the results and waits
/// to be killed.
pub(crate) fn fill(mut arguments: impl Iterator<Item = String>) {
    let mut next = || arguments.next().unwrap();
    let (folder, payments, seconds) = (next(), next(), next());
    let payments: usize = payments.parse().unwrap();
    let length = Duration::from_secs_f64(seconds.parse().unwrap());
    let empty = resident();
    let folder = Path::new(&folder);
    let runtime = work::runtime();
    let run = |store: &Arc<SledStore>, end| {
        let store = Arc::clone(store);
        let create = move || work::create(Arc::clone(&store));
        runtime.block_on(work::run(WRITERS, end, create)).rate
    };
    let store = work::open(&folder.join(MANY_FOLDER));
    run(&store, End::At(payments));
    run(&store, End::After(length));
    let resident = resident();
    let pairs: Vec<(f64, f64)> = (0..PAIRS)
        .map(|_| {
            let folder = folder.join(FEW_FOLDER);
            let fresh = work::open(&folder);
            run(&fresh, End::At(FEW));
            let few = run(&fresh, End::After(length));
            runtime.block_on(StoreHealth::shut_down(&*fresh)).unwrap();
            std::fs::remove_dir_all(&folder).unwrap();
            (few, run(&store, End::After(length)))
        })
        .collect();
    let of = |of: fn(&(f64, f64)) -> f64| median(&pairs.iter().map(of).collect::<Vec<_>>());
    let (few, many) = (of(|pair| pair.0), of(|pair| pair.1));
    let ratio = of(|(few, many)| many / few);
    let made = store.counters().operations;
    println!("{few} {many} {ratio} {empty} {resident} {made}");
    loop {
        std::thread::park();
    }
}

/// Resident memory of this process in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kibibytes: u64 = line.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    kibibytes * 1024
}

pub(crate) fn measure(options: &Options, folder: &Path) -> Vec<Figure> {
    let payments = options.payments;
    let folder = folder.join("size");
    std::fs::create_dir(&folder).unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg(ARGUMENT)
        .arg(&folder)
        .args([
            payments.to_string(),
            (options.slice() / 3).as_secs_f64().to_string(),
        ])
        // As in the gateway.
        .env("MIMALLOC_PURGE_DELAY", "100")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut told)
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let told: Vec<f64> = told
        .split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect();
    let [few, many, ratio, empty, resident, made] = told[..] else {
        panic!("the process that fills a store told something else");
    };
    let filled = folder.join(MANY_FOLDER);
    let disk = size_of(&filled) as f64;
    let after_kill = opened(&filled);
    let after_end = opened(&filled);
    std::fs::remove_dir_all(&folder).unwrap();
    let many_name = format!("creates at {payments} stored");
    vec![
        Figure::new(format!("creates at {FEW} stored"), few, "creates/s"),
        Figure::new(many_name, many, "creates/s")
            .against(format!("at {FEW}"), few, ratio)
            .goal(Goal::Ratio(0.8)),
        Figure::new("resident, empty process", empty / MB, "MB"),
        Figure::new(format!("resident with {payments}"), resident / MB, "MB")
            .goal(Goal::AtMost(150.0)),
        Figure::new("open after a kill", after_kill, "s").goal(Goal::AtMost(2.0)),
        Figure::new("open after a clean end", after_end, "s").goal(Goal::AtMost(2.0)),
        Figure::new("disk a payment, not compacted", disk / made, "B"),
    ]
}

/// Duration of opening in seconds. Shuts the store down in order.
fn opened(folder: &Path) -> f64 {
    let began = Instant::now();
    let store = work::open(folder);
    let took = began.elapsed().as_secs_f64();
    let closed = StoreHealth::shut_down(&*store);
    work::runtime().block_on(closed).unwrap();
    took
}

fn size_of(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.metadata().unwrap();
            if meta.is_dir() {
                size_of(&entry.path())
            } else {
                meta.len()
            }
        })
        .sum()
}
