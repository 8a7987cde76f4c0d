//! After a crash during exchanges, each exchange is either complete or has had no effect.

use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::connect::{claim, origin};
use crate::harness::{Answer, Server};
use crate::receiver::Receiver;

/// Number of shops that connect at the same time.
const SHOPS: usize = 24;
/// Number of responses after which the server is killed, while other exchanges are under way.
const ANSWERS: usize = 6;

#[tokio::test]
async fn a_kill_in_the_middle_leaves_all_or_nothing() {
    let server = Server::fresh().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let mut shops = Vec::new();
    for _ in 0..SHOPS {
        let shop = Receiver::new().await;
        let site = origin(&shop, "127.0.0.1");
        let code = server.connect_code(merchant, &site, json!({})).await;
        let claim = claim(&code, &shop, &site, &site);
        shops.push((shop, site, claim));
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    for (at, (_, _, claim)) in shops.iter().enumerate() {
        let url = format!("{}/api/v1/connect/exchange", server.base());
        let (request, tell) = (server.http.post(url).json(claim), tell.clone());
        tokio::spawn(async move {
            let text = async { request.send().await?.error_for_status()?.text().await };
            if let Ok(text) = text.await {
                let _ = tell.send((at, text));
            }
        });
    }
    drop(tell);
    let mut answered: Vec<Option<Value>> = vec![None; SHOPS];
    let mut note = |(at, text): (usize, String)| {
        // A response that was cut off does not count.
        answered[at] = serde_json::from_str(&text).ok();
    };
    for _ in 0..ANSWERS {
        note(told.recv().await.unwrap());
    }
    let folder = server.kill();
    while let Some(more) = told.recv().await {
        note(more);
    }

    let server = Server::in_folder(folder).await;
    let hooks = server
        .of_merchant(merchant, "webhook-endpoints", "webhook_endpoints")
        .await;
    let keys = server.of_merchant(merchant, "keys", "keys").await;
    let codes = server
        .of_merchant(merchant, "connect-codes", "connect_codes")
        .await;
    let log = server
        .admin("GET", "/audit?limit=100", None)
        .await
        .expect(200)
        .json();
    let lines: Vec<_> = log["entries"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["action"] == "connect.exchange")
        .collect();
    let mut whole = 0;
    for (at, (_, site, claim)) in shops.iter().enumerate() {
        let here = |value: &&Value| value.to_string().contains(&format!("{site}/"));
        let hook: Vec<_> = hooks.iter().filter(here).collect();
        let line: Vec<_> = lines.iter().filter(|line| line["actor"] == *site).collect();
        let code = codes
            .iter()
            .find(|code| code["site_origin"] == *site)
            .unwrap();
        let redeemed = code["state"] == "redeemed";
        assert_eq!(
            (hook.len(), line.len()),
            (usize::from(redeemed), usize::from(redeemed)),
            "{site}"
        );
        if let Some(line) = line.first() {
            let key = keys
                .iter()
                .find(|key| line.to_string().contains(key["key_id"].as_str().unwrap()));
            assert!(key.is_some_and(|key| key["revoked_at"].is_null()), "{site}");
            assert!(
                line.to_string().contains(hook[0]["id"].as_str().unwrap()),
                "{site}"
            );
            whole += 1;
        }
        if let Some(connected) = &answered[at] {
            assert!(redeemed, "what was answered is there");
            let key = connected["api_key"].as_str().unwrap();
            server.get(key, "/api/v1/methods").await.expect(200);
        }
        let again: Answer = server.exchange(claim).await;
        assert_eq!(
            again.status,
            if redeemed { 401 } else { 200 },
            "{site}: {}",
            again.text
        );
    }
    assert!((ANSWERS..=SHOPS).contains(&whole), "{whole}");
    let keys = server.of_merchant(merchant, "keys", "keys").await.len();
    assert_eq!(keys, SHOPS + 2, "one for each shop, and those of the start");
}
