//! The real binary: started, killed with SIGKILL, and started again on the same folder.
//!
//! It runs `dev`, not `serve`, so that simulators, books, faults and clock are in the same process. A kill then
//! ends both sides of each exchange with a provider, and the books must survive it like the store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::Value;

use crate::store;
use crate::wire::{Answer, Ask, Line, Lost};

/// Maximum duration of a start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// Time for which checks repeat a request after faults of nodes or a database.
const AGAIN: Duration = Duration::from_secs(120);

/// Folder of a run with all files of the server. Removed at the end, unless a check has failed.
pub(crate) struct Home {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
    watchdog: Child,
    /// Store options of the server.
    store: Vec<String>,
}

impl Home {
    /// Creates a folder with the modules.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plugins = folder.path().join("data/plugins");
        fs::create_dir_all(&plugins).unwrap();
        fs::create_dir_all(folder.path().join("config/providers")).unwrap();
        for guest in kassette_build::guests_with(&["sandbox"]) {
            fs::copy(&guest.path, plugins.join(format!("{}.wasm", guest.slot))).unwrap();
        }
        // Kills a server that an interrupted run leaves behind: the shell's input ends with this process. Stopped
        // processes are continued first, because they would not end.
        let script = "cat >/dev/null; kill -CONT $(cat \"$0/stopped\") 2>/dev/null; p=$(cat \"$0/pid\" 2>/dev/null); [ -z \"$p\" ] || kill -9 \"$p\"; rm -rf \"$0\"";
        let watchdog = Command::new("sh")
            .args(["-c", script])
            .arg(folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            path: folder.path().to_owned(),
            folder: Some(folder),
            watchdog,
            store: store::options(),
        }
    }

    /// Selects this many nodes on a running database.
    pub(crate) fn on(&mut self, url: &str, nodes: usize) {
        let nodes = nodes.to_string();
        let options = ["--store", url, "--nodes", &nodes];
        self.store = options.map(str::to_owned).to_vec();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps the folder for examination after a failure.
    pub(crate) fn keep(&mut self) -> &Path {
        if let Some(folder) = self.folder.take() {
            let _ = folder.keep();
        }
        &self.path
    }

    /// End of the current server's log.
    pub(crate) fn log(&self) -> String {
        const LINES: usize = 40;
        let text = fs::read_to_string(self.path.join("log.txt")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Kill the watchdog before its input ends, so that it does not remove a kept folder.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
    }
}

/// A started process that may not serve yet.
pub(crate) struct Starting {
    child: Child,
    home: PathBuf,
    began: Instant,
}

/// Starts the server on a folder.
pub(crate) fn start(home: &Home) -> Starting {
    let store = &home.store;
    let home = home.path().to_owned();
    let _ = fs::remove_file(home.join("ready.json"));
    let _ = fs::rename(home.join("log.txt"), home.join("log.before.txt"));
    let log = fs::File::create(home.join("log.txt")).unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let child = Command::new(env!("CARGO_BIN_EXE_kassette"))
        .args(["dev", "--no-watch", "--simulate", "sandbox"])
        .args(listen)
        .args(store)
        .arg("--data-dir")
        .arg(home.join("data"))
        .arg("--config")
        .arg(home.join("config"))
        .arg("--ready-file")
        .arg(home.join("ready.json"))
        .env("RUST_LOG", "warn")
        .env("NO_COLOR", "1")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap();
    fs::write(home.join("pid"), child.id().to_string()).unwrap();
    Starting {
        child,
        home,
        began: Instant::now(),
    }
}

impl Starting {
    /// Kills the process before it serves, or shortly afterwards.
    pub(crate) fn kill(mut self) {
        end(&mut self.child, &self.home);
    }

    pub(crate) async fn ready(mut self) -> Result<Running, String> {
        let file = self.home.join("ready.json");
        let ready: Value = loop {
            if let Ok(bytes) = fs::read(&file) {
                break serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it does not start again: {status}"));
            }
            if self.began.elapsed() > START_TIMEOUT {
                end(&mut self.child, &self.home);
                return Err("it does not start in time".into());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
        Ok(Running {
            took: self.began.elapsed(),
            child: Mutex::new(self.child),
            home: self.home,
            public: address(&text("base_url")),
            admin: address(&text("admin_url")),
            token: text("operator_token"),
            payer: OnceLock::new(),
            asks_again: AtomicBool::new(false),
        })
    }
}

pub(crate) struct Running {
    child: Mutex<Child>,
    home: PathBuf,
    /// Duration of the start.
    pub(crate) took: Duration,
    pub(crate) public: String,
    pub(crate) admin: String,
    token: String,
    /// Address of the payer pages, which differs after each start. Unset until a page's address was seen.
    pub(crate) payer: OnceLock<String>,
    /// Whether new connections repeat requests that get a 503.
    pub(crate) asks_again: AtomicBool,
}

/// One of several serving processes.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) pid: i32,
    pub(crate) public: String,
    pub(crate) admin: String,
}

/// `127.0.0.1:8080` of `http://127.0.0.1:8080/admin/v1`.
fn address(url: &str) -> String {
    let rest = url.strip_prefix("http://").unwrap_or(url);
    rest.split('/').next().unwrap_or_default().to_owned()
}

impl Running {
    pub(crate) fn kill(&self) {
        end(&mut self.child.lock(), &self.home);
    }

    pub(crate) fn is_alive(&self) -> bool {
        matches!(self.child.lock().try_wait(), Ok(None))
    }

    pub(crate) fn line(&self) -> Line {
        self.to(&self.public)
    }

    fn to(&self, address: &str) -> Line {
        let mut line = Line::to(address);
        if self.asks_again.load(Ordering::Relaxed) {
            line.again = AGAIN;
        }
        line
    }

    /// A connection to the admin listener with the operator's token.
    pub(crate) fn desk(&self) -> Desk {
        Desk {
            line: self.to(&self.admin),
            token: self.token.clone(),
        }
    }

    /// The nodes in the current ready file.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        let ready = fs::read(self.home.join("ready.json")).unwrap_or_default();
        let ready: Value = serde_json::from_slice(&ready).unwrap_or_default();
        let nodes = ready["nodes"].as_array().into_iter().flatten();
        let node = |node: &Value| {
            let text = |name: &str| node[name].as_str().unwrap_or_default();
            Node {
                name: text("name").to_owned(),
                pid: i32::try_from(node["pid"].as_i64().unwrap_or_default()).unwrap_or_default(),
                public: address(text("base_url")),
                admin: address(text("admin_url")),
            }
        };
        nodes.map(node).collect()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a failed check, nothing else ends the process.
        self.kill();
    }
}

fn end(child: &mut Child, home: &Path) {
    if !matches!(child.try_wait(), Ok(None)) {
        // It has already ended; its successor may have written the PID file.
        return;
    }
    // SIGKILL: the process executes no further code.
    let _ = child.kill();
    let _ = child.wait();
    let _ = fs::write(home.join("pid"), "");
}

pub(crate) struct Desk {
    line: Line,
    token: String,
}

impl Desk {
    /// Sends a request. `Lost` for a 503 too: the request may have been executed.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Answer, Lost> {
        let path = format!("/admin/v1{path}");
        let body = body.map(Value::to_string);
        let ask = Ask {
            method,
            path: &path,
            key: Some(&self.token),
            body: body.as_deref(),
            form: false,
        };
        let answer = self.line.call(ask).await?;
        if answer.says_later() {
            return Err(Lost);
        }
        Ok(answer)
    }

    /// Sends a GET that must get a response.
    pub(crate) async fn read(&mut self, path: &str) -> Result<Value, String> {
        let answer = self.call("GET", path, None).await;
        let answer = answer.map_err(|Lost| format!("{path} was not answered"))?;
        answer
            .expect(200)
            .map_err(|error| format!("{path}: {error}"))
    }

    /// Sends a change that must succeed.
    pub(crate) async fn change(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
        status: u16,
    ) -> Result<Value, String> {
        let answer = self.call(method, path, Some(body)).await;
        let answer = answer.map_err(|Lost| format!("{path} was not answered"))?;
        answer
            .expect(status)
            .map_err(|error| format!("{path}: {error}"))
    }

    pub(crate) async fn list(&mut self, path: &str, name: &str) -> Result<Vec<Value>, String> {
        self.pages(path, name, 100).await
    }

    /// Items of all pages, with this page size.
    pub(crate) async fn pages(
        &mut self,
        path: &str,
        name: &str,
        limit: usize,
    ) -> Result<Vec<Value>, String> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        let join = if path.contains('?') { '&' } else { '?' };
        loop {
            let page = self
                .read(&format!("{path}{join}limit={limit}{cursor}"))
                .await?;
            items.extend(page[name].as_array().cloned().unwrap_or_default());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
    }
}
