//! Whether files are others than when they were read.
//!
//! What a path leads to is looked at every two seconds. Watching folders would be quicker and miss more:
//! files lie behind links of files and of folders that are exchanged anywhere on the way, and on file
//! systems that tell of nothing.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

/// How often files are looked at. They are read once two looks found the same: one may be written in several
/// steps, or one after another.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// What tells a file from the one that was there before: device, number, bytes, time of the last change
/// of its content, its mode or its owner.
pub(super) type FileIdentity = (u64, u64, u64, i64, i64);

/// What a path leads to; none where there is nothing.
pub(super) fn file_identity(path: &Path) -> Option<FileIdentity> {
    let found = std::fs::metadata(path).ok()?;
    let (time, rest) = (found.ctime(), found.ctime_nsec());
    Some((found.dev(), found.ino(), found.size(), time, rest))
}

/// What was seen of files.
pub(super) struct FileWatch<Seen> {
    /// As they were when they were read last, taken over or not.
    read: Seen,
    /// As they were at the last look.
    looked: Seen,
}

impl<Seen: Clone + PartialEq> FileWatch<Seen> {
    /// They are read, and are so now.
    pub(super) fn reading(now: Seen) -> Self {
        Self {
            read: now.clone(),
            looked: now,
        }
    }

    /// Looks again: whether to read them, because they are others than at the last reading and as they were
    /// at the last look.
    pub(super) fn look(&mut self, now: Seen) -> bool {
        let is_still = now == self.looked;
        self.looked = now;
        is_still && self.looked != self.read
    }
}
