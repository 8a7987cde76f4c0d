//! Failing receivers: retries, when deliveries end, and the delivery log.

use serde_json::{Value, json};

use crate::harness::Server;
use crate::receiver::{Hook, Receiver, Reply};

/// Specified pauses between attempts, in seconds.
const PAUSES: [f64; 7] = [5.0, 300.0, 1800.0, 7200.0, 18_000.0, 36_000.0, 36_000.0];

/// Creates a merchant with one endpoint and queues a test event. Returns the endpoint and the delivery.
async fn queued(server: &Server, to: &Receiver) -> (Hook, Value) {
    let (merchant, ..) = server.merchant(json!({})).await;
    let hook = server.hook(merchant, to, json!({})).await;
    let queued = server.hook_act(&hook, "test", json!({})).await;
    let delivery = server.delivery(&queued["delivery_id"]).await;
    (hook, delivery)
}

/// Seconds from a delivery's last attempt to its next one.
fn pause(delivery: &Value) -> f64 {
    let time = |value: &Value| -> jiff::Timestamp { value.as_str().unwrap().parse().unwrap() };
    let last = delivery["attempts"].as_array().unwrap().last().unwrap();
    let next = time(&delivery["next_attempt_at"]).as_millisecond();
    (next - time(&last["at"]).as_millisecond()) as f64 / 1000.0
}

#[tokio::test]
async fn a_delivery_that_always_fails_is_given_up_after_exactly_eight_attempts() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let (_, mut delivery) = queued(&server, &receiver).await;
    delivery = server.attempted(&delivery["id"], 1).await;
    for decided in PAUSES {
        assert_eq!(delivery["status"], "pending");
        let pause = pause(&delivery);
        // An open circuit may delay the attempt by another minute.
        let most = decided.mul_add(1.1, 61.0);
        assert!(
            (decided * 0.9 - 0.1..=most).contains(&pause),
            "{pause} for {decided}"
        );
        delivery = server.attempt_again(&delivery).await;
    }
    assert_eq!(delivery["status"], "exhausted");
    assert_eq!(delivery["next_attempt_at"], Value::Null);
    server.advance(200 * 3600).await;
    let later = server.delivery(&delivery["id"]).await;
    assert_eq!(later, delivery, "nothing more is tried");
    let attempts = later["attempts"].as_array().unwrap();
    assert_eq!((attempts.len(), receiver.got().len()), (8, 8));
    for attempt in attempts {
        assert_eq!(
            (&attempt["status"], &attempt["response"]),
            (&json!(500), &json!("said"))
        );
        assert!(
            attempt["error"].as_str().unwrap().contains("500"),
            "{attempt}"
        );
    }
}

#[tokio::test]
async fn what_went_wrong_stands_in_the_log_and_only_2xx_is_a_success() {
    let server = Server::configured("[webhooks]\ntimeout_ms = 1500\n").await;
    let elsewhere = Receiver::new().await;
    let redirect = format!("location: {}\r\n", elsewhere.url());
    let moved = |status| Reply::Full(status, redirect.clone(), b"moved".to_vec());
    let huge = Reply::Full(503, String::new(), vec![b'x'; 10_000]);
    let odd = Reply::Full(400, String::new(), b"a\xff\x00b".to_vec());
    for (reply, status) in [
        (moved(301), Some(301)),
        (moved(302), Some(302)),
        (moved(303), Some(303)),
        (moved(307), Some(307)),
        (moved(308), Some(308)),
        (Reply::Status(304), Some(304)),
        (Reply::Status(401), Some(401)),
        (Reply::Status(404), Some(404)),
        (Reply::Status(500), Some(500)),
        (huge, Some(503)),
        (odd, Some(400)),
        (Reply::Reset, None),
        (Reply::HangUp, Some(200)),
        (Reply::Silence, None),
        (Reply::SlowBody, Some(200)),
        (Reply::EndlessHeaders, None),
    ] {
        let what = format!("{reply:?}").chars().take(60).collect::<String>();
        let receiver = Receiver::answering(reply).await;
        let (_, delivery) = queued(&server, &receiver).await;
        let failed = server.attempted(&delivery["id"], 1).await;
        assert_eq!(failed["status"], "pending", "{what}");
        let attempt = &failed["attempts"][0];
        assert!(
            attempt["error"].as_str().unwrap().len() > 5,
            "{what}: {attempt}"
        );
        if let Some(status) = status {
            assert_eq!(attempt["status"], status, "{what}");
        }
        let response = attempt["response"].as_str().unwrap_or_default();
        assert!(response.len() <= 4096, "{what}");
        assert!(attempt["duration_ms"].as_u64().unwrap() < 5_000, "{what}");
        receiver.answer(Reply::Status(204));
        let done = server.attempt_again(&failed).await;
        assert_eq!(done["status"], "delivered", "{what}");
        assert_eq!(receiver.got().len(), 2, "{what}");
    }
    for reply in [
        Reply::Status(200),
        Reply::Status(201),
        Reply::Status(202),
        Reply::Status(204),
        Reply::Status(299),
        Reply::EndlessBody,
    ] {
        let what = format!("{reply:?}");
        let receiver = Receiver::answering(reply).await;
        let (_, delivery) = queued(&server, &receiver).await;
        let done = server.attempted(&delivery["id"], 1).await;
        assert_eq!(done["status"], "delivered", "{what}");
    }
    assert!(elsewhere.got().is_empty(), "no redirect is followed");
}

#[tokio::test]
async fn nobody_at_the_address_is_a_failure_and_not_the_end() {
    let server = Server::fresh().await;
    let receiver = Receiver::new().await;
    for url in [
        "http://127.0.0.1:1/",
        "https://127.0.0.1:1/",
        "https://nothing.invalid/",
    ] {
        let (merchant, ..) = server.merchant(json!({})).await;
        let hook = server
            .hook(merchant, &receiver, json!({ "url": url }))
            .await;
        let queued = server.hook_act(&hook, "test", json!({})).await;
        let failed = server.attempted(&queued["delivery_id"], 1).await;
        assert_eq!(failed["attempts"][0]["status"], Value::Null);
        assert!(failed["attempts"][0]["error"].is_string());
        // A pending delivery goes to the endpoint's current URL.
        server
            .change_hook(&hook, json!({ "url": receiver.url() }))
            .await;
        let done = server.attempt_again(&failed).await;
        assert_eq!(done["status"], "delivered", "{url}");
    }
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it_up_to_ten_hours() {
    let server = Server::fresh().await;
    for (status, asked, least, most) in [
        (429, "3600", 3600.0, 3661.0),
        (503, "7200", 7200.0, 7261.0),
        (429, "1", 4.0, 66.0),
        (503, "999999999", 36_000.0, 36_061.0),
        (429, "soon", 4.0, 66.0),
        // With other statuses, `Retry-After` is ignored.
        (500, "3600", 4.0, 66.0),
    ] {
        let wait = Reply::Full(status, format!("retry-after: {asked}\r\n"), Vec::new());
        let receiver = Receiver::answering(wait).await;
        let (_, delivery) = queued(&server, &receiver).await;
        let failed = server.attempted(&delivery["id"], 1).await;
        let pause = pause(&failed);
        assert!((least..=most).contains(&pause), "{status} {asked}: {pause}");
        receiver.answer(Reply::Status(200));
        assert_eq!(server.attempt_again(&failed).await["status"], "delivered");
    }
}

#[tokio::test]
async fn what_the_head_of_an_answer_says_holds_where_its_body_does_not_end() {
    let server = Server::configured("[webhooks]\ntimeout_ms = 1000\n").await;
    let wait = Reply::Unfinished(503, "retry-after: 3600\r\n".into());
    for (reply, status, least) in [
        (wait, 503, 3600.0),
        (Reply::Unfinished(410, String::new()), 410, 4.0),
        (Reply::Unfinished(200, String::new()), 200, 4.0),
    ] {
        let receiver = Receiver::answering(reply).await;
        let (hook, delivery) = queued(&server, &receiver).await;
        let failed = server.attempted(&delivery["id"], 1).await;
        let attempt = &failed["attempts"][0];
        assert_eq!(
            (&attempt["status"], &attempt["response"]),
            (&json!(status), &json!("half"))
        );
        let error = attempt["error"].as_str().unwrap();
        assert!(error.contains("no whole answer"), "{error}");
        assert_eq!(failed["status"], "pending", "{status}");
        let pause = pause(&failed);
        assert!((least..=least + 62.0).contains(&pause), "{status}: {pause}");
        let path = format!("/webhook-endpoints/{}", hook.id);
        let shown = server.admin("GET", &path, None).await.expect(200).json();
        assert_eq!(shown["enabled"], true, "one 410 disables nothing");
    }
}

#[tokio::test]
async fn gone_switches_an_endpoint_off_until_somebody_switches_it_on() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::answering(Reply::Status(410)).await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    server.started(&key, "ideal", json!({})).await;
    disabled_by_410(&server, &hook).await;
    let log = server.admin("GET", "/audit?limit=100", None).await.json();
    let object = format!("endpoint/{}", hook.id);
    // The audit log may also have new entries about modules in the folder.
    let ours = |line: &&Value| line["object"] == object.as_str();
    let latest = log["entries"].as_array().unwrap().iter().find(ours);
    assert_eq!(latest.unwrap()["action"], "endpoint.disable");

    server.started(&key, "ideal", json!({})).await;
    assert_eq!(server.deliveries(&hook).await.len(), 1, "no new ones");
    server.advance(3600).await;
    assert_eq!(receiver.got().len(), 3, "what waits is held back");
    receiver.answer(Reply::Status(200));
    server.change_hook(&hook, json!({ "enabled": true })).await;
    let done = server.settled(&hook).await;
    assert_eq!(done[0]["status"], "delivered");
    assert_eq!(done[0]["attempts"].as_array().unwrap().len(), 4);
}

/// Has the attempts of an endpoint's only delivery answered 410 until that disables the endpoint.
async fn disabled_by_410(server: &Server, hook: &Hook) {
    let path = format!("/webhook-endpoints/{}", hook.id);
    let mut delivery = server.deliveries(hook).await.remove(0);
    delivery = server.attempted(&delivery["id"], 1).await;
    for _ in 0..2 {
        let shown = server.admin("GET", &path, None).await.expect(200).json();
        assert_eq!(shown["enabled"], true);
        delivery = server.attempt_again(&delivery).await;
    }
    let shown = server.admin("GET", &path, None).await.expect(200).json();
    assert_eq!(shown["enabled"], false);
}

#[tokio::test]
async fn a_shop_whose_endpoint_is_disabled_by_410_for_an_hour_loses_no_order() {
    let server = Server::fresh().await;
    let (merchant, key, _) = server.merchant(json!({})).await;
    let receiver = Receiver::answering(Reply::Status(410)).await;
    let watcher = Receiver::new().await;
    let hook = server.hook(merchant, &receiver, json!({})).await;
    let of_disabled = json!({ "event_types": ["webhook.disabled"] });
    server.hook(merchant, &watcher, of_disabled).await;
    let since = jiff::Timestamp::from_second(server.now().await).unwrap();
    server.started(&key, "ideal", json!({})).await;
    disabled_by_410(&server, &hook).await;
    // Moving the clock has the worker look at all that waits, on every store.
    server.advance(1).await;
    let told = watcher.wait(1).await.remove(0).event();
    assert_eq!(told["type"], "webhook.disabled");
    assert_eq!(told["data"]["endpoint_id"], hook.id.as_str());
    assert_eq!(told["data"]["test_mode"], true);

    let (order, url) = server.started(&key, "ideal", json!({})).await;
    server.pay(&url, "approve").await.expect(303);
    server.until(&key, &order, "completed").await;
    server.advance(3600).await;
    receiver.answer(Reply::Status(200));
    server.change_hook(&hook, json!({ "enabled": true })).await;
    let recover = json!({ "since": since.to_string() });
    let missed = server.hook_act(&hook, "recover", recover.clone()).await;
    let events = server.events(&order).await;
    assert_eq!(missed["deliveries"], events.len());
    let done = server.settled(&hook).await;
    assert!(
        done.iter().all(|each| each["status"] == "delivered"),
        "{done:?}"
    );
    let paid = receiver.got().into_iter().map(|got| got.event());
    let paid: Vec<_> = paid
        .filter(|event| event["type"] == "payment.completed")
        .collect();
    assert_eq!(paid.len(), 1);
    assert_eq!(paid[0]["data"]["payment_id"], order["payment_id"]);
    // Each is queued once, however often.
    let again = server.hook_act(&hook, "recover", recover).await;
    assert_eq!(again["deliveries"], 0);
}

#[tokio::test]
async fn a_disabled_endpoint_holds_its_deliveries_back_for_72_hours_and_uses_no_attempt() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let (hook, delivery) = queued(&server, &receiver).await;
    let failed = server.attempted(&delivery["id"], 1).await;
    server.change_hook(&hook, json!({ "enabled": false })).await;
    receiver.answer(Reply::Status(200));
    for _ in 0..7 {
        server.advance(10 * 3600).await;
        assert_eq!(server.delivery(&failed["id"]).await["status"], "pending");
    }
    server.advance(3 * 3600).await;
    let ended = server.settled(&hook).await.remove(0);
    assert_eq!(ended["status"], "exhausted");
    assert_eq!(ended["attempts"].as_array().unwrap().len(), 1);
    server.change_hook(&hook, json!({ "enabled": true })).await;
    server.advance(3600).await;
    assert_eq!(receiver.got().len(), 1);

    // If enabled again within 72 hours, the delivery continues.
    let again = server.hook_act(&hook, "test", json!({})).await;
    receiver.answer_next([Reply::Status(500)]);
    let path = format!("/deliveries/{}", again["delivery_id"].as_str().unwrap());
    let _ = server.admin("GET", &path, None).await.expect(200);
    server.change_hook(&hook, json!({ "enabled": false })).await;
    server.advance(71 * 3600).await;
    server.change_hook(&hook, json!({ "enabled": true })).await;
    server.advance(62).await;
    let all = server.settled(&hook).await;
    assert_eq!(all[0]["status"], "delivered");
}

#[tokio::test]
async fn what_waits_for_a_deleted_endpoint_is_cancelled_and_stays_in_the_log() {
    let server = Server::fresh().await;
    let receiver = Receiver::answering(Reply::Status(500)).await;
    let (hook, delivery) = queued(&server, &receiver).await;
    server.attempted(&delivery["id"], 1).await;
    let path = format!("/webhook-endpoints/{}", hook.id);
    server.admin("DELETE", &path, None).await.expect(204);
    let ended = server.settled(&hook).await.remove(0);
    assert_eq!(ended["status"], "cancelled");
    assert_eq!(ended["attempts"].as_array().unwrap().len(), 1);
    server.advance(48 * 3600).await;
    assert_eq!(receiver.got().len(), 1);
    server.admin("GET", &path, None).await.expect(404);
    let path = format!("/deliveries/{}/redeliver", ended["id"].as_str().unwrap());
    server
        .admin("POST", &path, Some(&json!({})))
        .await
        .expect(409)
        .error();
}
