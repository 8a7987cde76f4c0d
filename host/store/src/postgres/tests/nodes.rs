//! Several nodes on one database: a change of the directory applies on all of them before it is answered,
//! whenever a node pauses, joins or ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::id::{AccountId, AttemptId, PaymentId};
use kassette_domain::key::{ApiKey, Environment, KeyOwner};
use kassette_domain::lifecycle::{Step, Via};
use kassette_domain::payment::Status;
use kassette_domain::provider::ProviderStatus;
use tokio_postgres::Client;

use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{OpenOptions, PostgresStore};
use crate::suite::fixtures::*;
use crate::{
    Cluster as _, Created, Directory as _, Fault, NodeInfo, NodeShare, Nonces as _, Payments as _,
    Reserved, Store, StoreHealth as _, Task,
};

/// Longer than any operation here takes.
const LONG: Duration = Duration::from_secs(30);
/// How long a change waits for a node that reports nothing.
const SILENT_NODE_WAIT: Duration = Duration::from_millis(1500);

/// A database. `None` without PostgreSQL.
pub(super) async fn scratch() -> Option<Scratch> {
    if !Scratch::available().unwrap() {
        return None;
    }
    Some(Scratch::new().await.unwrap())
}

fn named(scratch: &Scratch, node: &str) -> OpenOptions {
    OpenOptions {
        node: node.into(),
        alone: false,
        ..scratch.options()
    }
}

pub(super) async fn node(scratch: &Scratch, name: &str) -> Arc<PostgresStore> {
    PostgresStore::open(&named(scratch, name)).await.unwrap()
}

/// A session in addition to those of the nodes.
async fn session(scratch: &Scratch) -> Client {
    let target = Target::parse(&scratch.options().url).unwrap();
    let client = target.connect().await.unwrap();
    let setting = "SET idle_in_transaction_session_timeout = 0; SET lock_timeout = 0";
    client.batch_execute(setting).await.unwrap();
    client
}

/// Waits until a condition holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(LONG, waiting).await;
    waited.unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// A merchant with a key.
async fn shop_with_key(store: &PostgresStore) -> ApiKey {
    let made = store
        .create_merchant(merchant(false), audited("merchant.create"), NOW)
        .await
        .unwrap();
    let key = api_key("one", KeyOwner::Merchant(made.id), Environment::Test);
    let issued = store.issue_key(key.clone(), audited("key.create"), NOW);
    issued.await.unwrap();
    key
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revocation_is_adopted_by_every_node_before_it_is_answered() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let key = shop_with_key(&a).await;
    for round in 1..=5 {
        let remembered_under = b.directory_version();
        assert!(remembered_under.is_some());
        let revoked = a.revoke_key(key.id, audited("key.revoke"), later(round));
        revoked.await.unwrap();
        assert_ne!(
            b.directory_version(),
            remembered_under,
            "what it remembers would still be used"
        );
    }
    // The same in the other direction, and for an account switch.
    let remembered_under = a.directory_version();
    let account = AccountId::parse("sandbox-test").unwrap();
    b.switch_account(account, false, audited("provider.change"), NOW)
        .await
        .unwrap();
    assert_ne!(a.directory_version(), remembered_under);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_beats_pause_holds_a_change_up_for_no_longer_than_it_serves() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let key = shop_with_key(&a).await;
    let session = session(&scratch).await;
    let hold = "BEGIN; SELECT FROM node WHERE name = 'b' FOR UPDATE";
    session.batch_execute(hold).await.unwrap();
    let began = Instant::now();
    a.revoke_key(key.id, audited("key.revoke"), later(1))
        .await
        .unwrap();
    let took = began.elapsed();
    assert!(took >= SILENT_NODE_WAIT, "{took:?}");
    assert!(took < 2 * SILENT_NODE_WAIT, "{took:?}");
    // It has served nothing since, and caches nothing.
    assert_eq!(b.directory_version(), None);
    let read = b.key(key.hash).await;
    assert!(matches!(read, Err(Fault::Unavailable(_))), "{read:?}");
    session.batch_execute("ROLLBACK").await.unwrap();
    until("it serves again", async || b.directory_version().is_some()).await;
    let read = b.key(key.hash).await.unwrap().unwrap();
    assert!(!read.usable(later(2)));
}

/// Longer than a heartbeat is valid.
const BUSY: Duration = Duration::from_secs(2);

#[tokio::test]
async fn a_node_whose_threads_are_all_busy_goes_on_beating() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "a").await;
    // Blocks the only thread of this runtime, so that none of its tasks runs.
    std::thread::sleep(BUSY);
    assert!(
        store.directory_version().is_some(),
        "it would serve nothing"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_joins_beside_changes_uses_nothing_from_before_them() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    let key = shop_with_key(&a).await;
    for round in 1..=4_u64 {
        let joining = {
            let options = named(&scratch, "b");
            tokio::spawn(async move { PostgresStore::open(&options).await.unwrap() })
        };
        let at = later(round);
        a.revoke_key(key.id, audited("key.revoke"), at)
            .await
            .unwrap();
        let b = joining.await.unwrap();
        // It caches later reads under a new number.
        let read = b.key(key.hash).await.unwrap().unwrap();
        assert!(!read.usable(at));
        b.shut_down().await.unwrap();
        assert_eq!(a.nodes().await.unwrap().len(), 1, "it has given its row up");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_says_what_was_adopted_before_it_was_written() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    let session = session(&scratch).await;
    // Increments the version during each heartbeat: the new version cannot have been adopted before.
    let trigger = "CREATE FUNCTION ahead() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF NEW.seen > OLD.seen AND NEW.seen >= (SELECT version FROM directory) THEN
                INSERT INTO probe_of_beats VALUES (NEW.seen); END IF;
            UPDATE directory SET version = version + 1; RETURN NEW; END $$";
    session
        .batch_execute("CREATE TABLE probe_of_beats (seen bigint)")
        .await
        .unwrap();
    session.batch_execute(trigger).await.unwrap();
    let before = a.directory_version();
    session
        .batch_execute(
            "CREATE TRIGGER ahead BEFORE UPDATE ON node FOR EACH ROW EXECUTE FUNCTION ahead()",
        )
        .await
        .unwrap();
    until("some beats", async || {
        let sql = "SELECT version > 5 FROM directory";
        session.query_one(sql, &[]).await.unwrap().get(0)
    })
    .await;
    session
        .batch_execute("DROP TRIGGER ahead ON node")
        .await
        .unwrap();
    let ahead = session.query("SELECT seen FROM probe_of_beats", &[]).await;
    assert_eq!(ahead.unwrap().len(), 0, "it told what it cannot have read");
    assert_ne!(a.directory_version(), before);
    let row = "SELECT n.seen, d.version FROM node n, directory d";
    until("the last one is adopted", async || {
        let row = session.query_one(row, &[]).await.unwrap();
        row.get::<_, i64>(0) == row.get::<_, i64>(1)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_killed_is_taken_off_the_list_and_one_of_its_name_follows() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    until("both see each other", async || {
        a.live_nodes() == 2 && b.live_nodes() == 2
    })
    .await;
    drop(b);
    until("it is off the list", async || a.live_nodes() == 1).await;
    assert_eq!(a.nodes().await.unwrap().len(), 1);
    let killed = node(&scratch, "b").await;
    drop(killed);
    // Its row still exists.
    let b = node(&scratch, "b").await;
    b.probe().await.unwrap();
    until("it is seen", async || a.live_nodes() == 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_taken_off_the_list_comes_back_having_adopted_nothing() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let session = session(&scratch).await;
    let incarnation = "SELECT incarnation FROM node WHERE name = 'b'";
    let before: i64 = session.query_one(incarnation, &[]).await.unwrap().get(0);
    let number = b.directory_version();
    session
        .batch_execute("DELETE FROM node WHERE name = 'b'")
        .await
        .unwrap();
    until("it is back", async || {
        let row = session.query_opt(incarnation, &[]).await.unwrap();
        row.is_some_and(|row| row.get::<_, i64>(0) != before)
    })
    .await;
    until("it has forgotten what it remembered", async || {
        b.directory_version().is_some_and(|now| Some(now) != number)
    })
    .await;
    until("it is counted", async || a.live_nodes() == 2).await;
    b.probe().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_from_before_the_beat_s_are_used_no_more() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    let session = session(&scratch).await;
    a.probe().await.unwrap();
    let backends = "SELECT pid FROM pg_stat_activity WHERE application_name = 'kassette'
        AND datname = current_database() AND query LIKE $1";
    let of = async |query: &str| -> Vec<i32> {
        let rows = session.query(backends, &[&query]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let before = of("INSERT INTO probe%").await;
    assert_eq!(before.len(), 1);
    let beat = of("/* node: beat%").await;
    let end = "SELECT pg_terminate_backend($1)";
    session.query(end, &[&beat[0]]).await.unwrap();
    until("it beats over another connection", async || {
        let now = of("/* node: beat%").await;
        now.len() == 1 && now != beat
    })
    .await;
    until("it serves over another connection too", async || {
        let is_up = a.probe().await.is_ok();
        let after = of("INSERT INTO probe%").await;
        is_up && !after.is_empty() && !after.contains(&before[0])
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_show_what_they_tell_of_themselves() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let told = NodeInfo {
        version: "1.2.3".into(),
        started_at: NOW,
        public_address: "http://10.0.0.2:8080".into(),
        admin_address: "http://10.0.0.2:8081".into(),
        draining: true,
        configuration: "c0ffee".into(),
        modules: "beef".into(),
    };
    b.announce(told.clone());
    until("it is told", async || {
        let nodes = a.nodes().await.unwrap();
        nodes.iter().any(|node| node.info == told)
    })
    .await;
    let nodes = a.nodes().await.unwrap();
    let shown: Vec<_> = nodes.iter().map(|n| (n.name.as_str(), n.is_self)).collect();
    assert_eq!(shown, [("a", true), ("b", false)]);
    assert!(
        nodes.iter().all(|node| node.beat_age < SILENT_NODE_WAIT),
        "{nodes:?}"
    );
    let key = shop_with_key(&a).await;
    let nodes = b.nodes().await.unwrap();
    assert!(nodes.iter().any(|node| node.adopted > 0), "{nodes:?}");
    b.shut_down().await.unwrap();
    a.revoke_key(key.id, audited("key.revoke"), NOW)
        .await
        .unwrap();
    let left: Vec<_> = a
        .nodes()
        .await
        .unwrap()
        .into_iter()
        .map(|n| n.name)
        .collect();
    assert_eq!(left, ["a"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_one_node_s_until_it_ends_or_its_lease_does() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let hour = Duration::from_secs(3600);
    let takes = async |node: &PostgresStore, lease| node.take_task(Task::Forget, lease).await;
    assert_eq!(takes(&a, hour).await, Ok(true));
    assert_eq!(takes(&b, hour).await, Ok(false));
    assert_eq!(takes(&a, hour).await, Ok(true), "it has it already");
    a.shut_down().await.unwrap();
    assert_eq!(
        takes(&b, Duration::ZERO).await,
        Ok(true),
        "it was handed back"
    );
    let attempt = AttemptId::from_bytes([1; 16]);
    let other = AttemptId::from_bytes([2; 16]);
    let c = node(&scratch, "c").await;
    assert_eq!(b.take_task(Task::Ask(attempt), hour).await, Ok(true));
    assert_eq!(c.take_task(Task::Ask(attempt), hour).await, Ok(false));
    assert_eq!(c.take_task(Task::Ask(other), hour).await, Ok(true));
    // The node was killed; its lease expires.
    drop(b);
    until("the lease has ended", async || {
        takes(&c, hour).await == Ok(true)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_goes_where_the_requests_come() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let a = node(&scratch, "a").await;
    assert_eq!(a.share().share_of(100), 100);
    let b = node(&scratch, "b").await;
    until("they share it", async || {
        a.share().share_of(100) == 50 && b.share().share_of(100) == 50
    })
    .await;
    until("the one that is asked has most of it", async || {
        for _ in 0..100 {
            a.demanded();
        }
        a.share().share_of(100) >= 75 && b.share().share_of(100) <= 26
    })
    .await;
    b.shut_down().await.unwrap();
    until("the last one has all of it", async || {
        a.share().share_of(100) == 100
    })
    .await;
    assert_ne!(a.share(), NodeShare { own: 0, all: 1 });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_reference_and_one_nonce_have_one_taker_over_two_nodes() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    for round in 0..8 {
        let name = format!("r{round}");
        let mut other = new_payment(&name);
        other.id = PaymentId::from_bytes(id_of(&format!("other {name}")));
        let (one, two) = tokio::join!(
            a.create(new_payment(&name), None, NOW),
            b.create(other, None, NOW)
        );
        let made = [one.unwrap(), two.unwrap()];
        let new = made.iter().filter(|made| matches!(made, Created::New(_)));
        assert_eq!(new.count(), 1, "{made:?}");
        let (one, two) = tokio::join!(
            a.reserve_nonce(nonce_of(&name, NOW), NOW),
            b.reserve_nonce(nonce_of(&name, NOW), NOW)
        );
        let taken = [one.unwrap(), two.unwrap()];
        let fresh = taken.iter().filter(|taken| **taken == Reserved::Fresh);
        assert_eq!(fresh.count(), 1, "{taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_due_is_claimed_by_one_of_two_nodes() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let shared: Arc<dyn Store> = Arc::clone(&a) as _;
    for name in 0..24 {
        create(&shared, &format!("p{name}"), NOW).await;
    }
    let (late, lease) = (later(86_400), Duration::from_secs(60));
    let (mut claimed, mut rounds) = (Vec::new(), 0);
    while claimed.len() < 24 && rounds < 24 {
        let (one, two) = tokio::join!(a.claim_due(late, lease, 3), b.claim_due(late, lease, 3));
        claimed.extend(one.unwrap());
        claimed.extend(two.unwrap());
        rounds += 1;
    }
    let count = claimed.len();
    claimed.sort_unstable();
    claimed.dedup();
    assert_eq!((claimed.len(), count), (24, 24), "each once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_has_forgotten_of_nonces_the_other_one_does_not_take_again() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let asked = nonce_of("n", NOW);
    assert_eq!(
        a.reserve_nonce(asked.clone(), NOW).await,
        Ok(Reserved::Fresh)
    );
    // The other node's clock is ahead, so to it the nonce has expired.
    let ahead = |seconds| asked.until.after(Duration::from_secs(seconds));
    crate::postgres::nonces::sweep(&b, ahead(60)).await.unwrap();
    let again = a.reserve_nonce(asked.clone(), NOW).await;
    assert_eq!(again, Ok(Reserved::Used));
    let another = a.reserve_nonce(nonce_of("another", NOW), NOW).await;
    assert_eq!(another, Ok(Reserved::Fresh));
    crate::postgres::nonces::sweep(&b, ahead(660))
        .await
        .unwrap();
    let again = a.reserve_nonce(asked, NOW).await;
    assert!(matches!(again, Err(Fault::Unavailable(_))), "{again:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn creates_behind_a_locked_table_are_answered_together_and_not_one_after_the_other() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store: Arc<dyn Store> = node(&scratch, "a").await;
    shop(&store).await;
    let locking = session(&scratch).await;
    let lock = "BEGIN; LOCK TABLE kassette.payment IN ACCESS EXCLUSIVE MODE";
    locking.batch_execute(lock).await.unwrap();
    let mut creating = tokio::task::JoinSet::new();
    for each in 0..40 {
        let store = Arc::clone(&store);
        let new = new_payment(&format!("locked-{each}"));
        creating.spawn(async move { store.create(new, None, NOW).await });
    }
    // A single request would wait for two seconds.
    let all = tokio::time::timeout(LONG, creating.join_all());
    for created in all.await.unwrap() {
        assert!(matches!(created, Err(Fault::Busy)), "{created:?}");
    }
    locking.batch_execute("ROLLBACK").await.unwrap();
    create(&store, "locked-0", NOW).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_puts_into_review_the_other_one_hears_of_until_it_is_out() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let (a, b) = (node(&scratch, "a").await, node(&scratch, "b").await);
    let shared: Arc<dyn Store> = Arc::clone(&a) as _;
    shop(&shared).await;
    create(&shared, "p", NOW).await;
    let opened = open("one", "sandbox-test");
    shared
        .step(payment_of("p"), opened, None, NOW)
        .await
        .unwrap();
    let aggregate = b.aggregate(payment_of("p")).await.unwrap().unwrap();
    let (payment, attempt) = (aggregate.payment.id, aggregate.attempts[0].id);
    for (said, waits) in [
        (ProviderStatus::Pending, false),
        (ProviderStatus::Review, true),
        (ProviderStatus::Declined, false),
    ] {
        let step = Step::Report {
            attempt,
            report: report("vendor-p", said),
            via: Via::Callback,
            asked: None,
        };
        a.step(payment_of("p"), step, None, NOW).await.unwrap();
        let status = b.payment(payment).await.unwrap().unwrap().status;
        assert_eq!(status == Status::Review, waits, "{said:?}");
        let expected = if waits { vec![payment] } else { vec![] };
        assert_eq!(b.reviewed().await, Ok(Some(expected)));
    }
}
