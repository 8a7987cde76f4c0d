use std::os::unix::fs::symlink;

use notify::event::{CreateKind, DataChange, Flag, MetadataKind};

use super::*;

/// Maximum time for the system to report an event.
const WATCH_TIMEOUT: Duration = Duration::from_secs(60);

fn ideal() -> Slot {
    crate::support::slot("method.ideal")
}

fn file(folder: &Path) -> PathBuf {
    folder.join("method.ideal.wasm")
}

/// A watch whose events stay in the queue.
fn watching(folder: &Path) -> FolderWatch {
    watch(folder).unwrap()
}

/// A watch on a system without events.
fn looking(folder: &Path) -> FolderWatch {
    FolderWatch {
        watcher: None,
        ..watching(folder)
    }
}

/// Records a file as processed in its current state.
fn load_file(watch: &mut FolderWatch) {
    let (found, _) = read(&file(&watch.folder)).unwrap().unwrap();
    watch.handled.insert(ideal(), found);
}

/// The message for one event of the system.
fn told(kind: EventKind, path: &str) -> Option<FolderEvent> {
    let (sender, events) = sync_channel(8);
    on_event(Ok(Event::new(kind).add_path(path.into())), &sender);
    events.try_iter().next()
}

#[test]
fn a_file_renamed_into_place_is_whole_however_that_is_told() {
    let (sender, events) = sync_channel(8);
    let rename = |mode, paths: &[&str]| {
        let event = Event::new(EventKind::Modify(ModifyKind::Name(mode)));
        let event = paths
            .iter()
            .fold(event, |event, path| event.add_path(path.into()));
        on_event(Ok(event), &sender);
    };
    let (aside, file) = ("/p/.new", "/p/method.ideal.wasm");
    rename(RenameMode::To, &[file]);
    rename(RenameMode::Any, &[file]);
    rename(RenameMode::Both, &[aside, file]);
    let mut seen = events.try_iter();
    let mut due = || loop {
        match seen.next() {
            Some(FolderEvent::Due(_, after)) => return Some(after),
            Some(_) => {}
            None => return None,
        }
    };
    assert_eq!([due(), due(), due()], [Some(DEBOUNCE); 3]);
    rename(RenameMode::From, &[file]);
    assert!(matches!(events.try_recv(), Ok(FolderEvent::Gone(_))));
}

#[test]
fn where_events_were_lost_the_folder_is_looked_at() {
    let (sender, events) = sync_channel(4);
    on_event(Ok(Event::new(EventKind::Other)), &sender);
    assert!(events.try_recv().is_err());
    let full = Event::new(EventKind::Other).set_flag(Flag::Rescan);
    on_event(Ok(full), &sender);
    assert!(matches!(events.try_recv(), Ok(FolderEvent::Rescan)));
    on_event(Err(notify::Error::generic("lost")), &sender);
    assert!(matches!(events.try_recv(), Ok(FolderEvent::Rescan)));
}

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

#[test]
fn a_file_is_due_soon_after_it_was_closed_and_late_while_it_is_written() {
    let due = |kind| match told(kind, "/p/method.ideal.wasm") {
        Some(FolderEvent::Due(_, after)) => Some(after),
        _ => None,
    };
    let closed = EventKind::Access(AccessKind::Close(AccessMode::Write));
    assert_eq!(due(closed), Some(DEBOUNCE));
    let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    assert_eq!(due(written), Some(WRITE_QUIET));
    assert_eq!(due(EventKind::Create(CreateKind::File)), Some(WRITE_QUIET));
    let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
    assert_eq!(due(touched), None);
}

#[test]
fn a_link_beside_the_files_that_was_switched_is_reason_to_look() {
    let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::To));
    assert!(matches!(
        told(renamed, "/p/..data"),
        Some(FolderEvent::Rescan)
    ));
    let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
    assert!(told(written, "/p/notes.txt").is_none());
}

#[test]
fn writing_puts_a_file_off_and_being_replaced_again_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = looking(folder.path());
    let (slot, now) = (ideal(), Instant::now());
    let whole = now + DEBOUNCE / 2;
    watch.schedule(slot.clone(), whole);
    watch.schedule(slot.clone(), whole + DEBOUNCE / 4);
    assert_eq!(
        watch.due[&slot], whole,
        "replaced again: the first time stays"
    );
    // Far in the future, so that even a slow machine does not reach it.
    let writing = now + WATCH_TIMEOUT * 60;
    watch.schedule(slot.clone(), writing);
    assert_eq!(watch.due[&slot], writing, "it is being written");
    watch.schedule(slot.clone(), writing + DEBOUNCE);
    assert_eq!(watch.due[&slot], writing + DEBOUNCE, "and still is");
    watch.schedule(slot.clone(), whole);
    assert_eq!(watch.due[&slot], whole, "it was closed");
}

#[test]
fn without_events_a_file_is_taken_once_two_looks_find_it_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let mut watch = looking(folder.path());
    for part in ["a", "ab", "abc"] {
        fs::write(file(folder.path()), part).unwrap();
        watch.scan();
        assert!(watch.due.is_empty(), "{part}: it may still be written");
    }
    watch.scan();
    assert!(watch.due.contains_key(&ideal()));
}

#[test]
fn behind_a_link_is_the_file_that_counts() {
    let folder = tempfile::tempdir().unwrap();
    let other = tempfile::tempdir().unwrap();
    let aside = folder.path().join("aside");
    for (name, text) in [("one", "first"), ("two", "second")] {
        fs::write(other.path().join(name), text).unwrap();
    }
    symlink(other.path().join("one"), file(folder.path())).unwrap();
    let mut watch = looking(folder.path());
    load_file(&mut watch);
    for _ in 0..3 {
        watch.scan();
        assert!(watch.due.is_empty(), "it was dealt with");
    }
    symlink(other.path().join("two"), &aside).unwrap();
    fs::rename(&aside, file(folder.path())).unwrap();
    watch.scan();
    watch.scan();
    assert!(watch.due.contains_key(&ideal()));
}

#[test]
fn a_folder_in_the_place_of_another_is_watched_as_that_was() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("plugins");
    fs::create_dir(&folder).unwrap();
    let mut watch = watching(&folder);
    // The first folder still exists, so that the second has another inode.
    fs::rename(&folder, parent.path().join("before")).unwrap();
    watch.scan();
    fs::create_dir(&folder).unwrap();
    watch.scan();
    fs::write(file(&folder), "module").unwrap();
    let told = std::iter::from_fn(|| watch.events.recv_timeout(WATCH_TIMEOUT).ok());
    let mut closed = told.filter(|event| matches!(event, FolderEvent::Due(_, DEBOUNCE)));
    assert!(closed.next().is_some(), "no event told of the new file");
}
