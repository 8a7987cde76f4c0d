//! Verification of notifications.
use kassette_plugin::provider::CallbackFailure;

use crate::{reports, started, world};

#[test]
fn a_changed_amount_is_refused() {
    let w = world();
    let (_, open) = started(&w, "ideal");
    w.choose(&open, "approve");
    let mut news = w.next_callback();
    let text = String::from_utf8(news.body).unwrap();
    assert!(text.contains("4990"));
    news.body = text.replace("4990", "4991").into_bytes();
    assert!(matches!(w.callback(&news), Err(CallbackFailure::Forged(_))));
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
