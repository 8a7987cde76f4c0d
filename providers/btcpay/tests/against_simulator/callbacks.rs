//! Verification of webhooks.

use crate::{choose, started, world};

#[test]
fn news_of_another_store_is_acknowledged_and_ignored() {
    let w = world();
    let (_, open) = started(&w);
    choose(&w, &open, "approve");
    let news = w.next_callback();
    w.change_setting("store-id", "other");
    assert_eq!(w.callback(&news).unwrap().notices, []);
}
