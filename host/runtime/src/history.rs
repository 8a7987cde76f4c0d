//! The versions of each slot on disk: `<slot>/<digest>.wasm`, and `<slot>/history.json`, which records the
//! versions that serve or served, and the events.
//!
//! Operators write to the plugin folder, so at the next start it may contain a broken file, or none. This folder
//! belongs to the gateway and contains modules that passed every check. After a restart, the last good version can
//! serve, running attempts find the version that started them, and operators can roll back. A file from this
//! folder is checked by its digest and loaded like any other module.
//!
//! A history decides which version serves. So it has a MAC over the name of the slot and the remaining fields,
//! with a key derived from the master key. A history that is not authentic is set aside and has no effect.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac as _};
use kassette_domain::audit::{AuditedSlot, KeptSlot};
use kassette_domain::candidate::{Candidate, Counted};
use kassette_domain::id::{Digest, Slot, digest_text};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

use crate::artifacts::MacKey;
use crate::limits::MAX_MODULE_BYTES;

/// The history of a slot.
const HISTORY_FILE: &str = "history.json";
/// The history with a MAC of the next master key, while `kassette rekey` runs or after it was interrupted.
const NEXT_FILE: &str = "history.next.json";
/// A history that is not authentic. Kept until an operator decides which version serves.
const SET_ASIDE_FILE: &str = "history.refused.json";
/// Start of a history file, before the MAC in 64 hex digits and the other fields.
const MAC_FIELD: &str = "{\"mac\":\"";
/// Maximum size of a history file, in bytes. [`MAX_EVENTS`] events take up to 300 kB.
const MAX_HISTORY_BYTES: u64 = 1 << 20;
const NOT_AUTHENTIC: &str = "it is not authentic";
const SWITCH_GONE: &str = "it is missing, and the audit log says that the slot is switched off";
/// Events kept per slot.
pub(crate) const MAX_EVENTS: usize = 200;

/// Reason why a version became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// The plugin folder contained its file.
    Folder,
    /// An operator uploaded the version.
    Upload,
    /// The version is on trial and serves only after a promotion.
    Candidate,
    /// An operator or a ramp promoted the candidate.
    Promote,
    /// An operator pinned the slot to the version.
    Pin,
    /// An operator rolled back to the version.
    Rollback,
    /// The version was restored from the kept ones at the start: the plugin folder had no working file, or the
    /// history was not authentic and the audit log names the version.
    Kept,
    /// The version is bundled with the program.
    Bundled,
    /// The version's trial ended, and it was not promoted: the one event after which another version serves.
    Ended,
}

impl Cause {
    /// Parses the text of [`Cause::as_str`] for a version that nodes share. `None` for unknown texts, for
    /// `bundled`, which each program decides for the modules it contains, and for `ended`, which activates nothing.
    pub fn of_shared(text: &str) -> Option<Self> {
        let all = [
            Self::Folder,
            Self::Upload,
            Self::Candidate,
            Self::Promote,
            Self::Pin,
            Self::Rollback,
            Self::Kept,
        ];
        all.into_iter().find(|cause| cause.as_str() == text)
    }

    /// The cause in lower case.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Upload => "upload",
            Self::Candidate => "candidate",
            Self::Promote => "promote",
            Self::Pin => "pin",
            Self::Rollback => "rollback",
            Self::Kept => "kept",
            Self::Bundled => "bundled",
            Self::Ended => "ended",
        }
    }
}

/// An event: a version became active, or its trial ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// Increases with each event of the slot.
    pub number: u64,
    pub at: Time,
    /// Digest of the module file.
    #[serde(with = "digest_text")]
    pub digest: Digest,
    /// Label of the module.
    pub name: String,
    /// Version according to the module's description.
    pub version: String,
    pub cause: Cause,
    /// The trial that this event ended.
    pub trial: Option<TrialResult>,
}

/// A trial that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    pub since: Time,
    /// Last share of payments, in percent. `None` for a shadow.
    pub share: Option<u8>,
    /// What this node knew when the trial ended. `None` if nothing was counted since its start.
    pub counted: Option<Counted>,
}

/// Content of a slot's history file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The active version, then earlier ones, the most recent first.
    pub(crate) versions: Vec<SavedVersion>,
    /// The most recent event first.
    pub(crate) events: Vec<Activation>,
    /// Whether an operator has disabled the slot for new payments.
    #[serde(default)]
    pub(crate) disabled: bool,
    /// Whether the active version came with the program, and no operator has installed it or rolled back to it.
    /// The version in the next program replaces it.
    #[serde(default)]
    pub(crate) bundled: bool,
    /// Whether an operator has pinned the active version. Files in the plugin folder do not replace it then.
    #[serde(default)]
    pub(crate) pinned: bool,
    #[serde(default)]
    pub(crate) candidate: Option<Candidate>,
    /// Versions that were on trial, kept for attempts that they started. The most recent first.
    #[serde(default)]
    pub(crate) retired: Vec<SavedVersion>,
    /// Whether the previous history was not authentic, and no operator has decided since which version serves.
    #[serde(skip)]
    pub(crate) set_aside: bool,
}

impl History {
    /// What the audit log says of a slot too.
    fn kept(&self) -> KeptSlot {
        KeptSlot {
            version: Some(self.versions.first().map(|saved| saved.digest)),
            since: self.activated().map(|event| event.at),
            is_disabled: Some(self.disabled),
            candidate: self.candidate.as_ref().map(|candidate| candidate.digest),
        }
    }

    /// The latest event that made a version active.
    pub(crate) fn activated(&self) -> Option<&Activation> {
        let mut events = self.events.iter();
        events.find(|event| event.cause != Cause::Ended)
    }

    fn digests(&self) -> impl Iterator<Item = Digest> {
        let versions = self.versions.iter().chain(&self.retired);
        let candidate = self.candidate.iter().map(|candidate| candidate.digest);
        versions.map(|saved| saved.digest).chain(candidate)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedVersion {
    #[serde(with = "digest_text")]
    pub(crate) digest: Digest,
    pub(crate) since: Time,
}

/// Settings of the folder of versions.
#[derive(Clone, Debug)]
pub struct VersionsConfig {
    /// A folder only for this.
    pub folder: PathBuf,
    /// Key of the histories' MACs.
    pub key: MacKey,
    /// Version in the newest entry of the audit log, for each slot that [`Self::unauthentic`] returns.
    pub audited: BTreeMap<Slot, Digest>,
}

impl VersionsConfig {
    pub const fn new(folder: PathBuf, key: MacKey) -> Self {
        Self {
            folder,
            key,
            audited: BTreeMap::new(),
        }
    }

    /// Returns the slots whose history is not authentic, without changing anything.
    ///
    /// # Errors The folder cannot be read.
    pub fn unauthentic(&self) -> io::Result<Vec<Slot>> {
        let seal = HistorySeal::new(&self.key);
        let mut slots = Vec::new();
        for slot in slots_in(&self.folder)? {
            if matches!(seal.read(&self.folder, &slot), Some(Err(_))) {
                slots.push(slot);
            }
        }
        Ok(slots)
    }

    /// Returns what is wrong with the slots, each with what: a history is not authentic, or not the newest one by what
    /// the audit log says of its slot. Nothing is changed.
    ///
    /// A slot without a history is right unless it was switched off: what serves in it then is decided by the next
    /// start, with an entry in the log.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn compare(
        &self,
        audited: &BTreeMap<Slot, AuditedSlot>,
    ) -> io::Result<Vec<(Slot, &'static str)>> {
        let seal = HistorySeal::new(&self.key);
        let mut slots = slots_in(&self.folder)?;
        slots.extend(audited.keys().cloned());
        slots.sort();
        slots.dedup();
        let mut wrong = Vec::new();
        for slot in slots {
            let said = audited.get(&slot);
            let what = match seal.read(&self.folder, &slot) {
                Some(Ok(history)) => said.and_then(|said| said.difference(&history.kept())),
                Some(Err(_)) => Some(NOT_AUTHENTIC),
                None => said.filter(|said| said.is_disabled()).map(|_| SWITCH_GONE),
            };
            wrong.extend(what.map(|what| (slot, what)));
        }
        Ok(wrong)
    }

    /// Writes every history under another key too, for [`Self::take_next`]. A start under either key finds its own
    /// until then.
    ///
    /// # Errors A file cannot be read or written.
    pub fn write_next(&self, next: &MacKey) -> io::Result<()> {
        let (seal, next) = (HistorySeal::new(&self.key), HistorySeal::new(next));
        for slot in slots_in(&self.folder)? {
            if let Some(Ok(history)) = seal.read(&self.folder, &slot) {
                let path = self.folder.join(slot.as_str()).join(NEXT_FILE);
                kassette_files::write(&path, 0o600, &next.close(&slot, &history)?)?;
            }
        }
        Ok(())
    }

    /// Replaces the histories with the files of [`Self::write_next`].
    ///
    /// # Errors A file cannot be renamed.
    pub fn take_next(&self) -> io::Result<()> {
        for slot in slots_in(&self.folder)? {
            let folder = self.folder.join(slot.as_str());
            match fs::rename(folder.join(NEXT_FILE), folder.join(HISTORY_FILE)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => File::open(folder)?.sync_all()?,
            }
        }
        Ok(())
    }
}

/// Slots that have a subfolder. Empty if the folder does not exist.
fn slots_in(folder: &Path) -> io::Result<Vec<Slot>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut slots = Vec::new();
    for entry in entries {
        slots.extend(entry?.file_name().to_str().and_then(Slot::parse));
    }
    slots.sort();
    Ok(slots)
}

#[derive(Debug)]
struct HistorySeal(Hmac<Sha256>);

impl HistorySeal {
    fn new(key: &MacKey) -> Self {
        Self(key.mac())
    }

    /// Encodes a history file with its MAC.
    fn close(&self, slot: &Slot, history: &History) -> io::Result<Vec<u8>> {
        let text = serde_json::to_string(history)?;
        let fields = text.strip_prefix('{').unwrap_or_default();
        let mac = hex::encode(self.mac(slot, fields.as_bytes()).finalize().into_bytes());
        Ok(format!("{MAC_FIELD}{mac}\",{fields}").into_bytes())
    }

    /// Decodes a history file. `None` if its MAC or its content is not valid.
    fn open(&self, slot: &Slot, file: &[u8]) -> Option<History> {
        let (mac, rest) = file
            .strip_prefix(MAC_FIELD.as_bytes())?
            .split_at_checked(64)?;
        let fields = rest.strip_prefix(b"\",")?;
        let mac = hex::decode(mac).ok()?;
        self.mac(slot, fields).verify_slice(&mac).ok()?;
        serde_json::from_slice(file).ok()
    }

    fn mac(&self, slot: &Slot, fields: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(slot.as_str().as_bytes());
        // No slot name contains this byte, so two different inputs cannot be equal.
        mac.update(b"\0");
        mac.update(fields);
        mac
    }

    /// Reads the history of a slot, under the current or the next file name. `None` if it does not have one, an
    /// error if none is authentic.
    fn read(&self, folder: &Path, slot: &Slot) -> Option<io::Result<History>> {
        let folder = folder.join(slot.as_str());
        let mut refused = None;
        for name in [HISTORY_FILE, NEXT_FILE] {
            match read_file(&folder.join(name)) {
                Ok(file) => match self.open(slot, &file) {
                    Some(history) => return Some(Ok(history)),
                    None => refused = Some(io::ErrorKind::InvalidData.into()),
                },
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => refused = Some(error),
            }
        }
        refused.map(Err)
    }
}

/// The folder of versions. `None` if they are kept only in memory.
#[derive(Debug)]
pub(crate) struct VersionStore(Option<OpenFolder>);

#[derive(Debug)]
struct OpenFolder {
    path: PathBuf,
    seal: HistorySeal,
}

impl VersionStore {
    pub(crate) fn open(config: Option<&VersionsConfig>) -> io::Result<Self> {
        let Some(config) = config else {
            return Ok(Self(None));
        };
        create_folder(&config.folder)?;
        Ok(Self(Some(OpenFolder {
            path: config.folder.clone(),
            seal: HistorySeal::new(&config.key),
        })))
    }

    /// Returns the history of every slot that has one. A history that is not authentic is set aside and replaced
    /// with an empty one.
    pub(crate) fn histories(&self) -> io::Result<Vec<(Slot, History)>> {
        let Some(OpenFolder { path, seal }) = &self.0 else {
            return Ok(Vec::new());
        };
        let mut histories = Vec::new();
        for slot in slots_in(path)? {
            let folder = path.join(slot.as_str());
            let mut history = match seal.read(path, &slot) {
                None if !folder.join(SET_ASIDE_FILE).exists() => continue,
                None => History::default(),
                Some(Ok(history)) => history,
                Some(Err(error)) => {
                    let set_aside =
                        fs::rename(folder.join(HISTORY_FILE), folder.join(SET_ASIDE_FILE));
                    tracing::error!(
                        plugin.slot = %slot,
                        "the history of {slot} is not authentic ({error}); it is set aside in {SET_ASIDE_FILE}",
                    );
                    set_aside?;
                    History::default()
                }
            };
            history.set_aside = folder.join(SET_ASIDE_FILE).exists();
            histories.push((slot, history));
        }
        Ok(histories)
    }

    /// Reads the file of a version. Fails with `InvalidData` if its bytes do not match the digest.
    pub(crate) fn get(&self, slot: &Slot, digest: &Digest) -> io::Result<Vec<u8>> {
        let folder = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = Vec::new();
        File::open(folder.path.join(slot.as_str()).join(file_name(digest)))?
            .take(MAX_MODULE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        if Digest::hash(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Stores a version that passed every check.
    pub(crate) fn put(&self, slot: &Slot, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let Some(OpenFolder { path, .. }) = &self.0 else {
            return Ok(());
        };
        let folder = path.join(slot.as_str());
        create_folder(&folder)?;
        if self.get(slot, digest).is_ok() {
            return Ok(());
        }
        kassette_files::write(&folder.join(file_name(digest)), 0o600, bytes)
    }

    /// Writes the history of a slot and deletes all files that it does not name, unless a history is set aside,
    /// which may name them.
    pub(crate) fn save(&self, slot: &Slot, history: &History) -> io::Result<()> {
        let Some(OpenFolder { path, seal }) = &self.0 else {
            return Ok(());
        };
        let folder = path.join(slot.as_str());
        create_folder(&folder)?;
        let file = seal.close(slot, history)?;
        kassette_files::write(&folder.join(HISTORY_FILE), 0o600, &file)?;
        if history.set_aside {
            return Ok(());
        }
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name();
            let kept = history.digests().any(|digest| *file_name(&digest) == *name);
            if !kept && name != HISTORY_FILE {
                fs::remove_file(folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Deletes a slot with all its versions.
    pub(crate) fn remove(&self, slot: &Slot) -> io::Result<()> {
        let Some(OpenFolder { path: all, .. }) = &self.0 else {
            return Ok(());
        };
        let folder = all.join(slot.as_str());
        // Delete the history first. If this is interrupted, versions without a history have no effect.
        for removed in [
            fs::remove_file(folder.join(HISTORY_FILE)),
            fs::remove_dir_all(&folder),
        ] {
            if let Err(error) = removed
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(error);
            }
        }
        File::open(all)?.sync_all()
    }
}

fn file_name(digest: &Digest) -> String {
    format!("{digest}.wasm")
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_HISTORY_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use kassette_domain::audit::{AuditEntry, Audited};

    use super::*;

    fn slot() -> Slot {
        Slot::parse("method.ideal").unwrap()
    }

    fn config(folder: &Path, key: u8) -> VersionsConfig {
        let key = MacKey::from_bytes(zeroize::Zeroizing::new([key; 32]));
        VersionsConfig::new(folder.to_owned(), key)
    }

    fn opened(folder: &Path) -> VersionStore {
        VersionStore::open(Some(&config(folder, 1))).unwrap()
    }

    fn history(versions: &[&[u8]]) -> History {
        let saved = |bytes: &&[u8]| SavedVersion {
            digest: Digest::hash(bytes),
            since: Time::from_secs(7),
        };
        let event = |bytes: &&[u8]| Activation {
            number: 1,
            at: Time::from_secs(7),
            digest: Digest::hash(bytes),
            name: "iDEAL".into(),
            version: "1.0.0".into(),
            cause: Cause::Upload,
            trial: None,
        };
        History {
            versions: versions.iter().map(saved).collect(),
            events: versions.iter().map(event).collect(),
            ..History::default()
        }
    }

    #[test]
    fn versions_outlive_the_process_and_those_in_no_history_go() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("modules");
        let store = opened(&path);
        for bytes in [b"one", b"two"] {
            store.put(&slot(), &Digest::hash(bytes), bytes).unwrap();
        }
        store.save(&slot(), &history(&[b"two", b"one"])).unwrap();
        let again = opened(&path);
        assert_eq!(
            again.histories().unwrap(),
            [(slot(), history(&[b"two", b"one"]))]
        );
        assert_eq!(again.get(&slot(), &Digest::hash(b"one")).unwrap(), b"one");
        again.save(&slot(), &history(&[b"two"])).unwrap();
        assert!(again.get(&slot(), &Digest::hash(b"one")).is_err());
        assert!(again.get(&slot(), &Digest::hash(b"two")).is_ok());
    }

    #[test]
    fn what_is_switched_off_stays_so_and_what_is_removed_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        let digest = Digest::hash(b"one");
        store.put(&slot(), &digest, b"one").unwrap();
        let disabled = History {
            disabled: true,
            ..history(&[b"one"])
        };
        store.save(&slot(), &disabled).unwrap();
        assert_eq!(store.histories().unwrap(), [(slot(), disabled)]);
        store.remove(&slot()).unwrap();
        assert!(!parent.path().join("method.ideal").exists());
        assert_eq!(store.histories().unwrap(), []);
        store.remove(&slot()).unwrap();
    }

    #[test]
    fn a_version_is_not_kept_in_a_file_that_another_user_planted() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        let (folder, other) = (
            parent.path().join("method.ideal"),
            parent.path().join("other"),
        );
        let digest = Digest::hash(b"good");
        create_folder(&folder).unwrap();
        fs::write(&other, "another's").unwrap();
        let pid = std::process::id();
        for name in [file_name(&digest), HISTORY_FILE.to_owned()] {
            symlink(&other, folder.join(format!(".{name}.{pid}"))).unwrap();
        }
        symlink(&other, folder.join(file_name(&digest))).unwrap();
        store.put(&slot(), &digest, b"good").unwrap();
        store.save(&slot(), &history(&[b"good"])).unwrap();
        for name in [file_name(&digest), HISTORY_FILE.to_owned()] {
            let found = fs::symlink_metadata(folder.join(name)).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
        }
        assert_eq!(fs::read(&other).unwrap(), b"another's");
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        let digest = Digest::hash(b"good");
        store.put(&slot(), &digest, b"good").unwrap();
        let path = parent.path().join(format!("method.ideal/{digest}.wasm"));
        fs::write(&path, "evil").unwrap();
        let refused = store.get(&slot(), &digest).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        store.put(&slot(), &digest, b"good").unwrap();
        assert_eq!(store.get(&slot(), &digest).unwrap(), b"good");
    }

    #[test]
    fn a_history_that_is_not_authentic_is_set_aside_until_an_operator_decides() {
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        let own = history(&[b"one"]);
        store.put(&slot(), &Digest::hash(b"one"), b"one").unwrap();
        store.save(&slot(), &own).unwrap();
        let path = parent.path().join("method.ideal/history.json");
        let whole = fs::read_to_string(&path).unwrap();
        let bundled = whole.replace("\"cause\":\"upload\"", "\"cause\":\"bundled\"");
        let unsigned = serde_json::to_string(&own).unwrap();
        let mut wrong: Vec<String> = vec![bundled, unsigned, "{".into(), String::new()];
        wrong.extend((0..whole.len()).step_by(7).map(|at| {
            let mut bytes = whole.clone().into_bytes();
            bytes[at] ^= 1;
            String::from_utf8(bytes).unwrap()
        }));
        fs::create_dir(parent.path().join("stray")).unwrap();
        for altered in wrong {
            fs::write(&path, &altered).unwrap();
            assert_eq!(config(parent.path(), 1).unauthentic().unwrap(), [slot()]);
            let empty = History {
                set_aside: true,
                ..History::default()
            };
            let found = opened(parent.path()).histories().unwrap();
            assert_eq!(found, [(slot(), empty)], "{altered}");
            let refused =
                fs::read_to_string(parent.path().join("method.ideal/history.refused.json"));
            assert_eq!(refused.unwrap(), altered);
            assert!(store.get(&slot(), &Digest::hash(b"one")).is_ok());
            // The version that serves until then is saved. An operator's decision ends this.
            let meanwhile = History {
                set_aside: true,
                ..history(&[])
            };
            store.save(&slot(), &meanwhile).unwrap();
            assert_eq!(store.histories().unwrap(), [(slot(), meanwhile)]);
            store.save(&slot(), &own).unwrap();
            assert_eq!(store.histories().unwrap(), [(slot(), own.clone())]);
        }
    }

    #[test]
    fn a_history_is_authentic_for_its_slot_and_key_alone() {
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        store.save(&slot(), &history(&[])).unwrap();
        let other = Slot::parse("method.eps").unwrap();
        let names = [&slot(), &other].map(|slot| parent.path().join(slot.as_str()));
        create_folder(&names[1]).unwrap();
        let [from, to] = names.map(|folder| folder.join(HISTORY_FILE));
        fs::copy(from, to).unwrap();
        assert_eq!(
            config(parent.path(), 1).unauthentic().unwrap(),
            std::slice::from_ref(&other)
        );
        let both = config(parent.path(), 2).unauthentic().unwrap();
        assert_eq!(both, [other, slot()]);
    }

    #[test]
    fn a_history_that_is_not_the_newest_differs_from_the_audit_log() {
        let parent = tempfile::tempdir().unwrap();
        let store = opened(parent.path());
        let [path, refused] = ["history.json", "history.refused.json"]
            .map(|name| parent.path().join("method.ideal").join(name));
        store.save(&slot(), &history(&[b"one"])).unwrap();
        let older = fs::read(&path).unwrap();
        let mut said = AuditedSlot::default();
        let mut follow = |action: &str, after: String| {
            let audited = Audited {
                after: Some(after),
                ..Audited::of_system(action, "plugin/method.ideal".into())
            };
            said.follow(&AuditEntry::next(None, Time::from_secs(8), audited));
            BTreeMap::from([(slot(), said.clone())])
        };
        let digest = Digest::hash(b"two");
        let audited = follow("plugin.upload", format!("{{\"digest\":\"{digest}\"}}"));
        let found = |audited: &_| config(parent.path(), 1).compare(audited).unwrap();
        store.save(&slot(), &history(&[b"two", b"one"])).unwrap();
        assert_eq!(found(&audited), []);
        let newer = fs::read(&path).unwrap();
        fs::write(&path, &older).unwrap();
        let older = found(&audited);
        let named = older
            .iter()
            .any(|(of, what)| *of == slot() && what.contains("names another version"));
        assert!(named && older.len() == 1, "{older:?}");
        fs::write(&path, &newer[1..]).unwrap();
        assert_eq!(found(&audited), [(slot(), NOT_AUTHENTIC)]);
        fs::rename(&path, refused).unwrap();
        assert_eq!(found(&audited), []);
        let audited = follow("plugin.disable", "{\"disabled\":true}".into());
        assert_eq!(found(&audited), [(slot(), SWITCH_GONE)]);
    }

    #[test]
    fn a_change_of_the_key_renews_histories_and_may_be_interrupted() {
        let parent = tempfile::tempdir().unwrap();
        opened(parent.path())
            .save(&slot(), &history(&[b"one"]))
            .unwrap();
        let next = config(parent.path(), 2);
        config(parent.path(), 1).write_next(&next.key).unwrap();
        // Each key finds its own file.
        for key in [1, 2] {
            let config = config(parent.path(), key);
            assert_eq!(config.unauthentic().unwrap(), []);
            let store = VersionStore::open(Some(&config)).unwrap();
            assert_eq!(store.histories().unwrap(), [(slot(), history(&[b"one"]))]);
        }
        next.take_next().unwrap();
        assert_eq!(next.unauthentic().unwrap(), []);
        assert_eq!(config(parent.path(), 1).unauthentic().unwrap(), [slot()]);
    }
}
