//! The floor: a log that is only appended to.

use std::fs::File;
use std::io::Write as _;

use super::group::Group;

/// Appends records to a file and makes each group of them durable with one `fdatasync`.
pub(crate) fn start(mut log: File) -> Group<Vec<u8>> {
    Group::start(move |records: Vec<Vec<u8>>| {
        log.write_all(&records.concat()).unwrap();
        log.sync_data().unwrap();
    })
}
