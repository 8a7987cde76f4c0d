//! Wakes a flush that sled has forgotten.
//!
//! If sled's background thread fails to write a sealed buffer, it records the error without notifying callers, so
//! a `flush` that waits for the buffer never returns. Any other `flush` sees the error and wakes all waiting ones.
//! The watchdog therefore calls one from another thread when a flush takes longer than a disk needs.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Duration after which a flush is woken. Each further attempt waits until the flush has taken twice as long, so
/// that a slow disk collects only a few waiting threads.
const SLOW: Duration = Duration::from_secs(1);

/// Watches the flushes of one tree while it exists.
pub(crate) struct FlushWatchdog {
    flushing_since: Arc<Mutex<Option<Instant>>>,
    /// Dropping the sender ends the thread, which holds the tree until then.
    watching: Option<(Sender<()>, JoinHandle<()>)>,
}

impl FlushWatchdog {
    pub(crate) fn over(tree: &sled::Tree) -> std::io::Result<Self> {
        let (alive, ended) = channel::<()>();
        let flushing_since = Arc::new(Mutex::new(None));
        let (since, tree) = (Arc::clone(&flushing_since), tree.clone());
        let thread = std::thread::Builder::new()
            .name("store-watchdog".into())
            .spawn(move || {
                let mut patience = SLOW;
                while ended.recv_timeout(SLOW) == Err(RecvTimeoutError::Timeout) {
                    let since: Option<Instant> = *since.lock();
                    match since.map(|since| since.elapsed()) {
                        Some(slow) if slow >= patience => {
                            patience = slow * 2;
                            let tree = tree.clone();
                            // The result does not matter: the watched flush returns it too.
                            std::thread::spawn(move || tree.flush().is_ok());
                        }
                        Some(_) => {}
                        None => patience = SLOW,
                    }
                }
            })?;
        Ok(Self {
            flushing_since,
            watching: Some((alive, thread)),
        })
    }

    pub(crate) fn flush(&self, tree: &sled::Tree) -> sled::Result<usize> {
        *self.flushing_since.lock() = Some(Instant::now());
        let flushed = tree.flush();
        *self.flushing_since.lock() = None;
        flushed
    }
}

impl Drop for FlushWatchdog {
    fn drop(&mut self) {
        if let Some((alive, thread)) = self.watching.take() {
            drop(alive);
            // The thread cannot panic, and its result has no consequence.
            let _ended = thread.join();
        }
    }
}
