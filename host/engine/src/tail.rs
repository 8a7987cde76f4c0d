//! Protects the end of sled's log, so that a power cut during a start cannot remove any of it.
//!
//! When sled opens a database, it reads the log after the newest snapshot and writes a new snapshot with all page
//! locations. It renames the snapshot to its final name, removes older ones, writes zeros over segments that no
//! page uses, and truncates the file to drop unused segments at its end. sled syncs the content of the snapshot,
//! but no names: until we sync the folder, any part of these changes may be on disk without the others. The next
//! start may then read the log from an older snapshot or from the beginning, and encounter the zeros.
//!
//! **Zeros before the log's tail are harmless.** sled reads the segments with a valid head in the order of their
//! positions. If a segment is missing or incomplete, sled continues with the next one, because reused segments are
//! missing too (last stage of `LogIter::next`). The locations of a page are its last complete version, or its
//! removal, and its changes after that. sled counts all of them before it treats a segment as empty
//! (`SegmentAccountant::initial_segments`). Each record in a segment that sled empties was therefore replaced
//! later in the log, in a segment that stays. Reading without the emptied segment gives the same locations, from
//! any starting point.
//!
//! **Zeros in the tail end the log.** Each head records up to which position the log was complete when its segment
//! was started. The tail starts with the segment of the highest such position, usually the last but one. In the
//! tail no segment may be missing or incomplete: sled does not read beyond such a gap, and overwrites what follows
//! with zeros (`check_contiguity_in_unstable_tail`, `advance_snapshot`). But sled empties segments in the tail
//! like all others. If the last segment has replaced everything in the last but one, sled empties the latter, and
//! without the new snapshot the next start would treat the whole log as empty.
//!
//! Before sled opens a database, we therefore rewrite the heads in the tail: each then records that the log is
//! complete up to its own segment. This is true, because the file was synced, and a head is only rewritten after
//! all earlier segments of the tail were read to their ends. The tail then consists of the last segment only. sled
//! never empties that one: it is being written, or contains the page written last.
//!
//! A power cut may tear a head during the rewrite, which makes it invalid. The new heads are therefore first
//! written to a separate file, from which the next start repeats the rewrite. That file is removed from disk
//! before sled opens the database.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use kassette_files::durable_write;

use crate::durable::settle;
use crate::segment::SEGMENT_BYTES;
use crate::segment::{self, Head, POSITION, SEGMENT_HEAD};
use crate::unreadable;

/// File with heads that are being rewritten.
const NAME: &str = "heads";
/// Length of a segment, in the type of positions.
const SEGMENT: i64 = (SEGMENT_BYTES as u64).cast_signed();

/// Offset of a segment in the file, and its head.
type HeadAt = (u64, Head);

/// Makes a database that no engine has open completely durable, and rewrites the heads in its log's tail. Must be
/// called before sled opens the database.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] if an engine has it open.
pub(crate) fn settle_tail(folder: &Path) -> io::Result<()> {
    let path = folder.join("db");
    let database = match File::options().read(true).write(true).open(path) {
        // The database does not exist yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        database => database?,
    };
    // This is also sled's own lock: a worker of an engine that was just closed may still write.
    crate::folder::take(&database)?;
    durable_write::trust(&database)?;
    if let Some(heads) = read(folder)? {
        heads
            .into_iter()
            .try_for_each(|head_at| write_once_more(&database, head_at))?;
        database.sync_data()?;
    }
    remove(folder)?;
    // Names first: a killed process may have renamed a snapshot before it emptied segments.
    File::open(folder)?.sync_all()?;
    settle(folder)?;
    let tail = tail(&database, newest_snapshot(folder)?)?;
    let heads: Vec<HeadAt> = tail
        .into_iter()
        .filter(|(_, head)| head.whole_to < head.position)
        .map(|(offset, head)| {
            let whole_to = head.position;
            (offset, Head { whole_to, ..head })
        })
        .collect();
    if heads.is_empty() {
        return Ok(());
    }
    write(folder, &heads)?;
    write_heads(&database, &heads)?;
    database.sync_data()?;
    remove(folder)?;
    File::open(folder)?.sync_all()
}

fn write_heads(database: &File, heads: &[HeadAt]) -> io::Result<()> {
    heads
        .iter()
        .try_for_each(|(offset, head)| database.write_all_at(&head.write(), *offset))
}

/// Repeats the rewrite of a head that may be torn, unless the place now holds another segment. The position is the
/// same in the old and new head, so a torn head has it too.
fn write_once_more(database: &File, (offset, head): HeadAt) -> io::Result<()> {
    let (new, mut found) = (head.write(), [0; SEGMENT_HEAD]);
    match database.read_exact_at(&mut found, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Ok(()) if found[POSITION] != new[POSITION] => Ok(()),
        read => read.and_then(|()| database.write_all_at(&new, offset)),
    }
}

/// Position of the segment in which the newest snapshot ends, from which sled reads the log. 0 if there is no
/// snapshot.
fn newest_snapshot(folder: &Path) -> io::Result<i64> {
    let newest = unreadable::newest_snapshot(folder)?;
    Ok(newest.map_or(0, |(end, _)| segment_of(end)))
}

/// Position at which the segment of a position starts.
fn segment_of(position: i64) -> i64 {
    (position - position.rem_euclid(SEGMENT)).max(0)
}

/// Segments of the log's tail, in order, as sled would find them when it reads from a position. Stops at a segment
/// that is missing or follows an incomplete one.
fn tail(database: &File, from: i64) -> io::Result<Vec<HeadAt>> {
    let length = database.metadata()?.len();
    let mut heads = BTreeMap::new();
    for offset in (0..length).step_by(SEGMENT_BYTES) {
        let mut head = [0; SEGMENT_HEAD];
        match database.read_exact_at(&mut head, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        if let Some(head) = Head::read(head).filter(|head| head.position >= from) {
            heads.insert(head.position, (offset, head));
        }
    }
    let whole_to = heads.values().map(|(_, head)| head.whole_to).max();
    let mut position = segment_of(whole_to.unwrap_or(from).max(from));
    let mut tail = Vec::new();
    let mut bytes = Vec::new();
    while let Some(head_at) = heads.get(&position) {
        tail.push(*head_at);
        position = position.saturating_add(SEGMENT);
        if !heads.contains_key(&position) || !is_whole(database, head_at, &mut bytes)? {
            break;
        }
    }
    Ok(tail)
}

/// Whether a complete segment can be read.
fn is_whole(database: &File, (offset, head): &HeadAt, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.resize(SEGMENT_BYTES, 0);
    match database.read_exact_at(bytes, *offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => {
            read?;
            let number = (head.position / SEGMENT).cast_unsigned();
            Ok(segment::is_whole(bytes, number))
        }
    }
}

/// Bytes of an entry of the file: an offset and a head.
const HEAD_AT: usize = 8 + SEGMENT_HEAD;

/// Writes the file: its entries, then their checksum.
fn write(folder: &Path, heads: &[HeadAt]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (offset, head) in heads {
        bytes.extend(offset.to_be_bytes());
        bytes.extend(head.write());
    }
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    kassette_files::write(&folder.join(NAME), 0o600, &bytes)
}

/// Reads the file. `None` if it is missing or damaged. A damaged one is not needed: heads are rewritten only after
/// it was written completely.
fn read(folder: &Path) -> io::Result<Option<Vec<HeadAt>>> {
    let bytes = match fs::read(folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes?,
    };
    let heads = bytes.split_last_chunk().and_then(|(heads, sum)| {
        let (heads, rest) = heads.as_chunks::<HEAD_AT>();
        let is_right = !heads.is_empty()
            && rest.is_empty()
            && u32::from_be_bytes(*sum) == crc32fast::hash(heads.as_flattened());
        is_right.then(|| heads.iter().map(head_at).collect())?
    });
    if heads.is_none() {
        tracing::warn!("`{NAME}` of the store does not read back and is left out");
    }
    Ok(heads)
}

fn head_at(bytes: &[u8; HEAD_AT]) -> Option<HeadAt> {
    let (offset, head) = bytes.split_first_chunk()?;
    let offset = u64::from_be_bytes(*offset);
    Some((offset, Head::read(*head.first_chunk()?)?))
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_file(folder.join(NAME)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
