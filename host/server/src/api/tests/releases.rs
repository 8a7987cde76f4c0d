//! The plugin's latest release.

use axum::body::Body;
use kassette_domain::release::{Draft, Release};
use serde_json::json;

use super::world::World;

const PATH: &str = "/api/v1/woocommerce/releases/latest";

fn release(version: &str) -> Release {
    let draft = Draft {
        version: version.into(),
        download_url: "https://downloads.example/plugin.zip".into(),
        sha256: "0f".repeat(32),
        size_bytes: 412_345,
        released_at: "2026-11-20T10:00:00+01:00".into(),
        requires_wordpress: "6.4".into(),
        tested_wordpress: "6.8.1".into(),
        requires_woocommerce: "8.2".into(),
        requires_php: "8.1".into(),
        changelog_url: "https://downloads.example/changelog".into(),
    };
    Release::publish(draft).unwrap()
}

#[tokio::test]
async fn nothing_published_is_404_in_the_error_shape() {
    let world = World::new().await;
    let answer = world.ask("GET", PATH, &[], Body::empty()).await.expect(404);
    assert_eq!(answer.error(), "no release is published yet");
    assert_eq!(answer.header("cache-control"), "no-store");
}

#[tokio::test]
async fn a_release_is_told_in_exactly_the_decided_shape_and_may_be_cached() {
    let world = World::new().await;
    world
        .configure(|settings| settings.release = Some(release("1.4.2")))
        .await;
    let answer = world.ask("GET", PATH, &[], Body::empty()).await.expect(200);
    let expected = json!({
        "version": "1.4.2",
        "download_url": "https://downloads.example/plugin.zip",
        "sha256": "0f".repeat(32),
        "size_bytes": 412_345,
        "released_at": "2026-11-20T09:00:00.000Z",
        "requires_wordpress": "6.4",
        "tested_wordpress": "6.8.1",
        "requires_woocommerce": "8.2",
        "requires_php": "8.1",
        "changelog_url": "https://downloads.example/changelog",
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("cache-control"), "public, max-age=300");

    let tag = answer.header("etag").to_owned();
    let head = world
        .ask("HEAD", PATH, &[], Body::empty())
        .await
        .expect(200);
    assert_eq!(
        (head.text.as_str(), head.header("etag")),
        ("", tag.as_str())
    );
    for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".into()] {
        let headers = [("if-none-match", known.as_str())];
        for method in ["GET", "HEAD"] {
            let same = world
                .ask(method, PATH, &headers, Body::empty())
                .await
                .expect(304);
            assert_eq!(
                (same.text.as_str(), same.header("etag")),
                ("", tag.as_str())
            );
            assert_eq!(same.header("cache-control"), "public, max-age=300");
        }
    }
    world
        .configure(|settings| settings.release = Some(release("1.4.3")))
        .await;
    let headers = [("if-none-match", tag.as_str())];
    let newer = world
        .ask("GET", PATH, &headers, Body::empty())
        .await
        .expect(200);
    assert_ne!(newer.header("etag"), tag);
    assert_eq!(newer.json()["version"], "1.4.3");
}

#[tokio::test]
async fn a_release_is_asked_for_without_parameters_by_get_and_not_too_often() {
    let world = World::new().await;
    world
        .configure(|settings| settings.release = Some(release("1.4.2")))
        .await;
    let query = format!("{PATH}?channel=beta");
    let refused = world
        .ask("GET", &query, &[], Body::empty())
        .await
        .expect(422);
    assert!(refused.error().contains("\"channel\""));
    let refused = world
        .ask("POST", PATH, &[], Body::empty())
        .await
        .expect(405);
    assert_eq!(refused.header("allow"), "GET,HEAD");
    let refused = world.exhaust(&[], PATH).await.unwrap();
    assert!(!refused.header("retry-after").is_empty());
}
