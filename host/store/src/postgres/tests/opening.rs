//! What a database has to be, and that each node has a name of its own.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::Slot;
use tokio_postgres::Client;

use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{OpenError, OpenOptions, PostgresStore, migrate};
use crate::rows::seal::MasterKey;
use crate::suite::fixtures::*;
use crate::suite::resellers::{reseller, resellers_endpoint};
use crate::{
    Created, Fault, Payments as _, Proposal, SharedModules as _, SlotContent, Store,
    StoreHealth as _, Trials as _,
};

/// A database of a test; none where there is no PostgreSQL.
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

/// Where other nodes can be there.
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
    // One for a single command may come beside it.
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
    // Its row is another's by now, and stays.
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
async fn a_database_from_before_resellers_had_endpoints_is_brought_to_this_schema_with_its_own() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let options = beside(&scratch);
    let open = || async {
        let store = PostgresStore::open(&options).await?;
        let shared: Arc<dyn Store> = store;
        Ok::<_, OpenError>(shared)
    };
    let store = open().await.unwrap();
    shop(&store).await;
    let merchants = listen(&store, endpoint("merchants", NOW)).await;
    store.shut_down().await.unwrap();
    let before = "ALTER TABLE endpoint DROP COLUMN reseller;
        CREATE INDEX endpoint_merchant ON endpoint (merchant, created_at, id);
        UPDATE meta SET schema_version = 1";
    let client = client(&options).await;
    client.batch_execute(before).await.unwrap();
    let refused = open().await.map(drop);
    assert!(
        matches!(refused, Err(OpenError::Older { found: 1, .. })),
        "{refused:?}"
    );
    for _ in 0..2 {
        migrate(&options).await.unwrap();
    }
    let store = open().await.unwrap();
    let listed = store.endpoints(merchants.owner, None, first(9)).await;
    assert_eq!(page(listed.unwrap()).items, [merchants]);
    reseller(&store).await;
    let own = listen(&store, resellers_endpoint("own")).await;
    assert_eq!(store.endpoint(own.id).await, Ok(Some(own)));
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn a_database_from_before_trials_is_brought_to_this_schema_with_what_serves_in_slots() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let options = beside(&scratch);
    let slot = Slot::parse("method.ideal").unwrap();
    let store = PostgresStore::open(&options).await.unwrap();
    let proposal = Proposal {
        slot: slot.clone(),
        bytes: b"one".to_vec(),
        cause: "upload".into(),
    };
    let number = store.propose_version(proposal, NOW).await.unwrap().unwrap();
    store.settle_version(number, None, NOW).await.unwrap();
    let before = store.slot_changes(0).await.unwrap();
    assert_eq!(before.len(), 1);
    store.shut_down().await.unwrap();
    let client = client(&options).await;
    let earlier = "DROP TABLE trial; ALTER TABLE slot_change DROP COLUMN candidate;
        UPDATE meta SET schema_version = 2, oldest_reader = 2";
    client.batch_execute(earlier).await.unwrap();
    let refused = PostgresStore::open(&options).await.map(drop);
    assert!(
        matches!(refused, Err(OpenError::Older { found: 2, .. })),
        "{refused:?}"
    );
    for _ in 0..2 {
        migrate(&options).await.unwrap();
    }
    let store = PostgresStore::open(&options).await.unwrap();
    assert_eq!(store.slot_changes(0).await.unwrap(), before);
    let none = SlotContent::Candidate(None);
    let line = audited("plugin.rollback");
    let number = store.change_slot(slot, none.clone(), line, NOW);
    let number = number.await.unwrap();
    let last = store.slot_changes(number - 1).await.unwrap();
    assert_eq!(last[0].content, none);
    let counted = vec![(5, counts(1))];
    let sums = store.count_trial(trial("method.ideal", NOW), counted.clone());
    assert_eq!(sums.await, Ok(counted));
    store.shut_down().await.unwrap();
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
        .batch_execute("UPDATE meta SET oldest_reader = 3")
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
