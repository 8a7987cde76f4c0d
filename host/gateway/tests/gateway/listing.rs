//! The listing with modules that do not answer immediately, like those in interpreted languages.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::method::MethodId;
use kassette_domain::policy::Policy;
use kassette_gateway::settings::Settings;
use tokio::sync::Barrier;

use crate::world::{World, settings};

/// The methods that the page of a new payment offers.
async fn offered(world: &World) -> Vec<MethodId> {
    let payment = world.hosted().await;
    let view = world.gateway.checkout(payment.token.expose()).await;
    let offers = view.unwrap().unwrap().offers;
    offers.iter().map(|offer| offer.method).collect()
}

#[tokio::test]
async fn methods_that_are_waited_for_work_side_by_side_and_keep_their_places() {
    // Longer than any delay of a busy machine, because the two modules wait for each other.
    let settings = Settings {
        listing_deadline: Duration::from_secs(60),
        ..settings()
    };
    let world = World::with(settings, Policy::default()).await;
    let meeting = Arc::new(Barrier::new(2));
    for method in [MethodId::Ideal, MethodId::Paypal] {
        world.vendor.meet(method, &meeting);
    }
    assert_eq!(offered(&world).await, [MethodId::Paypal, MethodId::Ideal]);
}

#[tokio::test]
async fn a_method_that_is_late_is_left_out_and_holds_up_no_other() {
    let world = World::new().await;
    let nobody_comes = Arc::new(Barrier::new(2));
    world.vendor.meet(MethodId::Paypal, &nobody_comes);
    assert_eq!(offered(&world).await, [MethodId::Ideal]);
}
