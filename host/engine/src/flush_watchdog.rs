//! Wakes a flush that sled forgot.
//!
//! Where sled's own thread fails to write a buffer that was sealed, it notes the error but
//! tells no caller, so a `flush` that waits for that buffer waits for ever. Any other `flush` sees the
//! error and wakes all that wait. So one is called, from a thread of its own, once a flush takes
//! longer than a disk does.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// A flush that takes longer is woken; again after twice the time, and so on, so that a disk that is
/// merely slow gathers only a few waiting threads.
const SLOW: Duration = Duration::from_secs(1);

/// Watches over flushes of one tree, for as long as it lives.
pub(crate) struct FlushWatchdog {
    flushing_since: Arc<Mutex<Option<Instant>>>,
    /// Its end ends the thread, which holds the tree until then.
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
                            // Whatever it answers, the one that matters answers too.
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
            // It cannot panic, and nothing would follow from it.
            let _ended = thread.join();
        }
    }
}
