//! Which webhooks are believed.
use kassette_plugin::provider::{Refused, Status};
use kassette_sim::Fault;

use crate::{choose, looked, started, told, world};

#[test]
fn a_forged_webhook_is_refused() {
    let w = world();
    let (attempt, open) = started(&w);
    w.fault(Fault::CallbackForged);
    choose(&w, &open, "decline");
    let forged = w.callback(&w.next_callback());
    assert!(matches!(forged, Err(Refused::Forged(_))));
    assert_eq!(looked(&w, &attempt, &open).status, Status::Expired);
}

#[test]
fn a_changed_byte_is_a_forgery() {
    let w = world();
    let (_, open) = started(&w);
    choose(&w, &open, "approve");
    let mut news = w.next_callback();
    news.body.push(b' ');
    assert!(matches!(w.callback(&news), Err(Refused::Forged(_))));
}

#[test]
fn repeated_and_older_webhooks_only_make_the_host_ask_again() {
    for fault in [Fault::CallbackTwice, Fault::CallbackReordered] {
        let w = world();
        let (attempt, open) = started(&w);
        w.fault(fault);
        choose(&w, &open, "approve");
        assert_eq!(told(&w, &attempt, &open).status, Status::Completed);
        w.advance(1_000);
        assert_eq!(told(&w, &attempt, &open).status, Status::Completed);
    }
}

#[test]
fn both_secrets_count_while_the_secret_is_rotated() {
    let w = world();
    let (_, open) = started(&w);
    choose(&w, &open, "approve");
    let news = w.next_callback();
    w.rotate_secret("webhook-secret", "another");
    assert!(w.callback(&news).is_ok());
    w.change_secret("webhook-secret", "another");
    assert!(matches!(w.callback(&news), Err(Refused::Forged(_))));
}

#[test]
fn news_of_another_store_is_acknowledged_and_ignored() {
    let w = world();
    let (_, open) = started(&w);
    choose(&w, &open, "approve");
    let news = w.next_callback();
    w.change_setting("store-id", "other");
    assert_eq!(w.callback(&news).unwrap().notices, []);
}
