//! A record that does not read back: our own fault, 500, and never served as data.

use std::path::Path;

use serde_json::json;

use crate::crash::comparable;
use crate::harness::Server;

#[tokio::test]
async fn a_damaged_record_is_an_error_of_ours_and_never_served_as_data() {
    let server = Server::fresh().await;
    let key = server.test_key().to_owned();
    let damaged = server.create(&key, json!({})).await;
    let whole = server.create(&key, json!({})).await;
    let folder = server.stop().await;
    flip_a_bit(
        &folder.path().join("data/store"),
        damaged["order_id"].as_str().unwrap(),
    );
    let server = Server::in_folder(folder).await;
    let path = format!(
        "/api/v1/payments/{}",
        damaged["payment_id"].as_str().unwrap()
    );
    let answer = server.get(&key, &path).await.expect(500);
    let said = answer.error();
    for inner in ["record", "damaged", "checksum", "sled", "store"] {
        assert!(!said.contains(inner), "tells of our inside: {said}");
    }
    assert!(answer.header("x-request-id").is_some());
    let found = server.payment(&key, &whole).await;
    assert_eq!(comparable(&found), comparable(&whole));
}

/// Flips one bit of the row that holds this order's text, as a failing disk would.
fn flip_a_bit(store: &Path, order: &str) {
    let db = engine(store);
    let holds = |value: &[u8]| {
        value
            .windows(order.len())
            .position(|window| window == order.as_bytes())
    };
    let mut flipped = 0;
    for row in db.iter() {
        let (key, value) = row.unwrap();
        if let Some(place) = holds(&value) {
            let mut value = value.to_vec();
            value[place] ^= 1;
            db.insert(key, value).unwrap();
            flipped += 1;
        }
    }
    assert_eq!(flipped, 1, "one row holds the order's text");
    db.flush().unwrap();
}

/// Opens a store's engine as the store does: segments of another size are refused.
pub(crate) fn engine(store: &Path) -> sled::Db {
    const SEGMENT_BYTES: usize = 8 << 20;
    let config = sled::Config::new().path(store);
    config.segment_size(SEGMENT_BYTES).open().unwrap()
}
