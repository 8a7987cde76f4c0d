//! Requirements on a database, and the uniqueness of node names.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;

use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{OpenError, OpenOptions, PostgresStore, migrate};
use crate::rows::seal::MasterKey;
use crate::suite::fixtures::*;
use crate::{Created, Fault, Payments as _, Store, StoreHealth as _};

/// A database for a test. `None` without PostgreSQL.
async fn scratch() -> Option<Scratch> {
    if Scratch::available().unwrap() {
        return Some(Scratch::new().await.unwrap());
    }
    eprintln!("NOT RUN: no PostgreSQL is installed");
    None
}

async fn client(options: &OpenOptions) -> Client {
    Target::parse(&options.url)
        .unwrap()
        .connect()
        .await
        .unwrap()
}

/// Options for a node among others.
fn beside(scratch: &Scratch) -> OpenOptions {
    OpenOptions {
        alone: false,
        ..scratch.options()
    }
}

#[tokio::test]
async fn a_second_node_of_a_name_is_refused_while_the_first_one_lives() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let first = PostgresStore::open(&beside(&scratch)).await.unwrap();
    let second = PostgresStore::open(&beside(&scratch)).await;
    assert!(
        matches!(&second, Err(OpenError::InUse(name)) if name == "a"),
        "{second:?}"
    );
    first.probe().await.unwrap();
    // A store for a single command may be opened next to a node.
    let visitor = PostgresStore::visit(&beside(&scratch)).await.unwrap();
    visitor.probe().await.unwrap();
    visitor.shut_down().await.unwrap();
    first.probe().await.unwrap();
    first.shut_down().await.unwrap();
    PostgresStore::open(&beside(&scratch)).await.unwrap();
}

#[tokio::test]
async fn a_node_that_was_killed_is_followed_by_another() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let killed = PostgresStore::open(&beside(&scratch)).await.unwrap();
    drop(killed);
    let next = PostgresStore::open(&beside(&scratch)).await.unwrap();
    next.probe().await.unwrap();
}

#[tokio::test]
async fn a_node_whose_name_is_taken_ends() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = PostgresStore::open(&beside(&scratch)).await.unwrap();
    let taken = client(&beside(&scratch)).await;
    taken
        .execute("UPDATE node SET incarnation = incarnation + 1", &[])
        .await
        .unwrap();
    let why = tokio::time::timeout(Duration::from_secs(30), store.failed())
        .await
        .unwrap();
    assert!(why.contains("another node"), "{why}");
    assert_eq!(store.probe().await, Err(Fault::Stopping));
    // The row belongs to another node by now, and remains.
    store.shut_down().await.unwrap();
    let left = taken.query("SELECT FROM node", &[]).await.unwrap();
    assert_eq!(left.len(), 1);
}

#[tokio::test]
async fn a_node_that_its_database_has_not_heard_of_serves_nothing_until_it_has() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = PostgresStore::open(&beside(&scratch)).await.unwrap();
    let holder = client(&beside(&scratch)).await;
    holder
        .batch_execute(
            "SET idle_in_transaction_session_timeout = 0; BEGIN; SELECT FROM node FOR UPDATE",
        )
        .await
        .unwrap();
    let is_refused = || matches!(store.node_state.check(), Err(Fault::Unavailable(_)));
    let until = async |refused: bool| {
        while is_refused() != refused {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), until(true))
        .await
        .unwrap();
    assert!(matches!(store.probe().await, Err(Fault::Unavailable(_))));
    holder.batch_execute("ROLLBACK").await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), until(false))
        .await
        .unwrap();
    store.probe().await.unwrap();
}

#[tokio::test]
async fn a_database_whose_rows_carry_no_mac_is_refused_and_unchanged() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let options = beside(&scratch);
    let client = client(&options).await;
    let earlier = "UPDATE meta SET schema_version = 3, oldest_reader = 3";
    client.batch_execute(earlier).await.unwrap();
    let opened = PostgresStore::open(&options).await.map(drop);
    assert!(
        matches!(opened, Err(OpenError::Older { found: 3, .. })),
        "{opened:?}"
    );
    let migrated = migrate(&options).await;
    assert!(
        matches!(migrated, Err(OpenError::Unauthenticated(3))),
        "{migrated:?}"
    );
    let version = "SELECT schema_version FROM meta";
    let row = client.query_one(version, &[]).await.unwrap();
    assert_eq!(row.get::<_, i32>(0), 3);
}

#[tokio::test]
async fn a_database_under_another_key_or_schema_is_refused_and_unchanged() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let options = beside(&scratch);
    let other = OpenOptions {
        master: MasterKey::from_bytes([8; 32]),
        ..beside(&scratch)
    };
    let opened = PostgresStore::open(&other).await;
    assert!(
        matches!(opened, Err(OpenError::WrongMasterKey)),
        "{opened:?}"
    );
    let migrated = migrate(&other).await;
    assert!(
        matches!(migrated, Err(OpenError::WrongMasterKey)),
        "{migrated:?}"
    );
    let client = client(&options).await;
    client
        .batch_execute("UPDATE meta SET schema_version = 99, oldest_reader = 99")
        .await
        .unwrap();
    let opened = PostgresStore::open(&options).await;
    assert!(
        matches!(opened, Err(OpenError::Newer { found: 99, .. })),
        "{opened:?}"
    );
    let migrated = migrate(&options).await;
    assert!(
        matches!(migrated, Err(OpenError::Newer { found: 99, .. })),
        "{migrated:?}"
    );
    // A later schema that this program may still read.
    client
        .batch_execute("UPDATE meta SET oldest_reader = 4")
        .await
        .unwrap();
    let store = PostgresStore::open(&options).await.unwrap();
    store.shut_down().await.unwrap();
    client
        .batch_execute("UPDATE meta SET schema_version = 0")
        .await
        .unwrap();
    let opened = PostgresStore::open(&options).await;
    assert!(
        matches!(opened, Err(OpenError::Older { found: 0, .. })),
        "{opened:?}"
    );
    client
        .batch_execute("DROP SCHEMA kassette CASCADE")
        .await
        .unwrap();
    let opened = PostgresStore::open(&options).await;
    assert!(matches!(opened, Err(OpenError::Empty)), "{opened:?}");
}

#[tokio::test]
async fn a_database_that_loses_what_it_acknowledged_is_refused() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let careful = OpenOptions {
        volatile: false,
        ..beside(&scratch)
    };
    let opened = PostgresStore::open(&careful).await;
    assert!(
        matches!(opened, Err(OpenError::NotDurable("fsync"))),
        "{opened:?}"
    );
}

#[tokio::test]
async fn a_migration_can_be_repeated_beside_a_node() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = PostgresStore::open(&beside(&scratch)).await.unwrap();
    let shared: Arc<dyn Store> = Arc::clone(&store) as _;
    create(&shared, "a", NOW).await;
    let options = beside(&scratch);
    let migrated = tokio::join!(migrate(&options), migrate(&options));
    assert!(migrated.0.is_ok() && migrated.1.is_ok(), "{migrated:?}");
    let replay = store.replay(request("a")).await;
    assert!(matches!(replay, Ok(Some(Created::Replay(_)))), "{replay:?}");
}

#[test]
fn an_address_is_encrypted_unless_it_is_a_socket_or_says_otherwise() {
    use tokio_postgres::config::SslMode;
    let mode = |address: &str| Target::parse(address).map(|target| target.ssl_mode());
    assert!(matches!(
        mode("postgres://k@db.example/k"),
        Ok(SslMode::Require)
    ));
    assert!(matches!(
        mode("postgres://k@db.example/k?sslmode=verify-full"),
        Ok(SslMode::Require)
    ));
    assert!(matches!(
        mode("postgres://k@db.example/k?sslmode=disable"),
        Ok(SslMode::Disable)
    ));
    assert!(matches!(
        mode("postgres://k@%2Frun%2Fpostgresql/k"),
        Ok(SslMode::Disable)
    ));
    for wrong in [
        "",
        "db.example",
        "postgres://k@db.example/k?sslmode=prefer",
        "postgres://k@db.example/k?sslrootcert=/none",
    ] {
        assert!(matches!(mode(wrong), Err(OpenError::Address(_))), "{wrong}");
    }
    let secret = "postgres://k:secret@db.example/k?connect_timeout=x";
    let said = mode(secret).map(drop).unwrap_err().to_string();
    assert!(!said.contains("secret"), "{said}");
}
