//! The floor: an append-only log.

use std::fs::File;
use std::io::Write as _;

use super::group::Group;

/// Starts a thread that appends records to a file, with one `fdatasync` per group.
pub(crate) fn start(mut log: File) -> Group<Vec<u8>> {
    Group::start(move |records: Vec<Vec<u8>>| {
        log.write_all(&records.concat()).unwrap();
        log.sync_data().unwrap();
    })
}
