//! A node's process: it is started, told when the clock is moved, and ended.

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

/// How long a node may take to serve: it may have all modules to compile.
const START: Duration = Duration::from_secs(300);
/// How long one may take to end: what it has in hand takes 25 s at most.
const END: Duration = Duration::from_secs(40);
/// Longest wait until what is due at a node is done.
const DUE: Duration = Duration::from_secs(100);
/// Between two looks whether a process is stopped.
const LOOK: Duration = Duration::from_millis(100);

/// A node, whichever process it is.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) backend: Arc<Backend>,
    /// The process and its standard input; none between two processes.
    input: Mutex<Option<(u32, ChildStdin)>>,
    /// What it has told of its clock; none between two processes.
    moved: watch::Sender<Option<Moved>>,
}

/// A process that serves.
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

    /// Starts a process, which hears of every move of the clock from here on.
    pub(super) async fn spawn(&self, order: &Assignment) -> Result<Child, DevError> {
        let mut child = Command::new(OWN_PROGRAM)
            .arg(NODE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A Ctrl-C at the terminal is for `dev` alone.
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
        // What was wrong it has told the log.
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

    /// No process runs any more, or none is to.
    pub(super) async fn ended(&self) {
        self.backend.is_at(None);
        *self.input.lock().await = None;
        self.moved.send_replace(None);
    }

    /// Moves the clock, and waits until what is due then is done, but not for a process that ends or is stopped.
    ///
    /// # Errors
    /// Why it was not done.
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
    /// Resolves when it has ended.
    pub(super) async fn has_ended(&mut self) -> String {
        let said = |status: ExitStatus| status.to_string();
        self.child
            .wait()
            .await
            .map_or_else(|error| error.to_string(), said)
    }

    /// Waits for the end of a process whose input has ended.
    pub(super) async fn end(&mut self) {
        if timeout(END, self.child.wait()).await.is_err() {
            tracing::warn!("process {} does not end: it is killed", self.pid);
            let _ = self.child.kill().await;
        }
    }

    /// What the ready file says of it.
    pub(super) fn ready(&self, name: &str) -> ReadyNode {
        ReadyNode {
            name: name.to_owned(),
            pid: self.pid,
            base_url: format!("http://{}", self.at.listen),
            admin_url: format!("http://{}/admin/v1", self.at.admin_listen),
        }
    }
}

/// Whether a process was told to stop where it stands, by SIGSTOP.
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
