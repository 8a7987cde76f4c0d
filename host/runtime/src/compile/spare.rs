//! A child process that is started before it is needed.
//!
//! Starting a process of this size, setting up the engine and running the compiler's code for the first time takes
//! as long as compiling a small module. So one child is always prepared; taking it starts the next. Each child
//! compiles only one module: any damage that a module does to its compiler ends with that child.

use std::io;
use std::process::Child;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

/// Source of prepared children. Empty until the runtime asks for one.
#[derive(Debug, Default)]
pub(super) struct Spare(OnceLock<Mutex<Receiver<SpareChild>>>);

/// A child that is killed on drop unless a caller took it.
#[derive(Debug)]
struct SpareChild(Option<Child>);

impl Spare {
    /// Keeps one child prepared from now on. They are started on a thread that lives as long as this value,
    /// because a child is killed when the thread that started it ends.
    pub(super) fn keep_ready(&self, start: impl Fn() -> io::Result<Child> + Send + 'static) {
        self.0.get_or_init(|| {
            // Without a buffer, the next child is started after the previous one was taken.
            let (give, taken) = sync_channel(0);
            let thread = thread::Builder::new().name("plugin-compilers".into());
            if let Err(error) = thread.spawn(move || serve(&start, &give)) {
                tracing::warn!("no compiler is kept ready: {error}");
            }
            Mutex::new(taken)
        });
    }

    /// Returns a prepared child that is still running. `None` if there is none, or it has ended.
    pub(super) fn take(&self) -> Option<Child> {
        let mut child = self.0.get()?.lock().recv().ok()?.0.take()?;
        // The kernel ends compilers first if memory runs out.
        match child.try_wait() {
            Ok(None) => Some(child),
            _ => None,
        }
    }
}

fn serve(start: &impl Fn() -> io::Result<Child>, give: &SyncSender<SpareChild>) {
    // If a start fails, the caller starts a child itself and reports the error.
    while give.send(SpareChild(start().ok())).is_ok() {}
}

impl Drop for SpareChild {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
