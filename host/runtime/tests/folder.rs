//! Modules added to the folder while the runtime serves.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::id::Digest;
use kassette_domain::method::MethodId;
use kassette_runtime::{Cause, Runtime, SlotState};
use parking_lot::Mutex;
use support::{Method, NOW, active, context, provider, runtime, runtime_with, slot};

const IDEAL: &str = "method.ideal";

/// An iDEAL module whose only verdict has this reason.
fn saying(reason: &str) -> Vec<u8> {
    Method::saying(&[("a", Ok(reason))]).build()
}

fn file(folder: &Path) -> std::path::PathBuf {
    folder.join("method.ideal.wasm")
}

fn reason(runtime: &Runtime) -> String {
    let module = runtime.method(MethodId::Ideal).unwrap();
    let verdicts = module.rank(&context(&["a"])).unwrap().unwrap();
    verdicts[0].outcome.clone().unwrap()
}

fn last_error(runtime: &Runtime) -> Option<String> {
    runtime
        .slots()
        .into_iter()
        .find(|status| status.slot == slot(IDEAL))
        .unwrap()
        .last_error
}

/// Waits until `done` is true, checking it after each processed file.
async fn dealt_with(runtime: &Runtime, done: impl Fn(&Runtime) -> bool) {
    let mut changes = runtime.changes();
    let waiting = async {
        while !done(runtime) {
            changes.changed().await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .expect("was dealt with");
}

#[test]
fn what_lies_in_the_folder_serves_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(file(folder.path()), saying("first")).unwrap();
    fs::write(
        folder.path().join("provider.vendor.wasm"),
        provider(Default::default(), "unreachable"),
    )
    .unwrap();
    fs::write(folder.path().join("notes.txt"), "not a module").unwrap();
    fs::write(folder.path().join("stray.wasm"), "not a slot").unwrap();
    let runtime = runtime(folder.path());
    assert_eq!(reason(&runtime), "first");
    assert_eq!(
        runtime.provider("vendor").unwrap().description().label,
        "Vendor"
    );
    let slots = runtime.slots();
    assert_eq!(slots.len(), 2);
    let active = slots[0].active.as_ref().unwrap();
    assert_eq!(
        (active.name.as_str(), active.version.as_str()),
        ("iDEAL", "1.0.0")
    );
    assert_eq!(
        (active.wit.as_str(), active.class.as_str()),
        ("0.2.0", "native")
    );
    assert_eq!(
        (active.digest, active.since),
        (Digest::hash(&saying("first")), NOW)
    );
    assert_eq!(
        (slots[0].state, &slots[0].previous),
        (SlotState::Serving, &None)
    );
}

#[tokio::test]
async fn a_replaced_file_is_picked_up_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (saying("first"), saying("second"));
    fs::write(file(folder.path()), &first).unwrap();
    let runtime = runtime(folder.path());
    let held = runtime.method(MethodId::Ideal).unwrap();

    fs::write(file(folder.path()), &second).unwrap();
    active(&runtime, IDEAL, &second).await;
    assert_eq!(reason(&runtime), "second");
    assert_eq!(
        runtime.slots()[0].previous.unwrap().digest,
        Digest::hash(&first)
    );
    // A caller that holds the earlier version can still use it.
    assert_eq!(held.digest(), Digest::hash(&first));
    assert!(held.rank(&context(&["a"])).is_ok());

    fs::write(file(folder.path()), "broken").unwrap();
    dealt_with(&runtime, |runtime| last_error(runtime).is_some()).await;
    assert!(last_error(&runtime).unwrap().contains("not WebAssembly"));
    assert_eq!(reason(&runtime), "second");

    // Restoring the active file only clears the error.
    fs::write(file(folder.path()), &second).unwrap();
    dealt_with(&runtime, |runtime| last_error(runtime).is_none()).await;
    assert_eq!(reason(&runtime), "second");
}

#[tokio::test]
async fn a_file_renamed_into_place_is_picked_up() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let module = saying("renamed");
    let aside = folder.path().join("method.ideal.wasm.part");
    fs::write(&aside, &module).unwrap();
    fs::rename(&aside, file(folder.path())).unwrap();
    active(&runtime, IDEAL, &module).await;
}

#[tokio::test]
async fn a_file_that_is_still_being_written_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (saying("first"), saying("second"));
    fs::write(file(folder.path()), &first).unwrap();
    let runtime = runtime(folder.path());
    let (begin, rest) = second.split_at(second.len() / 2);
    let mut writing = File::create(file(folder.path())).unwrap();
    writing.write_all(begin).unwrap();
    writing.sync_all().unwrap();
    // The later module is active, so all earlier events have been processed.
    let other = Method {
        id: "venmo",
        ..Method::saying(&[])
    }
    .build();
    fs::write(folder.path().join("method.venmo.wasm"), &other).unwrap();
    active(&runtime, "method.venmo", &other).await;
    assert_eq!(reason(&runtime), "first");
    writing.write_all(rest).unwrap();
    drop(writing);
    active(&runtime, IDEAL, &second).await;
    assert_eq!(last_error(&runtime), None);
}

#[tokio::test]
async fn a_deleted_file_keeps_its_last_version_serving() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(file(folder.path()), saying("kept")).unwrap();
    let runtime = runtime(folder.path());
    fs::remove_file(file(folder.path())).unwrap();
    let other = Method {
        id: "venmo",
        ..Method::saying(&[])
    }
    .build();
    fs::write(folder.path().join("method.venmo.wasm"), &other).unwrap();
    active(&runtime, "method.venmo", &other).await;
    assert_eq!(reason(&runtime), "kept");
}

#[tokio::test]
async fn a_refused_file_is_forgotten_once_it_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(file(folder.path()), saying("kept")).unwrap();
    let runtime = runtime(folder.path());
    let other = folder.path().join("method.venmo.wasm");
    for path in [&file(folder.path()), &other] {
        fs::write(path, b"no module").unwrap();
    }
    let refused = |runtime: &Runtime| {
        let slots = runtime.slots().into_iter();
        slots.filter(|status| status.last_error.is_some()).count()
    };
    dealt_with(&runtime, |runtime| refused(runtime) == 2).await;
    for path in [&file(folder.path()), &other] {
        fs::remove_file(path).unwrap();
    }
    dealt_with(&runtime, |runtime| refused(runtime) == 0).await;
    let slots: Vec<_> = runtime
        .slots()
        .into_iter()
        .map(|status| status.slot)
        .collect();
    assert_eq!(slots, [slot(IDEAL)]);
    assert_eq!(reason(&runtime), "kept");
}

#[tokio::test]
async fn many_files_at_once_are_all_picked_up() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let names = ["ideal", "paypal", "venmo", "klarna", "interac"];
    let modules = names.map(|id| {
        (
            id,
            Method {
                id,
                ..Method::saying(&[])
            }
            .build(),
        )
    });
    for (id, module) in &modules {
        fs::write(folder.path().join(format!("method.{id}.wasm")), module).unwrap();
    }
    for (id, module) in &modules {
        active(&runtime, &format!("method.{id}"), module).await;
    }
}

#[tokio::test]
async fn a_file_deleted_and_made_again_is_picked_up() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(file(folder.path()), saying("first")).unwrap();
    let runtime = runtime(folder.path());
    for text in ["second", "third"] {
        let module = saying(text);
        fs::remove_file(file(folder.path())).unwrap();
        fs::write(file(folder.path()), &module).unwrap();
        active(&runtime, IDEAL, &module).await;
    }
}

#[tokio::test]
async fn a_folder_removed_and_made_again_is_watched_again() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("plugins");
    fs::create_dir(&folder).unwrap();
    fs::write(file(&folder), saying("first")).unwrap();
    let runtime = runtime(&folder);
    for text in ["second", "third"] {
        let module = saying(text);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(runtime.slots()[0].state, SlotState::Serving);
        fs::create_dir(&folder).unwrap();
        fs::write(file(&folder), &module).unwrap();
        active(&runtime, IDEAL, &module).await;
    }
    let module = saying("written into the new folder");
    fs::write(file(&folder), &module).unwrap();
    active(&runtime, IDEAL, &module).await;
}

#[tokio::test]
async fn links_that_are_switched_are_followed() {
    let parent = tempfile::tempdir().unwrap();
    let release = |name: &str, text: &str| {
        let folder = parent.path().join(name);
        fs::create_dir(&folder).unwrap();
        let module = saying(text);
        fs::write(file(&folder), &module).unwrap();
        (folder, module)
    };
    let switch = |link: &Path, to: &Path| {
        let aside = parent.path().join("aside");
        std::os::unix::fs::symlink(to, &aside).unwrap();
        fs::rename(aside, link).unwrap();
    };
    // The folder is a link, as left by tools that deploy whole releases.
    let (one, _) = release("one", "first");
    let current = parent.path().join("current");
    switch(&current, &one);
    let linked = runtime(&current);
    assert_eq!(reason(&linked), "first");
    let (two, second) = release("two", "second");
    switch(&current, &two);
    active(&linked, IDEAL, &second).await;

    // The files are links through a link next to them, as orchestrators mount them.
    let mounted = parent.path().join("mounted");
    fs::create_dir(&mounted).unwrap();
    switch(&mounted.join("..data"), &one);
    std::os::unix::fs::symlink("..data/method.ideal.wasm", file(&mounted)).unwrap();
    let runtime = runtime(&mounted);
    assert_eq!(reason(&runtime), "first");
    switch(&mounted.join("..data"), &two);
    active(&runtime, IDEAL, &second).await;
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_picked_up_once_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    // Permissions do not stop reads by root, but a folder in place of the file does.
    fs::create_dir(file(folder.path())).unwrap();
    dealt_with(&runtime, |runtime| !runtime.slots().is_empty()).await;
    assert!(last_error(&runtime).unwrap().contains("cannot be read"));
    fs::remove_dir(file(folder.path())).unwrap();
    let module = saying("readable");
    fs::write(file(folder.path()), &module).unwrap();
    active(&runtime, IDEAL, &module).await;
    assert_eq!(last_error(&runtime), None);
}

/// Causes more events than the system queues while the loader processes none: those of the last file are lost.
#[tokio::test]
async fn a_file_whose_events_were_lost_is_found_by_looking() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Arc::new(Mutex::new(()));
    let (tell, asked) = std::sync::mpsc::channel();
    let runtime = {
        let gate = Arc::clone(&gate);
        runtime_with(folder.path(), move |config| {
            // The loading thread reads the time before it activates a module, and can be blocked there.
            config.clock = Arc::new(move || {
                let _ = tell.send(());
                drop(gate.lock());
                NOW
            });
        })
    };
    let held = gate.lock();
    fs::write(folder.path().join("method.venmo.wasm"), "the first").unwrap();
    asked.recv_timeout(Duration::from_secs(60)).unwrap();
    let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let queue: usize = queue.trim().parse().unwrap();
    // Our own queue holds some thousands of events in addition to the system's queue.
    let many = folder.path().join("method.klarna.wasm");
    for _ in 0..queue + 8192 {
        drop(File::create(&many).unwrap());
    }
    let module = saying("found");
    fs::write(file(folder.path()), &module).unwrap();
    drop(held);
    active(&runtime, IDEAL, &module).await;
}

/// Error messages logged by the runtime.
#[derive(Default)]
struct Complaints(Mutex<Vec<String>>);

impl tracing::Subscriber for &'static Complaints {
    fn enabled(&self, about: &tracing::Metadata<'_>) -> bool {
        *about.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut line = String::new();
        event.record(
            &mut |field: &tracing::field::Field, value: &dyn std::fmt::Debug| {
                if field.name() == "message" {
                    line = format!("{value:?}");
                }
            },
        );
        self.0.lock().push(line);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

/// Runs one test of this program again in a process to which file permissions apply, using `setpriv` to drop
/// root's override. Returns false, and runs nothing, if they already apply.
fn rerun_where_permissions_hold(test: &str) -> bool {
    const AGAIN: &str = "KASSETTE_TEST_UNPRIVILEGED";
    let closed = tempfile::NamedTempFile::new().unwrap();
    fs::set_permissions(closed.path(), Permissions::from_mode(0o000)).unwrap();
    if File::open(closed.path()).is_err() {
        return false;
    }
    assert!(std::env::var_os(AGAIN).is_none(), "setpriv has no effect");
    let privileges = "-dac_override,-dac_read_search";
    let ended = Command::new("setpriv")
        .arg(format!("--bounding-set={privileges}"))
        .arg(format!("--inh-caps={privileges}"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(AGAIN, "yes")
        .status();
    match ended {
        Ok(status) => assert!(status.success()),
        Err(error) => println!("NOT RUN: this machine has no setpriv ({error})"),
    }
    true
}

#[tokio::test]
async fn a_module_that_others_may_write_is_refused_until_they_may_not() {
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path());
    fs::write(&path, saying("first")).unwrap();
    let runtime = runtime_with(folder.path(), |config| config.refuse_shared = true);
    assert_eq!(reason(&runtime), "first");
    let second = saying("second");
    let aside = folder.path().join("aside");
    fs::write(&aside, &second).unwrap();
    mode(&aside, 0o646);
    fs::rename(&aside, &path).unwrap();
    dealt_with(&runtime, |runtime| last_error(runtime).is_some()).await;
    assert!(last_error(&runtime).unwrap().contains("chmod go-w"));
    assert_eq!(reason(&runtime), "first");
    // An upload of the same bytes also corrects the permissions.
    let prepared = runtime
        .prepare(&slot(IDEAL), second.clone(), Cause::Upload)
        .unwrap();
    runtime.activate(prepared, NOW).unwrap();
    assert_eq!(
        fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o644
    );
    mode(&path, 0o666);
    dealt_with(&runtime, |runtime| last_error(runtime).is_some()).await;
    assert_eq!(reason(&runtime), "second");
    mode(&path, 0o644);
    dealt_with(&runtime, |runtime| last_error(runtime).is_none()).await;
}

#[tokio::test]
async fn permissions_may_be_lost_and_regained() {
    if rerun_where_permissions_hold("permissions_may_be_lost_and_regained") {
        return;
    }
    let complaints: &'static Complaints = Box::leak(Box::default());
    tracing::subscriber::set_global_default(complaints).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("plugins");
    fs::create_dir(&folder).unwrap();
    fs::write(file(&folder), saying("first")).unwrap();
    let runtime = runtime(&folder);

    let second = saying("second");
    let aside = folder.join("aside");
    fs::write(&aside, &second).unwrap();
    mode(&aside, 0);
    fs::rename(&aside, file(&folder)).unwrap();
    dealt_with(&runtime, |runtime| last_error(runtime).is_some()).await;
    assert!(last_error(&runtime).unwrap().contains("cannot be read"));
    assert_eq!(reason(&runtime), "first");
    mode(&file(&folder), 0o644);
    active(&runtime, IDEAL, &second).await;
    assert_eq!(last_error(&runtime), None);

    // The loader has no access to the new folder that replaces the old one.
    let third = saying("third");
    let next = parent.path().join("next");
    fs::create_dir(&next).unwrap();
    fs::write(file(&next), &third).unwrap();
    mode(&next, 0);
    fs::rename(&folder, parent.path().join("before")).unwrap();
    fs::rename(&next, &folder).unwrap();
    let told = || {
        let lines = complaints.0.lock();
        let closed = |line: &String| line.contains("the plugin folder cannot be read: Permission");
        lines.iter().any(closed)
    };
    let began = Instant::now();
    while !told() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the log does not complain"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(reason(&runtime), "second");
    mode(&folder, 0o755);
    active(&runtime, IDEAL, &third).await;
}

#[test]
fn versions_that_were_active_are_kept_and_the_oldest_is_let_go() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let slot = slot("provider.vendor");
    let versions: Vec<Vec<u8>> = (0..10)
        .map(|marker| {
            provider(
                Default::default(),
                &format!("(drop (i32.const {marker})) unreachable"),
            )
        })
        .collect();
    for version in &versions {
        assert!(runtime.install(&slot, version, NOW).unwrap().changed);
    }
    let kept = |version: &[u8]| {
        runtime
            .provider_version(&slot, &Digest::hash(version))
            .is_some()
    };
    assert!(versions[2..].iter().all(|version| kept(version)));
    assert!(versions[..2].iter().all(|version| !kept(version)));
    assert_eq!(
        runtime.provider("vendor").unwrap().digest(),
        Digest::hash(&versions[9])
    );
    let newest = Digest::hash(&versions[9]);
    let begin = &newest.to_string()[..12];
    assert_eq!(runtime.kept_version(&slot, begin), Some(newest));
    assert_eq!(runtime.kept_version(&slot, ""), None, "more than one");
    let gone = Digest::hash(&versions[0]).to_string();
    assert_eq!(runtime.kept_version(&slot, &gone), None);
    // A rollback does not compile anything.
    let started = Instant::now();
    assert!(runtime.install(&slot, &versions[5], NOW).unwrap().changed);
    assert!(started.elapsed() < Duration::from_millis(20));
    assert!(!runtime.install(&slot, &versions[5], NOW).unwrap().changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_under_way_never_notice_a_swap() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let versions = [saying("first"), saying("second")];
    runtime.install(&slot(IDEAL), &versions[0], NOW).unwrap();
    let calling: Vec<_> = (0..2)
        .map(|_| {
            let runtime = Arc::clone(&runtime);
            tokio::task::spawn_blocking(move || {
                for _ in 0..2_000 {
                    assert!(["first", "second"].contains(&reason(&runtime).as_str()));
                }
            })
        })
        .collect();
    for round in 0..20 {
        runtime
            .install(&slot(IDEAL), &versions[round % 2], NOW)
            .unwrap();
        tokio::task::yield_now().await;
    }
    for calls in calling {
        calls.await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_is_handed_over_serves_once_it_is_activated() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(file(folder.path()), saying("first")).unwrap();
    let runtime = runtime(folder.path());
    let mut installs = runtime.hand_over_folder_installs();
    let second = saying("second");
    fs::write(file(folder.path()), &second).unwrap();
    let prepared = tokio::time::timeout(Duration::from_secs(30), installs.recv()).await;
    let prepared = prepared.unwrap().unwrap();
    assert_eq!(reason(&runtime), "first");
    assert_eq!(prepared.cause(), Cause::Folder);
    assert_eq!(
        (prepared.slot(), prepared.bytes()),
        (&slot(IDEAL), &second[..])
    );
    runtime.activate(prepared, NOW).unwrap();
    assert_eq!(reason(&runtime), "second");
    // A refused file is not handed over.
    fs::write(file(folder.path()), "broken").unwrap();
    dealt_with(&runtime, |runtime| last_error(runtime).is_some()).await;
    assert!(installs.try_recv().is_err());
}
