//! A file of the plugin folder: its slot, its bytes, and what tells them from others.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kassette_domain::id::Slot;
use kassette_files::{Exposed, Holds};

use crate::config::RuntimeConfig;
use crate::limits::MAX_MODULE_BYTES;

/// What tells one content of a file from another without reading it; none where the file cannot
/// even be looked at.
pub(crate) type FileStamp = Option<[i128; 5]>;

/// A regular file's bytes, and what to know it by; none where it changed meanwhile. Of a file over
/// the cap just enough is read to see that.
pub(crate) fn read(path: &Path) -> io::Result<Option<(FileStamp, Vec<u8>)>> {
    // Looked at before it is opened: opening a pipe would wait for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(path)?;
    let before = stamp_of(&file.metadata()?);
    let mut bytes = Vec::new();
    Read::by_ref(&mut file)
        .take(MAX_MODULE_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    let after = stamp_of(&file.metadata()?);
    Ok((before == after).then_some((before, bytes)))
}

/// Whether a file is not to be read, because others may write it.
pub(crate) fn is_refused(config: &RuntimeConfig, path: &Path) -> bool {
    let exposed = || kassette_files::judge(path, Holds::Settings);
    config.refuse_shared && matches!(exposed(), Err(Exposed::Written))
}

/// Whether a file holds these very bytes.
pub(crate) fn holds(path: &Path, bytes: &[u8]) -> bool {
    matches!(read(path), Ok(Some((_, found))) if found == bytes)
}

pub(crate) fn stamp(path: &Path) -> FileStamp {
    fs::metadata(path).ok().and_then(|file| stamp_of(&file))
}

/// The file behind a path, its length, and when its bytes and its permissions last changed.
fn stamp_of(file: &Metadata) -> FileStamp {
    let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    Some([
        i128::from(file.dev()),
        i128::from(file.ino()),
        i128::from(file.len()),
        nanos(file.mtime(), file.mtime_nsec()),
        nanos(file.ctime(), file.ctime_nsec()),
    ])
}

pub(crate) fn slot_of(path: &Path) -> Option<Slot> {
    Slot::parse(path.file_name()?.to_str()?.strip_suffix(".wasm")?)
}
