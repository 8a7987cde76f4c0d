//! The folder of modules: loaded at start, then watched.
//!
//! A file is loaded shortly after its writer has closed it or renamed it into place. The delay merges a burst of
//! events. A file that is being written is not loaded. If the system reports no close events, a file is loaded
//! after it has not changed for a while.
//!
//! Events only make this faster; the content of the folder is authoritative. So the folder is scanned once a
//! second, and a changed file is loaded when two scans find it in the same state. This covers cases without
//! events: a folder that is removed and created again, changed links, restored permissions, lost events, and
//! systems without them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kassette_domain::id::Slot;
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};

use crate::error::{LoadError, RuntimeError};
use crate::load;
use crate::module_file::{FileStamp, is_refused, read, slot_of, stamp};
use crate::runtime::Runtime;

/// Delay after a close or rename: long enough for a burst of events, and short compared with the 100 ms in which a
/// file must become active.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// Delay after a write, in case no close event follows.
const WRITE_QUIET: Duration = Duration::from_millis(500);
/// Interval between scans of the folder. A scan of a dozen files takes some microseconds.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Interval between scans while a file has changed.
const RESCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of events that wait while a module compiles. Beyond it, the whole folder is read again.
const MAX_QUEUED_EVENTS: usize = 4096;

pub(crate) struct FolderWatch {
    folder: PathBuf,
    watcher: Option<RecommendedWatcher>,
    /// The watched folder. Its path may lead to another folder later.
    watched: FileStamp,
    events: Receiver<FolderEvent>,
    /// Kept so that receiving never fails, even without a watcher.
    _sender: SyncSender<FolderEvent>,
    /// State of each slot's file when it was last processed.
    handled: BTreeMap<Slot, FileStamp>,
    /// Slots whose file was refused.
    refused: BTreeSet<Slot>,
    /// Files that the last scan found changed.
    changing: BTreeMap<Slot, FileStamp>,
    /// Times at which files will be loaded.
    due: BTreeMap<Slot, Instant>,
    missing: bool,
}

/// A message from the watcher to the loading thread.
enum FolderEvent {
    /// A slot's file has changed, and is due after this delay.
    Due(Slot, Duration),
    Gone(Slot),
    /// Events were lost, or another entry of the folder was renamed.
    Rescan,
}

/// Starts watching. If the system cannot watch the folder, it is only scanned.
pub(crate) fn watch(folder: &Path) -> Result<FolderWatch, RuntimeError> {
    fs::read_dir(folder)?;
    let (sender, events) = sync_channel(MAX_QUEUED_EVENTS);
    let tell = sender.clone();
    let watcher = notify::recommended_watcher(move |event| on_event(event, &tell));
    let watcher = watcher
        .inspect_err(|error| warn_unwatched(folder, error))
        .ok();
    let mut watch = FolderWatch {
        folder: folder.to_owned(),
        watcher,
        watched: None,
        events,
        _sender: sender,
        handled: BTreeMap::new(),
        refused: BTreeSet::new(),
        changing: BTreeMap::new(),
        due: BTreeMap::new(),
        missing: false,
    };
    watch.rewatch();
    Ok(watch)
}

fn warn_unwatched(folder: &Path, error: &notify::Error) {
    tracing::warn!(
        plugin.folder = %folder.display(),
        "{} cannot be watched, so it is looked at once a second: {error}", folder.display(),
    );
}

/// Converts an event of the system. If the queue is full, waits, or drops a request to rescan.
fn on_event(event: notify::Result<Event>, sender: &SyncSender<FolderEvent>) {
    let Ok(event) = event else {
        let _ = sender.try_send(FolderEvent::Rescan);
        return;
    };
    if event.need_rescan() {
        let _ = sender.try_send(FolderEvent::Rescan);
    }
    let renamed = matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
    for path in &event.paths {
        let Some(slot) = slot_of(path) else {
            // The entry may be a folder or a link that leads to modules.
            if renamed {
                let _ = sender.try_send(FolderEvent::Rescan);
            }
            continue;
        };
        let event = match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                FolderEvent::Gone(slot)
            }
            // inotify also reports a rename as a pair, after its two parts.
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_)) => FolderEvent::Due(slot, DEBOUNCE),
            EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => continue,
            _ => FolderEvent::Due(slot, WRITE_QUIET),
        };
        // Blocks the watcher's thread, not the system, while a burst is processed.
        if sender.send(event).is_err() {
            return;
        }
    }
}

impl FolderWatch {
    /// Loads all files of the folder, sorted by slot.
    pub(crate) fn load_all(mut self, runtime: &Arc<Runtime>) -> io::Result<Self> {
        let mut slots = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
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
        slots.retain(|slot| {
            let skips = runtime.skips_file_at_start(slot);
            if skips {
                let path = self.folder.join(format!("{slot}.wasm"));
                self.handled.insert(slot.clone(), stamp(&path));
            }
            !skips
        });
        let folder = &self.folder;
        let files = slots.iter().filter_map(|slot| {
            let path = folder.join(format!("{slot}.wasm"));
            let readable = !is_refused(runtime.config(), &path);
            let (_, bytes) = readable.then(|| read(&path).ok())???;
            Some((slot, bytes))
        });
        load::precompile(&runtime.host, files);
        for slot in &slots {
            while self.load_file(runtime, slot) == FileRead::Unstable {
                std::thread::sleep(DEBOUNCE);
            }
        }
        Ok(self)
    }

    /// Continues on a thread, which ends soon after the runtime.
    pub(crate) fn spawn(self, runtime: Weak<Runtime>) -> io::Result<()> {
        std::thread::Builder::new()
            .name("plugin-loader".into())
            .spawn(move || self.run(&runtime))?;
        Ok(())
    }

    fn run(mut self, runtime: &Weak<Runtime>) {
        let mut next_scan = Instant::now();
        loop {
            let next = self
                .due
                .values()
                .min()
                .map_or(next_scan, |due| next_scan.min(*due));
            let patience = next.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(patience) {
                Ok(FolderEvent::Due(slot, after)) => self.schedule(slot, Instant::now() + after),
                Ok(FolderEvent::Gone(slot)) => {
                    self.due.remove(&slot);
                    tracing::info!(plugin.slot = %slot, "the file of {slot} is gone; its last version goes on serving");
                }
                Ok(FolderEvent::Rescan) => next_scan = next_scan.min(Instant::now() + DEBOUNCE),
                // `self` holds a sender, so this is never `Disconnected`.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let Some(runtime) = runtime.upgrade() else {
                return;
            };
            self.load_due(&runtime);
            if next_scan <= Instant::now() {
                self.scan()
                    .iter()
                    .for_each(|slot| runtime.forget_refusal(slot));
                let pause = if self.changing.is_empty() {
                    SCAN_INTERVAL
                } else {
                    RESCAN_INTERVAL
                };
                next_scan = Instant::now() + pause;
            }
        }
    }

    /// Sets the time at which a file is loaded. A complete file keeps its first time, so that repeated
    /// replacements cannot delay it forever. A write delays it.
    fn schedule(&mut self, slot: Slot, at: Instant) {
        let writing = at > Instant::now() + DEBOUNCE;
        let due = self.due.entry(slot).or_insert(at);
        if writing || at < *due {
            *due = at;
        }
    }

    fn load_due(&mut self, runtime: &Runtime) {
        let now = Instant::now();
        let ready: Vec<Slot> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(slot, _)| slot.clone())
            .collect();
        for slot in ready {
            self.due.remove(&slot);
            if self.load_file(runtime, &slot) == FileRead::Unstable {
                self.due.insert(slot, Instant::now() + DEBOUNCE);
            }
        }
    }

    /// Compares the folder with the processed files. Returns the slots whose refused file was removed.
    fn scan(&mut self) -> Vec<Slot> {
        self.rewatch();
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) => {
                if !std::mem::replace(&mut self.missing, true) {
                    tracing::error!(
                        plugin.folder = %self.folder.display(),
                        "the plugin folder cannot be read: {error}; what serves goes on serving, and the folder is read once it is back",
                    );
                }
                return Vec::new();
            }
        };
        if std::mem::take(&mut self.missing) {
            tracing::info!(plugin.folder = %self.folder.display(), "the plugin folder is back");
        }
        let before = std::mem::take(&mut self.changing);
        let mut there = BTreeMap::new();
        for path in entries.flatten().map(|entry| entry.path()) {
            if let Some(slot) = slot_of(&path) {
                there.insert(slot, stamp(&path));
            }
        }
        self.handled.retain(|slot, _| there.contains_key(slot));
        let is_gone = |slot: &Slot| !there.contains_key(slot);
        let gone: Vec<Slot> = self
            .refused
            .iter()
            .filter(|slot| is_gone(slot))
            .cloned()
            .collect();
        self.refused.retain(|slot| !is_gone(slot));
        for (slot, found) in there {
            if self.handled.get(&slot) == Some(&found) || self.due.contains_key(&slot) {
                continue;
            }
            if before.get(&slot) == Some(&found) {
                self.due.insert(slot, Instant::now());
            } else {
                self.changing.insert(slot, found);
            }
        }
        gone
    }

    /// Watches the folder that the path leads to, if it has changed.
    fn rewatch(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let stamp = fs::metadata(&self.folder).ok().map(|folder| {
            // Only device and inode: the other values change with normal use.
            [i128::from(folder.dev()), i128::from(folder.ino()), 0, 0, 0]
        });
        if stamp == self.watched {
            return;
        }
        let _ = watcher.unwatch(&self.folder);
        self.watched = stamp;
        if stamp.is_some()
            && let Err(error) = watcher.watch(&self.folder, RecursiveMode::NonRecursive)
        {
            warn_unwatched(&self.folder, &error);
        }
    }

    fn load_file(&mut self, runtime: &Runtime, slot: &Slot) -> FileRead {
        let config = runtime.config();
        let path = self.folder.join(format!("{slot}.wasm"));
        let lock = runtime.lock_loading();
        if is_refused(runtime.config(), &path) {
            self.handled.insert(slot.clone(), stamp(&path));
            self.refused.insert(slot.clone());
            runtime.refuse(slot, &LoadError::Shared);
            return FileRead::Done;
        }
        let (found, bytes) = match read(&path) {
            Ok(Some(read)) => read,
            Ok(None) => return FileRead::Unstable,
            // Removed since the event. The current version continues to serve.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return FileRead::Done,
            Err(error) => {
                self.handled.insert(slot.clone(), stamp(&path));
                self.refused.insert(slot.clone());
                runtime.refuse(slot, &LoadError::Unreadable(error.kind()));
                return FileRead::Done;
            }
        };
        self.handled.insert(slot.clone(), found);
        // `install_locked` has logged and recorded a refusal. It is cleared when the file is gone.
        match runtime.install_locked(&lock, slot, &bytes, (config.clock)()) {
            Ok(_) => self.refused.remove(slot),
            Err(_) => self.refused.insert(slot.clone()),
        };
        FileRead::Done
    }
}

#[derive(PartialEq)]
enum FileRead {
    Done,
    /// The file changed while it was read.
    Unstable,
}

#[cfg(test)]
mod tests;
