//! The versions of each slot on disk: `<slot>/<digest>.wasm`, and `<slot>/history.json`, which says
//! which of them serve or served, and what happened.
//!
//! The plugin folder is what operators write to, and may hold anything at the next start: a broken
//! file, or none. This folder is the gateway's own. It holds what passed every check, so that the
//! last good version serves, attempts under way find the version that started them, and one can go
//! back, after a restart too. What is read from it is checked by its digest and loaded like any
//! other module. To take a slot out of service for good, remove its folder here and its file in the
//! plugin folder while the gateway is stopped.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use kassette_domain::id::{Digest, Slot};
use kassette_domain::time::Time;
use serde::{Deserialize, Serialize};

use crate::load::MAX_BYTES;

/// What is known of a slot's versions.
const BOOK: &str = "history.json";
/// Bytes of that file at most; [`EVENTS`] events take 40 kB.
const BOOK_BYTES: u64 = 1 << 20;
/// Events kept per slot.
pub(crate) const EVENTS: usize = 200;

/// Why a version became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Its file was found in the plugin folder.
    Folder,
    /// An operator uploaded it.
    Upload,
    /// An operator went back to it.
    Rollback,
    /// The plugin folder had no file that works at the start.
    Kept,
}

impl Cause {
    /// One lower-case word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Folder => "folder",
            Self::Upload => "upload",
            Self::Rollback => "rollback",
            Self::Kept => "kept",
        }
    }
}

/// A version became active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Counts up within the slot.
    pub number: u64,
    /// When.
    pub at: Time,
    /// Of its file.
    #[serde(with = "digest")]
    pub digest: Digest,
    /// Its label.
    pub name: String,
    /// As it calls itself.
    pub version: String,
    /// Why.
    pub cause: Cause,
}

/// What is kept about one slot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Book {
    /// The active version first, then those before it.
    pub(crate) versions: Vec<Line>,
    /// The latest first.
    pub(crate) events: Vec<Event>,
}

/// One version that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    #[serde(with = "digest")]
    pub(crate) digest: Digest,
    pub(crate) since: Time,
}

/// Digests as people see them.
mod digest {
    use kassette_domain::id::Digest;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(digest)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(from)?;
        Digest::parse(&text).ok_or_else(|| de::Error::custom("not a digest"))
    }
}

/// The folder; nowhere, where nothing outlives the process.
#[derive(Debug)]
pub(crate) struct Shelf(Option<PathBuf>);

impl Shelf {
    /// Makes the folder where it is missing.
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        if let Some(path) = path {
            make(path)?;
        }
        Ok(Self(path.map(Path::to_owned)))
    }

    /// Every slot that has a book which can be read. One that cannot is said in the log: then only
    /// the plugin folder tells what serves.
    pub(crate) fn books(&self) -> io::Result<Vec<(Slot, Book)>> {
        let Some(folder) = &self.0 else {
            return Ok(Vec::new());
        };
        let mut books = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let Some(slot) = name.and_then(Slot::parse) else {
                continue;
            };
            match read_book(&path.join(BOOK)) {
                Ok(book) => books.push((slot, book)),
                Err(error) => tracing::warn!(
                    plugin.slot = %slot,
                    "the history of {slot} cannot be read: {error}; it begins anew",
                ),
            }
        }
        books.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(books)
    }

    /// A version's bytes, as far as they are what their name says.
    pub(crate) fn bytes(&self, slot: &Slot, digest: &Digest) -> io::Result<Vec<u8>> {
        let folder = self.0.as_ref().ok_or(io::ErrorKind::NotFound)?;
        let mut bytes = Vec::new();
        File::open(folder.join(slot.as_str()).join(file(digest)))?
            .take(MAX_BYTES as u64 + 1)
            .read_to_end(&mut bytes)?;
        if Digest::of(&bytes) == *digest {
            Ok(bytes)
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    /// Keeps a version that passed every check.
    pub(crate) fn keep(&self, slot: &Slot, digest: &Digest, bytes: &[u8]) -> io::Result<()> {
        let Some(folder) = &self.0 else {
            return Ok(());
        };
        let folder = folder.join(slot.as_str());
        make(&folder)?;
        if self.bytes(slot, digest).is_ok() {
            return Ok(());
        }
        kassette_files::write(&folder.join(file(digest)), 0o600, bytes)
    }

    /// Writes a slot's book, and removes versions that are not in it any more.
    pub(crate) fn note(&self, slot: &Slot, book: &Book) -> io::Result<()> {
        let Some(folder) = &self.0 else {
            return Ok(());
        };
        let folder = folder.join(slot.as_str());
        make(&folder)?;
        kassette_files::write(&folder.join(BOOK), 0o600, &serde_json::to_vec(book)?)?;
        for entry in fs::read_dir(&folder)? {
            let name = entry?.file_name();
            let kept = book
                .versions
                .iter()
                .any(|line| *file(&line.digest) == *name);
            if !kept && name != BOOK {
                fs::remove_file(folder.join(name))?;
            }
        }
        Ok(())
    }
}

fn file(digest: &Digest) -> String {
    format!("{digest}.wasm")
}

fn read_book(path: &Path) -> io::Result<Book> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BOOK_BYTES).read_to_end(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}

fn make(folder: &Path) -> io::Result<()> {
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

    fn book(versions: &[&[u8]]) -> Book {
        let line = |bytes: &&[u8]| Line {
            digest: Digest::of(bytes),
            since: Time::from_secs(7),
        };
        let event = |bytes: &&[u8]| Event {
            number: 1,
            at: Time::from_secs(7),
            digest: Digest::of(bytes),
            name: "iDEAL".into(),
            version: "1.0.0".into(),
            cause: Cause::Upload,
        };
        Book {
            versions: versions.iter().map(line).collect(),
            events: versions.iter().map(event).collect(),
        }
    }

    #[test]
    fn versions_outlive_the_process_and_those_in_no_book_go() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("modules");
        let shelf = Shelf::open(Some(&path)).unwrap();
        for bytes in [b"one", b"two"] {
            shelf.keep(&slot(), &Digest::of(bytes), bytes).unwrap();
        }
        shelf.note(&slot(), &book(&[b"two", b"one"])).unwrap();
        let again = Shelf::open(Some(&path)).unwrap();
        assert_eq!(again.books().unwrap(), [(slot(), book(&[b"two", b"one"]))]);
        assert_eq!(again.bytes(&slot(), &Digest::of(b"one")).unwrap(), b"one");
        again.note(&slot(), &book(&[b"two"])).unwrap();
        assert!(again.bytes(&slot(), &Digest::of(b"one")).is_err());
        assert!(again.bytes(&slot(), &Digest::of(b"two")).is_ok());
    }

    #[test]
    fn a_version_is_not_kept_in_a_file_that_another_user_planted() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let parent = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(Some(parent.path())).unwrap();
        let (folder, other) = (
            parent.path().join("method.ideal"),
            parent.path().join("other"),
        );
        let digest = Digest::of(b"good");
        make(&folder).unwrap();
        fs::write(&other, "another's").unwrap();
        let pid = std::process::id();
        for name in [file(&digest), BOOK.to_owned()] {
            symlink(&other, folder.join(format!(".{name}.{pid}"))).unwrap();
        }
        symlink(&other, folder.join(file(&digest))).unwrap();
        shelf.keep(&slot(), &digest, b"good").unwrap();
        shelf.note(&slot(), &book(&[b"good"])).unwrap();
        for name in [file(&digest), BOOK.to_owned()] {
            let found = fs::symlink_metadata(folder.join(name)).unwrap();
            assert!(found.is_file() && found.permissions().mode() & 0o777 == 0o600);
        }
        assert_eq!(fs::read(&other).unwrap(), b"another's");
    }

    #[test]
    fn what_is_not_what_its_name_says_is_not_used() {
        let parent = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(Some(parent.path())).unwrap();
        let digest = Digest::of(b"good");
        shelf.keep(&slot(), &digest, b"good").unwrap();
        let path = parent.path().join(format!("method.ideal/{digest}.wasm"));
        fs::write(&path, "evil").unwrap();
        let refused = shelf.bytes(&slot(), &digest).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidData);
        shelf.keep(&slot(), &digest, b"good").unwrap();
        assert_eq!(shelf.bytes(&slot(), &digest).unwrap(), b"good");
    }

    #[test]
    fn a_book_that_cannot_be_read_does_not_stop_the_start() {
        let parent = tempfile::tempdir().unwrap();
        let shelf = Shelf::open(Some(parent.path())).unwrap();
        shelf.note(&slot(), &book(&[])).unwrap();
        fs::write(parent.path().join("method.ideal/history.json"), "{").unwrap();
        fs::create_dir(parent.path().join("stray")).unwrap();
        assert_eq!(shelf.books().unwrap(), []);
    }
}
