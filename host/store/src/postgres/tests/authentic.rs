//! Rows written by someone with the database's password: no node uses them, and everything else works.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{Digest, MerchantId, PaymentId, ResellerId, Slot};
use kassette_domain::key::{Environment, KeyOwner};
use kassette_domain::lifecycle::{Act, NewRefund, Step};
use kassette_domain::money::Minor;
use kassette_domain::movement::Bucket;
use kassette_domain::operator::{Operator, Role};
use kassette_domain::provider::ProviderStatus;
use kassette_domain::refund::RefundOrigin;
use kassette_domain::reseller::ResellerNotAllowed;
use kassette_domain::webhook::Endpoint;
use tokio_postgres::Client;

use super::nodes::{node, scratch};
use crate::postgres::open::unguarded;
use crate::postgres::schema::WITHHELD;
use crate::postgres::scratch::Scratch;
use crate::postgres::target::Target;
use crate::postgres::{PostgresStore, resellers, verify};
use crate::suite::fixtures::*;
use crate::suite::refunds::{order, paid};
use crate::suite::resellers as selling;
use crate::{
    About, ClaimedDeliveries, Created, Deliveries as _, Directory as _, EventsAsked, Fault,
    KeptCallback, MovementFilter, Movements as _, Nonces as _, Payments as _, Proposal,
    RefundOrdered, Resellers as _, Reserved, SharedModules as _, SlotContent, Store,
};

async fn client(scratch: &Scratch) -> Client {
    let target = Target::parse(&scratch.options().url).unwrap();
    target.connect().await.unwrap()
}

async fn plant(scratch: &Scratch, sql: &str) {
    assert_ne!(
        client(scratch).await.execute(sql, &[]).await.unwrap(),
        0,
        "{sql}"
    );
}

/// Kinds of rows that `verify` reports.
async fn found(scratch: &Scratch) -> Vec<&'static str> {
    let report = verify(&scratch.options(), &()).await.unwrap();
    report.findings.iter().map(|found| found.kind).collect()
}

/// Two nodes on one database.
async fn nodes(scratch: &Scratch) -> [Arc<PostgresStore>; 2] {
    [node(scratch, "one").await, node(scratch, "two").await]
}

fn shared(store: &Arc<PostgresStore>) -> Arc<dyn Store> {
    store.clone()
}

fn is_unreadable<T: std::fmt::Debug>(read: Result<T, Fault>) -> bool {
    matches!(read, Err(Fault::Corrupt(_)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_with_one_changed_byte_is_nobody_on_every_node_and_the_others_stay() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    for name in ["ann", "bob"] {
        let made = nodes[0].create_operator(operator(name, NOW), audited("operator.create"), NOW);
        made.await.unwrap().unwrap();
    }
    let [ann, bob] = ["ann", "bob"].map(|name| operator(name, NOW).hash);
    let length: i32 = client(&scratch)
        .await
        .query_one("SELECT length(body) FROM operator LIMIT 1", &[])
        .await
        .unwrap()
        .get(0);
    for at in 0..length {
        let flip = format!(
            "UPDATE operator SET body = set_byte(body, {at}, get_byte(body, {at}) # 1)
                WHERE hash = '\\x{}'",
            hex::encode(ann.0)
        );
        plant(&scratch, &flip).await;
        for node in &nodes {
            assert!(is_unreadable(node.operator(ann).await), "byte {at}");
        }
        if at == 0 {
            assert_eq!(found(&scratch).await, ["operator"]);
        }
        plant(&scratch, &flip).await;
    }
    for node in &nodes {
        assert!(node.operator(ann).await.unwrap().is_some());
        assert!(node.operator(bob).await.unwrap().is_some());
    }
    // Another operator's row in its place is refused as well.
    let swap = format!(
        "UPDATE operator SET body = (SELECT body FROM operator WHERE hash = '\\x{}') WHERE hash = '\\x{}'",
        hex::encode(bob.0),
        hex::encode(ann.0)
    );
    plant(&scratch, &swap).await;
    assert!(is_unreadable(nodes[1].operator(ann).await));
    assert!(nodes[1].operator(bob).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planted_module_is_followed_by_no_node() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "one").await;
    let slot = Slot::parse("method.ideal").unwrap();
    let proposal = Proposal {
        slot: slot.clone(),
        bytes: b"own".to_vec(),
        cause: "upload".into(),
    };
    let number = store.propose_version(proposal, NOW).await.unwrap().unwrap();
    let line = Audited {
        object: format!("plugin/{slot}"),
        after: Some(format!(r#"{{"digest":"{}"}}"#, Digest::hash(b"own"))),
        ..audited("plugin.upload")
    };
    store.settle_version(number, Some(line), NOW).await.unwrap();
    let served = store.slot_changes(0).await.unwrap();
    assert_eq!(served.len(), 1);
    assert_eq!(found(&scratch).await, [""; 0]);
    let evil = Digest::hash(b"evil");
    plant(
        &scratch,
        &format!("INSERT INTO module (digest, bytes) VALUES ('\\x{evil}', 'evil')"),
    )
    .await;
    // A new row with an invalid body, and one with the body of another row.
    for body in ["''", "(SELECT body FROM slot_change LIMIT 1)"] {
        plant(
            &scratch,
            &format!(
                "INSERT INTO slot_change (number, slot, digest, cause, proposed, proposer, incarnation, at, body)
                    SELECT max(number) + 1, 'method.ideal', '\\x{evil}', 'bundled', false, 'x', 1, 1, {body}
                    FROM slot_change"
            ),
        )
        .await;
    }
    let second = node(&scratch, "two").await;
    assert_eq!(second.slot_changes(0).await.unwrap(), served);
    assert_eq!(found(&scratch).await, ["slot-change"; 2]);
    // An authentic row must not name other bytes than those that it was written for.
    plant(&scratch, "DELETE FROM slot_change WHERE proposer = 'x'").await;
    plant(
        &scratch,
        &format!("UPDATE slot_change SET digest = '\\x{evil}'"),
    )
    .await;
    assert_eq!(second.slot_changes(0).await.unwrap(), []);
    plant(&scratch, "DELETE FROM module WHERE bytes = 'own'").await;
    let own = Digest::hash(b"own");
    plant(
        &scratch,
        &format!("UPDATE module SET digest = '\\x{own}' WHERE bytes = 'evil'"),
    )
    .await;
    assert!(is_unreadable(second.module_bytes(own).await));
    // New changes still work.
    let content = SlotContent::Disabled(true);
    let changed = second.change_slot(slot, content, audited("plugin.disable"), NOW);
    let number = changed.await.unwrap();
    let changes = store.slot_changes(0).await.unwrap();
    assert_eq!(changes.last().map(|change| change.number), Some(number));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_was_altered_is_unreadable_and_the_others_go_on() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "one").await;
    let shared: Arc<dyn Store> = store.clone();
    let [altered, other] = ["altered", "other"].map(str::to_owned);
    let altered = create(&shared, &altered, NOW).await;
    let other = create(&shared, &other, NOW).await;
    assert_ne!(altered.due.amount, Minor(0));
    let of_it = format!("WHERE id = '{}'", altered.id);
    let copied = format!(
        "UPDATE payment SET body = (SELECT body FROM payment WHERE id = '{}')",
        other.id
    );
    for change in [
        "UPDATE payment SET status = status + 1",
        "UPDATE payment SET merchant = merchant + 1",
        "UPDATE payment SET token_hash = token_hash || 'x'",
        // Next to the header and the merchant, the due time is in one of these bytes.
        "UPDATE payment SET body = set_byte(body, 40, get_byte(body, 40) # 1)",
        "UPDATE payment SET body = set_byte(body, 60, get_byte(body, 60) # 1)",
        &copied,
    ] {
        let client = client(&scratch).await;
        client
            .batch_execute("BEGIN; CREATE TEMP TABLE kept AS SELECT * FROM payment")
            .await
            .unwrap();
        client.batch_execute("COMMIT").await.unwrap();
        plant(&scratch, &format!("{change} {of_it}")).await;
        let second = node(&scratch, "two").await;
        for node in [&store, &second] {
            let read = node.payment(altered.id).await;
            assert!(is_unreadable(read), "{change}");
            assert!(
                is_unreadable(node.aggregate(payment_of("altered")).await),
                "{change}"
            );
            assert!(node.payment(other.id).await.unwrap().is_some());
        }
        assert!(found(&scratch).await.contains(&"payment"), "{change}");
        let back = "UPDATE payment p SET status = k.status, merchant = k.merchant, token_hash = k.token_hash, body = k.body
                FROM kept k WHERE k.id = p.id";
        client.batch_execute(back).await.unwrap();
        client.batch_execute("DROP TABLE kept").await.unwrap();
        crate::StoreHealth::shut_down(&*second).await.unwrap();
    }
    assert_eq!(
        store.payment(altered.id).await.unwrap(),
        Some(Arc::new(altered))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_switch_that_is_not_authentic_is_off() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "one").await;
    let on = account("sandbox-test");
    let switched = store.switch_account(on.clone(), true, audited("provider.change"), NOW);
    switched.await.unwrap();
    assert_eq!(
        store.account_switches().await.unwrap(),
        [(on.clone(), true)]
    );
    plant(
        &scratch,
        "UPDATE account_switch SET body = set_byte(body, 18, get_byte(body, 18) # 1)",
    )
    .await;
    assert_eq!(store.account_switches().await.unwrap(), [(on, false)]);
    assert_eq!(found(&scratch).await, ["account-switch"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authentic_row_that_is_older_than_the_audit_log_is_named() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "one").await;
    let ann = Operator {
        role: Role::Admin,
        ..operator("ann", NOW)
    };
    let line = |action: &str| Audited {
        object: format!("operator/{}", ann.id),
        after: (action == "operator.create").then(|| r#"{"role":"admin"}"#.to_owned()),
        ..audited(action)
    };
    let made = store.create_operator(ann.clone(), line("operator.create"), NOW);
    made.await.unwrap().unwrap();
    assert_eq!(found(&scratch).await, [""; 0]);
    let client = client(&scratch).await;
    let sql = "CREATE TEMP TABLE kept AS SELECT * FROM operator";
    client.batch_execute(sql).await.unwrap();
    let removed = store.remove_operator(ann.id, line("operator.delete"), NOW);
    removed.await.unwrap().unwrap();
    assert_eq!(found(&scratch).await, [""; 0]);
    // Verification also finds a deleted delegation, and one restored from before its revocation.
    let shared = shared(&store);
    selling::reseller(&shared).await;
    let of = shop(&shared).await;
    selling::delegate(&shared, of.0, true, NOW).await;
    let sql = "CREATE TEMP TABLE granted AS SELECT * FROM delegation";
    client.batch_execute(sql).await.unwrap();
    selling::delegate(&shared, of.0, false, later(1)).await;
    assert_eq!(found(&scratch).await, [""; 0]);
    client
        .batch_execute("DELETE FROM delegation")
        .await
        .unwrap();
    assert_eq!(found(&scratch).await, ["delegation"]);
    let sql = "INSERT INTO delegation SELECT * FROM granted";
    client.batch_execute(sql).await.unwrap();
    assert_eq!(found(&scratch).await, ["delegation"]);
    selling::delegate(&shared, of.0, false, later(2)).await;
    assert_eq!(found(&scratch).await, [""; 0]);
    // The row is authentic, but the operator was removed.
    client
        .batch_execute("INSERT INTO operator SELECT * FROM kept")
        .await
        .unwrap();
    assert_eq!(found(&scratch).await, ["operator"]);
    client.batch_execute("DELETE FROM operator").await.unwrap();
    let made = store.create_operator(ann.clone(), line("operator.create"), NOW);
    made.await.unwrap().unwrap();
    client.batch_execute("DELETE FROM operator").await.unwrap();
    assert_eq!(found(&scratch).await, ["operator"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_role_that_serves_adds_entries_and_movements_and_changes_none() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = PostgresStore::open(&scratch.serving()).await;
    let store = store.unwrap();
    store.audit(audited("merchant.create"), NOW).await.unwrap();
    paid(&shared(&store), "ann").await;
    let unknown = (account("sandbox-test"), "unknown".to_owned());
    let kept = store.keep_callback(unknown.0, unknown.1, None, NOW).await;
    assert_eq!(kept, Ok(KeptCallback::Kept));
    let target = Target::parse(&scratch.serving().url).unwrap();
    let client = target.connect().await.unwrap();
    assert_eq!(unguarded(&client).await.unwrap(), [""; 0]);
    let owner = self::client(&scratch).await;
    let all = WITHHELD.map(|(table, _)| table);
    assert_eq!(unguarded(&owner).await.unwrap(), all);
    for (table, rights) in WITHHELD {
        for right in rights {
            // One right on one table is enough for a report.
            let of = format!("{right} ON {table}");
            let change = |word: &str, of: &str| format!("{word} {of} kassette_serving");
            let grant = change("GRANT", &format!("{of} TO"));
            owner.batch_execute(&grant).await.unwrap();
            assert_eq!(unguarded(&client).await.unwrap(), [table], "{right}");
            let revoke = change("REVOKE", &format!("{of} FROM"));
            owner.batch_execute(&revoke).await.unwrap();
        }
    }
    for refused in [
        "UPDATE audit SET number = number + 1",
        "DELETE FROM audit",
        "TRUNCATE audit",
        "DROP TABLE audit",
        "UPDATE movement SET booked_at = booked_at + 1",
        "DELETE FROM movement",
        "DELETE FROM payment",
        "UPDATE payment SET reference = 'other'",
        "DELETE FROM ledger",
        "DELETE FROM copy_mark",
        "UPDATE meta SET canary = mark",
        "CREATE TABLE other (id bigint)",
    ] {
        let error = client.execute(refused, &[]).await.unwrap_err();
        let code = error.code().cloned();
        let denied = tokio_postgres::error::SqlState::INSUFFICIENT_PRIVILEGE;
        assert_eq!(code, Some(denied), "{refused}");
    }
    // Of references it forgets those that no attempt has.
    let references = "SELECT count(*) FROM reference";
    let before: i64 = client.query_one(references, &[]).await.unwrap().get(0);
    for sql in [
        "UPDATE reference SET payment = NULL",
        "DELETE FROM reference",
        "DELETE FROM parked",
    ] {
        client.execute(sql, &[]).await.unwrap();
    }
    let after: i64 = client.query_one(references, &[]).await.unwrap().get(0);
    assert_eq!(after, before - 1);
    assert_eq!(found(&scratch).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_column_that_leads_to_another_row_leads_nowhere() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    let store = shared(&nodes[0]);
    let own = shop(&store).await;
    selling::reseller(&store).await;
    let other = shop(&store).await;
    for name in ["ann", "bob"] {
        let made = store.create_operator(operator(name, NOW), audited("operator.create"), NOW);
        made.await.unwrap().unwrap();
        let key = api_key(name, KeyOwner::Merchant(own), Environment::Test);
        store
            .issue_key(key, audited("key.create"), NOW)
            .await
            .unwrap();
        selling::invite(&store, name, &format!("ref-{name}"), NOW).await;
        paid(&store, name).await;
    }
    listen(&store, endpoint("own", NOW)).await;
    let [ann, bob] = ["ann", "bob"].map(|name| operator(name, NOW));
    let [key, kept] = ["ann", "bob"].map(|name| {
        let key = api_key(name, KeyOwner::Merchant(own), Environment::Test);
        (key.id, key.hash)
    });
    // Two rows exchange their ids by way of an unused id.
    for (table, of_one) in [
        ("operator", ann.id.as_bytes()),
        ("api_key", key.0.as_bytes()),
    ] {
        let (free, of_one) = (hex::encode([0; 16]), hex::encode(of_one));
        for (from, to) in [
            (format!("id = '{of_one}'"), free.clone()),
            (format!("id <> '{free}'"), of_one.clone()),
        ] {
            let sql = format!("UPDATE {table} SET id = '{to}' WHERE {from}");
            plant(&scratch, &sql).await;
        }
    }
    let event = "(SELECT id FROM event ORDER BY id LIMIT 1)";
    for sql in [
        "UPDATE invitation SET token_hash = token_hash || '\\x00' WHERE client_ref = 'ref-bob'".to_owned(),
        format!(
            "UPDATE invitation SET token_hash = '\\x{}' WHERE client_ref = 'ref-ann'",
            hex::encode(selling::opens("bob").0)
        ),
        format!("UPDATE endpoint SET merchant = {}", other.0),
        format!("UPDATE event SET kind = kind + 1 WHERE id = {event}"),
        "UPDATE reference SET payment = (SELECT payment FROM reference WHERE reference = 'vendor-bob')
            WHERE reference = 'vendor-ann'".to_owned(),
    ] {
        plant(&scratch, &sql).await;
    }
    for node in &nodes {
        let removed = node.remove_operator(ann.id, audited("operator.delete"), NOW);
        assert!(is_unreadable(removed.await));
        assert!(node.operator(ann.hash).await.unwrap().is_some());
        assert!(node.operator(bob.hash).await.unwrap().is_some());
        let revoked = node.revoke_key(key.0, audited("key.revoke"), NOW);
        assert!(is_unreadable(revoked.await));
        assert!(is_unreadable(node.key_by_id(key.0).await));
        let still = node.key(kept.1).await.unwrap().unwrap();
        assert_eq!((still.id, still.revoked_at), (kept.0, None));
        assert!(is_unreadable(
            node.invitation(selling::opens("bob"), NOW).await
        ));
        let of_other = KeyOwner::Merchant(other);
        assert!(is_unreadable(
            node.endpoints(of_other, None, first(9)).await
        ));
        let asked = EventsAsked {
            merchant: own,
            environment: Environment::Test,
            kind: None,
            since: None,
            until: None,
            payments: None,
        };
        assert!(is_unreadable(node.events(asked, first(9)).await));
        let told = (account("sandbox-test"), "vendor-ann".to_owned());
        assert!(is_unreadable(
            node.keep_callback(told.0, told.1, None, NOW).await
        ));
    }
    plant(
        &scratch,
        "UPDATE reference SET payment = NULL WHERE reference = 'vendor-ann'",
    )
    .await;
    let told = (account("sandbox-test"), "vendor-ann".to_owned());
    let kept = nodes[1].keep_callback(told.0, told.1, None, NOW).await;
    assert_eq!(kept, Ok(KeptCallback::Kept));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_was_set_back_gives_no_one_the_place_of_another() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    let store = shared(&nodes[0]);
    let first = shop(&store).await;
    let agency = selling::reseller(&store).await;
    plant(&scratch, "UPDATE counter SET value = 0").await;
    for node in &nodes {
        let made = node.create_merchant(merchant(true), audited("merchant.create"), NOW);
        assert!(is_unreadable(made.await));
        let made = node.create_reseller("Other".into(), audited("reseller.create"), NOW);
        assert!(is_unreadable(made.await));
    }
    assert_eq!(nodes[1].merchant(first).await.unwrap().unwrap().id, first);
    assert_eq!(nodes[1].reseller(agency.id).await, Ok(Some(agency)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn altered_columns_let_no_reseller_work_or_hear() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    let store = shared(&nodes[0]);
    let made = store.create_merchant(merchant(false), audited("merchant.create"), NOW);
    let of = made.await.unwrap().id;
    selling::reseller(&store).await;
    selling::roll_out(&store, true).await;
    selling::delegate(&store, of.0, true, NOW).await;
    listen(&store, selling::resellers_endpoint("agency")).await;
    let resold = selling::resold("resold", of.0, Environment::Test);
    let id = resold.id;
    let made = store.create(resold, None, NOW).await.unwrap();
    assert!(matches!(made, Created::New(_)));
    plant(&scratch, "UPDATE merchant SET live_approved = true").await;
    for node in &nodes {
        let bars = resellers::bars_creation(&node.requests, ResellerId(1), of, Environment::Live);
        assert_eq!(bars.await, Ok(Some(ResellerNotAllowed::NotLiveApproved)));
    }
    selling::delegate(&store, of.0, false, NOW).await;
    plant(&scratch, "UPDATE delegation SET authorized = true").await;
    for node in &nodes {
        let bars = resellers::bars(&node.requests, ResellerId(1), of, Environment::Test);
        assert_eq!(bars.await, Ok(Some(ResellerNotAllowed::NotAuthorized)));
    }
    // The payment still works, and its reseller gets no further events.
    let before: i64 = count(&scratch, "delivery").await;
    let cancelled = Step::Act(Act::Cancel);
    done(&shared(&nodes[1]), About::Payment(id), cancelled, later(1)).await;
    assert_eq!(count(&scratch, "delivery").await, before);
    assert_ne!(count(&scratch, "event").await, 0);
}

async fn count(scratch: &Scratch, table: &str) -> i64 {
    let sql = format!("SELECT count(*) FROM {table}");
    let counted = client(scratch).await.query_one(&sql, &[]).await;
    counted.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn altered_columns_give_no_money_back_twice() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    let store = shared(&nodes[0]);
    pay(&store, "a").await;
    let mut over = report("vendor-a", ProviderStatus::Overpaid);
    over.received = Minor(5490);
    done(
        &store,
        payment_of("a"),
        news("attempt of a", over),
        later(1),
    )
    .await;
    let id = PaymentId::from_bytes(id_of("a"));
    let again = || order("one", "a", Some(1000));
    let ordered = store.refund(id, again(), None, None, later(2)).await;
    assert!(matches!(ordered, Ok(RefundOrdered::New { .. })));
    let line = page(store.work(true, first(9)).await.unwrap())
        .items
        .remove(0);
    let marked = store.work_done(line.id, audited("work.done"), later(2));
    assert!(marked.await.unwrap().is_some());
    let of_line = NewRefund {
        origin: RefundOrigin::Operator,
        bucket: Bucket::Excess,
        amount: Some(line.amount),
        ..order("two", "a", None)
    };
    // The order's key is missing, and a work item is open again.
    plant(&scratch, "UPDATE refund SET key = NULL").await;
    plant(&scratch, "UPDATE work SET is_open = true").await;
    for node in &nodes {
        let ordered = node.refund(id, again(), None, None, later(3)).await;
        assert!(
            matches!(ordered, Ok(RefundOrdered::Replay { .. })),
            "{ordered:?}"
        );
        let ordered = node.refund(id, of_line.clone(), None, None, later(3)).await;
        assert!(is_unreadable(ordered));
    }
    // A movement must not be listed in another period than the one in which it was booked.
    plant(&scratch, "UPDATE movement SET booked_at = booked_at + 1").await;
    for node in &nodes {
        let listed = node.movements(MovementFilter::default(), first(9)).await;
        assert!(is_unreadable(listed));
    }
    let refunds = nodes[1].aggregate(payment_of("a")).await.unwrap().unwrap();
    assert_eq!(refunds.refunds().len(), 1);
}

/// Rows without a MAC, see the schema.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_order_work_delay_or_repeat_it_and_permit_nothing() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let nodes = nodes(&scratch).await;
    let store = shared(&nodes[0]);
    for _ in 0..2 {
        shop(&store).await;
    }
    let own = listen(&store, endpoint("own", NOW)).await;
    let foreign = Endpoint {
        owner: KeyOwner::Merchant(MerchantId(2)),
        ..endpoint("foreign", NOW)
    };
    let foreign = listen(&store, foreign).await;
    paid(&store, "a").await;
    pay(&store, "b").await;
    let taken = store.reserve_nonce(nonce_of("a", NOW), NOW).await;
    assert_eq!(taken, Ok(Reserved::Fresh));
    let lease = Duration::from_secs(60);
    let before = store.aggregate(payment_of("b")).await.unwrap();
    for node in &nodes {
        // A signed request arrives a second time: its reference ensures that it is executed once.
        plant(&scratch, "DELETE FROM nonce").await;
        let taken = node.reserve_nonce(nonce_of("a", NOW), NOW).await;
        assert_eq!(taken, Ok(Reserved::Fresh));
        let replayed = node.create(new_payment("a"), None, NOW).await;
        assert!(matches!(replayed, Ok(Created::Replay(_))), "{replayed:?}");
        // A payment that is due too early is claimed, and does not change.
        plant(&scratch, "UPDATE due SET due_at = 1, claimed_until = NULL").await;
        let due = node.claim_due(NOW, lease, 9).await.unwrap();
        assert!(due.contains(&PaymentId::from_bytes(id_of("b"))));
        let mut after = node.aggregate(payment_of("b")).await.unwrap();
        if let Some(after) = &mut after {
            after.payment.claimed_until = None;
        }
        assert_eq!(after, before);
    }
    // A delivery that is redirected to another merchant's endpoint is not sent; once restored, it is sent.
    let lead = format!(
        "UPDATE delivery SET endpoint = '{}', status = 0, next_at = 1, leased_until = 0",
        hex::encode(foreign.id.as_bytes())
    );
    plant(&scratch, &lead).await;
    let claim = async |node: &PostgresStore, of| match node.claim(of, later(9), lease, 9).await {
        Ok(ClaimedDeliveries::Due { deliveries, .. }) => deliveries.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(claim(&nodes[1], foreign.id).await, 0);
    let back = lead.replace(
        &hex::encode(foreign.id.as_bytes()),
        &hex::encode(own.id.as_bytes()),
    );
    plant(&scratch, &back).await;
    let there = usize::try_from(count(&scratch, "delivery").await).unwrap();
    assert_eq!(claim(&nodes[1], own.id).await, there);
    assert_ne!(there, 0);
}
