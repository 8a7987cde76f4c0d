//! A node that serves the database: its row, its heartbeats, and how long it may serve.
//!
//! Each node has a row in the database and renews it with heartbeats. A node whose last heartbeat is older than
//! [`LAPSE`] serves nothing until the next succeeds. [`Membership`] decides what an answer means; this file
//! sends heartbeats. Clocks of two machines are never compared: a node counts as gone if another node has seen
//! its row unchanged for longer than a heartbeat is valid, by the observer's monotonic clock. A node that was
//! only slow joins again with a new incarnation. This is safe because a row is removed only if it is unchanged:
//! no heartbeat can have renewed it, so its node has served nothing since.
//!
//! After a standby is promoted, one node may still reach the old server. It cannot commit there, but it reads
//! until its last heartbeat expires, so nodes at the promoted server serve nothing for longer than that.
//! Servers are distinguished by the timeline of their log, and each new connection must lead to the server that
//! receives the heartbeats. A node that joins does not wait: it knows no earlier server.
//!
//! Decided 2026-11-27: times of payments and leases come from each node's own clock, not from the database's
//! clock. The latter would be a second source of time next to the injected one, off by the delay of an answer.
//! Clocks must agree within 2 s, and a node reports if its own does not; a nonce is retained for longer than
//! that.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use deadpool_postgres::{Hook, HookError};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_util::sync::CancellationToken;

use crate::postgres::errors::OpenError;
use crate::postgres::membership::{BEAT, Demand, GONE, LAPSE, Membership, Moment, Next, Row};
use crate::postgres::target::{CONNECT, Target};
use crate::{Fault, ModulesInfo, NodeInfo, NodeShare};

/// How long a heartbeat is valid if no other node can be running.
const LAPSE_ALONE: Duration = Duration::from_secs(4);
/// Maximum time to wait for the answer to a heartbeat.
const ANSWER: Duration = Duration::from_secs(1);
/// The same if no other node can be running.
const ANSWER_ALONE: Duration = Duration::from_secs(3);
/// Difference to the database's clock above which a node warns: leases depend on the nodes' clocks.
const CLOCKS_APART: Duration = Duration::from_secs(1);
/// How long the row of a node of an earlier release is watched: its heartbeats are valid for 4 s.
const GONE_EARLIER: Duration = Duration::from_secs(5);
/// Pause between two reads of rows that block a name.
const LOOK: Duration = Duration::from_millis(250);

/// Rows that prevent a node from joining: those with its name, and nodes of an earlier release, which must be
/// the only node and write no `info`.
const IN_THE_WAY: &str = "/* node: in the way */
    SELECT name, incarnation, beat, info IS NULL FROM node WHERE name = $1 OR info IS NULL";
const JOIN: &str = "/* node: join */ INSERT INTO node (name, incarnation, beat, seen, demand, info)
    VALUES ($1, $2, clock_timestamp(), 0, 0, $3) ON CONFLICT (name) DO NOTHING RETURNING name";
/// Deletes a row only if it is unchanged. A row that a heartbeat has renewed, or is renewing now, is retained.
const REMOVE: &str = "/* node: remove */ DELETE FROM node n USING (SELECT name FROM node
        WHERE name = $1 AND incarnation = $2 AND beat = $3 FOR UPDATE SKIP LOCKED) AS gone
    WHERE n.name = gone.name";
const REMOVE_ALL: &str = "/* node: remove all */ DELETE FROM node";
const BEAT_SQL: &str = "/* node: beat */ WITH beaten AS (
        UPDATE node SET seen = $3, demand = $4, info = $5, beat = clock_timestamp()
        WHERE name = $1 AND incarnation = $2 RETURNING beat)
    SELECT d.epoch, d.version, n.name, n.incarnation, n.beat, n.demand, beaten.beat
    FROM beaten, directory d, node n";
const GIVE_UP: &str = "/* node: give up */ WITH gone AS (
        DELETE FROM node WHERE name = $1 AND incarnation = $2 RETURNING name)
    DELETE FROM schedule WHERE holder IN (SELECT name FROM gone)";
const OF_NAME: &str = "/* node: of a name */ SELECT incarnation FROM node WHERE name = $1";

/// Information about a node that it stores in its row.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeReport {
    #[serde(flatten)]
    pub(crate) info: NodeInfo,
    #[serde(default, rename = "following")]
    pub(crate) modules: ModulesInfo,
}

/// Whether the store may be used, and whether cached data is valid.
#[derive(Debug)]
pub(crate) struct NodeState {
    /// The node's name; empty if the store is opened by a single command next to running nodes.
    pub(crate) name: String,
    /// Origin of monotonic times.
    start: Instant,
    /// `None` if the store sends no heartbeats.
    membership: Option<Mutex<Membership>>,
    incarnation: Mutex<i64>,
    /// The directory's epoch at the first heartbeat.
    epoch: OnceLock<i64>,
    /// Time at which the connection for heartbeats was established.
    connected: Mutex<Instant>,
    /// The server of that connection, see [`server_of`].
    server: Mutex<Option<String>>,
    closed: AtomicBool,
    /// Reason why the store closed without being asked to. `None` if it did not.
    failed: watch::Sender<Option<String>>,
    /// Number of requests since the last heartbeat that count for limits of all nodes.
    demanded: AtomicU64,
    pub(crate) report: Mutex<NodeReport>,
}

impl NodeState {
    fn new(name: String, membership: Option<Membership>) -> Arc<Self> {
        Arc::new(Self {
            name,
            start: Instant::now(),
            membership: membership.map(Mutex::new),
            incarnation: Mutex::new(0),
            epoch: OnceLock::new(),
            connected: Mutex::new(Instant::now()),
            server: Mutex::default(),
            closed: AtomicBool::new(false),
            failed: watch::Sender::new(None),
            demanded: AtomicU64::new(0),
            report: Mutex::default(),
        })
    }

    /// State for a store that a single command opens next to running nodes.
    pub(crate) fn of_a_guest() -> Arc<Self> {
        Self::new(String::new(), None)
    }

    /// Connections made before this time must not be used: after a failover they may lead to the old server
    /// while heartbeats go to the promoted one.
    pub(crate) fn connected(&self) -> Instant {
        *self.connected.lock()
    }

    /// Refuses new connections to a server other than the one that receives heartbeats. During a failover,
    /// connections may reach either server.
    pub(crate) fn connection_check(self: &Arc<Self>) -> Hook {
        let this = Arc::clone(self);
        Hook::async_fn(move |client, _| {
            let this = Arc::clone(&this);
            Box::pin(async move {
                if this.membership.is_none() {
                    return Ok(());
                }
                match timeout(CONNECT, server_of(client)).await {
                    Ok(Ok(server)) if server == *this.server.lock() => Ok(()),
                    Ok(Ok(_)) => Err(HookError::message(
                        "it is another server than the one that confirmed this node",
                    )),
                    Ok(Err(error)) => Err(HookError::Backend(error)),
                    Err(_) => Err(HookError::message("it does not answer")),
                }
            })
        })
    }

    /// Records that the connection for heartbeats was established, and whether its server has changed.
    fn connected_to(&self, server: Option<String>) {
        let mut known = self.server.lock();
        if let Some(membership) = &self.membership
            && known.is_some()
            && *known != server
        {
            tracing::warn!("the database is another server than before");
            membership.lock().on_promotion(self.now());
        }
        *known = server;
        *self.connected.lock() = Instant::now();
    }

    fn now(&self) -> Moment {
        Moment::now(self.start)
    }

    /// Returns an error if the store must not be used now.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Fault::Stopping);
        }
        match &self.membership {
            Some(membership) if !membership.lock().is_good(self.now()) => Err(Fault::Unavailable(
                "the database has not confirmed this node for a while".into(),
            )),
            _ => Ok(()),
        }
    }

    /// Closes the store. False if it was closed before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// Number of the cached directory, see [`crate::Directory::directory_version`].
    pub(crate) fn directory(&self) -> Option<u64> {
        let membership = self.membership.as_ref()?.lock();
        membership.is_good(self.now()).then(|| membership.number())
    }

    /// Records that this node's own change has created a version of the directory.
    pub(crate) fn directory_is(&self, version: i64) {
        if let Some(membership) = &self.membership {
            membership.lock().on_own_change(version);
        }
    }

    /// Records that this node may have changed the directory.
    pub(crate) fn directory_may_be_another(&self) {
        if let Some(membership) = &self.membership {
            membership.lock().on_doubt();
        }
    }

    pub(crate) fn live(&self) -> u32 {
        let live = self.membership.as_ref().map(|of| of.lock().live());
        live.unwrap_or(1)
    }

    pub(crate) fn share(&self) -> NodeShare {
        let share = self.membership.as_ref().map(|of| of.lock().share());
        share.unwrap_or(NodeShare::WHOLE)
    }

    pub(crate) fn demanded(&self) {
        self.demanded.fetch_add(1, Ordering::Relaxed);
    }

    /// Resolves with the reason when the store closes because of an error.
    pub(crate) async fn failed(&self) -> String {
        let mut failed = self.failed.subscribe();
        let reason = failed
            .wait_for(Option::is_some)
            .await
            .map(|reason| reason.clone());
        match reason {
            Ok(Some(reason)) => reason,
            _ => std::future::pending().await,
        }
    }

    fn fail(&self, reason: &str) {
        if self.close() {
            tracing::error!("{reason}");
            self.failed.send_replace(Some(reason.to_owned()));
        }
    }

    fn begin_anew(&self) {
        if let Some(membership) = &self.membership {
            membership.lock().begin_anew();
        }
    }

    /// Zero if the store sends no heartbeats.
    pub(crate) fn incarnation(&self) -> i64 {
        *self.incarnation.lock()
    }

    /// The report in the form of the node's row.
    fn report_json(&self) -> String {
        serde_json::to_string(&*self.report.lock()).unwrap_or_default()
    }
}

/// A node of the database.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) node_state: Arc<NodeState>,
    target: Target,
    /// Ends the thread of the heartbeats.
    no_more_beats: CancellationToken,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.no_more_beats.cancel();
    }
}

impl Node {
    /// Joins the database's nodes under a name that no live node uses, and starts to send heartbeats. If
    /// `is_alone`, no other node can be running, so all existing rows are obsolete and are removed.
    ///
    /// Heartbeats have their own thread and connection. Otherwise a busy node would send them late and have to
    /// stop serving.
    pub(crate) async fn join(
        target: Target,
        name: String,
        is_alone: bool,
    ) -> Result<Self, OpenError> {
        let lapse = if is_alone { LAPSE_ALONE } else { LAPSE };
        let node = Self {
            node_state: NodeState::new(name, Some(Membership::new(lapse))),
            target,
            no_more_beats: CancellationToken::new(),
        };
        let no_thread = |error: std::io::Error| OpenError::Database(format!("no thread: {error}"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(no_thread)?;
        let (told, joined) = oneshot::channel();
        let (node_state, target) = (Arc::clone(&node.node_state), node.target.clone());
        let beating = async move {
            // The node may be dropped in the meantime, which also ends this.
            match Heartbeats::begin(node_state, target, is_alone).await {
                Ok(beats) => {
                    let _ = told.send(Ok(()));
                    beats.run().await;
                }
                Err(refused) => drop(told.send(Err(refused))),
            }
        };
        let beating = node
            .no_more_beats
            .clone()
            .run_until_cancelled_owned(beating);
        std::thread::Builder::new()
            .name("beats".into())
            .spawn(move || runtime.block_on(beating))
            .map_err(no_thread)?;
        let ended = || OpenError::Database("the thread of the beats has ended".into());
        joined.await.unwrap_or_else(|_| Err(ended()))?;
        Ok(node)
    }

    /// Deletes the node's row and releases its tasks, so that other nodes need not wait.
    pub(crate) async fn give_up(&self) {
        self.no_more_beats.cancel();
        let gone = async {
            let client = self.target.connect().await.ok()?;
            let (name, incarnation) = (&self.node_state.name, self.node_state.incarnation());
            client.execute(GIVE_UP, &[name, &incarnation]).await.ok()
        };
        if !matches!(timeout(ANSWER, gone).await, Ok(Some(_))) {
            tracing::warn!(
                "the database did not take this node's word that it ends: the others find out for themselves"
            );
        }
    }
}

/// Opens a connection for heartbeats. Each statement needs only its own snapshot: failing some heartbeats that
/// conflict with changes of the directory would not make anything safer.
async fn connect(target: &Target, node_state: &NodeState) -> Result<Client, OpenError> {
    let client = target.connect().await?;
    let isolation = "SET default_transaction_isolation = 'read committed'";
    client.batch_execute(isolation).await?;
    node_state.connected_to(server_of(&client).await?);
    Ok(client)
}

/// Identifies the server of a connection by the timeline of its log, which changes with each promotion. `None`
/// if the engine does not report it, or not to this user.
async fn server_of(client: &Client) -> Result<Option<String>, tokio_postgres::Error> {
    let sql = "/* node: server */ SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8)";
    match client.query_one(sql, &[]).await {
        Ok(row) => Ok(row.get(0)),
        Err(error) => match error.code() {
            Some(
                &SqlState::UNDEFINED_FUNCTION
                | &SqlState::FEATURE_NOT_SUPPORTED
                | &SqlState::INSUFFICIENT_PRIVILEGE
                | &SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
            ) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Inserts the row of a new incarnation that has adopted nothing: from now on, changes wait for it, even before
/// it reads anything. False if another row has the name.
async fn enter(client: &Client, node_state: &NodeState) -> Result<bool, OpenError> {
    let mut random = [0; 8];
    crate::rows::seal::fill(&mut random).map_err(|fault| OpenError::Database(fault.to_string()))?;
    let incarnation = i64::from_be_bytes(random);
    let (name, info) = (&node_state.name, node_state.report_json());
    // Set before the answer, which may be lost: the next heartbeat then shows whether the row exists.
    *node_state.incarnation.lock() = incarnation;
    let joined = client.query_opt(JOIN, &[name, &incarnation, &info]).await?;
    Ok(joined.is_some())
}

/// Removes rows that block a name once they are old enough that their nodes serve nothing.
async fn make_way(client: &Client, name: &str) -> Result<(), OpenError> {
    let mut known: HashMap<(String, i64), (SystemTime, Instant)> = HashMap::new();
    loop {
        let rows = client.query(IN_THE_WAY, &[&name]).await?;
        if rows.is_empty() {
            return Ok(());
        }
        for row in rows {
            let key: (String, i64) = (row.get(0), row.get(1));
            let (beat, is_earlier): (SystemTime, bool) = (row.get(2), row.get(3));
            let (last, since) = *known
                .entry(key.clone())
                .or_insert_with(|| (beat, Instant::now()));
            if last != beat {
                return Err(match is_earlier {
                    true => OpenError::EarlierNode,
                    false => OpenError::InUse(key.0),
                });
            }
            let patience = if is_earlier { GONE_EARLIER } else { GONE };
            if since.elapsed() >= patience {
                client.execute(REMOVE, &[&key.0, &key.1, &beat]).await?;
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

struct Heartbeats {
    node_state: Arc<NodeState>,
    target: Target,
    /// `None` if the last connection failed.
    client: Option<Client>,
    demand: Demand,
    /// Time at which requests were last counted.
    counted: Instant,
    /// Whether the clock differed at the last heartbeat.
    is_clock_off: bool,
    /// Maximum time to wait for an answer.
    answer: Duration,
}

impl Heartbeats {
    /// Inserts the node's row and sends the first heartbeat.
    async fn begin(
        node_state: Arc<NodeState>,
        target: Target,
        is_alone: bool,
    ) -> Result<Self, OpenError> {
        let client = connect(&target, &node_state).await?;
        if is_alone {
            client.execute(REMOVE_ALL, &[]).await?;
        }
        loop {
            make_way(&client, &node_state.name).await?;
            if enter(&client, &node_state).await? {
                break;
            }
        }
        let mut beats = Self {
            node_state,
            target,
            client: Some(client),
            demand: Demand::default(),
            counted: Instant::now(),
            is_clock_off: false,
            answer: if is_alone { ANSWER_ALONE } else { ANSWER },
        };
        // Nothing is served before the first heartbeat. The second one, sent at once, reports the version that
        // the first has read.
        match beats.beat().await? {
            Some(_) => Ok(beats),
            None => Err(OpenError::InUse(beats.node_state.name.clone())),
        }
    }

    async fn run(mut self) {
        let mut next = Next::AtOnce;
        loop {
            if next == Next::InTime {
                tokio::time::sleep_until((self.counted + BEAT).into()).await;
            }
            next = match timeout(self.answer, self.beat_or_come_back()).await {
                Ok(Ok(Some(next))) => next,
                Ok(Ok(None)) => {
                    self.node_state.fail(
                        "another node has taken this one's name, because this one was not heard of",
                    );
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a beat failed");
                    self.client = None;
                    Next::InTime
                }
                // The next heartbeat shows whether this one had an effect.
                Err(_) => {
                    tracing::warn!("a beat was not answered in time");
                    self.client = None;
                    Next::InTime
                }
            };
        }
    }

    /// Sends a heartbeat, and joins again if the row was removed. `None` if another node has the name.
    async fn beat_or_come_back(&mut self) -> Result<Option<Next>, OpenError> {
        if let Some(next) = self.beat().await? {
            return Ok(Some(next));
        }
        let node_state = Arc::clone(&self.node_state);
        let client = self.client().await?;
        node_state.begin_anew();
        if client
            .query_opt(OF_NAME, &[&node_state.name])
            .await?
            .is_some()
            || !enter(client, &node_state).await?
        {
            return Ok(None);
        }
        tracing::warn!("this node was not heard of for a while, and has joined the others anew");
        Ok(Some(Next::AtOnce))
    }

    /// Returns the connection for heartbeats; opens it if needed.
    async fn client(&mut self) -> Result<&Client, OpenError> {
        Ok(match &mut self.client {
            Some(client) => client,
            none => {
                self.node_state.begin_anew();
                none.insert(connect(&self.target, &self.node_state).await?)
            }
        })
    }

    /// Renews the row, adopts the directory's version, and removes the rows of nodes that are gone. `None` if
    /// there is no row of this incarnation, or if the store was copied.
    async fn beat(&mut self) -> Result<Option<Next>, OpenError> {
        let node_state = Arc::clone(&self.node_state);
        let passed = self.counted.elapsed();
        let began = Instant::now();
        self.counted = began;
        let requests = node_state.demanded.swap(0, Ordering::Relaxed);
        let demand = self.demand.note(requests, passed);
        let client = self.client().await?;
        let (name, incarnation) = (&node_state.name, node_state.incarnation());
        let report = node_state.report_json();
        let Some(membership) = &node_state.membership else {
            return Ok(None);
        };
        let sent = node_state.now();
        let seen = membership.lock().seen();
        let rows = client
            .query(BEAT_SQL, &[name, &incarnation, &seen, &demand, &report])
            .await?;
        let (received, took) = (node_state.now(), began.elapsed());
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        // The epoch changes when the database is copied to or from another store, which makes this node's data
        // invalid.
        let epoch: i64 = first.get(0);
        if *node_state.epoch.get_or_init(|| epoch) != epoch {
            node_state
                .fail("the database was copied to or from another store: start this node anew");
            return Ok(None);
        }
        let version = (first.get(0), first.get(1));
        // The new time of this node's row; `n.beat` is its value before the update.
        let written: SystemTime = first.get(6);
        let rows: Vec<_> = rows.iter().map(of_row).collect();
        let (next, gone) = {
            let mut membership = membership.lock();
            let own = (name.as_str(), incarnation);
            let next = membership.on_answer((sent, received), own, version, &rows);
            (next, membership.gone(received))
        };
        for (name, incarnation, beat) in gone {
            let removed = client
                .execute(REMOVE, &[&name, &incarnation, &beat])
                .await?;
            if removed > 0 {
                tracing::warn!(
                    node = name,
                    "a node was not heard of for a while: it is taken off the list"
                );
            }
        }
        self.compare_clocks(written, took);
        Ok(Some(next))
    }

    /// Warns once if this machine's clock differs from `written`, the database's time during a heartbeat that
    /// took `took`.
    fn compare_clocks(&mut self, written: SystemTime, took: Duration) {
        let off = match SystemTime::now().duration_since(written) {
            Ok(ahead) => ahead.saturating_sub(took),
            Err(behind) => behind.duration(),
        };
        let is_off = off > CLOCKS_APART;
        if is_off && !self.is_clock_off {
            tracing::warn!(
                clock.off_seconds = off.as_secs_f64(),
                "this machine's clock is off the database's: nodes whose clocks differ take each other's work"
            );
        }
        self.is_clock_off = is_off;
    }
}

fn of_row(row: &tokio_postgres::Row) -> Row {
    Row {
        name: row.get(2),
        incarnation: row.get(3),
        beat: row.get(4),
        demand: row.get(5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::scratch::Scratch;

    #[tokio::test]
    async fn a_late_beat_is_not_taken_for_a_clock_that_is_off() {
        if !Scratch::available().unwrap() {
            return;
        }
        let scratch = Scratch::new().await.unwrap();
        let target = Target::parse(&scratch.options().url).unwrap();
        let node_state = NodeState::new("a".into(), Some(Membership::new(LAPSE)));
        let mut beats = Heartbeats::begin(node_state, target, true).await.unwrap();
        std::thread::sleep(CLOCKS_APART + BEAT);
        assert!(beats.beat().await.unwrap().is_some());
        assert!(!beats.is_clock_off);
    }
}
