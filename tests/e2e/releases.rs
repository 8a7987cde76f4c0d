//! The plugin's latest release, read from files that change while the gateway runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Answer, Server, shared};

const PATH: &str = "/api/v1/woocommerce/releases/latest";

/// File of a release as an operator writes it.
fn file(version: &str) -> String {
    format!(
        r#"version = "{version}"
download_url = "https://downloads.example/kassette-{version}.zip"
sha256 = "{}"
size_bytes = 412345
released_at = 2026-11-20T09:00:00Z
requires_wordpress = "6.4"
tested_wordpress = "6.8"
requires_woocommerce = "8.2"
requires_php = "8.1"
changelog_url = "https://downloads.example/changelog"
"#,
        "0f".repeat(32)
    )
}

impl Server {
    async fn latest(&self, method: &str, known: Option<&str>) -> Answer {
        let url = format!("{}{PATH}", self.base());
        let mut request = self.http.request(method.parse().unwrap(), url);
        if let Some(known) = known {
            request = request.header("if-none-match", known);
        }
        self.send(request).await
    }

    /// Waits until the endpoint returns this version, or no release if `version` is `None`.
    async fn tells(&self, version: Option<&str>) -> Answer {
        self.wait_for("the release", || async {
            let answer = self.latest("GET", None).await;
            let told = (answer.status == 200).then(|| answer.json()["version"].clone());
            (told == version.map(Value::from)).then_some(answer)
        })
        .await
    }

    fn releases(&self) -> PathBuf {
        self.folder().join("config/releases")
    }
}

/// Problems that `config check` finds in a folder's releases.
fn checked(config: &Path) -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(["config", "check", "--json", "--without-modules", "--config"])
        .arg(config)
        .output()
        .unwrap();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let problems = found["problems"].as_array().unwrap().iter();
    problems
        .filter(|problem| problem["path"].as_str().unwrap().contains("releases/"))
        .map(|problem| {
            format!(
                "{}:{}: {}",
                problem["path"], problem["line"], problem["why"]
            )
        })
        .collect()
}

#[tokio::test]
async fn dev_publishes_a_release_that_anybody_may_read_and_keep() {
    let server = shared().await;
    let answer = server.latest("GET", None).await.expect(200);
    let mut names: Vec<_> = answer.json().as_object().unwrap().keys().cloned().collect();
    names.sort_unstable();
    let expected = "changelog_url download_url released_at requires_php requires_woocommerce \
        requires_wordpress sha256 size_bytes tested_wordpress version";
    assert_eq!(names.join(" "), expected);
    assert_eq!(answer.header("cache-control"), Some("public, max-age=300"));
    assert_eq!(answer.header("content-type"), Some("application/json"));
    let tag = answer.header("etag").unwrap();
    let head = server.latest("HEAD", None).await.expect(200);
    assert_eq!((head.text.as_str(), head.header("etag")), ("", Some(tag)));
    let length = answer.text.len().to_string();
    assert_eq!(head.header("content-length"), Some(length.as_str()));
    for method in ["GET", "HEAD"] {
        let same = server.latest(method, Some(tag)).await.expect(304);
        assert_eq!((same.text.as_str(), same.header("etag")), ("", Some(tag)));
    }
}

#[tokio::test]
async fn releases_follow_their_files_and_a_bad_file_changes_nothing() {
    let server = Server::fresh().await;
    let folder = server.releases();
    std::fs::create_dir(&folder).unwrap();
    server.tells(None).await.error();
    for version in ["1.10.0", "1.9.0", "2.0.0-rc.1"] {
        std::fs::write(folder.join(format!("{version}.toml")), file(version)).unwrap();
    }
    let before = server.tells(Some("1.10.0")).await;
    let tag = before.header("etag").unwrap();

    let bad = folder.join("1.11.0.toml");
    std::fs::write(&bad, file("1.11.0").replace("0f0f", "0F0F")).unwrap();
    let why = "1.11.0.toml:3: sha256: must be 64 lower-case hexadecimal characters";
    server
        .wait_for("the reason in the log", || async {
            server.log().contains(why).then_some(())
        })
        .await;
    server.latest("GET", Some(tag)).await.expect(304);
    let found = checked(&server.folder().join("config"));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("1.11.0.toml\":3:") && found[0].contains("sha256"),
        "{found:?}"
    );

    std::fs::write(&bad, file("1.11.0")).unwrap();
    let after = server.tells(Some("1.11.0")).await;
    assert_ne!(after.header("etag").unwrap(), tag);
    server.latest("GET", Some(tag)).await.expect(200);
    assert!(checked(&server.folder().join("config")).is_empty());

    std::fs::remove_file(&bad).unwrap();
    server.tells(Some("1.10.0")).await;
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    server.tells(None).await;
}
