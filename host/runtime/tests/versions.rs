//! Versions over time: kept, rolled back, quarantined, and restored after a restart.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::candidate::{Canary, Candidate};
use kassette_domain::id::Digest;
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::time::Time;
use kassette_runtime::{
    Cause, LoadError, OpenedModule, RollbackError, Runtime, SlotState, SlotStatus, Unattended,
};
use support::{Method, NOW, active, context, provider, runtime_with, slot, versions};

const IDEAL: &str = "method.ideal";
const VENDOR: &str = "provider.vendor";

/// An iDEAL module whose only verdict has this reason.
fn saying(reason: &str) -> Vec<u8> {
    Method::saying(&[("a", Ok(reason))]).build()
}

/// A provider whose code depends on a number.
fn vendor(number: u32) -> Vec<u8> {
    let start = format!("(drop (i32.const {number})) unreachable");
    provider(Default::default(), &start)
}

/// Folders that outlive a runtime, and a clock that only the test moves.
struct Place {
    parent: tempfile::TempDir,
    now: Arc<AtomicU64>,
}

impl Place {
    fn new() -> Self {
        let parent = tempfile::tempdir().unwrap();
        fs::create_dir(parent.path().join("plugins")).unwrap();
        Self {
            parent,
            now: Arc::new(AtomicU64::new(NOW.as_millis())),
        }
    }

    fn start(&self) -> Arc<Runtime> {
        let now = Arc::clone(&self.now);
        runtime_with(&self.plugins(), |config| {
            config.versions = Some(versions(&self.parent.path().join("modules")));
            config.clock = Arc::new(move || Time::from_millis(now.load(Ordering::SeqCst)));
        })
    }

    fn plugins(&self) -> PathBuf {
        self.parent.path().join("plugins")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.plugins().join(format!("{name}.wasm"))
    }

    fn pass(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.now.fetch_add(millis, Ordering::SeqCst);
    }
}

fn status(runtime: &Runtime, name: &str) -> SlotStatus {
    let slots = runtime.slots();
    let found = slots.into_iter().find(|status| status.slot == slot(name));
    found.unwrap()
}

fn serving(runtime: &Runtime) -> Option<Digest> {
    let module = runtime.method(MethodId::Ideal);
    let digest = module.map(|module| module.digest());
    assert_eq!(status(runtime, IDEAL).serving, digest);
    digest
}

fn upload(runtime: &Runtime, name: &str, bytes: &[u8]) {
    let prepared = runtime
        .prepare(&slot(name), bytes.to_vec(), Cause::Upload)
        .unwrap();
    assert!(runtime.activate(prepared, NOW).unwrap().changed);
}

fn roll_back(runtime: &Runtime) {
    let prepared = runtime.prepare_rollback(&slot(IDEAL)).unwrap();
    assert!(runtime.activate(prepared, NOW).unwrap().changed);
}

fn causes(runtime: &Runtime) -> Vec<(Cause, Digest)> {
    let events = runtime.history(&slot(IDEAL)).unwrap();
    events
        .iter()
        .map(|event| (event.cause, event.digest))
        .collect()
}

#[test]
fn the_last_good_version_serves_after_a_restart_whatever_became_of_its_file() {
    let place = Place::new();
    let good = saying("good");
    upload(&place.start(), IDEAL, &good);
    fs::write(place.file(IDEAL), "broken").unwrap();
    let runtime = place.start();
    assert_eq!(serving(&runtime), Some(Digest::hash(&good)));
    let broken = status(&runtime, IDEAL);
    assert_eq!(broken.state, SlotState::Serving);
    assert!(broken.last_error.unwrap().contains("not WebAssembly"));
    drop(runtime);
    fs::remove_file(place.file(IDEAL)).unwrap();
    let runtime = place.start();
    assert_eq!(serving(&runtime), Some(Digest::hash(&good)));
    // The slot has no newer events.
    assert_eq!(causes(&runtime), [(Cause::Upload, Digest::hash(&good))]);
}

#[tokio::test]
async fn the_version_that_started_an_attempt_is_found_after_a_restart() {
    let place = Place::new();
    let runtime = place.start();
    for number in 0..3 {
        upload(&runtime, VENDOR, &vendor(number));
    }
    drop(runtime);
    let runtime = place.start();
    let mut changes = runtime.changes();
    for number in 0..3 {
        let digest = Digest::hash(&vendor(number));
        let found = async {
            while runtime.provider_version(&slot(VENDOR), &digest).is_none() {
                changes.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(Duration::from_secs(60), found).await;
        found.unwrap_or_else(|_| panic!("version {number} is not found"));
    }
    let active = runtime.provider("vendor").unwrap().digest();
    assert_eq!(active, Digest::hash(&vendor(2)));
    let before = runtime
        .provider_before("vendor", Environment::Live)
        .unwrap()
        .digest();
    assert_eq!(before, Digest::hash(&vendor(1)));
}

#[tokio::test]
async fn an_upload_and_a_rollback_outlive_a_restart_and_the_folder_s_watch() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    fs::write(place.file(IDEAL), &first).unwrap();
    let runtime = place.start();
    let refused = runtime.prepare_rollback(&slot(IDEAL)).unwrap_err();
    assert_eq!(refused, RollbackError::Nothing);
    upload(&runtime, IDEAL, &second);
    assert_eq!(fs::read(place.file(IDEAL)).unwrap(), second);
    drop(runtime);

    let runtime = place.start();
    assert_eq!(serving(&runtime), Some(Digest::hash(&second)));
    roll_back(&runtime);
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
    assert_eq!(fs::read(place.file(IDEAL)).unwrap(), first);
    let (one, two) = (Digest::hash(&first), Digest::hash(&second));
    assert_eq!(status(&runtime, IDEAL).previous.unwrap().digest, two);
    // When the file of another slot is active, earlier events of the folder have been processed.
    fs::write(place.file(VENDOR), vendor(1)).unwrap();
    active(&runtime, VENDOR, &vendor(1)).await;
    assert_eq!(serving(&runtime), Some(one));
    drop(runtime);

    let runtime = place.start();
    assert_eq!(serving(&runtime), Some(one));
    // A second rollback returns to the newer version.
    roll_back(&runtime);
    assert_eq!(serving(&runtime), Some(two));
    let causes = causes(&runtime);
    let expected = [
        (Cause::Rollback, two),
        (Cause::Rollback, one),
        (Cause::Upload, two),
        (Cause::Folder, one),
    ];
    assert_eq!(causes, expected);
}

#[test]
fn an_upload_that_is_refused_or_cannot_be_written_changes_nothing() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    let runtime = place.start();
    upload(&runtime, IDEAL, &first);
    let refused = runtime.prepare(&slot(IDEAL), b"broken".to_vec(), Cause::Upload);
    let refused = refused.unwrap_err().to_string();
    assert_eq!(status(&runtime, IDEAL).last_error, Some(refused));
    let prepared = runtime
        .prepare(&slot(IDEAL), second, Cause::Upload)
        .unwrap();
    fs::remove_dir_all(place.plugins()).unwrap();
    assert!(runtime.activate(prepared, NOW).is_err());
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
}

#[test]
fn what_was_dropped_into_the_folder_is_told_once() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    fs::write(place.file(IDEAL), &first).unwrap();
    let runtime = place.start();
    let installs = runtime.take_unattended();
    assert_eq!(installs.len(), 1);
    let dropped = |digest, before| Unattended::Installed {
        cause: Cause::Folder,
        digest,
        before,
    };
    assert_eq!(installs[0].what, dropped(Digest::hash(&first), None));
    assert_eq!(runtime.take_unattended(), []);
    upload(&runtime, IDEAL, &second);
    assert_eq!(runtime.take_unattended(), [], "that was no drop");
    drop(runtime);
    assert_eq!(place.start().take_unattended(), [], "nor is a restart one");
    // Replaced while no runtime was running: reported at the start.
    fs::write(place.file(IDEAL), &first).unwrap();
    let installs = place.start().take_unattended();
    let again = dropped(Digest::hash(&first), Some(Digest::hash(&second)));
    assert_eq!(installs[0].what, again);
}

#[test]
fn a_version_that_keeps_failing_is_quarantined_and_returns_after_a_while() {
    let place = Place::new();
    let (good, bad) = (saying("good"), Method::ideal("unreachable").build());
    let runtime = place.start();
    upload(&runtime, IDEAL, &good);
    upload(&runtime, IDEAL, &bad);
    let (good, bad) = (Digest::hash(&good), Digest::hash(&bad));
    let call = || {
        runtime
            .method(MethodId::Ideal)
            .unwrap()
            .rank(&context(&["a"]))
    };
    for _ in 0..10 {
        assert_eq!(serving(&runtime), Some(bad));
        assert!(call().is_err());
    }
    for _ in 0..20 {
        assert!(call().is_ok(), "the last good version serves");
    }
    let quarantined = status(&runtime, IDEAL);
    assert_eq!(quarantined.state, SlotState::Quarantined);
    assert_eq!(quarantined.active.unwrap().digest, bad);
    assert_eq!(quarantined.serving, Some(good));
    assert_eq!(
        quarantined.quarantined_until,
        Some(NOW.after(Duration::from_secs(30)))
    );
    place.pass(Duration::from_secs(30));
    assert_eq!(serving(&runtime), Some(bad));
    assert_eq!(status(&runtime, IDEAL).state, SlotState::Serving);
    // It still fails, and is quarantined after fewer faults.
    for _ in 0..3 {
        assert!(call().is_err());
    }
    assert_eq!(serving(&runtime), Some(good));
    // A new version is not affected by faults of an earlier one.
    let new = saying("new");
    upload(&runtime, IDEAL, &new);
    assert_eq!(serving(&runtime), Some(Digest::hash(&new)));
    assert_eq!(status(&runtime, IDEAL).state, SlotState::Serving);
}

#[test]
fn where_every_version_is_quarantined_nothing_serves() {
    let place = Place::new();
    let runtime = place.start();
    upload(&runtime, IDEAL, &Method::ideal("unreachable").build());
    for _ in 0..10 {
        let module = runtime.method(MethodId::Ideal).unwrap();
        assert!(module.rank(&context(&["a"])).is_err());
    }
    assert!(runtime.method(MethodId::Ideal).is_none());
    assert_eq!(serving(&runtime), None);
    assert_eq!(status(&runtime, IDEAL).state, SlotState::Quarantined);
}

#[test]
fn versions_that_other_nodes_have_kept_stand_behind_the_active_one_in_their_order() {
    let place = Place::new();
    let runtime = place.start();
    // Like a node that joins: first the active version, then the earlier ones.
    upload(&runtime, VENDOR, &vendor(2));
    for number in [1, 0] {
        let kept = runtime.keep(&slot(VENDOR), &vendor(number), NOW);
        kept.unwrap();
    }
    let digest = |number| Digest::hash(&vendor(number));
    assert_eq!(runtime.active(&slot(VENDOR)), Some(digest(2)));
    assert_eq!(runtime.previous(&slot(VENDOR)), Some(digest(1)));
    let found = |runtime: &Runtime, number| {
        runtime
            .provider_version(&slot(VENDOR), &digest(number))
            .is_some()
    };
    assert!((0..3).all(|number| found(&runtime, number)));
    // Keeping it again changes nothing.
    runtime.keep(&slot(VENDOR), &vendor(0), NOW).unwrap();
    assert_eq!(runtime.previous(&slot(VENDOR)), Some(digest(1)));
    assert!(runtime.keep(&slot(VENDOR), b"broken", NOW).is_err());
    drop(runtime);
    let runtime = place.start();
    assert_eq!(runtime.active(&slot(VENDOR)), Some(digest(2)));
    assert_eq!(runtime.previous(&slot(VENDOR)), Some(digest(1)));
}

#[test]
fn a_slot_that_is_taken_away_with_its_file_does_not_come_back() {
    let place = Place::new();
    let runtime = place.start();
    upload(&runtime, IDEAL, &saying("one"));
    assert!(
        runtime.remove_slot(&slot(IDEAL)).is_err(),
        "its file stands"
    );
    runtime.remove_slot_and_file(&slot(IDEAL)).unwrap();
    assert!(!place.file(IDEAL).exists());
    drop(runtime);
    assert!(place.start().slots().is_empty());
}

fn stage(runtime: &Runtime, name: &str, bytes: &[u8], canary: bool) -> Digest {
    let prepared = runtime
        .prepare(&slot(name), bytes.to_vec(), Cause::Upload)
        .unwrap();
    let digest = prepared.digest();
    let canary = canary.then(|| Canary::begin(&[10], 0, [1; 16], NOW).unwrap());
    let candidate = Candidate {
        digest,
        since: NOW,
        canary,
    };
    runtime.stage(prepared, candidate, NOW).unwrap();
    digest
}

fn staged(runtime: &Runtime, name: &str) -> Option<Digest> {
    let staged = runtime.staged(&slot(name));
    staged.map(|staged| staged.candidate.digest)
}

#[tokio::test]
async fn a_trial_outlives_a_restart_and_changes_nothing_of_what_serves() {
    let place = Place::new();
    let runtime = place.start();
    let active = saying("active");
    upload(&runtime, IDEAL, &active);
    let tried = stage(&runtime, IDEAL, &saying("tried"), true);
    assert_eq!(serving(&runtime), Some(Digest::hash(&active)));
    let before = status(&runtime, IDEAL);
    drop(runtime);
    let runtime = place.start();
    let mut changes = runtime.changes();
    while staged(&runtime, IDEAL).is_none() {
        changes.changed().await.unwrap();
    }
    assert_eq!(staged(&runtime, IDEAL), Some(tried));
    assert_eq!(status(&runtime, IDEAL).candidate, before.candidate);
    assert_eq!(serving(&runtime), Some(Digest::hash(&active)));
    runtime.end_trial(&slot(IDEAL), None, NOW).unwrap();
    assert_eq!(staged(&runtime, IDEAL), None);
    drop(runtime);
    assert_eq!(status(&place.start(), IDEAL).candidate, None);
}

#[test]
fn the_candidate_takes_the_active_version_s_place_and_can_be_taken_back() {
    let place = Place::new();
    let runtime = place.start();
    let active = saying("active");
    upload(&runtime, IDEAL, &active);
    let tried = stage(&runtime, IDEAL, &saying("tried"), false);
    let prepared = runtime.prepare_candidate(&slot(IDEAL)).unwrap();
    assert!(runtime.activate(prepared, NOW).unwrap().changed);
    assert_eq!(serving(&runtime), Some(tried));
    assert_eq!(status(&runtime, IDEAL).candidate, None);
    assert_eq!(causes(&runtime)[0], (Cause::Promote, tried));
    assert!(matches!(
        runtime.prepare_candidate(&slot(IDEAL)),
        Err(RollbackError::Nothing)
    ));
    roll_back(&runtime);
    assert_eq!(serving(&runtime), Some(Digest::hash(&active)));
}

#[test]
fn attempts_that_a_candidate_began_find_it_after_its_trial_and_nothing_new_does() {
    let place = Place::new();
    let runtime = place.start();
    upload(&runtime, VENDOR, &vendor(0));
    let tried = stage(&runtime, VENDOR, &vendor(1), true);
    let found = |runtime: &Runtime| {
        let version = runtime.provider_version(&slot(VENDOR), &tried);
        version.map(|version| version.digest())
    };
    assert_eq!(found(&runtime), Some(tried));
    // Activating another version ends the trial.
    upload(&runtime, VENDOR, &vendor(2));
    assert_eq!(staged(&runtime, VENDOR), None);
    assert_eq!(found(&runtime), Some(tried));
    let previous = status(&runtime, VENDOR).previous;
    assert_eq!(previous.map(|it| it.digest), Some(Digest::hash(&vendor(0))));
    let before = runtime
        .provider_before("vendor", Environment::Live)
        .map(|it| it.digest());
    assert_eq!(before, Some(Digest::hash(&vendor(0))));
    drop(runtime);
    let runtime = place.start();
    assert!(runtime.is_kept(&slot(VENDOR), &tried));
}

#[test]
fn what_a_candidate_did_in_the_shadow_is_no_fault_of_its_canary() {
    let place = Place::new();
    let runtime = place.start();
    upload(&runtime, IDEAL, &saying("active"));
    let digest = stage(
        &runtime,
        IDEAL,
        &Method::ideal("unreachable").build(),
        false,
    );
    let faults = || runtime.staged(&slot(IDEAL)).unwrap().faults();
    let fail = || match &runtime.staged(&slot(IDEAL)).unwrap().module {
        OpenedModule::Method(module) => assert!(module.rank(&context(&["a"])).is_err()),
        OpenedModule::Provider(_) => panic!("it is a method"),
    };
    fail();
    assert_eq!(faults(), 1);
    let canary = |steps: &[u8]| Candidate {
        digest,
        since: NOW.after(Duration::from_secs(1)),
        canary: Some(Canary::begin(steps, 0, [1; 16], NOW).unwrap()),
    };
    runtime.restage(&slot(IDEAL), canary(&[10]), NOW).unwrap();
    assert_eq!(faults(), 0);
    fail();
    // Changing the share of the same canary keeps its faults.
    runtime.restage(&slot(IDEAL), canary(&[20]), NOW).unwrap();
    assert_eq!(faults(), 1);
}

#[test]
fn no_file_takes_a_pinned_version_s_place_until_an_operator_acts() {
    let place = Place::new();
    let runtime = place.start();
    let (first, second, third) = (saying("first"), saying("second"), saying("third"));
    upload(&runtime, IDEAL, &first);
    upload(&runtime, IDEAL, &second);
    let pinned = runtime.prepare_kept(&slot(IDEAL), Digest::hash(&first), Cause::Pin);
    runtime.activate(pinned.unwrap(), NOW).unwrap();
    assert!(status(&runtime, IDEAL).pinned);
    let refused = runtime.install(&slot(IDEAL), &third, NOW);
    assert!(matches!(refused, Err(LoadError::Pinned)));
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
    assert!(
        status(&runtime, IDEAL)
            .last_error
            .unwrap()
            .contains("pinned")
    );
    drop(runtime);
    fs::write(place.file(IDEAL), &third).unwrap();
    let runtime = place.start();
    assert_eq!(
        serving(&runtime),
        Some(Digest::hash(&first)),
        "over a restart too"
    );
    upload(&runtime, IDEAL, &third);
    assert!(!status(&runtime, IDEAL).pinned);
    runtime.install(&slot(IDEAL), &second, NOW).unwrap();
    assert_eq!(serving(&runtime), Some(Digest::hash(&second)));
}
