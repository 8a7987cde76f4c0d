//! Callbacks: limits for listed and for other addresses.

use std::convert::Infallible;
use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::extract::{ConnectInfo, Request};

use super::world::World;
use crate::admission::InFlightLimits;
use crate::api::ApiState;
use crate::proxies::Proxies;
use crate::telemetry::for_tests;

const OWN: &str = "/callbacks/sandbox-test";

/// Status of a callback from an address.
async fn from(world: &World, last: u8, body: &'static str) -> u16 {
    let mut request = Request::post(OWN).body(body.into()).unwrap();
    let peer = SocketAddr::from(([192, 0, 2, last], 4711));
    request.extensions_mut().insert(ConnectInfo(peer));
    world.send(request).await.status
}

/// Number of forged callbacks from an address that were processed, out of `sent`.
async fn forged(world: &World, last: u8, sent: usize) -> usize {
    let mut read = 0;
    for _ in 0..sent {
        match from(world, last, "forged").await {
            401 => read += 1,
            429 => {}
            status => panic!("{status}"),
        }
    }
    read
}

#[tokio::test]
async fn an_address_that_has_proved_no_callback_sends_few_until_it_proves_one() {
    let (recorder, measured) = for_tests();
    let _guard = metrics::set_default_local_recorder(&recorder);
    let world = World::reading_callbacks().await;
    let read = forged(&world, 1, 60).await;
    assert!((20..40).contains(&read), "{read}");
    assert_eq!(from(&world, 1, "genuine").await, 429);
    let shown = measured.render();
    for (outcome, count) in [("forged", read), ("limited", 61 - read)] {
        let line = format!(
            "kassette_callbacks_total{{provider=\"sandbox-test\",outcome=\"{outcome}\",environment=\"test\"}} {count}"
        );
        assert!(shown.contains(&line), "{line}\nin\n{shown}");
    }
    for _ in 0..60 {
        assert_eq!(from(&world, 2, "genuine").await, 200);
    }
    world.clock.advance(std::time::Duration::from_secs(1));
    for _ in 0..60 {
        assert_eq!(from(&world, 1, "genuine").await, 200);
    }
}

#[tokio::test]
async fn what_an_address_has_proved_does_not_carry_all_that_it_forges() {
    let world = World::reading_callbacks().await;
    assert_eq!(from(&world, 1, "genuine").await, 200);
    // Limited first as a listed address, and then as any other.
    let read = forged(&world, 1, 200).await;
    assert!((20..80).contains(&read), "{read}");
    assert_eq!(from(&world, 1, "forged").await, 429);
}

#[tokio::test]
async fn bodies_that_strangers_do_not_end_leave_room_for_who_has_proved_one() {
    let world = World::reading_callbacks().await;
    assert_eq!(from(&world, 1, "genuine").await, 200);
    let unended = |last: u8| {
        let body = Body::from_stream(futures_util::stream::pending::<Result<Bytes, Infallible>>());
        let mut request = Request::post(OWN).body(body).unwrap();
        let peer = SocketAddr::from(([192, 0, 2, last], 4711));
        request.extensions_mut().insert(ConnectInfo(peer));
        Box::pin(world.send(request))
    };
    // The maximum number at once, from addresses that may each send twenty.
    let mut held = Vec::new();
    for (first, count) in [(10, 90), (50, 38)] {
        for number in 0..count {
            let mut sent = unended(first + number / 10);
            assert!(futures_util::poll!(&mut sent).is_pending());
            held.push(sent);
        }
        world.clock.advance(std::time::Duration::from_secs(10));
    }
    assert_eq!(from(&world, 99, "genuine").await, 503);
    assert_eq!(from(&world, 1, "genuine").await, 200);
    drop(held);
    assert_eq!(from(&world, 99, "genuine").await, 200);
}

#[tokio::test]
async fn strangers_have_half_of_the_callbacks_that_an_operator_allows() {
    let world = World::new().await;
    let most = InFlightLimits {
        callbacks: 3,
        ..InFlightLimits::default()
    };
    let state = ApiState::new(world.gateway.clone(), Proxies::default(), most);
    let held: Vec<_> = std::iter::from_fn(|| state.unproved_callback()).collect();
    assert_eq!(held.len(), 2);
    drop(held);
    assert!(state.unproved_callback().is_some());
}

#[tokio::test]
async fn what_forty_addresses_forge_holds_up_no_address_that_has_proved_a_callback() {
    let world = World::reading_callbacks().await;
    assert_eq!(from(&world, 1, "genuine").await, 200);
    world
        .clock
        .advance(std::time::Duration::from_secs(29 * 86_400));
    for last in 10..50 {
        forged(&world, last, 10).await;
    }
    assert_eq!(
        from(&world, 2, "genuine").await,
        429,
        "the account has none left"
    );
    assert_eq!(from(&world, 1, "genuine").await, 200);
}

#[tokio::test]
async fn callbacks_to_nowhere_are_slowed_down_by_address() {
    let world = World::new().await;
    for (path, status) in [("/callbacks/unknown", 404), ("/callbacks/UNKNOWN", 404)] {
        world.clock.advance(std::time::Duration::from_secs(60));
        world.ask("POST", path, &[], "").await.expect(status);
        assert!(world.exhaust(&[], path).await.is_some(), "{path}");
    }
}
