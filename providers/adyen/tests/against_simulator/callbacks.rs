//! Which notifications are believed.
use kassette_plugin::provider::{Refused, Status, Subject};
use kassette_sim::Fault;

use crate::{reports, started, told, world};

/// 64 digits that are not the simulator's key.
const OTHER_KEY: &str = "00112233445566778899AABBCCDDEEFF00112233445566778899AABBCCDDEEFF";

#[test]
fn a_notification_is_about_our_attempt() {
    let w = world();
    let (attempt, open) = started(&w, "credit_card");
    w.choose(&open, "approve");
    let answer = w.callback(&w.next_callback()).unwrap();
    let about: Vec<_> = answer
        .notices
        .into_iter()
        .map(|notice| notice.about)
        .collect();
    assert_eq!(about, [Subject::Attempt(attempt.id)]);
}

#[test]
fn a_forged_notification_is_refused() {
    let w = world();
    let (_, open) = started(&w, "credit_card");
    w.fault(Fault::CallbackForged);
    w.choose(&open, "decline");
    let forged = w.callback(&w.next_callback());
    assert!(matches!(forged, Err(Refused::Forged(_))));
}

#[test]
fn a_changed_amount_is_refused() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.choose(&open, "approve");
    let mut news = w.next_callback();
    let text = String::from_utf8(news.body).unwrap();
    assert!(text.contains("4990"));
    news.body = text.replace("4990", "4991").into_bytes();
    assert!(matches!(w.callback(&news), Err(Refused::Forged(_))));
}

#[test]
fn a_repeated_notification_says_the_same_again() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.fault(Fault::CallbackTwice);
    w.choose(&open, "approve");
    assert_eq!(told(&w), told(&w));
}

#[test]
fn an_older_notification_after_a_newer_one_says_what_was_true_then() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.fault(Fault::CallbackReordered);
    w.choose(&open, "approve");
    let first = w.next_callback();
    w.advance(1_000);
    for news in [first, w.next_callback()] {
        let reports = reports(w.callback(&news).unwrap());
        let statuses: Vec<_> = reports.into_iter().flatten().map(|r| r.status).collect();
        assert_eq!(statuses, [Status::Processing]);
    }
}

#[test]
fn both_keys_count_while_the_key_is_rotated() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.choose(&open, "approve");
    let news = w.next_callback();
    w.rotate_secret("hmac-key", OTHER_KEY);
    assert!(w.callback(&news).is_ok());
    w.change_secret("hmac-key", OTHER_KEY);
    assert!(matches!(w.callback(&news), Err(Refused::Forged(_))));
}

#[test]
fn news_of_another_merchant_account_is_acknowledged_and_ignored() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.choose(&open, "approve");
    let news = w.next_callback();
    w.change_setting("merchant-account", "OtherECOM");
    assert_eq!(reports(w.callback(&news).unwrap()), []);
}
