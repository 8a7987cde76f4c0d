//! Verification of webhooks.

use crate::{choose, started, world};

#[test]
fn callback_of_another_store_is_acknowledged_and_ignored() {
    let w = world();
    let (_, open) = started(&w);
    choose(&w, &open, "approve");
    let callback = w.next_callback();
    w.change_setting("store-id", "other");
    assert_eq!(w.callback(&callback).unwrap().notices, []);
}
