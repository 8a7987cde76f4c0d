//! Slots that take signed modules alone, whatever brings a module: nothing else is compiled.
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

use kassette_domain::id::{Digest, Slot};
use kassette_runtime::{
    Cause, Compiler, CompilerChild, LoadError, Runtime, RuntimeConfig, SecretKey, SignatureError,
    SlotKey, SlotState, SlotStatus, sign,
};
use support::{Method, NOW, active, bundled_with, slot};

const IDEAL: &str = "method.ideal";

/// An iDEAL whose only verdict gives this reason.
fn saying(reason: &str) -> Vec<u8> {
    Method::saying(&[("a", Ok(reason))]).build()
}

fn for_slots(slots: &str, key: &SecretKey) -> SlotKey {
    SlotKey {
        slots: slots.parse().unwrap(),
        public_key: key.public_key(),
    }
}

fn refusal(refused: Result<impl Sized, LoadError>) -> SignatureError {
    match refused.err().unwrap() {
        LoadError::Signature(why) => why,
        other => panic!("{other}"),
    }
}

/// Folders that outlive a runtime, and keys.
struct Place {
    folder: tempfile::TempDir,
    /// Signs for all methods.
    key: SecretKey,
    /// Signs for a provider.
    other: SecretKey,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("plugins")).unwrap();
        Self {
            folder,
            key: SecretKey::draw().unwrap(),
            other: SecretKey::draw().unwrap(),
        }
    }

    fn keys(&self) -> Vec<SlotKey> {
        vec![
            for_slots("method.*", &self.key),
            for_slots("provider.paypal", &self.other),
        ]
    }

    /// Starts a program that brings these along, with keys or without.
    fn start(&self, keys: Vec<SlotKey>, brings: &[&[u8]]) -> Arc<Runtime> {
        self.start_with(brings, |config| config.signing_keys = keys)
    }

    fn start_with(
        &self,
        brings: &[&[u8]],
        change: impl FnOnce(&mut RuntimeConfig),
    ) -> Arc<Runtime> {
        let bundled = brings.iter().map(|bytes| (slot(IDEAL), bytes.to_vec()));
        let bundled: BTreeMap<Slot, Vec<u8>> = bundled.collect();
        bundled_with(&self.folder.path().join("plugins"), bundled, |config| {
            config.versions_dir = Some(self.folder.path().join("modules"));
            change(config);
        })
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("plugins/method.ideal.wasm")
    }
}

fn status(runtime: &Runtime) -> SlotStatus {
    let mut slots = runtime.slots().into_iter();
    slots.find(|status| status.slot == slot(IDEAL)).unwrap()
}

/// The compiler is a program that writes down what it is given and answers nothing.
#[test]
fn what_is_not_signed_for_its_slot_never_reaches_the_compiler() {
    let place = Place::new();
    let given = place.folder.path().join("given");
    let signed = sign(&saying("signed"), &place.key).unwrap();
    let mut changed = signed.clone();
    *changed.last_mut().unwrap() ^= 1;
    let refused = [
        (saying("unsigned"), SignatureError::Unsigned(slot(IDEAL))),
        (
            sign(&saying("stranger"), &SecretKey::draw().unwrap()).unwrap(),
            SignatureError::UnknownKey(slot(IDEAL)),
        ),
        (
            sign(&saying("other"), &place.other).unwrap(),
            SignatureError::OtherSlot {
                slot: slot(IDEAL),
                pattern: "provider.paypal".parse().unwrap(),
            },
        ),
        (
            signed[..signed.len() - 20].to_vec(),
            SignatureError::Altered,
        ),
        (changed, SignatureError::Altered),
    ];
    for (file, why) in refused {
        // At the start, where modules are compiled at once before they are loaded.
        fs::write(place.file(), &file).unwrap();
        let runtime = place.start_with(&[], |config| {
            let script = format!("cat >> {}", given.display());
            config.compiler = Compiler::Child(CompilerChild::new("/bin/sh", ["-c", &script]));
            config.signing_keys = place.keys();
        });
        let found = status(&runtime);
        assert_eq!(found.state, SlotState::Failed, "{why}");
        assert_eq!(found.last_error, Some(why.to_string()));
        // Later: a drop, an upload, what another node proposes or has kept.
        let (ideal, copy) = (slot(IDEAL), file.clone());
        assert_eq!(refusal(runtime.install(&ideal, &file, NOW)), why);
        assert_eq!(refusal(runtime.prepare(&ideal, copy, Cause::Upload)), why);
        assert_eq!(refusal(runtime.keep(&ideal, &file, NOW)), why);
        assert!(fs::read(&given).unwrap_or_default().is_empty(), "{why}");
        // The program that stands for the compiler is asked about what is signed.
        let taken = runtime.prepare(&ideal, signed.clone(), Cause::Upload);
        assert!(!matches!(taken, Err(LoadError::Signature(_))), "{taken:?}");
        assert!(fs::read(&given).unwrap().ends_with(&signed));
        fs::remove_file(&given).unwrap();
    }
}

#[tokio::test]
async fn signed_modules_are_dropped_uploaded_and_gone_back_to() {
    let place = Place::new();
    let [first, second] = ["first", "second"].map(|it| sign(&saying(it), &place.key).unwrap());
    fs::write(place.file(), &first).unwrap();
    let runtime = place.start(place.keys(), &[]);
    // The digest is that of the whole file.
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&first)));
    let upload = runtime.prepare(&slot(IDEAL), second.clone(), Cause::Upload);
    runtime.activate(upload.unwrap(), NOW).unwrap();
    let back = runtime.prepare_rollback(&slot(IDEAL)).unwrap();
    runtime.activate(back, NOW).unwrap();
    assert_eq!(fs::read(place.file()).unwrap(), first);
    fs::write(place.file(), &second).unwrap();
    active(&runtime, IDEAL, &second).await;
    // An unsigned one changes nothing.
    let refused = runtime.prepare(&slot(IDEAL), saying("third"), Cause::Upload);
    assert_eq!(refusal(refused), SignatureError::Unsigned(slot(IDEAL)));
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&second)));
    assert_eq!(status(&runtime).state, SlotState::Serving);
}

#[test]
fn what_served_unsigned_is_not_resumed_once_its_slot_has_a_key() {
    let place = Place::new();
    let before = saying("before");
    fs::write(place.file(), &before).unwrap();
    drop(place.start(Vec::new(), &[]));
    let runtime = place.start(place.keys(), &[]);
    assert_eq!(status(&runtime).state, SlotState::Failed);
    assert_eq!(runtime.active(&slot(IDEAL)), None);
    // Nor is it gone back to.
    let signed = sign(&before, &place.key).unwrap();
    let upload = runtime.prepare(&slot(IDEAL), signed.clone(), Cause::Upload);
    runtime.activate(upload.unwrap(), NOW).unwrap();
    runtime.prepare_rollback(&slot(IDEAL)).unwrap_err();
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&signed)));
    drop(runtime);
    // A key that is taken away takes what it signed with it.
    let runtime = place.start(vec![for_slots("*", &place.other)], &[]);
    let why = SignatureError::UnknownKey(slot(IDEAL));
    assert_eq!(status(&runtime).last_error, Some(why.to_string()));
    assert_eq!(runtime.active(&slot(IDEAL)), None);
}

#[test]
fn what_the_program_brings_along_needs_no_signature_wherever_it_lies() {
    let place = Place::new();
    let (old, new) = (saying("old release"), saying("new release"));
    drop(place.start(place.keys(), &[&old]));
    let runtime = place.start(place.keys(), &[&new]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&new)));
    // That of the release before is kept, and can be gone back to, which writes it into the folder.
    let back = runtime.prepare_rollback(&slot(IDEAL)).unwrap();
    runtime.activate(back, NOW).unwrap();
    drop(runtime);
    let runtime = place.start(place.keys(), &[&new]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&old)));
    // Another file in its place is no release's.
    fs::write(place.file(), saying("no release")).unwrap();
    drop(runtime);
    let runtime = place.start(place.keys(), &[&new]);
    let why = SignatureError::Unsigned(slot(IDEAL));
    assert_eq!(status(&runtime).last_error, Some(why.to_string()));
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&old)));
}

#[test]
fn slots_that_no_key_is_for_take_any_module() {
    let place = Place::new();
    let unsigned = saying("unsigned");
    fs::write(place.file(), &unsigned).unwrap();
    let keys = vec![for_slots("provider.*", &place.other)];
    let runtime = place.start(keys, &[]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::of(&unsigned)));
}
