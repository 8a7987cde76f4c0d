//! Filters of the audit log's list and export.

use std::time::Duration;

use axum::body::to_bytes;

use super::*;

/// Actions of the entries that match a query, newest first.
async fn actions(world: &World, query: &str) -> Vec<String> {
    let listed = world.get(&format!("/audit?{query}")).await;
    let entries = listed.is(200)["entries"].as_array().unwrap().clone();
    let action = |entry: &Value| entry["action"].as_str().unwrap().to_owned();
    entries.iter().map(action).collect()
}

/// An export's media type and text.
async fn export(world: &World, query: &str) -> (String, String) {
    let path = format!("/audit/export?{query}");
    let answer = world.send(request(Some(&world.viewer), Method::GET, &path, None));
    let answer = answer.await;
    assert_eq!(answer.status(), StatusCode::OK);
    let media_type = answer.headers()[CONTENT_TYPE].to_str().unwrap().to_owned();
    let bytes = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (media_type, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn lines_are_found_by_action_object_operator_and_time() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    world.clock.advance(Duration::from_secs(60));
    let key = json!({ "environment": "test" });
    let path = format!("/merchants/{merchant}/keys");
    world.post(&path, key).await.is(201);
    let named = json!({ "name": "Renamed" });
    world
        .patch(&format!("/merchants/{merchant}"), named)
        .await
        .is(200);
    let key = world.get("/audit?action=key.create").await;
    let line = key.is(200)["entries"][0].clone();
    let (at, id) = (line["at"].as_str().unwrap(), &line["operator_id"]);
    let id = id.as_str().unwrap();

    assert_eq!(actions(&world, "action=key.create").await, ["key.create"]);
    let of_merchants = ["merchant.change", "merchant.create"];
    assert_eq!(actions(&world, "action=merchant").await, of_merchants);
    assert!(actions(&world, "action=merch").await.is_empty());
    let object = format!("object=merchant/{merchant}");
    assert_eq!(actions(&world, &object).await, of_merchants);
    assert_eq!(actions(&world, "object=merchant").await, of_merchants);
    assert!(actions(&world, "object=merchant/77").await.is_empty());
    let by_operator = actions(&world, "operator=OPERATOR").await;
    assert_eq!(by_operator, ["merchant.change"]);
    let by_admin = ["key.create", "merchant.create"];
    assert_eq!(actions(&world, "operator=admin").await, by_admin);
    assert_eq!(actions(&world, &format!("operator={id}")).await, by_admin);
    let since = actions(&world, &format!("since={at}")).await;
    assert_eq!(since, ["merchant.change", "key.create"]);
    let until = actions(&world, &format!("until={at}&action=merchant")).await;
    assert_eq!(until, ["merchant.create"]);
    for wrong in ["since=x", "until=2030-01-01", "actor=a"] {
        world.get(&format!("/audit?{wrong}")).await.refused(422);
    }
}

#[tokio::test]
async fn pages_of_a_filtered_log_hold_every_line_once_however_few_match() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    for number in 0..30 {
        let named = json!({ "name": format!("Shop {number}") });
        let path = format!("/merchants/{merchant}");
        world.patch(&path, named).await.is(200);
        if number % 10 == 0 {
            world.merchant(false).await;
        }
    }
    let (mut found, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/audit?action=merchant.create&limit=1{cursor}");
        let page = world.get(&path).await;
        let page = page.is(200);
        found.extend(page["entries"].as_array().unwrap().clone());
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    let objects: Vec<&Value> = found.iter().map(|entry| &entry["object"]).collect();
    assert_eq!(
        objects,
        ["merchant/4", "merchant/3", "merchant/2", "merchant/1"]
    );
}

#[tokio::test]
async fn an_export_holds_all_lines_as_csv_or_an_object_each() {
    let world = World::new().await;
    let merchant = world.merchant(false).await;
    for number in 0..120 {
        let named = json!({ "name": format!("Shop, \"{number}\"") });
        let path = format!("/merchants/{merchant}");
        world.patch(&path, named).await.is(200);
    }
    let (media_type, csv) = export(&world, "action=merchant").await;
    assert!(media_type.starts_with("text/csv"), "{media_type}");
    let mut lines = csv.split("\r\n");
    assert_eq!(
        lines.next().unwrap(),
        "id,at,operator,operator_id,actor,reason,action,object,before,after,prev_hash,hash"
    );
    // Each line ends with a line break.
    assert_eq!(lines.clone().count(), 121 + 1);
    assert!(lines.next().unwrap().contains(r#"Shop, \""#), "{csv}");
    let (media_type, text) = export(&world, "action=merchant&format=jsonl").await;
    assert_eq!(media_type, "application/jsonl");
    let entries: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(entries.len(), 121);
    assert_eq!(entries[0], world.last_line().await);
    for wrong in ["format=xml", "limit=5", "since=x"] {
        let path = format!("/audit/export?{wrong}");
        world.get(&path).await.refused(422);
    }
}

#[tokio::test]
async fn an_entry_that_was_written_down_is_verified_against_its_hash() {
    let world = World::new().await;
    world.merchant(false).await;
    let line = world.last_line().await;
    let (id, hash) = (line["id"].as_u64().unwrap(), line["hash"].as_str().unwrap());
    world.merchant(false).await;
    let verify = async |query: String| world.get(&format!("/audit/verify{query}")).await;
    let whole = verify(String::new()).await;
    let head = world.last_line().await;
    let expected = json!({ "id": head["id"], "hash": head["hash"] });
    assert_eq!(
        (&whole.is(200)["verified"], &whole.body["head"]),
        (&json!(true), &expected)
    );
    assert_eq!(whole.body["entries"], head["id"]);
    let same = verify(format!("?entry={id}&hash={hash}")).await;
    assert_eq!(same.is(200)["verified"], true);
    let other = verify(format!("?entry={id}&hash={}", "0".repeat(64))).await;
    assert_eq!(other.is(200)["verified"], false);
    assert!(
        other.body["breaks"][0]
            .as_str()
            .unwrap()
            .contains("was rewritten")
    );
    let missing = verify(format!("?entry={}&hash={hash}", id + 100)).await;
    assert_eq!(missing.is(200)["verified"], false);
    verify(format!("?entry={id}")).await.refused(422);
    verify(format!("?hash={hash}")).await.refused(422);
}
