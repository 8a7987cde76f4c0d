//! Commits that wait for a standby that the test server is configured with but does not have.

use std::sync::Arc;

use kassette_domain::provider::ProviderStatus;
use tokio_postgres::Client;

use crate::postgres::PostgresStore;
use crate::postgres::database::{Database, Failure};
use crate::postgres::node::NodeState;
use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::rows::seal::{Marker, MasterKey, Sealer, Secrets};
use crate::suite::fixtures::*;
use crate::suite::refunds::{order, paid};
use crate::{Fault, Payments as _, Store};

/// Cancels all waits for the standby, as an operator or a server shutdown does: other sessions then see the
/// commits.
const END_WAITS: &str = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
    WHERE wait_event = 'SyncRep' AND datname = current_database()";

/// Runs `work` while every wait for the standby ends early.
async fn unconfirmed<T>(operator: &Client, work: impl Future<Output = T>) -> T {
    let end_waits = async {
        loop {
            operator.query(END_WAITS, &[]).await.unwrap();
        }
    };
    tokio::select! {
        done = work => done,
        () = end_waits => unreachable!("it has no end"),
    }
}

#[tokio::test]
async fn a_commit_whose_wait_for_the_standby_an_operator_cancels_is_not_taken_for_done() {
    if !Scratch::available().unwrap() {
        return;
    }
    let scratch = Scratch::new().await.unwrap();
    let target = Target::parse(&scratch.options().url).unwrap();
    let database = Database {
        name: "requests",
        turn: tokio::sync::Mutex::default(),
        pool: target.pool(1, None).unwrap(),
        secrets: Arc::new(Secrets {
            sealer: Sealer::new(&MasterKey::from_bytes([7; 32])),
            marker: Marker::new(&[7; 32]).unwrap(),
        }),
        node_state: NodeState::of_a_guest(),
    };
    let waits = database.write("SET synchronous_commit = on", &[]).await;
    assert!(waits.is_ok());
    let operator = target.connect().await.unwrap();
    let cancel = async { while operator.query(END_WAITS, &[]).await.unwrap().is_empty() {} };
    let update = "UPDATE meta SET schema_version = schema_version";
    let (written, ()) = tokio::join!(database.write(update, &[]), cancel);
    assert!(matches!(written, Err(Failure::Lost)), "{written:?}");
    assert!(
        database.write(update, &[]).await.is_ok(),
        "by another session"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_standby_has_is_never_answered_as_done() {
    if !Scratch::available().unwrap() {
        return;
    }
    let scratch = Scratch::new().await.unwrap();
    let store = PostgresStore::open(&scratch.options()).await.unwrap();
    let shared: Arc<dyn Store> = Arc::clone(&store) as _;
    let paid = paid(&shared, "paid").await.payment.id;
    create(&shared, "stepped", NOW).await;
    let operator = Target::parse(&scratch.options().url).unwrap();
    let operator = operator.connect().await.unwrap();
    let waits = "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET synchronous_commit = on', current_database()); END $$";
    operator.batch_execute(waits).await.unwrap();
    let sessions = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    operator.batch_execute(sessions).await.unwrap();

    let created = store.create(new_payment("created"), None, NOW);
    let created = unconfirmed(&operator, created).await;
    assert_eq!(created, Err(Fault::Stopping));
    let step = store.step(
        payment_of("stepped"),
        open("stepped", "sandbox-test"),
        None,
        NOW,
    );
    let stepped = unconfirmed(&operator, step).await;
    assert_eq!(stepped, Err(Fault::Stopping));
    let refund = order("refund", "paid", None);
    let refunded = store.refund(paid, refund, None, None, NOW);
    let refunded = unconfirmed(&operator, refunded).await;
    assert_eq!(refunded, Err(Fault::Stopping));
    let notice = report("vendor-kept", ProviderStatus::Processing);
    let of = (account("sandbox-test"), "vendor-kept".to_owned());
    let kept = store.keep_callback(of.0, of.1, Some(notice), NOW);
    let kept = unconfirmed(&operator, kept).await;
    assert_eq!(kept, Err(Fault::Stopping));

    // All of it was committed on this server.
    for name in ["created", "stepped", "paid"] {
        let found = store.aggregate(payment_of(name)).await.unwrap().unwrap();
        assert_eq!(found.attempts.len(), usize::from(name != "created"));
    }
}
