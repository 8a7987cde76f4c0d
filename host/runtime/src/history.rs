//! The versions of each slot on disk: `<slot>/<digest>.wasm`, and `<slot>/history.json`, which says
//! which of them serve or served, and what happened.
//!
//! The plugin folder is what operators write to, and may hold anything at the next start: a broken
//! file, or none. This folder is the gateway's own. It holds what passed every check, so that the
//! last good version serves, attempts under way find the version that started them, and the operator
//! can go back, after a restart too. What is read from it is checked by its digest and loaded like any
//! other module.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use kassette_domain::candidate::Candidate;
use kassette_domain::id::{Digest, Slot, digest_text};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::limits::MAX_MODULE_BYTES;

/// What is known of a slot's versions.
const HISTORY_FILE: &str = "history.json";
/// Bytes of that file at most; [`MAX_EVENTS`] events take 40 kB.
const MAX_HISTORY_BYTES: u64 = 1 << 20;
/// Events kept per slot.
pub(crate) const MAX_EVENTS: usize = 200;

/// Why a version became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Its file was found in the plugin folder.
    Folder,
    /// An operator uploaded it.
    Upload,
    /// It is put on trial, and serves only once it is promoted.
    Candidate,
    /// An operator, or a ramp, let the candidate take its place.
    Promote,
    /// An operator named it.
    Pin,
    /// An operator went back to it.
    Rollback,
    /// The plugin folder had no file that works at the start.
    Kept,
    /// The program brought it along.
    Bundled,
}

impl Cause {
    /// Reads [`Cause::as_str`].
    pub fn parse(text: &str) -> Option<Self> {
        let all = [
            Self::Folder,
            Self::Upload,
            Self::Candidate,
            Self::Promote,
            Self::Pin,
            Self::Rollback,
            Self::Kept,
            Self::Bundled,
        ];
        all.into_iter().find(|cause| cause.as_str() == text)
    }

    /// One lower-case word.
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
        }
    }
}

/// A version became active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activation {
    /// Counts up within the slot.
    pub number: u64,
    pub at: Time,
    /// Of its file.
    #[serde(with = "digest_text")]
    pub digest: Digest,
    /// Its label.
    pub name: String,
    /// As it calls itself.
    pub version: String,
    pub cause: Cause,
}

/// What is kept about one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct History {
    /// The active version first, then those before it.
    pub(crate) versions: Vec<SavedVersion>,
    /// The latest first.
    pub(crate) events: Vec<Activation>,
    /// An operator has switched the slot off for new payments.
    #[serde(default)]
    pub(crate) disabled: bool,
    /// The program brought the active version along, and an operator has neither put it there nor gone
    /// back to it: the one that the next program brings takes its place.
    #[serde(default)]
    pub(crate) bundled: bool,
    /// An operator named the active version: what is put into the plugin folder does not take its place.
    #[serde(default)]
    pub(crate) pinned: bool,
    #[serde(default)]
    pub(crate) candidate: Option<Candidate>,
    /// Versions that were on trial, for the attempts that they began; the latest first.
    #[serde(default)]
    pub(crate) retired: Vec<SavedVersion>,
}

impl History {
    fn digests(&self) -> impl Iterator<Item = Digest> {
        let versions = self.versions.iter().chain(&self.retired);
        let candidate = self.candidate.iter().map(|candidate| candidate.digest);
        versions.map(|saved| saved.digest).chain(candidate)
    }
}

/// One version that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedVersion {
    #[serde(with = "digest_text")]
    pub(crate) digest: Digest,
    pub(crate) since: Time,
}

/// The folder; nowhere, where nothing outlives the process.
#[derive(Debug)]
pub(crate) struct VersionStore(Option<PathBuf>);

impl VersionStore {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        if let Some(path) = path {
            create_folder(path)?;
        }
        Ok(Self(path.map(Path::to_owned)))
    }

    /// Every slot that has a history which can be read. One that cannot is said in the log: then only
    /// the plugin folder tells what serves.
    pub(crate) fn histories(&self) -> io::Result<Vec<(Slot, History)>> {
        let Some(folder) = &self.0 else {
            return Ok(Vec::new());
        };
        let mut histories = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(slot) = name.and_then(Slot::parse) else {
                continue;
            };
            match read_history(&path.join(HISTORY_FILE)) {
                Ok(history) => histories.push((slot, history)),
                Err(error) => tracing::warn!(
                    plugin.slot = %slot,
                    "the history of {slot} cannot be read: {error}; it begins anew",
                ),
            }
        }
        histories.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(histories)
    }

    /// A version's bytes, as far as they are what their name says.
    pub(crate) fn get(&self, slot: &Slot, digest: &Digest) -> io::Result<Vec<u8>> {
        let folder = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = Vec::new();
        File::open(folder.join(slot.as_str()).join(file_name(digest)))?
            .take(MAX_MODULE_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        if Digest::of(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Keeps a version that passed every check.
    pub(crate) fn put(&self, slot: &Slot, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.0 else {
            return Ok(());
        };
        let folder = folder.join(slot.as_str());
        create_folder(&folder)?;
        if self.get(slot, digest).is_ok() {
            return Ok(());
        }
        kassette_files::write(&folder.join(file_name(digest)), 0o600, bytes)
    }

    /// Writes a slot's history, and removes versions that are not in it any more.
    pub(crate) fn save(&self, slot: &Slot, history: &History) -> io::Result<()> {
        let Some(folder) = &self.0 else {
            return Ok(());
        };
        let folder = folder.join(slot.as_str());
        create_folder(&folder)?;
        kassette_files::write(
            &folder.join(HISTORY_FILE),
            0o600,
            &serde_json::to_vec(history)?,
        )?;
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name();
            let kept = history.digests().any(|digest| *file_name(&digest) == *name);
            if !kept && name != HISTORY_FILE {
                fs::remove_file(folder.join(name))?;
            }
        }
        Ok(())
    }

    /// Forgets a slot with all its versions.
    pub(crate) fn remove(&self, slot: &Slot) -> io::Result<()> {
        let Some(all) = &self.0 else {
            return Ok(());
        };
        let folder = all.join(slot.as_str());
        // Its history first: versions without one serve nothing, should this not come to its end.
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

fn read_history(path: &Path) -> io::Result<History> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_HISTORY_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn create_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot() -> Slot {
        Slot::parse("method.ideal").unwrap()
    }

    fn history(versions: &[&[u8]]) -> History {
        let saved = |bytes: &&[u8]| SavedVersion {
            digest: Digest::of(bytes),
            since: Time::from_secs(7),
        };
        let event = |bytes: &&[u8]| Activation {
            number: 1,
            at: Time::from_secs(7),
            digest: Digest::of(bytes),
            name: "iDEAL".into(),
            version: "1.0.0".into(),
            cause: Cause::Upload,
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
        let store = VersionStore::open(Some(&path)).unwrap();
        for bytes in [b"one", b"two"] {
            store.put(&slot(), &Digest::of(bytes), bytes).unwrap();
        }
        store.save(&slot(), &history(&[b"two", b"one"])).unwrap();
        let again = VersionStore::open(Some(&path)).unwrap();
        assert_eq!(
            again.histories().unwrap(),
            [(slot(), history(&[b"two", b"one"]))]
        );
        assert_eq!(again.get(&slot(), &Digest::of(b"one")).unwrap(), b"one");
        again.save(&slot(), &history(&[b"two"])).unwrap();
        assert!(again.get(&slot(), &Digest::of(b"one")).is_err());
        assert!(again.get(&slot(), &Digest::of(b"two")).is_ok());
    }

    #[test]
    fn what_is_switched_off_stays_so_and_what_is_removed_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let store = VersionStore::open(Some(parent.path())).unwrap();
        let digest = Digest::of(b"one");
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

    /// As releases wrote it that could not switch a slot off.
    #[test]
    fn a_history_without_the_switch_is_of_a_slot_that_is_on() {
        let read: History = serde_json::from_str(r#"{"versions":[],"events":[]}"#).unwrap();
        assert!(!read.disabled);
    }

    #[test]
    fn a_version_is_not_kept_in_a_file_that_another_user_planted() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let parent = tempfile::tempdir().unwrap();
        let store = VersionStore::open(Some(parent.path())).unwrap();
        let (folder, other) = (
            parent.path().join("method.ideal"),
            parent.path().join("other"),
        );
        let digest = Digest::of(b"good");
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

    /// As releases wrote it that brought no modules along.
    #[test]
    fn a_history_that_does_not_say_it_was_the_program_is_an_operator_s() {
        let read: History = serde_json::from_str(r#"{"versions":[],"events":[]}"#).unwrap();
        assert!(!read.bundled);
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let store = VersionStore::open(Some(parent.path())).unwrap();
        let digest = Digest::of(b"good");
        store.put(&slot(), &digest, b"good").unwrap();
        let path = parent.path().join(format!("method.ideal/{digest}.wasm"));
        fs::write(&path, "evil").unwrap();
        let refused = store.get(&slot(), &digest).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        store.put(&slot(), &digest, b"good").unwrap();
        assert_eq!(store.get(&slot(), &digest).unwrap(), b"good");
    }

    #[test]
    fn a_history_that_cannot_be_read_does_not_stop_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let store = VersionStore::open(Some(parent.path())).unwrap();
        store.save(&slot(), &history(&[])).unwrap();
        fs::write(parent.path().join("method.ideal/history.json"), "{").unwrap();
        fs::create_dir(parent.path().join("stray")).unwrap();
        assert_eq!(store.histories().unwrap(), []);
    }
}
