//! Detects files that have changed since they were read.
//!
//! Paths are checked every two seconds. Watching folders would be faster but less reliable: a path may contain
//! links to files or folders that are replaced anywhere, and some file systems do not report changes.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// Interval of checks. A changed file is read after two checks with the same result, because files may be written
/// in several steps or one after another.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Identity of a file: device, inode, size, and time of the last change of its content, mode or owner (seconds and
/// nanoseconds).
pub(super) type FileIdentity = (u64, u64, u64, i64, i64);

/// Identity of the file that a path leads to. `None` if it does not exist.
pub(super) fn file_identity(path: &Path) -> Option<FileIdentity> {
    let found = std::fs::metadata(path).ok()?;
    let (time, rest) = (found.ctime(), found.ctime_nsec());
    Some((found.dev(), found.ino(), found.size(), time, rest))
}

/// Observed states of files.
pub(super) struct FileWatch<Seen> {
    /// State at the last reading, whether or not the content was applied.
    read: Seen,
    /// State at the last check.
    looked: Seen,
}

impl<Seen: Clone + PartialEq> FileWatch<Seen> {
    /// Records that the files are being read in this state.
    pub(super) fn reading(now: Seen) -> Self {
        Self {
            read: now.clone(),
            looked: now,
        }
    }

    /// Checks the files. Returns true if they should be read: they differ from the last reading, but not from the
    /// last check.
    pub(super) fn look(&mut self, now: Seen) -> bool {
        let is_still = now == self.looked;
        self.looked = now;
        is_still && self.looked != self.read
    }
}
