//! Starts a node's process, informs it about moves of the clock, and ends it.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use procfs::process::Process as Seen;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex, watch};
use tokio::time::{sleep, timeout};

use super::NODE;
use super::balancer::Backend;
use super::messages::{Assignment, Move, Moved, Serving};
use crate::compiler::OWN_PROGRAM;
use crate::dev::error::DevError;
use crate::ready::ReadyNode;

/// Maximum time until a node serves. It may have to compile all modules.
const START: Duration = Duration::from_secs(300);
/// Maximum time until a node ends. Requests in flight take up to 25 s.
const END: Duration = Duration::from_secs(40);
/// Maximum time for due work at a node.
const DUE: Duration = Duration::from_secs(100);
/// Interval of checks whether a process is stopped.
const LOOK: Duration = Duration::from_millis(100);

/// A node, regardless of restarts of its process.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) backend: Arc<Backend>,
    /// Process id and standard input. `None` between two processes.
    input: Mutex<Option<(u32, ChildStdin)>>,
    /// Last reported move of the clock. `None` between two processes.
    moved: watch::Sender<Option<Moved>>,
}

/// A serving process.
pub(super) struct Process {
    child: Child,
    pid: u32,
    pub(super) at: Serving,
}

impl Member {
    pub(super) fn new(name: String) -> Self {
        Self {
            name,
            backend: Arc::default(),
            input: Mutex::default(),
            moved: watch::Sender::new(None),
        }
    }

    /// Starts a process. From now on it receives all moves of the clock.
    pub(super) async fn spawn(&self, order: &Assignment) -> Result<Child, DevError> {
        let mut child = Command::new(OWN_PROGRAM)
            .arg(NODE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C in the terminal concerns only `dev`.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        if let (Some(pid), Some(mut input)) = (child.id(), child.stdin.take()) {
            write(&mut input, order).await.map_err(failed)?;
            *self.input.lock().await = Some((pid, input));
            self.moved.send_replace(Some(Moved::default()));
        }
        Ok(child)
    }

    /// Waits until a process serves.
    pub(super) async fn until_it_serves(&self, mut child: Child) -> Result<Process, DevError> {
        let serving = timeout(START, self.serving(&mut child)).await;
        match (serving, child.id()) {
            (Ok(Ok(at)), Some(pid)) => {
                self.backend.is_at(Some(at));
                Ok(Process { child, pid, at })
            }
            (serving, _) => {
                self.ended().await;
                let _ = child.kill().await;
                let why = match serving {
                    Ok(Err(why)) => why,
                    _ => "it took too long".to_owned(),
                };
                Err(DevError::NoNode(format!("{}: {why}", self.name)))
            }
        }
    }

    async fn serving(&self, child: &mut Child) -> Result<Serving, String> {
        let output = child.stdout.take().ok_or("it has no standard output")?;
        let mut lines = BufReader::new(output).lines();
        let first = lines.next_line().await.map_err(|error| error.to_string())?;
        // The node has logged the reason.
        let first = first.ok_or("it ended, and says why on standard error")?;
        let at = serde_json::from_str(&first).map_err(|error| error.to_string())?;
        let moved = self.moved.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Ok(told) = serde_json::from_str(&line) {
                    moved.send_replace(Some(told));
                }
            }
        });
        Ok(at)
    }

    /// Records that no process is running.
    pub(super) async fn ended(&self) {
        self.backend.is_at(None);
        *self.input.lock().await = None;
        self.moved.send_replace(None);
    }

    /// Moves the clock and waits for the due work, unless the process ends or is stopped.
    ///
    /// # Errors
    /// The reason if the work failed or took too long.
    pub(super) async fn move_clock(&self, to: Move) -> Result<(), String> {
        let pid = {
            let mut input = self.input.lock().await;
            let Some((pid, input)) = input.as_mut() else {
                return Ok(());
            };
            if write(input, &to).await.is_err() {
                return Ok(());
            }
            *pid
        };
        let mut moved = self.moved.subscribe();
        let is_done =
            |moved: &Option<Moved>| moved.as_ref().is_none_or(|moved| moved.number >= to.number);
        let until_done = async {
            loop {
                tokio::select! {
                    done = moved.wait_for(is_done) => {
                        return done.ok().and_then(|done| done.as_ref()?.failed.clone());
                    }
                    () = sleep(LOOK) => if is_stopped(pid) { return None },
                }
            }
        };
        match timeout(DUE, until_done).await {
            Ok(None) => Ok(()),
            Ok(Some(why)) => Err(format!("{}: {why}", self.name)),
            Err(_) => Err(format!("{}: what is due takes too long", self.name)),
        }
    }
}

impl Process {
    /// Waits for the end of the process and returns its status.
    pub(super) async fn has_ended(&mut self) -> String {
        let said = |status: ExitStatus| status.to_string();
        self.child
            .wait()
            .await
            .map_or_else(|error| error.to_string(), said)
    }

    /// Waits for the end of a process whose input has ended. Kills it after a timeout.
    pub(super) async fn end(&mut self) {
        if timeout(END, self.child.wait()).await.is_err() {
            tracing::warn!("process {} does not end: it is killed", self.pid);
            let _ = self.child.kill().await;
        }
    }

    /// Entry of the process in the ready file.
    pub(super) fn ready(&self, name: &str) -> ReadyNode {
        ReadyNode {
            name: name.to_owned(),
            pid: self.pid,
            base_url: format!("http://{}", self.at.listen),
            admin_url: format!("http://{}/admin/v1", self.at.admin_listen),
        }
    }
}

/// Whether a process was stopped by SIGSTOP.
fn is_stopped(pid: u32) -> bool {
    let stat = i32::try_from(pid)
        .ok()
        .and_then(|pid| Seen::new(pid).ok()?.stat().ok());
    stat.is_some_and(|stat| stat.state == 'T')
}

async fn write(input: &mut ChildStdin, what: &impl serde::Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    input.write_all(&line).await?;
    input.flush().await
}

fn failed(why: impl ToString) -> DevError {
    DevError::NoNode(why.to_string())
}
