//! Slots that accept only signed modules from any source: unsigned modules are not compiled.
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
    SlotKey, SlotState, SlotStatus, Unattended, sign,
};
use support::{Method, NOW, active, bundled_with, slot, versions};

const IDEAL: &str = "method.ideal";

/// An iDEAL module whose only verdict has this reason.
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
    /// Key for all methods.
    key: SecretKey,
    /// Key for one provider.
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

    /// Starts a program that contains these modules.
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
            config.versions = Some(versions(&self.folder.path().join("modules")));
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

/// The compiler is a program that records its input and gives no answer.
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
        // At the start, modules are compiled in parallel before they are loaded.
        fs::write(place.file(), &file).unwrap();
        let runtime = place.start_with(&[], |config| {
            let script = format!("cat >> {}", given.display());
            config.compiler = Compiler::Child(CompilerChild::new("/bin/sh", ["-c", &script]));
            config.signing_keys = place.keys();
        });
        let found = status(&runtime);
        assert_eq!(found.state, SlotState::Failed, "{why}");
        assert_eq!(found.last_error, Some(why.to_string()));
        // Later, modules come from files, uploads and other nodes.
        let (ideal, copy) = (slot(IDEAL), file.clone());
        assert_eq!(refusal(runtime.install(&ideal, &file, NOW)), why);
        assert_eq!(refusal(runtime.prepare(&ideal, copy, Cause::Upload)), why);
        assert_eq!(refusal(runtime.keep(&ideal, &file, NOW)), why);
        assert!(fs::read(&given).unwrap_or_default().is_empty(), "{why}");
        // A signed module reaches the compiler.
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
    // The digest covers the whole file.
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&first)));
    let upload = runtime.prepare(&slot(IDEAL), second.clone(), Cause::Upload);
    runtime.activate(upload.unwrap(), NOW).unwrap();
    let back = runtime.prepare_rollback(&slot(IDEAL)).unwrap();
    runtime.activate(back, NOW).unwrap();
    assert_eq!(fs::read(place.file()).unwrap(), first);
    fs::write(place.file(), &second).unwrap();
    active(&runtime, IDEAL, &second).await;
    // An unsigned module changes nothing.
    let refused = runtime.prepare(&slot(IDEAL), saying("third"), Cause::Upload);
    assert_eq!(refusal(refused), SignatureError::Unsigned(slot(IDEAL)));
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&second)));
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
    // A rollback to it is refused too.
    let signed = sign(&before, &place.key).unwrap();
    let upload = runtime.prepare(&slot(IDEAL), signed.clone(), Cause::Upload);
    runtime.activate(upload.unwrap(), NOW).unwrap();
    runtime.prepare_rollback(&slot(IDEAL)).unwrap_err();
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&signed)));
    drop(runtime);
    // Removing a key also disables the modules that it signed.
    let runtime = place.start(vec![for_slots("*", &place.other)], &[]);
    let why = SignatureError::UnknownKey(slot(IDEAL));
    assert_eq!(status(&runtime).last_error, Some(why.to_string()));
    assert_eq!(runtime.active(&slot(IDEAL)), None);
}

#[test]
fn only_what_this_very_program_brings_along_needs_no_signature() {
    let place = Place::new();
    let (old, new) = (saying("old release"), saying("new release"));
    drop(place.start(place.keys(), &[&old]));
    let runtime = place.start(place.keys(), &[&new]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&new)));
    // The module of the earlier release is kept, but this program does not vouch for it.
    let back = runtime.prepare_rollback(&slot(IDEAL)).unwrap_err();
    let unsigned = SignatureError::Unsigned(slot(IDEAL));
    assert!(back.to_string().contains(&unsigned.to_string()), "{back}");
    drop(runtime);
    // Its own module also serves from the plugin folder, unlike another file there.
    fs::write(place.file(), &new).unwrap();
    drop(place.start(place.keys(), &[&new]));
    for file in [old, saying("no release")] {
        fs::write(place.file(), file).unwrap();
        let runtime = place.start(place.keys(), &[&new]);
        assert_eq!(status(&runtime).last_error, Some(unsigned.to_string()));
        assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&new)));
    }
}

/// Plants a module and a history that claims it came with the program.
fn plant(place: &Place, bytes: &[u8]) {
    let folder = place.folder.path().join("modules/method.ideal");
    fs::create_dir_all(&folder).unwrap();
    let digest = Digest::hash(bytes);
    fs::write(folder.join(format!("{digest}.wasm")), bytes).unwrap();
    let event = format!(
        r#"{{"number":1,"at":1,"digest":"{digest}","name":"iDEAL","version":"1","cause":"bundled"}}"#
    );
    let history = format!(
        r#"{{"versions":[{{"digest":"{digest}","since":1}}],"events":[{event}],"bundled":true}}"#
    );
    fs::write(folder.join("history.json"), history).unwrap();
}

#[test]
fn a_planted_history_serves_nothing_and_is_told_of_once() {
    let place = Place::new();
    let (evil, own) = (saying("evil"), saying("own"));
    plant(&place, &evil);
    let runtime = place.start(place.keys(), &[&own]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&own)));
    assert!(status(&runtime).set_aside && runtime.set_aside() == [slot(IDEAL)]);
    assert!(
        status(&runtime)
            .last_error
            .unwrap()
            .contains("not authentic")
    );
    let serving = Some(Digest::hash(&own));
    let told = runtime.take_unattended();
    let told: Vec<_> = told.iter().map(|install| install.what).collect();
    assert!(told.contains(&Unattended::SetAside { serving }), "{told:?}");
    drop(runtime);
    // This persists over restarts, until an operator decides which version serves.
    let runtime = place.start(place.keys(), &[&own]);
    assert!(status(&runtime).set_aside);
    assert_eq!(runtime.take_unattended(), []);
    let signed = sign(&saying("signed"), &place.key).unwrap();
    let upload = runtime.prepare(&slot(IDEAL), signed.clone(), Cause::Upload);
    runtime.activate(upload.unwrap(), NOW).unwrap();
    drop(runtime);
    let runtime = place.start(place.keys(), &[&own]);
    assert!(!status(&runtime).set_aside);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&signed)));
}

#[test]
fn where_a_history_is_not_authentic_the_audited_version_then_the_file_then_the_program_s_own_serves()
 {
    let place = Place::new();
    let own = saying("own");
    let [audited, dropped] =
        ["audited", "dropped"].map(|it| sign(&saying(it), &place.key).unwrap());
    let serving = |audited: Option<&[u8]>| {
        plant(&place, &saying("evil"));
        let folder = place.folder.path().join("modules");
        let runtime = place.start_with(&[&own], |config| {
            config.signing_keys = place.keys();
            let mut versions = versions(&folder);
            versions.audited = audited
                .map(|it| (slot(IDEAL), Digest::hash(it)))
                .into_iter()
                .collect();
            config.versions = Some(versions);
        });
        runtime.active(&slot(IDEAL))
    };
    assert_eq!(serving(None), Some(Digest::hash(&own)));
    fs::write(place.file(), &dropped).unwrap();
    assert_eq!(serving(None), Some(Digest::hash(&dropped)));
    let kept = place.folder.path().join("modules/method.ideal");
    let keep = |bytes: &[u8]| fs::write(kept.join(format!("{}.wasm", Digest::hash(bytes))), bytes);
    keep(&audited).unwrap();
    assert_eq!(serving(Some(&audited)), Some(Digest::hash(&audited)));
    // The file does not replace it at the next start.
    let runtime = place.start(place.keys(), &[&own]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&audited)));
    drop(runtime);
    // Without a signature it is refused like any other file.
    let unsigned = saying("unsigned");
    keep(&unsigned).unwrap();
    assert_eq!(serving(Some(&unsigned)), Some(Digest::hash(&dropped)));
    fs::write(place.file(), saying("evil")).unwrap();
    assert_eq!(serving(Some(&unsigned)), Some(Digest::hash(&own)));
}

#[test]
fn slots_that_no_key_is_for_take_any_module() {
    let place = Place::new();
    let unsigned = saying("unsigned");
    fs::write(place.file(), &unsigned).unwrap();
    let keys = vec![for_slots("provider.*", &place.other)];
    let runtime = place.start(keys, &[]);
    assert_eq!(runtime.active(&slot(IDEAL)), Some(Digest::hash(&unsigned)));
}
