//! The node: which process serves the database, and until when it may.
//!
//! A row of the database names the node, and a beat renews it by the database's clock. One that has not heard
//! of its last beat for [`LAPSE`] of its own monotonic clock serves no more; another one takes the row once it has
//! not been renewed for [`TAKEOVER`] of the database's. A beat is written after it was sent, so the first ends
//! before the second.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_postgres::Client;

use crate::Fault;
use crate::postgres::errors::{OpenError, said};
use crate::postgres::target::Target;

/// Between two beats.
const BEAT: Duration = Duration::from_millis(500);
/// For how long a beat is good, from before it was sent.
const LAPSE: Duration = Duration::from_secs(4);
/// After how much of the database's time without a beat another node takes the row, seconds.
const TAKEOVER: f64 = 5.0;
/// How long the row of a node that ended without a word is waited for.
const WAIT: Duration = Duration::from_secs(6);
/// How long a beat's answer is waited for.
const ANSWER: Duration = Duration::from_secs(1);
/// The only node there is.
const NAME: &str = "only";

const TAKE: &str =
    "INSERT INTO node AS n (name, incarnation, beat) VALUES ($1, $2, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET incarnation = $2, beat = clock_timestamp()
    WHERE n.beat < clock_timestamp() - make_interval(secs => $3)
    RETURNING (SELECT version FROM directory)";
const RENEW: &str = "UPDATE node SET beat = clock_timestamp() WHERE name = $1 AND incarnation = $2
    RETURNING (SELECT version FROM directory)";
const GIVE_UP: &str = "DELETE FROM node WHERE name = $1 AND incarnation = $2";

/// Whether the store may be used.
#[derive(Debug)]
pub(crate) struct Standing {
    /// Until when the last beat is good; none where there are no beats.
    until: Mutex<Option<Instant>>,
    closed: AtomicBool,
    /// Why the store has ended, where it has by itself.
    failed: watch::Sender<Option<String>>,
    /// The directory's version, as far as it is known here.
    directory: AtomicU64,
    /// Changes of the directory of which it is not known whether they were made.
    in_doubt: AtomicU64,
}

impl Standing {
    /// Of a store that is used beside others, for one command.
    pub(crate) fn of_a_guest() -> Arc<Self> {
        Arc::new(Self {
            until: Mutex::new(None),
            closed: AtomicBool::new(false),
            failed: watch::Sender::new(None),
            directory: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
        })
    }

    /// Says why nothing may be done.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Fault::Stopping);
        }
        match *self.until.lock() {
            Some(until) if until < Instant::now() => Err(Fault::Unavailable(
                "the database has not confirmed this node for a while".into(),
            )),
            _ => Ok(()),
        }
    }

    /// From now on nothing is done; says whether something was before.
    pub(crate) fn close(&self) -> bool {
        !self.closed.swap(true, Ordering::AcqRel)
    }

    /// The number of the directory, see [`crate::Directory::directory_version`].
    pub(crate) fn directory(&self) -> u64 {
        let in_doubt = self.in_doubt.load(Ordering::Acquire);
        self.directory.load(Ordering::Acquire) + in_doubt
    }

    /// The directory has, or had, a version.
    pub(crate) fn directory_is(&self, version: i64) {
        let version = u64::try_from(version).unwrap_or_default();
        self.directory.fetch_max(version, Ordering::AcqRel);
    }

    /// The directory may have been changed.
    pub(crate) fn directory_may_be_another(&self) {
        self.in_doubt.fetch_add(1, Ordering::AcqRel);
    }

    /// Resolves with the reason when the store has ended by itself.
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
}

/// The only node that serves a database.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) standing: Arc<Standing>,
    incarnation: i64,
    target: Target,
    beats: tokio::task::JoinHandle<()>,
}

impl Drop for Node {
    fn drop(&mut self) {
        self.beats.abort();
    }
}

impl Node {
    /// Takes the row, and begins to renew it. Where no other node can be there, at once.
    pub(crate) async fn take(target: Target, is_alone: bool) -> Result<Self, OpenError> {
        let after = if is_alone { 0.0 } else { TAKEOVER };
        let mut random = [0; 8];
        crate::rows::seal::fill(&mut random)
            .map_err(|fault| OpenError::Database(fault.to_string()))?;
        let incarnation = i64::from_be_bytes(random);
        let (began, client) = (Instant::now(), target.connect().await?);
        let (sent, version) = loop {
            let sent = Instant::now();
            let taken = client.query_opt(TAKE, &[&NAME, &incarnation, &after]).await;
            match taken.map_err(|error| OpenError::Database(said(&error)))? {
                Some(row) => break (sent, row.get::<_, i64>(0)),
                None if began.elapsed() > WAIT => return Err(OpenError::InUse),
                None => tokio::time::sleep(BEAT).await,
            }
        };
        let standing = Standing::of_a_guest();
        *standing.until.lock() = Some(sent + LAPSE);
        standing.directory_is(version);
        let beats = Beats {
            standing: Arc::clone(&standing),
            incarnation,
            target: target.clone(),
        };
        let beats = tokio::spawn(beats.run(client));
        Ok(Self {
            standing,
            incarnation,
            target,
            beats,
        })
    }

    /// Gives the row up, so that another node need not wait.
    pub(crate) async fn give_up(&self) {
        self.beats.abort();
        let gone = async {
            let client = self.target.connect().await.ok()?;
            client
                .execute(GIVE_UP, &[&NAME, &self.incarnation])
                .await
                .ok()
        };
        if !matches!(tokio::time::timeout(ANSWER, gone).await, Ok(Some(_))) {
            tracing::warn!(
                "the database did not take this node's word that it ends: the next one waits for its lapse"
            );
        }
    }
}

struct Beats {
    standing: Arc<Standing>,
    incarnation: i64,
    target: Target,
}

impl Beats {
    async fn run(self, client: Client) {
        let mut client = Some(client);
        loop {
            tokio::time::sleep(BEAT).await;
            let sent = Instant::now();
            match tokio::time::timeout(ANSWER, self.renew(&mut client)).await {
                Ok(Ok(Some(version))) => {
                    self.standing.directory_is(version);
                    *self.standing.until.lock() = Some(sent + LAPSE);
                }
                Ok(Ok(None)) => {
                    self.standing.fail("another node has taken the database over, because this one was not heard of");
                    return;
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "a beat failed");
                    client = None;
                }
                // What became of it shows in the next one.
                Err(_) => client = None,
            }
        }
    }

    async fn renew(&self, client: &mut Option<Client>) -> Result<Option<i64>, OpenError> {
        let client = match client {
            Some(client) => client,
            None => client.insert(self.target.connect().await?),
        };
        let renewed = client.query_opt(RENEW, &[&NAME, &self.incarnation]).await;
        let renewed = renewed.map_err(|error| OpenError::Database(said(&error)))?;
        Ok(renewed.map(|row| row.get(0)))
    }
}
