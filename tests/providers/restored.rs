//! A store restored from a backup, and callbacks about payments created after the backup.

use std::process::Command;

use parking_lot::Mutex;
use serde_json::Value;

use crate::harness::Server;
use crate::world::{Desk, World};

/// Runs a command of the binary with the server's admin API.
fn kassette(server: &Server, arguments: &[&str]) {
    let ended = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(arguments)
        .env("KASSETTE_ADMIN_URL", server.admin_base())
        .env("KASSETTE_OPERATOR_TOKEN", server.operator_token())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{arguments:?}: {said}");
}

#[tokio::test]
async fn captured_money_of_attempts_that_a_restored_store_does_not_know_is_work() {
    let world = World::alone().await;
    let backup = world.server.folder().join("backup");
    let backup = backup.to_str().unwrap();
    let is_database = world.server.ready()["store"]["kind"] == "postgres";
    if !is_database {
        kassette(&world.server, &["backup", backup]);
    }
    let lost = Mutex::new(Vec::new());
    let each = async |desk: Desk| {
        let visit = desk.paid(desk.any_method()).await;
        let words = visit.words().await;
        world.tap.wait(&words, 1).await;
        let [attempt, _] = visit.names().await;
        lost.lock().push((attempt, words));
    };
    world.each(each).await;

    let folder = world.server.stop().await;
    // The callback about the money may come after the first one, so all callbacks are read after the server has
    // stopped.
    let lost: Vec<_> = lost
        .into_inner()
        .into_iter()
        .map(|(attempt, words)| (attempt, world.tap.letters(&words)))
        .collect();
    let data = folder.path().join("data");
    if is_database {
        // Databases have their own means of backup. An empty database stands for a backup made before the first
        // start.
        std::fs::remove_dir_all(data.join("postgres")).unwrap();
    } else {
        std::fs::remove_dir_all(data.join("store")).unwrap();
        kassette(
            &world.server,
            &["restore", backup, "--data-dir", data.to_str().unwrap()],
        );
    }
    let server = Server::in_folder(folder).await;
    for (_, letters) in &lost {
        // Each callback two times, because providers repeat callbacks after a timeout. Too frequent ones get a
        // 503.
        for answers in [[200, 200], [200, 503]] {
            for letter in letters {
                let answer = world.tap.send_to(server.base(), letter, &letter.account);
                let status = answer.await.status;
                assert!(answers.contains(&status), "{status}: {letter:?}");
            }
        }
    }
    // Further callbacks come automatically.
    let items = server
        .wait_for("a work line for each", async || {
            let work = server.admin("GET", "/work?limit=100", None).await;
            let items = work.expect(200).json()["work"].as_array().unwrap().clone();
            (items.len() >= lost.len()).then_some(items)
        })
        .await;
    for (attempt, letters) in &lost {
        let account = letters[0].account.as_str();
        let of_it: Vec<&Value> = items
            .iter()
            .filter(|item| item["provider_id"] == account)
            .collect();
        assert_eq!(of_it.len(), 1, "{account}: {items:?}");
        let item = of_it[0];
        assert_eq!(item["kind"], "unknown", "{item}");
        assert!(item["payment_id"].is_null(), "{item}");
        assert_eq!(item["attempt_id"], *attempt, "{item}");
        assert_ne!(item["amount"], "0.00", "{item}");
    }
    assert_eq!(items.len(), lost.len(), "{items:?}");
}
