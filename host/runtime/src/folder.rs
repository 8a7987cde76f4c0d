//! The folder of modules: read at start, then watched.
//!
//! A file is taken when its writer has closed it or has renamed it into place, a moment later so
//! that a burst of events counts once. A file that is being written is left alone until then. Where
//! the system does not tell of closing, a file that has been quiet for a while is taken.
//!
//! Events are for speed; what is true is what stands in the folder. So once a second the files are
//! looked at too, and one that is another than the one dealt with is taken as soon as two looks find
//! it the same. That covers what events do not tell: a folder that is removed and made again, links
//! that lead elsewhere, permissions that come back, events that were lost, a system without them.

use std::collections::BTreeMap;
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

/// After a close or a rename: long enough for the rest of a burst, short against the 100 ms within
/// which a file is to be active.
const DEBOUNCE: Duration = Duration::from_millis(10);
/// After a write whose end no event told of.
const WRITE_QUIET: Duration = Duration::from_millis(500);
/// From one scan of the folder to the next; a dozen files take some microseconds.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// The same while a file was found changed.
const RESCAN_INTERVAL: Duration = Duration::from_millis(50);
/// Events that wait while a module compiles. When there are more the whole folder is read again.
const MAX_QUEUED_EVENTS: usize = 4096;

/// The folder, and what has been seen of it.
pub(crate) struct FolderWatch {
    folder: PathBuf,
    watcher: Option<RecommendedWatcher>,
    /// Which folder is being watched; the path may lead to another one later.
    watched: FileStamp,
    events: Receiver<FolderEvent>,
    /// Held so that waiting for events never fails, even where there is no watcher.
    _sender: SyncSender<FolderEvent>,
    /// Each slot's file as it was when it was dealt with.
    handled: BTreeMap<Slot, FileStamp>,
    /// Files that were found changed at the last scan.
    changing: BTreeMap<Slot, FileStamp>,
    /// Files that are due for loading.
    due: BTreeMap<Slot, Instant>,
    missing: bool,
}

/// What is passed from the system's events to the loading thread.
enum FolderEvent {
    /// Something happened to a slot's file; it is due after this.
    Due(Slot, Duration),
    Gone(Slot),
    /// Events were lost, or something else in the folder was replaced.
    Rescan,
}

/// Begins to watch. Where the system cannot, the folder is looked at once a second all the same.
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

/// Sorts one event of the system. A full queue loses nothing but detail: the folder is read again.
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
            // A folder or link that modules lie behind may have been exchanged.
            if renamed {
                let _ = sender.try_send(FolderEvent::Rescan);
            }
            continue;
        };
        let event = match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                FolderEvent::Gone(slot)
            }
            // A rename is told as a pair too, after both of its ends.
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_)) => FolderEvent::Due(slot, DEBOUNCE),
            EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => continue,
            _ => FolderEvent::Due(slot, WRITE_QUIET),
        };
        // Blocks the watching thread, not the system, while a burst is being worked off.
        if sender.send(event).is_err() {
            return;
        }
    }
}

impl FolderWatch {
    /// Loads every file of the folder, in the order of their names.
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

    /// Goes on in a thread of its own, which ends soon after the runtime.
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
                // The sender lives as long as this does.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let Some(runtime) = runtime.upgrade() else {
                return;
            };
            self.load_due(&runtime);
            if next_scan <= Instant::now() {
                self.scan();
                let pause = if self.changing.is_empty() {
                    SCAN_INTERVAL
                } else {
                    RESCAN_INTERVAL
                };
                next_scan = Instant::now() + pause;
            }
        }
    }

    /// A file that is whole is taken at the first time that was set: one that is replaced again and
    /// again must not be put off for ever. One that is being written is put off.
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

    /// Compares the folder with what was dealt with.
    fn scan(&mut self) {
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
                return;
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
    }

    /// Watches what the path leads to now, where that is another folder than before.
    fn rewatch(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let stamp = fs::metadata(&self.folder).ok().map(|folder| {
            // What changes in a folder as it is used plays no part.
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
            runtime.refuse(slot, &LoadError::Shared);
            return FileRead::Done;
        }
        let (found, bytes) = match read(&path) {
            Ok(Some(read)) => read,
            Ok(None) => return FileRead::Unstable,
            // Gone between the event and now: what serves goes on serving.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return FileRead::Done,
            Err(error) => {
                self.handled.insert(slot.clone(), stamp(&path));
                runtime.refuse(slot, &LoadError::Unreadable(error.kind()));
                return FileRead::Done;
            }
        };
        self.handled.insert(slot.clone(), found);
        // A refusal has been logged and noted; this thread has no use for it.
        let _ = runtime.install_locked(&lock, slot, &bytes, (config.clock)());
        FileRead::Done
    }
}

#[derive(PartialEq)]
enum FileRead {
    Done,
    /// It changed while it was read.
    Unstable,
}

#[cfg(test)]
mod tests;
