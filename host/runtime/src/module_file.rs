//! A file of the plugin folder: its slot, its bytes and its state.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use kassette_domain::id::Slot;
use kassette_files::{Exposed, Holds};

use crate::config::RuntimeConfig;
use crate::limits::MAX_MODULE_BYTES;

/// State of a file, to detect changes without reading it. `None` if its metadata cannot be read.
pub(crate) type FileStamp = Option<[i128; 5]>;

/// Reads a regular file and its state. `None` if it changed during the read. Of a file over the size limit, reads
/// only enough to detect that.
pub(crate) fn read(path: &Path) -> io::Result<Option<(FileStamp, Vec<u8>)>> {
    // Check first: opening a pipe would block until it has a writer.
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

/// Whether a file must not be read because others may write it.
pub(crate) fn is_refused(config: &RuntimeConfig, path: &Path) -> bool {
    let exposed = || kassette_files::judge(path, Holds::Settings);
    config.refuse_shared && matches!(exposed(), Err(Exposed::Written))
}

/// Whether a file has exactly these bytes.
pub(crate) fn holds(path: &Path, bytes: &[u8]) -> bool {
    matches!(read(path), Ok(Some((_, found))) if found == bytes)
}

pub(crate) fn stamp(path: &Path) -> FileStamp {
    fs::metadata(path).ok().and_then(|file| stamp_of(&file))
}

/// The file behind a path (device and inode), its length, and the times of its last changes of content and
/// metadata.
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
