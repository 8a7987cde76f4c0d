//! The store itself: how operations and reads reach the tree, and how it ends.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::{Mutex, RwLock};

use super::applier::{Applier, Ended, Operation};
use super::durable::Durable;
use super::open::{OpenError, OpenOptions, Opened, open};
use super::rows::{Rows, Source};
use super::view::View;
use super::{Secrets, keys};
use crate::{Answer, Fault, Health};

/// The embedded store. Open one per folder and share it.
pub struct SledStore {
    /// None once it is shut down.
    db: RwLock<Option<sled::Db>>,
    applier: Applier,
    pub(super) secrets: Arc<Secrets>,
    /// Nobody else may open the folder while this is held.
    lock: Mutex<Option<File>>,
}

/// What a store has done since it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counters {
    /// Operations that were applied.
    pub operations: u64,
    /// Groups that were written and synced.
    pub commits: u64,
}

impl SledStore {
    /// Opens the store in a folder, or makes one. Blocks: it reads the log of what was not yet in
    /// a snapshot.
    ///
    /// # Errors
    /// What stands in the way and what to do about it.
    pub fn open(options: &OpenOptions) -> Result<Arc<Self>, OpenError> {
        Self::start(options, |durable| durable)
    }

    /// The same, with something around the sync; tests hold it back or let it fail.
    pub(super) fn start(
        options: &OpenOptions,
        around: impl FnOnce(Box<dyn Durable>) -> Box<dyn Durable>,
    ) -> Result<Arc<Self>, OpenError> {
        let Opened {
            db,
            files,
            sealer,
            marker,
            last_group,
            lock,
        } = open(options)?;
        let applier = Applier::start((*db).clone(), around(Box::new(files)), last_group)
            .map_err(|error| OpenError::System(error.to_string()))?;
        Ok(Arc::new(Self {
            db: RwLock::new(Some(db)),
            applier,
            secrets: Arc::new(Secrets { sealer, marker }),
            lock: Mutex::new(Some(lock)),
        }))
    }

    /// Resolves with the reason when writing or syncing has failed. The store then answers
    /// [`Fault::Stopping`] to everything, because it cannot say what is on disk; the process has to
    /// end and open it again. Never resolves where the store is shut down in order.
    pub async fn failed(&self) -> String {
        let mut ended = self.applier.ended();
        let failed = |ended: &Option<Ended>| matches!(ended, Some(Ended::Failed(_)));
        if let Ok(ended) = ended.wait_for(failed).await
            && let Some(Ended::Failed(why)) = &*ended
        {
            return why.clone();
        }
        std::future::pending().await
    }

    /// What the store has done since it was opened.
    pub fn counters(&self) -> Counters {
        let stats = self.applier.stats();
        Counters {
            operations: stats.taken.load(Ordering::Relaxed),
            commits: stats.commits.load(Ordering::Relaxed),
        }
    }

    /// Does an operation.
    pub(super) fn operate<O: Operation>(&self, operation: O) -> Answer<'_, O::Outcome> {
        Box::pin(self.applier.submit(operation))
    }

    /// Does an operation some time soon.
    pub(super) fn hand_over<O: Operation>(&self, operation: O) -> Answer<'_, ()> {
        Box::pin(async move { self.applier.hand_over(operation) })
    }

    /// Reads on the caller, and waits for what it saw to be on disk.
    pub(super) fn read<'a, T: Send + 'a>(
        &'a self,
        read: impl FnOnce(&View<'_>) -> Result<T, Fault> + Send + 'a,
    ) -> Answer<'a, T> {
        Box::pin(async move {
            if self.applier.has_failed() {
                return Err(Fault::Stopping);
            }
            let (seen, unsynced) = {
                let db = self.db.read();
                let tree = db.as_ref().ok_or(Fault::Stopping)?;
                let view = View::new(tree);
                let seen = read(&view)?;
                // After the read: what it saw of a group was in `pending` before it was in the tree.
                let pending = self.applier.pending();
                (seen, pending.filter(|group| view.touches(group.written())))
            };
            if let Some(group) = unsynced {
                group.settled().await?;
            }
            Ok(seen)
        })
    }

    #[cfg(test)]
    pub(super) fn tree(&self) -> sled::Db {
        self.db.read().clone().unwrap()
    }
}

impl std::fmt::Debug for SledStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SledStore").finish_non_exhaustive()
    }
}

/// Writes a row, so that a full or broken disk is noticed.
struct Probe;

impl Operation for Probe {
    type Outcome = ();

    fn apply(self, rows: &mut Rows<'_>) -> Result<(), Fault> {
        let count: u64 = rows.load(keys::PROBE)?.unwrap_or_default();
        rows.save(keys::PROBE.to_vec(), &count.wrapping_add(1))
    }
}

impl Health for SledStore {
    fn probe(&self) -> Answer<'_, ()> {
        self.operate(Probe)
    }

    fn shut_down(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.applier.close();
            let mut ended = self.applier.ended();
            let how = match ended.wait_for(Option::is_some).await {
                Ok(how) => how.clone(),
                Err(_) => None,
            };
            let db = self.db.write().take();
            let lock = self.lock.lock().take();
            // Closing writes what sled still holds; not on a worker that serves others.
            let closed = tokio::task::spawn_blocking(move || {
                drop(db);
                drop(lock);
            })
            .await;
            match (how, closed) {
                (Some(Ended::Closed), Ok(())) => Ok(()),
                _ => Err(Fault::Stopping),
            }
        })
    }
}
