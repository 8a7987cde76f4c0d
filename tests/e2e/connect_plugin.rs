//! The plugin in config/connect.md, run against the real server.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{Server, TEST_TIMEOUT, shared};

fn plugin() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/connect/plugin.php")
}

/// The plugin's site, served by PHP's built-in server.
struct Site {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Site {
    /// PHP needs a fixed port. If another process takes the port first, the next one is tried.
    async fn new() -> Self {
        let began = Instant::now();
        loop {
            let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = free.local_addr().unwrap().port();
            drop(free);
            let folder = tempfile::tempdir().unwrap();
            let child = Command::new("php")
                .args(["-S", &format!("127.0.0.1:{port}")])
                .arg(plugin())
                .env("KASSETTE_SHOP", folder.path())
                .stderr(Stdio::null())
                .spawn()
                .unwrap_or_else(|error| panic!("php: {error}; install php-cli"));
            let mut site = Self {
                folder,
                port,
                child,
            };
            while site.child.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                    return site;
                }
                assert!(began.elapsed() < TEST_TIMEOUT, "PHP does not listen");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/store", self.port)
    }

    /// Runs the plugin with a code and returns the server's response.
    async fn connect(&self, server: &Server, code: &str) -> Value {
        let mut child = tokio::process::Command::new("php")
            .arg(plugin())
            .args([server.base(), &self.url()])
            .env("KASSETTE_SHOP", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(format!("{code}\n").as_bytes())
            .await
            .unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), told["status"] == 200, "{told}");
        told
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "needs php: .ci/run installs it and runs this"]
async fn the_plugin_in_php_connects_once() {
    let server = shared().await;
    let (merchant, ..) = server.merchant(json!({})).await;
    let site = Site::new().await;
    let code = server.connect_code(merchant, &site.url(), json!({})).await;
    let told = site.connect(server, &code).await;
    assert_eq!(told["status"], 200, "{told}");
    let key = told["answer"]["api_key"].as_str().unwrap();
    server.get(key, "/api/v1/methods").await.expect(200);
    let hook = told["answer"]["webhook_endpoint"]["url"].as_str().unwrap();
    assert_eq!(hook, format!("{}/wp-json/kassette/v1/webhook", site.url()));
    let again = site.connect(server, &code).await;
    assert_eq!(again["status"], 401, "{again}");
}

#[test]
fn the_page_shows_what_the_plugin_runs() {
    let page = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../config/connect.md");
    let page = std::fs::read_to_string(page).unwrap();
    let text = std::fs::read_to_string(plugin()).unwrap();
    let (_, rest) = text.split_once("// -- connect\n").unwrap();
    let (shown, _) = rest.split_once("// -- end\n").unwrap();
    assert!(page.contains(shown), "config/connect.md shows another one");
}
