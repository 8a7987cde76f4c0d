//! Interrupted copies: a partial copy is never served, and another copy starts over.

use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::report::Unit;
use crate::sled::maintenance::{MaintenanceError, always};

/// Panics in a part of the work, at a certain row.
struct Ends {
    /// The part's number, from 1.
    part: u64,
    row: u64,
    parts: AtomicU64,
    rows: AtomicU64,
}

impl Ends {
    fn at(part: u64, row: u64) -> Self {
        Self {
            part,
            row,
            parts: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }
}

impl Progress for Ends {
    fn begin(&self, _: &str, _: Unit, _: Option<u64>) {
        self.parts.fetch_add(1, Ordering::Relaxed);
    }

    fn advance(&self, by: u64) {
        if self.parts.load(Ordering::Relaxed) == self.part {
            let before = self.rows.fetch_add(by, Ordering::Relaxed);
            assert!(before + by < self.row, "it ends here");
        }
    }
}

fn is_moved(opened: Result<Arc<SledStore>, sled::OpenError>) -> bool {
    matches!(opened, Err(sled::OpenError::Moved { .. }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_database_is_not_served_and_is_filled_anew() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let database = || places.scratch.options();
    // While the database is filled, and while it is verified.
    for ends in [Ends::at(2, 20), Ends::at(3, 20)] {
        let copied = tokio::spawn(to_postgres(options(&places.folder), database(), ends));
        copied.await.unwrap_err();
        let opened = PostgresStore::open(&database()).await;
        assert!(
            matches!(opened, Err(postgres::OpenError::Copying)),
            "{opened:?}"
        );
        let visited = PostgresStore::visit(&database()).await;
        assert!(
            matches!(visited, Err(postgres::OpenError::Copying)),
            "{visited:?}"
        );
        assert!(is_moved(SledStore::open(&options(&places.folder))));
    }
    let half = places.to_sled().await;
    let is_half = matches!(half, Err(CopyError::Database(postgres::OpenError::Copying)));
    assert!(is_half, "{half:?}");
    places.to_postgres().await.unwrap();
    assert_serves(PostgresStore::open(&database()).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_folder_is_no_store_and_is_filled_anew() {
    let Some(places) = Places::filled().await else {
        return;
    };
    places.to_postgres().await.unwrap();
    // While records are copied, and while derived rows are written.
    for part in 2..=3 {
        let ends = Ends::at(part, 20);
        let copied = to_sled(places.scratch.options(), options(&places.back), ends);
        tokio::spawn(copied).await.unwrap_err();
        let opened = PostgresStore::open(&places.scratch.options()).await;
        assert!(
            matches!(opened, Err(postgres::OpenError::Moved)),
            "{opened:?}"
        );
    }
    places.to_sled().await.unwrap();
    assert_serves(SledStore::open(&options(&places.back)).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_moved_is_served_and_moved_again_only_without_its_mark() {
    let Some(places) = Places::filled().await else {
        return;
    };
    places.to_postgres().await.unwrap();
    assert!(is_moved(SledStore::open(&options(&places.folder))));
    // Compaction would write a new store without the mark.
    let compacted = sled::maintenance::compact(&options(&places.folder), note(), &(), &always);
    let is_kept = matches!(
        compacted,
        Err(MaintenanceError::Open(sled::OpenError::Moved { .. }))
    );
    assert!(is_kept, "{compacted:?}");
    let other = Scratch::new().await.unwrap();
    let again = to_postgres(options(&places.folder), other.options(), ()).await;
    let refusal = again.unwrap_err().to_string();
    assert!(refusal.contains("remove "), "{refusal}");
    std::fs::remove_file(options(&places.folder).path.join("moved")).unwrap();
    assert_serves(SledStore::open(&options(&places.folder)).unwrap()).await;

    places.to_sled().await.unwrap();
    let opened = PostgresStore::open(&places.scratch.options()).await;
    let refusal = opened.map(drop).unwrap_err().to_string();
    let (_, cure) = refusal.split_once("after all: ").unwrap();
    let target = postgres::target::Target::parse(&places.scratch.options().url).unwrap();
    let client = target.connect().await.unwrap();
    client.batch_execute(cure).await.unwrap();
    assert_serves(
        PostgresStore::open(&places.scratch.options())
            .await
            .unwrap(),
    )
    .await;
}
