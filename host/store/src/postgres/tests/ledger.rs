//! The ledger with the server's clock and several nodes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kassette_domain::movement::Movement;
use kassette_domain::provider::ProviderStatus;
use kassette_domain::time::Time;

use super::nodes::scratch;
use crate::postgres::database::Failure;
use crate::postgres::movements::write;
use crate::postgres::scratch::Scratch;
use crate::postgres::statement::StatementBuilder;
use crate::postgres::{OpenOptions, PostgresStore};
use crate::suite::fixtures::*;
use crate::suite::movements::unknown;
use crate::{Booking, CLOSES_AFTER, Movements as _, Payments as _, Store, StoreHealth as _};

const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(24 * 3600);

async fn node(scratch: &Scratch, name: &str, server_clock: bool) -> Arc<PostgresStore> {
    let options = OpenOptions {
        node: name.into(),
        alone: false,
        server_clock,
        ..scratch.options()
    };
    PostgresStore::open(&options).await.unwrap()
}

/// Time by this machine's clock, which is also the server's.
fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_millis(u64::try_from(now.as_millis()).unwrap())
}

async fn booked(store: &PostgresStore, name: &str, at: Time) -> Time {
    match store.book(unknown(name, 300).1, None, at).await.unwrap() {
        Booking::New(movement) => movement.booked_at,
        Booking::Known(known) => panic!("{known:?}"),
    }
}

#[tokio::test]
async fn a_booking_more_than_a_minute_behind_is_timed_by_the_servers_clock() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "a", true).await;
    let before = now();
    let close = before.before(MINUTE / 2);
    assert_eq!(booked(&store, "close", close).await, close);
    for (name, at) in [
        ("slow", before.before(MINUTE * 2)),
        ("jumped", before.after(DAY * 2)),
    ] {
        let at = booked(&store, name, at).await;
        assert!(before <= at && at <= now(), "{name}: {at:?}");
    }
    // The same for movements of a payment's step, and for money without a payment.
    let shared: Arc<dyn Store> = store.clone();
    pay(&shared, "a").await;
    let captured = news(
        "attempt of a",
        report("vendor-a", ProviderStatus::Completed),
    );
    let (_, change) = done(&shared, payment_of("a"), captured, before.before(DAY)).await;
    assert!(!change.movements.is_empty());
    let (found, movement) = unknown("found", 300);
    let id = movement.id;
    store
        .unknown_money(found, movement, before.before(DAY))
        .await
        .unwrap();
    let found = store.movement(None, id).await.unwrap().unwrap();
    for movement in change.movements.iter().chain([&found]) {
        assert!(
            before <= movement.booked_at && movement.booked_at <= now(),
            "{movement:?}"
        );
    }
    store.shut_down().await.unwrap();
}

#[tokio::test]
async fn a_write_that_took_more_than_a_minute_is_not_committed() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let store = node(&scratch, "a", true).await;
    let written = async |timed: Time| {
        let mut statement = StatementBuilder::default();
        let movement = Movement {
            booked_at: timed,
            ..unknown("late", 300).1
        };
        let sealer = &store.secrets.sealer;
        write(&mut statement, sealer, &[movement], Some(timed)).unwrap();
        statement.write(&store.requests).await
    };
    let refused = written(now().before(MINUTE * 2)).await;
    assert!(matches!(refused, Err(Failure::Stale)), "{refused:?}");
    written(now()).await.unwrap();
    store.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_starts_confirms_no_jump_that_another_node_has_seen() {
    let Some(scratch) = scratch().await else {
        return;
    };
    // The ledger of a running node is three days behind the server's clock: the clock has jumped.
    let old = node(&scratch, "old", false).await;
    let behind = now().before(DAY * 3);
    old.advance_closed_until(behind, true).await.unwrap();
    let new = node(&scratch, "new", true).await;
    let state = new.advance_closed_until(now(), true).await.unwrap();
    assert!(state.jump.is_some(), "{state:?}");
    assert!(state.closed_until < behind, "{state:?}");
    let line = audited("finance.confirm_clock");
    let confirmed = new.confirm_clock(line, now()).await.unwrap().unwrap();
    assert_eq!(confirmed.jump, None);
    assert!(confirmed.closed_until > now().before(CLOSES_AFTER + MINUTE));
    old.shut_down().await.unwrap();
    new.shut_down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_days_without_any_node_the_first_one_needs_no_confirmation() {
    let Some(scratch) = scratch().await else {
        return;
    };
    let old = node(&scratch, "old", false).await;
    let behind = now().before(DAY * 3);
    old.advance_closed_until(behind, true).await.unwrap();
    old.shut_down().await.unwrap();
    let new = node(&scratch, "new", true).await;
    let state = new.advance_closed_until(now(), true).await.unwrap();
    assert_eq!(state.jump, None);
    assert!(state.closed_until > now().before(CLOSES_AFTER + MINUTE));
    new.shut_down().await.unwrap();
}
