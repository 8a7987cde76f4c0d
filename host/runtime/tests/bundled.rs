//! Modules contained in the program, together with files, uploads and kept versions.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use kassette_domain::id::Digest;
use kassette_domain::method::MethodId;
use kassette_http::{Client, Guard};
use kassette_runtime::{
    Acceptance, Cause, RollbackError, Runtime, SlotState, Unattended, UnattendedInstall,
};
use support::{Method, NOW, active, bundled_with, slot, versions};

const IDEAL: &str = "method.ideal";

/// An iDEAL module whose only verdict has this reason.
fn saying(reason: &str) -> Vec<u8> {
    Method::saying(&[("a", Ok(reason))]).build()
}

/// Folders that outlive a runtime.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::create_dir(place.0.path().join("plugins")).unwrap();
        place
    }

    /// Starts a program that contains this iDEAL module.
    fn start(&self, brings: &[u8]) -> Arc<Runtime> {
        let bundled = BTreeMap::from([(slot(IDEAL), brings.to_vec())]);
        bundled_with(&self.0.path().join("plugins"), bundled, |config| {
            config.versions = Some(versions(&self.0.path().join("modules")));
        })
    }

    /// Starts a program that contains no module.
    fn start_bare(&self) -> Arc<Runtime> {
        bundled_with(&self.0.path().join("plugins"), BTreeMap::new(), |config| {
            config.versions = Some(versions(&self.0.path().join("modules")));
        })
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("plugins/method.ideal.wasm")
    }
}

fn serving(runtime: &Runtime) -> Option<Digest> {
    runtime
        .method(MethodId::Ideal)
        .map(|module| module.digest())
}

fn upload(runtime: &Runtime, bytes: &[u8]) {
    let prepared = runtime
        .prepare(&slot(IDEAL), bytes.to_vec(), Cause::Upload)
        .unwrap();
    runtime.activate(prepared, NOW).unwrap();
}

fn causes(runtime: &Runtime) -> Vec<Cause> {
    let events = runtime.history(&slot(IDEAL)).unwrap();
    events.iter().map(|event| event.cause).collect()
}

#[test]
fn an_empty_folder_serves_what_the_program_brings_and_a_newer_program_its_newer_module() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    let runtime = place.start(&first);
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
    assert_eq!(causes(&runtime), [Cause::Bundled]);
    assert!(!place.file().exists(), "the folder is the operator's");
    let told = runtime.take_unattended();
    assert_eq!(told.len(), 1);
    let first_install = Unattended::Installed {
        cause: Cause::Bundled,
        digest: Digest::hash(&first),
        before: None,
    };
    assert_eq!(told[0].what, first_install);
    drop(runtime);
    let runtime = place.start(&first);
    assert_eq!(causes(&runtime), [Cause::Bundled], "the same serves on");
    assert_eq!(runtime.take_unattended(), []);
    drop(runtime);
    let runtime = place.start(&second);
    assert_eq!(serving(&runtime), Some(Digest::hash(&second)));
    assert_eq!(causes(&runtime), [Cause::Bundled, Cause::Bundled]);
    drop(runtime);
    // A program without modules serves the last active version.
    let runtime = place.start_bare();
    assert_eq!(serving(&runtime), Some(Digest::hash(&second)));
    drop(runtime);
    let runtime = place.start(&first);
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)), "a downgrade");
}

#[tokio::test]
async fn a_file_goes_before_what_the_program_brings_and_its_version_stays_when_it_is_deleted() {
    let place = Place::new();
    let (own, first, second) = (saying("own"), saying("first"), saying("second"));
    fs::write(place.file(), &own).unwrap();
    let runtime = place.start(&first);
    assert_eq!(serving(&runtime), Some(Digest::hash(&own)));
    assert_eq!(causes(&runtime), [Cause::Folder]);
    drop(runtime);
    fs::remove_file(place.file()).unwrap();
    for brings in [&first, &second] {
        assert_eq!(serving(&place.start(brings)), Some(Digest::hash(&own)));
    }
    // The same if the file was added while the program's module served.
    let place = Place::new();
    let runtime = place.start(&first);
    fs::write(place.file(), &own).unwrap();
    active(&runtime, IDEAL, &own).await;
    // The event follows after the version has been saved.
    let is_kept = |dropped: &UnattendedInstall| {
        let cause = Cause::Folder;
        matches!(dropped.what, Unattended::Installed { cause: found, .. } if found == cause)
    };
    while !runtime.take_unattended().iter().any(is_kept) {
        tokio::task::yield_now().await;
    }
    drop(runtime);
    fs::remove_file(place.file()).unwrap();
    let runtime = place.start(&second);
    assert_eq!(serving(&runtime), Some(Digest::hash(&own)));
    assert_eq!(causes(&runtime), [Cause::Folder, Cause::Bundled]);
}

#[test]
fn an_upload_stays_whatever_the_next_program_brings_even_of_the_same_bytes() {
    let (own, first, second) = (saying("own"), saying("first"), saying("second"));
    for uploaded in [&own, &first] {
        let place = Place::new();
        let runtime = place.start(&first);
        upload(&runtime, uploaded);
        drop(runtime);
        let digest = Some(Digest::hash(uploaded));
        assert_eq!(serving(&place.start(&second)), digest);
        fs::remove_file(place.file()).unwrap();
        assert_eq!(serving(&place.start(&second)), digest);
    }
}

#[test]
fn an_operator_goes_back_to_the_module_of_the_program_before_and_stays_there() {
    let place = Place::new();
    let [first, second, third] = ["first", "second", "third"].map(saying);
    drop(place.start(&first));
    let runtime = place.start(&second);
    let prepared = runtime.prepare_rollback(&slot(IDEAL)).unwrap();
    assert!(runtime.activate(prepared, NOW).unwrap().changed);
    drop(runtime);
    for brings in [&second, &third] {
        let runtime = place.start(brings);
        assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
        let expected = [Cause::Rollback, Cause::Bundled, Cause::Bundled];
        assert_eq!(causes(&runtime), expected);
    }
    let fresh = Place::new().start(&first);
    let nothing = fresh.prepare_rollback(&slot(IDEAL)).unwrap_err();
    assert_eq!(nothing, RollbackError::Nothing);
}

#[test]
fn a_file_that_is_refused_keeps_an_empty_slot_empty_and_changes_nothing_where_one_served() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    fs::write(place.file(), "broken").unwrap();
    let runtime = place.start(&first);
    assert_eq!(serving(&runtime), None);
    drop(runtime);
    fs::remove_file(place.file()).unwrap();
    drop(place.start(&first));
    fs::write(place.file(), "broken").unwrap();
    let runtime = place.start(&second);
    assert_eq!(serving(&runtime), Some(Digest::hash(&second)));
    let [status] = &runtime.slots()[..] else {
        panic!("one slot");
    };
    assert_eq!(status.state, SlotState::Serving);
    let told = status.last_error.as_deref().unwrap();
    assert!(told.contains("not WebAssembly"), "{told}");
}

#[test]
fn what_the_program_brings_is_judged_once_and_where_it_is_refused_the_version_before_serves() {
    let place = Place::new();
    let (first, second) = (saying("first"), saying("second"));
    drop(place.start(&first));
    let config = || {
        let mut config =
            kassette_runtime::RuntimeConfig::new(place.0.path().join("plugins"), Arc::new(|| NOW));
        config.versions = Some(versions(&place.0.path().join("modules")));
        config
    };
    let refuse: Acceptance = Arc::new(|_| Err("it is a test".into()));
    let start = |brings: &[u8]| {
        let bundled = BTreeMap::from([(slot(IDEAL), brings.to_vec())]);
        let client = Client::new(Guard::default());
        Runtime::start_with(config(), client, Some(Arc::clone(&refuse)), bundled).unwrap()
    };
    // It was accepted before.
    assert_eq!(serving(&start(&first)), Some(Digest::hash(&first)));
    let runtime = start(&second);
    assert_eq!(serving(&runtime), Some(Digest::hash(&first)));
    let told = runtime.slots()[0].last_error.clone().unwrap();
    assert!(told.contains("it is a test"), "{told}");
    drop(runtime);
    // A refusal does not affect the next program with a better module.
    assert_eq!(serving(&place.start(&second)), Some(Digest::hash(&second)));
}
