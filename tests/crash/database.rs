//! A PostgreSQL that can fail: a server with a synchronous standby, and a proxy before them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kassette_store::postgres::private::{PrivateOptions, PrivateServer};
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::block_in_place;
use tokio::time::sleep;

use crate::proxy::{Faults, Proxy, Route};

/// Name of the database.
const NAME: &str = "kassette";
/// Maximum time for a server to start or a standby to catch up.
const START_TIMEOUT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(50);
/// Fails unless a synchronous standby exists and has replayed almost all WAL.
const PROTECTED: &str = "SELECT 1 / (SELECT count(*) FROM pg_stat_replication
    WHERE sync_state = 'sync' AND pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn) < 100000)";
/// Fails unless a standby is streaming.
const FOLLOWED: &str =
    "SELECT 1 / (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming')";

/// The servers and the proxy.
pub(crate) struct Database {
    folder: PathBuf,
    proxy: Proxy,
    primary: Server,
    standby: Server,
    /// Number of servers created so far.
    made: usize,
}

/// A server, by its folder.
struct Server {
    options: PrivateOptions,
    runs: PrivateServer,
}

impl Server {
    fn options(folder: &Path, number: usize) -> PrivateOptions {
        let settings = [
            "max_connections=200",
            "shared_buffers=64MB",
            "wal_keep_size=1GB",
            "wal_retrieve_retry_interval=200ms",
        ];
        PrivateOptions {
            folder: folder.join(format!("postgres-{number}")),
            disposable: false,
            settings: settings.map(str::to_owned).to_vec(),
        }
    }

    fn socket(&self) -> &Path {
        &self.options.folder
    }

    /// The server's process and its children.
    fn processes(&self) -> Vec<i32> {
        let pid = self.runs.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let children = children
            .split_whitespace()
            .filter_map(|pid| pid.parse().ok());
        i32::try_from(pid).into_iter().chain(children).collect()
    }

    /// Kills the server immediately, as a power failure does. Sessions that outlive the first process would stop
    /// waiting for the standby and show others what they committed, so the first process is stopped until they
    /// have ended.
    fn end(&self) {
        if let Ok(pid) = i32::try_from(self.runs.pid()) {
            signal(pid, Signal::STOP);
        }
        for pid in self.processes().into_iter().rev() {
            signal(pid, Signal::KILL);
        }
    }

    /// Starts the server again after it has ended.
    async fn start_again(&mut self) -> Result<(), String> {
        let began = Instant::now();
        loop {
            // Remains of a killed server may prevent the start for a moment.
            match block_in_place(|| PrivateServer::start(&self.options)) {
                Ok(runs) => {
                    self.runs = runs;
                    return Ok(());
                }
                Err(error) if began.elapsed() > START_TIMEOUT => return Err(error.to_string()),
                Err(_) => sleep(LOOK).await,
            }
        }
    }

    /// Waits until a statement succeeds.
    async fn until(&self, statement: &str) -> Result<(), String> {
        let began = Instant::now();
        loop {
            match self.runs.administrate(statement).await {
                Ok(()) => return Ok(()),
                Err(said) if began.elapsed() > START_TIMEOUT => {
                    return Err(format!("{statement}: {said}"));
                }
                Err(_) => sleep(LOOK).await,
            }
        }
    }
}

/// Processes that are stopped (SIGSTOP) until this is dropped.
pub(crate) struct Stopped {
    processes: Vec<i32>,
    note: PathBuf,
}

impl Stopped {
    /// Stops the processes. If this process is killed, the watchdog reads the note in the folder and continues
    /// them.
    pub(crate) fn stop(folder: &Path, processes: Vec<i32>) -> Self {
        let note = folder.join("stopped");
        let numbers: Vec<_> = processes.iter().map(ToString::to_string).collect();
        fs::write(&note, numbers.join(" ")).unwrap();
        for pid in &processes {
            signal(*pid, Signal::STOP);
        }
        Self { processes, note }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for pid in self.processes.iter().rev() {
            signal(*pid, Signal::CONT);
        }
        let _ = fs::remove_file(&self.note);
    }
}

/// Signals a process, which may have ended.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

impl Database {
    /// Starts two servers below a folder, with an empty database.
    pub(crate) async fn start(folder: &Path, seed: u64) -> Result<Self, String> {
        let wrong = |error: &dyn std::fmt::Display| error.to_string();
        let proxy = Proxy::start(seed).map_err(|error| wrong(&error))?;
        let options = Server::options(folder, 1);
        let runs = block_in_place(|| PrivateServer::start(&options));
        let runs = runs.map_err(|error| wrong(&error))?;
        runs.make_database(NAME).await?;
        let primary = Server { options, runs };
        let standby = follow(&primary, folder, 2)?;
        let database = Self {
            folder: folder.to_owned(),
            proxy,
            primary,
            standby,
            made: 2,
        };
        database.protect().await?;
        database.lead(None);
        Ok(database)
    }

    /// The database's URL through the proxy.
    pub(crate) fn url(&self) -> String {
        let folder = self.proxy.folder().to_string_lossy().replace('/', "%2F");
        format!("postgres://kassette@{folder}/{NAME}")
    }

    fn lead(&self, but: Option<(i32, PathBuf)>) {
        let server = self.primary.socket().to_owned();
        self.proxy.lead(Route { server, but });
    }

    /// Makes commits wait for the standby from now on.
    async fn protect(&self) -> Result<(), String> {
        self.primary.until(FOLLOWED).await?;
        for statement in [
            "ALTER SYSTEM SET synchronous_standby_names = '*'",
            "SELECT pg_reload_conf()",
            // Ensures that the checkpointer, which makes sessions wait, has the new setting too.
            "SELECT 1 / (current_setting('synchronous_standby_names') = '*')::int",
            "CHECKPOINT",
        ] {
            self.primary.until(statement).await?;
        }
        self.whole().await
    }

    /// Waits until the standby has all commits.
    pub(crate) async fn whole(&self) -> Result<(), String> {
        self.primary.until(PROTECTED).await
    }

    /// Ends the server by a signal and starts it again after `down`.
    pub(crate) async fn stop(&mut self, by: Signal, down: Duration) -> Result<(), String> {
        let pid = i32::try_from(self.primary.runs.pid()).unwrap_or_default();
        signal(pid, by);
        let began = Instant::now();
        while !self.primary.runs.has_ended() {
            if began.elapsed() > START_TIMEOUT {
                return Err("PostgreSQL does not end".into());
            }
            sleep(LOOK).await;
        }
        sleep(down).await;
        self.primary.start_again().await
    }

    /// Stops the server and all its sessions for a time.
    pub(crate) async fn pause(&self, time: Duration) {
        let _stopped = Stopped::stop(&self.folder, self.primary.processes());
        sleep(time).await;
    }

    /// Stops the standby for a time, so that no commit returns.
    pub(crate) async fn pause_standby(&self, time: Duration) {
        let _stopped = Stopped::stop(&self.folder, self.standby.processes());
        sleep(time).await;
    }

    /// Injects faults between nodes and server for a time.
    pub(crate) async fn spoil(&self, faults: Faults, time: Duration) {
        self.proxy.set(faults);
        sleep(time).await;
        self.proxy.set(Faults::default());
    }

    /// Number of requests of nodes that had a fault.
    pub(crate) fn met(&self) -> u64 {
        self.proxy.met()
    }

    /// Destroys the server. For `cut_off` before that, the standby receives no commits, and never receives them
    /// later.
    pub(crate) async fn lose(&self, cut_off: Duration) {
        if !cut_off.is_zero() {
            let _stopped = Stopped::stop(&self.folder, self.standby.processes());
            sleep(cut_off).await;
            self.primary.end();
            for pid in self.standby.processes() {
                let title = fs::read_to_string(format!("/proc/{pid}/cmdline"));
                if title.is_ok_and(|title| title.contains("walreceiver")) {
                    // Data that has arrived but was not read is lost with the process.
                    signal(pid, Signal::KILL);
                }
            }
        }
        self.primary.end();
    }

    /// Promotes the standby. `isolated` is a process that still reaches the old server. Returns the time of the
    /// promotion.
    pub(crate) async fn fail_over(&mut self, isolated: Option<i32>) -> Result<Instant, String> {
        // At first, the new server refuses the nodes.
        std::mem::swap(&mut self.primary, &mut self.standby);
        let old = self.standby.socket().to_owned();
        self.lead(isolated.map(|pid| (pid, old)));
        self.primary
            .until("SELECT 1 / pg_promote(true, 60)::int")
            .await?;
        Ok(Instant::now())
    }

    /// Kills the old server and removes the route to it.
    pub(crate) fn end_isolation(&self) {
        self.standby.end();
        self.lead(None);
    }

    /// Replaces the lost server with a new standby.
    pub(crate) async fn replace_standby(&mut self) -> Result<(), String> {
        self.made += 1;
        let gone = std::mem::replace(
            &mut self.standby,
            follow(&self.primary, &self.folder, self.made)?,
        );
        let folder = gone.options.folder.clone();
        drop(gone);
        let _ = fs::remove_dir_all(folder);
        self.protect().await
    }
}

fn follow(primary: &Server, folder: &Path, number: usize) -> Result<Server, String> {
    let options = Server::options(folder, number);
    let runs = block_in_place(|| primary.runs.start_standby(&options));
    let runs = runs.map_err(|error| error.to_string())?;
    Ok(Server { options, runs })
}
