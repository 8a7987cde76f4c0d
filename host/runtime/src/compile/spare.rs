//! A child that is started before it is needed.
//!
//! To start a process of our size, to set up the engine and to run the compiler's code for the first
//! time takes as long as a small module takes to compile. So one child has all that behind it and
//! waits; taking it makes the next one start. A child serves one module, as ever: what a
//! module did to its compiler dies with it.

use std::io;
use std::process::Child;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

/// The child that waits, once the runtime has asked for one.
#[derive(Debug, Default)]
pub(super) struct Spare(OnceLock<Mutex<Receiver<SpareChild>>>);

/// A child that is killed where it is not taken.
#[derive(Debug)]
struct SpareChild(Option<Child>);

impl Spare {
    /// Has one child waiting from now on. They are started on a thread that lives as long as this:
    /// a child is killed when the thread that started it ends.
    pub(super) fn keep_ready(&self, start: impl Fn() -> io::Result<Child> + Send + 'static) {
        self.0.get_or_init(|| {
            // Nothing is put aside: a child is handed over, and then the next one is started.
            let (give, taken) = sync_channel(0);
            let thread = thread::Builder::new().name("plugin-compilers".into());
            if let Err(error) = thread.spawn(move || serve(&start, &give)) {
                tracing::warn!("no compiler is kept ready: {error}");
            }
            Mutex::new(taken)
        });
    }

    /// One that waits and is well; none where there is none.
    pub(super) fn take(&self) -> Option<Child> {
        let mut child = self.0.get()?.lock().recv().ok()?.0.take()?;
        // The system ends compilers first where memory runs out.
        match child.try_wait() {
            Ok(None) => Some(child),
            _ => None,
        }
    }
}

fn serve(start: &impl Fn() -> io::Result<Child>, give: &SyncSender<SpareChild>) {
    // The compiler that is handed none starts a child itself, and reports what is wrong with that.
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
