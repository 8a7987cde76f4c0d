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
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use kassette_domain::id::Slot;
use kassette_files::{Exposed, Holds};
use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;

use crate::error::{LoadError, RuntimeError};
use crate::load::MAX_BYTES;
use crate::runtime::Runtime;

/// After a close or a rename: long enough for the rest of a burst, short against the 100 ms within
/// which a file is to be active.
const SETTLED: Duration = Duration::from_millis(10);
/// After a write whose end nobody told of.
const QUIET: Duration = Duration::from_millis(500);
/// From one look at the folder to the next; a dozen files take some microseconds.
const LOOK: Duration = Duration::from_secs(1);
/// The same while a file was found changed.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// Events that wait while a module compiles. When there are more the whole folder is read again.
const EVENTS: usize = 4096;

/// Modules that are compiled at once at the start. Each compiler has two threads, but for a third of
/// its time it uses one.
const AT_ONCE: usize = 2;

/// What tells one content of a file from another without reading it; none where the file cannot
/// even be looked at.
type Print = Option<[i128; 5]>;

/// The folder, and what has been seen of it.
pub(crate) struct Watch {
    folder: PathBuf,
    watcher: Option<RecommendedWatcher>,
    /// Which folder is being watched; the path may lead to another one later.
    watched: Print,
    events: Receiver<Seen>,
    /// Held so that waiting for events never fails, even where there is no watcher.
    _sender: SyncSender<Seen>,
    /// Each slot's file as it was when it was dealt with.
    taken: BTreeMap<Slot, Print>,
    /// Files that were found changed at the last look.
    changing: BTreeMap<Slot, Print>,
    /// Files that are due for loading.
    due: BTreeMap<Slot, Instant>,
    missing: bool,
}

/// What is passed from the system's events to the loading thread.
enum Seen {
    /// Something happened to a slot's file; it is due after this.
    Due(Slot, Duration),
    Gone(Slot),
    /// Events were lost, or something else in the folder was replaced.
    Look,
}

/// Begins to watch. Where the system cannot, the folder is looked at once a second all the same.
pub(crate) fn watch(folder: &Path) -> Result<Watch, RuntimeError> {
    fs::read_dir(folder)?;
    let (sender, events) = sync_channel(EVENTS);
    let tell = sender.clone();
    let watcher = notify::recommended_watcher(move |event| collect(event, &tell));
    let watcher = watcher.inspect_err(|error| not_watched(folder, error)).ok();
    let mut watch = Watch {
        folder: folder.to_owned(),
        watcher,
        watched: None,
        events,
        _sender: sender,
        taken: BTreeMap::new(),
        changing: BTreeMap::new(),
        due: BTreeMap::new(),
        missing: false,
    };
    watch.attach();
    Ok(watch)
}

fn not_watched(folder: &Path, error: &notify::Error) {
    tracing::warn!(
        plugin.folder = %folder.display(),
        "{} cannot be watched, so it is looked at once a second: {error}", folder.display(),
    );
}

/// Sorts one event of the system. A full queue loses nothing but detail: the folder is read again.
fn collect(event: notify::Result<Event>, sender: &SyncSender<Seen>) {
    let Ok(event) = event else {
        let _ = sender.try_send(Seen::Look);
        return;
    };
    if event.need_rescan() {
        let _ = sender.try_send(Seen::Look);
    }
    let renamed = matches!(event.kind, EventKind::Modify(ModifyKind::Name(_)));
    for path in &event.paths {
        let Some(slot) = slot_of(path) else {
            // A folder or link that modules lie behind may have been exchanged.
            if renamed {
                let _ = sender.try_send(Seen::Look);
            }
            continue;
        };
        let seen = match event.kind {
            EventKind::Modify(ModifyKind::Name(RenameMode::From)) | EventKind::Remove(_) => {
                Seen::Gone(slot)
            }
            // A rename is told as a pair too, after both of its ends.
            EventKind::Access(AccessKind::Close(AccessMode::Write))
            | EventKind::Modify(ModifyKind::Name(_)) => Seen::Due(slot, SETTLED),
            EventKind::Modify(ModifyKind::Metadata(_)) | EventKind::Access(_) => continue,
            _ => Seen::Due(slot, QUIET),
        };
        // Blocks the watching thread, not the system, while a burst is being worked off.
        if sender.send(seen).is_err() {
            return;
        }
    }
}

impl Watch {
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
        self.compile_ahead(runtime, &slots);
        for slot in &slots {
            while self.take(runtime, slot) == Loaded::Unstable {
                std::thread::sleep(SETTLED);
            }
        }
        Ok(self)
    }

    /// Compiles what lies in the folder, some modules at once: nobody is served before all of them
    /// are there. They are activated in their turn all the same.
    fn compile_ahead(&self, runtime: &Arc<Runtime>, slots: &[Slot]) {
        let (folder, next) = (&self.folder, Mutex::new(slots.iter()));
        let take = || next.lock().next();
        let work = || {
            while let Some(slot) = take() {
                let path = folder.join(format!("{slot}.wasm"));
                if !is_refused(runtime, &path)
                    && let Ok(Some((_, bytes))) = read(&path)
                {
                    runtime.compile_ahead(&bytes);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(work);
            }
        });
    }

    /// Goes on in a thread of its own, which ends soon after the runtime.
    pub(crate) fn follow(self, runtime: Weak<Runtime>) -> io::Result<()> {
        std::thread::Builder::new()
            .name("plugin-loader".into())
            .spawn(move || self.run(&runtime))?;
        Ok(())
    }

    fn run(mut self, runtime: &Weak<Runtime>) {
        let mut look = Instant::now();
        loop {
            let next = self.due.values().min().map_or(look, |due| look.min(*due));
            let patience = next.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(patience) {
                Ok(Seen::Due(slot, after)) => self.expect(slot, Instant::now() + after),
                Ok(Seen::Gone(slot)) => {
                    self.due.remove(&slot);
                    tracing::info!(plugin.slot = %slot, "the file of {slot} is gone; its last version goes on serving");
                }
                Ok(Seen::Look) => look = look.min(Instant::now() + SETTLED),
                // The sender lives as long as this does.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
            let Some(runtime) = runtime.upgrade() else {
                return;
            };
            self.take_due(&runtime);
            if look <= Instant::now() {
                self.look();
                let pause = if self.changing.is_empty() {
                    LOOK
                } else {
                    LOOK_AGAIN
                };
                look = Instant::now() + pause;
            }
        }
    }

    /// A file that is whole is taken at the first time that was set: one that is replaced again and
    /// again must not be put off for ever. One that is being written is put off.
    fn expect(&mut self, slot: Slot, at: Instant) {
        let writing = at > Instant::now() + SETTLED;
        let due = self.due.entry(slot).or_insert(at);
        if writing || at < *due {
            *due = at;
        }
    }

    fn take_due(&mut self, runtime: &Runtime) {
        let now = Instant::now();
        let ready: Vec<Slot> = self
            .due
            .iter()
            .filter(|(_, at)| **at <= now)
            .map(|(slot, _)| slot.clone())
            .collect();
        for slot in ready {
            self.due.remove(&slot);
            if self.take(runtime, &slot) == Loaded::Unstable {
                self.due.insert(slot, Instant::now() + SETTLED);
            }
        }
    }

    /// Compares the folder with what was dealt with.
    fn look(&mut self) {
        self.attach();
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
                there.insert(slot, print(&path));
            }
        }
        self.taken.retain(|slot, _| there.contains_key(slot));
        for (slot, found) in there {
            if self.taken.get(&slot) == Some(&found) || self.due.contains_key(&slot) {
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
    fn attach(&mut self) {
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        let place = fs::metadata(&self.folder).ok().map(|folder| {
            // What changes in a folder as it is used plays no part.
            [i128::from(folder.dev()), i128::from(folder.ino()), 0, 0, 0]
        });
        if place == self.watched {
            return;
        }
        let _ = watcher.unwatch(&self.folder);
        self.watched = place;
        if place.is_some()
            && let Err(error) = watcher.watch(&self.folder, RecursiveMode::NonRecursive)
        {
            not_watched(&self.folder, &error);
        }
    }

    fn take(&mut self, runtime: &Runtime, slot: &Slot) -> Loaded {
        let config = runtime.config();
        let path = self.folder.join(format!("{slot}.wasm"));
        let turn = runtime.turn();
        if is_refused(runtime, &path) {
            self.taken.insert(slot.clone(), print(&path));
            runtime.refuse(slot, &LoadError::Shared);
            return Loaded::Done;
        }
        let (found, bytes) = match read(&path) {
            Ok(Some(read)) => read,
            Ok(None) => return Loaded::Unstable,
            // Gone between the event and now: what serves goes on serving.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Loaded::Done,
            Err(error) => {
                self.taken.insert(slot.clone(), print(&path));
                runtime.refuse(slot, &LoadError::Unreadable(error.kind()));
                return Loaded::Done;
            }
        };
        self.taken.insert(slot.clone(), found);
        // A refusal has been logged and noted; nobody waits for it here.
        let _ = runtime.install_in_turn(&turn, slot, &bytes, (config.clock)());
        Loaded::Done
    }
}

#[derive(PartialEq)]
enum Loaded {
    Done,
    /// It changed while it was read.
    Unstable,
}

/// A regular file's bytes, and what to know it by; none where it changed meanwhile. Of a file over
/// the cap just enough is read to see that.
fn read(path: &Path) -> io::Result<Option<(Print, Vec<u8>)>> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let before = print_of(&file.metadata()?);
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let after = print_of(&file.metadata()?);
    Ok((before == after).then_some((before, bytes)))
}

/// Whether a file is not to be read, because others may write it.
pub(crate) fn is_refused(runtime: &Runtime, path: &Path) -> bool {
    let exposed = || kassette_files::judge(path, Holds::Settings);
    runtime.config().refuse_shared && matches!(exposed(), Err(Exposed::Written))
}

/// Whether a file holds these very bytes.
pub(crate) fn holds(path: &Path, bytes: &[u8]) -> bool {
    matches!(read(path), Ok(Some((_, found))) if found == bytes)
}

fn print(path: &Path) -> Print {
    fs::metadata(path).ok().and_then(|file| print_of(&file))
}

/// The file behind a path, its length, and when its bytes and its permissions last changed.
fn print_of(file: &Metadata) -> Print {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Some([
        i128::from(file.dev()),
        i128::from(file.ino()),
        i128::from(file.len()),
        nanos(file.mtime(), file.mtime_nsec()),
        nanos(file.ctime(), file.ctime_nsec()),
    ])
}

/// The slot whose file this is.
fn slot_of(path: &Path) -> Option<Slot> {
    Slot::parse(path.file_name()?.to_str()?.strip_suffix(".wasm")?)
}

#[cfg(test)]
mod tests;
