//! Corrupt records: a 500, and never shown as data. `verify` reports their location and the remedy.

use std::path::Path;
use std::process::Command;

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

#[tokio::test]
async fn verify_tells_which_bytes_of_a_store_that_does_not_open_are_damaged_and_what_to_do() {
    let server = Server::fresh().await;
    let key = server.test_key().to_owned();
    let payment = server.create(&key, json!({})).await;
    let order = payment["order_id"].as_str().unwrap().as_bytes();
    let folder = server.stop().await;
    let data = folder.path().join("data");
    let path = data.join("store/db");
    let mut bytes = std::fs::read(&path).unwrap();
    let places: Vec<usize> = (0..bytes.len() - order.len())
        .filter(|at| bytes[*at..].starts_with(order))
        .collect();
    for at in &places {
        bytes[*at] ^= 1;
    }
    std::fs::write(&path, bytes).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(["verify", "--data-dir"])
        .arg(&data)
        .env_remove("KASSETTE_MASTER_KEY")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let named = said.lines().find_map(|line| {
        let bytes = line.strip_prefix("file db: bytes ")?;
        let (first, rest) = bytes.split_once(" to ")?;
        let (last, _) = rest.split_once(": ")?;
        Some(first.parse::<usize>().ok()?..=last.parse().ok()?)
    });
    let named = named.unwrap_or_else(|| panic!("no place: {said}"));
    assert!(
        places.iter().any(|at| named.contains(at)),
        "{places:?}: {said}"
    );
    for word in [
        "store: it does not open: ",
        "What to do: ",
        "kassette restore",
        "A damaged store",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("panicked"), "{said}");
}

/// Flips one bit of the row that contains this order ID, as a failing disk would.
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

/// Opens a store's database with the store's segment size; sled refuses any other size.
pub(crate) fn engine(store: &Path) -> sled::Db {
    const SEGMENT_BYTES: usize = 8 << 20;
    let config = sled::Config::new().path(store);
    config.segment_size(SEGMENT_BYTES).open().unwrap()
}
