//! Stores that are refused, and remain unchanged.

use super::*;
use crate::sled::maintenance::MaintenanceError;
use crate::suite::fixtures::shop;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_target_that_holds_something_is_refused() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let served = PostgresStore::open(&places.scratch.options())
        .await
        .unwrap();
    let shared: Arc<dyn Store> = served.clone();
    shop(&shared).await;
    served.shut_down().await.unwrap();
    let copied = places.to_postgres().await;
    assert!(matches!(copied, Err(CopyError::NotEmpty)), "{copied:?}");
    let copied = to_sled(places.scratch.options(), options(&places.folder), ()).await;
    let is_full = matches!(
        copied,
        Err(CopyError::Folder(MaintenanceError::NotEmpty(_)))
    );
    assert!(is_full, "{copied:?}");
    assert_serves(
        PostgresStore::open(&places.scratch.options())
            .await
            .unwrap(),
    )
    .await;
    assert_serves(SledStore::open(&options(&places.folder)).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_under_two_master_keys_are_refused() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let other = postgres::OpenOptions {
        master: MasterKey::from_bytes([8; 32]),
        ..places.scratch.options()
    };
    let copied = to_postgres(options(&places.folder), other, ()).await;
    assert!(matches!(copied, Err(CopyError::OtherKey)), "{copied:?}");
    let other = || postgres::OpenOptions {
        master: MasterKey::from_bytes([8; 32]),
        ..places.scratch.options()
    };
    let copied = to_postgres(under(&places.folder, 8), other(), ()).await;
    let wrong = postgres::OpenError::WrongMasterKey;
    assert_eq!(copied.unwrap_err().to_string(), wrong.to_string());
    let copied = to_sled(other(), under(&places.back, 8), ()).await;
    assert_eq!(copied.unwrap_err().to_string(), wrong.to_string());
    assert_serves(SledStore::open(&options(&places.folder)).unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_altered_row_is_copied_in_no_direction() {
    let Some(places) = Places::filled().await else {
        return;
    };
    places.to_postgres().await.unwrap();
    let flip = async || {
        let target = postgres::target::Target::parse(&places.scratch.options().url).unwrap();
        let sql = "UPDATE payment SET body = set_byte(body, 40, get_byte(body, 40) # 1)";
        // Opens a new connection each time, because a copy ends other sessions.
        let client = target.connect().await.unwrap();
        client.batch_execute(sql).await.unwrap();
    };
    flip().await;
    let refused = places.to_sled().await.unwrap_err().to_string();
    assert!(refused.contains("authentic"), "{refused}");
    flip().await;
    places.to_sled().await.unwrap();
    let stopped = sled::maintenance::Stopped::open_marked(&options(&places.back)).unwrap();
    let (key, row) = stopped.db.scan_prefix(b"opr/").next().unwrap().unwrap();
    let mut row = row.to_vec();
    *row.last_mut().unwrap() ^= 1;
    stopped.db.insert(key, row).unwrap();
    stopped.db.flush().unwrap();
    drop(stopped);
    for log in kassette_engine::LOG_FILES {
        std::fs::remove_file(options(&places.back).path.join(log)).unwrap();
    }
    let empty = Scratch::new().await.unwrap();
    let refused = to_postgres(options(&places.back), empty.options(), ()).await;
    let refused = refused.unwrap_err().to_string();
    assert!(refused.contains("authentic"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_served_is_not_copied() {
    let Some(places) = Places::filled().await else {
        return;
    };
    let serving = SledStore::open(&options(&places.folder)).unwrap();
    let copied = places.to_postgres().await;
    let refusal = copied.unwrap_err().to_string();
    assert!(refusal.contains("in use by another process"), "{refusal}");
    serving.probe().await.unwrap();
    serving.shut_down().await.unwrap();

    let node = PostgresStore::open(&places.scratch.options())
        .await
        .unwrap();
    let copied = places.to_sled().await;
    let is_used = matches!(&copied, Err(CopyError::Served(node)) if node == "a");
    assert!(is_used, "{copied:?}");
    node.probe().await.unwrap();
    // The copy waits for a killed node. If the node was only suspended, it finds its row replaced.
    let target = postgres::target::Target::parse(&places.scratch.options().url).unwrap();
    let client = target.connect().await.unwrap();
    let still = "UPDATE node SET beat = beat - interval '1 hour', incarnation = incarnation + 1";
    client.batch_execute(still).await.unwrap();
    places.to_postgres().await.unwrap();
    node.failed().await;
    let moved = PostgresStore::open(&places.scratch.options()).await;
    assert_serves(moved.unwrap()).await;
}
