//! Creates per second: floor, redb and store alternately, so that all have the same conditions.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::super::figure::{Figure, Goal, median};
use super::super::options::Options;
use super::other::{self, Preparer};
use super::raw;
use super::work::{self, End, Run};

/// Results of one round.
struct Round {
    floor: Run,
    redb: Run,
    store: Run,
}

pub(crate) fn measure(options: &Options, folder: &Path) -> Vec<Figure> {
    let runtime = work::runtime();
    let mut figures = Vec::new();
    for writers in [1, 32, 256] {
        let rounds: Vec<Round> = (0..options.rounds())
            .map(|number| {
                let folder = folder.join(format!("speed-{writers}-{number}"));
                std::fs::create_dir(&folder).unwrap();
                let round = runtime.block_on(round(End::After(options.slice()), &folder, writers));
                std::fs::remove_dir_all(&folder).unwrap();
                round
            })
            .collect();
        figures.extend(told(writers, &rounds));
    }
    figures
}

async fn round(end: End, folder: &Path, writers: usize) -> Round {
    let store = work::open(&folder.join("store"));
    let before = store.counters();
    let create = {
        let store = Arc::clone(&store);
        move || work::create(Arc::clone(&store))
    };
    let measured = work::run(writers, end, create).await;
    let after = store.counters();
    kassette_store::StoreHealth::shut_down(&*store)
        .await
        .unwrap();
    let operations = after.operations - before.operations;
    let bytes = usize::try_from((after.bytes - before.bytes) / operations.max(1)).unwrap();

    let log = raw::start(File::create(folder.join("raw")).unwrap());
    let append = move || {
        let log = log.clone();
        async move { log.submit(vec![7; bytes]).await }
    };
    let floor = work::run(writers, end, append).await;

    let redb = other::start(&folder.join("redb"));
    let preparer = Arc::new(Preparer::new());
    let insert = move || {
        let (redb, preparer) = (redb.clone(), Arc::clone(&preparer));
        async move {
            let now = work::now();
            redb.submit(preparer.row(work::payment(now), now)).await;
        }
    };
    let redb = work::run(writers, end, insert).await;
    Round {
        floor,
        redb,
        store: measured,
    }
}

fn told(writers: usize, rounds: &[Round]) -> Vec<Figure> {
    let of = |of: fn(&Round) -> f64| median(&rounds.iter().map(of).collect::<Vec<_>>());
    let floor = of(|round| round.floor.rate);
    let redb = of(|round| round.redb.rate);
    let store = of(|round| round.store.rate);
    let to_floor = of(|round| round.store.rate / round.floor.rate);
    let to_redb = of(|round| round.store.rate / round.redb.rate);
    let name = |what: &str| format!("{what}, {writers} writers");
    let mut figures = vec![
        Figure::new(name("raw append"), floor, "operations/s"),
        Figure::new(name("redb"), redb, "creates/s").against(
            name("raw append"),
            floor,
            of(|round| round.redb.rate / round.floor.rate),
        ),
    ];
    let against_floor = Figure::new(name("store"), store, "creates/s");
    let against_floor = against_floor.against(name("raw append"), floor, to_floor);
    let against_redb = Figure::new(name("store"), store, "creates/s");
    let against_redb = against_redb.against(name("redb"), redb, to_redb);
    let p99 = Figure::new(name("store, p99"), of(|round| round.store.p99), "ms");
    if writers == 32 {
        figures.push(against_floor.goal(Goal::Ratio(0.6)));
        figures.push(against_redb.goal(Goal::Ratio(1.1)));
        figures.push(p99.goal(Goal::AtMost(5.0)));
    } else {
        figures.extend([against_floor, against_redb, p99]);
    }
    figures
}
