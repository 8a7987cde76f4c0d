//! The status of the gateway.

use super::*;
use crate::status::{Facts, Reporter, Subject};

/// State and detail of a part.
fn part(report: &Value, name: &str) -> (String, String) {
    let mut parts = report["parts"].as_array().unwrap().iter();
    let part = parts.find(|part| part["name"] == name).unwrap();
    let text = |field: &str| part[field].as_str().unwrap().to_owned();
    (text("state"), text("detail"))
}

#[tokio::test]
async fn the_whole_is_as_its_worst_part_and_each_says_why() {
    let mut world = World::new().await;
    let facts = Arc::new(Facts::default());
    let reporter = Reporter::new(world.gateway.clone(), Arc::clone(&facts), "1.2.3".into());
    let state = AdminState::new(world.gateway.clone(), vec![NAME.to_owned()], None);
    world.router = router(state.reporting(Arc::new(reporter)));
    let status = async || world.get("/status").await.is(200).clone();
    // No module serves, so the accounts, of the test environment, cannot be used.
    let report = status().await;
    assert_eq!(report["state"], "attention");
    let (state, detail) = part(&report, "accounts");
    assert_eq!(state, "attention");
    assert!(detail.contains("first-test: no module serves"), "{detail}");
    for name in [
        "store",
        "nodes",
        "clock",
        "configuration",
        "certificates",
        "rates",
        "webhooks",
        "work",
        "reviews",
        "alarms",
    ] {
        assert_eq!(part(&report, name).0, "ok", "{name}: {report}");
    }
    assert!(part(&report, "version").1.starts_with("Kassette 1.2.3"));
    facts.refused(
        Subject::Configuration,
        "line 7: unknown".into(),
        world.clock.now(),
    );
    facts.configured(vec!["listen".into()], Some(2));
    let report = status().await;
    let (state, detail) = part(&report, "configuration");
    assert_eq!(state, "attention");
    assert!(
        detail.contains("line 7: unknown") && detail.contains("listen: take effect"),
        "{detail}"
    );
    let (_, alarms) = part(&report, "alarms");
    assert_eq!(alarms, "firing: ConfigurationRefused");
    let expected = (
        "attention".to_owned(),
        "1 of 2 expected nodes serve".to_owned(),
    );
    assert_eq!(part(&report, "nodes"), expected);
    // A deliberately disabled account needs no attention.
    for id in ["first-test", "second-test"] {
        let path = format!("/providers/{id}");
        world
            .patch(&path, json!({ "enabled": false }))
            .await
            .is(200);
    }
    let (state, detail) = part(&status().await, "accounts");
    assert_eq!(state, "ok");
    assert!(
        detail.contains("first-test is off by the switch"),
        "{detail}"
    );
}

#[tokio::test]
async fn a_rate_that_a_merchant_set_needs_attention_after_a_week() {
    let world = World::new().await;
    let body = json!({ "name": "Shop", "live_approved": false, "fx_rates": { "EUR": "1.08" } });
    world.post("/merchants", body).await.is(201);
    let hour = std::time::Duration::from_secs(3600);
    world.clock.advance(hour * (7 * 24 - 1));
    assert_eq!(part(world.get("/status").await.is(200), "rates").0, "ok");
    world.clock.advance(hour);
    let (state, detail) = part(world.get("/status").await.is(200), "rates");
    assert_eq!(
        (&*state, &*detail),
        ("attention", "merchant 1's own rate of EUR is 7 days old")
    );
}
