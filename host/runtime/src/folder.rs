//! The folder of modules: read at start, then watched.
//!
//! A file is taken when its writer has closed it or has renamed it into place, a moment later so
//! that a burst of events counts once. A file that is being written is left alone until then. Where
//! the system does not tell of closing, a file that has been quiet for a while is taken.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kassette_domain::id::Slot;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::error::{LoadError, RuntimeError};
use crate::load::MAX_BYTES;
use crate::runtime::Runtime;

/// After a close or a rename: long enough for the rest of a burst, short against the 100 ms within
/// which a file is to be active.
const SETTLED: Duration = Duration::from_millis(10);
/// After a write whose end nobody told of.
const QUIET: Duration = Duration::from_millis(500);
/// Events that wait while a module compiles. When there are more the whole folder is read again.
const EVENTS: usize = 4096;

/// A watch whose events are being collected.
pub(crate) struct Watch {
    watcher: RecommendedWatcher,
    events: Receiver<Seen>,
}

/// Watches for as long as it lives.
pub(crate) struct Watcher(#[expect(dead_code, reason = "held for its drop")] RecommendedWatcher);

/// What is passed from the system's events to the loading thread.
enum Seen {
    /// Something happened to a slot's file; it is due after this.
    Due(Slot, Duration),
    Gone(Slot),
    /// Events were lost.
    Rescan,
}

/// Begins to watch.
pub(crate) fn watch(folder: &Path) -> Result<Watch, RuntimeError> {
    fs::read_dir(folder)?;
    let failed = |error: notify::Error| RuntimeError::Watch(error.to_string());
    let (sender, events) = sync_channel(EVENTS);
    let mut watcher =
        notify::recommended_watcher(move |event| collect(event, &sender)).map_err(failed)?;
    watcher
        .watch(folder, RecursiveMode::NonRecursive)
        .map_err(failed)?;
    Ok(Watch { watcher, events })
}

impl Watch {
    /// Hands the events to a thread of their own, which ends with the runtime.
    pub(crate) fn follow(self, runtime: Weak<Runtime>) -> Result<Watcher, RuntimeError> {
        let Self { watcher, events } = self;
        std::thread::Builder::new()
            .name("plugin-loader".into())
            .spawn(move || follow(&events, &runtime))?;
        Ok(Watcher(watcher))
    }
}

/// Sorts one event of the system. A full queue loses nothing but detail: the folder is read again.
fn collect(event: notify::Result<Event>, sender: &SyncSender<Seen>) {
    let Ok(event) = event else {
        let _ = sender.try_send(Seen::Rescan);
        return;
    };
    if event.need_rescan() {
        let _ = sender.try_send(Seen::Rescan);
    }
    for slot in event.paths.iter().filter_map(|path| slot_of(path)) {
        let seen = match event.kind {
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(RenameMode::To)) => Seen::Due(slot, SETTLED),
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                Seen::Gone(slot)
            }
            EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => continue,
            _ => Seen::Due(slot, QUIET),
        };
        // Blocks the watching thread, not the system, while a burst is being worked off.
        if sender.send(seen).is_err() {
            return;
        }
    }
}

fn follow(events: &Receiver<Seen>, runtime: &Weak<Runtime>) {
    let mut due: BTreeMap<Slot, Instant> = BTreeMap::new();
    loop {
        let seen = match due.values().min() {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(next) => events.recv_timeout(next.saturating_duration_since(Instant::now())),
        };
        match seen {
            Ok(Seen::Due(slot, after)) => {
                due.insert(slot, Instant::now() + after);
                continue;
            }
            Ok(Seen::Gone(slot)) => {
                due.remove(&slot);
                tracing::info!(plugin.slot = %slot, "the file of {slot} is gone; its last version goes on serving");
                continue;
            }
            Ok(Seen::Rescan) => {
                let Some(runtime) = runtime.upgrade() else {
                    return;
                };
                if let Err(error) = load_all(&runtime) {
                    tracing::error!(plugin.error = %error, "the plugin folder cannot be read: {error}");
                }
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        let Some(runtime) = runtime.upgrade() else {
            return;
        };
        let now = Instant::now();
        let ready: Vec<Slot> = due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(slot, _)| slot.clone())
            .collect();
        for slot in ready {
            due.remove(&slot);
            if load_file(&runtime, &slot) == Loaded::Unstable {
                due.insert(slot, Instant::now() + SETTLED);
            }
        }
    }
}

/// Loads every file of the folder, in the order of their names.
pub(crate) fn load_all(runtime: &Arc<Runtime>) -> io::Result<()> {
    let mut slots = Vec::new();
    for entry in fs::read_dir(&runtime.config().plugin_dir)? {
        let path = entry?.path();
        match slot_of(&path) {
            Some(slot) => slots.push(slot),
            None if path
                .extension()
                .is_some_and(|extension| extension == "wasm") =>
            {
                tracing::warn!(
                    plugin.file = %path.display(),
                    "{} is no slot's file; name it `method.<id>.wasm` or `provider.<id>.wasm`", path.display(),
                );
            }
            None => {}
        }
    }
    slots.sort();
    for slot in &slots {
        while load_file(runtime, slot) == Loaded::Unstable {
            std::thread::sleep(SETTLED);
        }
    }
    Ok(())
}

#[derive(PartialEq)]
enum Loaded {
    Done,
    /// It changed while it was read.
    Unstable,
}

fn load_file(runtime: &Runtime, slot: &Slot) -> Loaded {
    let config = runtime.config();
    let bytes = match read(&config.plugin_dir.join(format!("{slot}.wasm"))) {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Loaded::Unstable,
        // Gone between the event and now: what serves goes on serving.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Done,
        Err(error) => {
            runtime.refuse(slot, &LoadError::Unreadable(error.kind()));
            return Loaded::Done;
        }
    };
    // A refusal has been logged and noted; nobody waits for it here.
    let _ = runtime.install(slot, &bytes, (config.clock)());
    Loaded::Done
}

/// A regular file's bytes; none where it changed meanwhile. Of a file over the cap just enough is
/// read to see that.
fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let before = file.metadata()?;
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let after = file.metadata()?;
    let stable = before.len() == after.len() && before.modified()? == after.modified()?;
    Ok(stable.then_some(bytes))
}

/// The slot whose file this is.
fn slot_of(path: &Path) -> Option<Slot> {
    Slot::parse(path.file_name()?.to_str()?.strip_suffix(".wasm")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_named_like_slots_are_modules() {
        let slot = |path: &str| slot_of(Path::new(path)).map(|slot| slot.to_string());
        assert_eq!(
            slot("/p/method.ideal.wasm").as_deref(),
            Some("method.ideal")
        );
        for other in [
            "/p/method.ideal.wasm.part",
            "/p/.method.ideal.wasm",
            "/p/ideal.wasm",
            "/p/x",
        ] {
            assert_eq!(slot(other), None, "{other}");
        }
    }
}
