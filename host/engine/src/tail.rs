//! Makes sled's log tell its end by itself, so that no power cut at a start costs any of it.
//!
//! When sled opens a database it goes through what its log has behind the newest snapshot and writes a
//! snapshot anew: where in the log each page stands. It gives that its name, removes older ones, writes
//! zeros over the segments in which no page stands any more, and cuts off those at the file's end. It
//! syncs what is in the snapshot, but no name: until we have synced the folder, the disk may have any
//! part of this without the rest. The next start then goes through the log from an older snapshot, or
//! through all of it, and comes upon the zeros.
//!
//! **Before the log's tail zeros make no difference.** sled reads the segments that have a head in the
//! order of their positions; where one is missing, or breaks off, it goes on with the next, because those
//! that were used anew are missing as well (`LogIter::next`, in its last stage). A page stands where it
//! was last written whole, or given up, and where its changes since are. All these places sled counts
//! before it takes a segment for empty (`SegmentAccountant::initial_segments`). So whatever stands in one
//! that it empties was replaced further on, by what stands in another that stays: a reading without it
//! ends with the same places for every page, wherever it begins.
//!
//! **In the tail they end the log.** Each head says up to where the log was whole when its segment was
//! begun. From the segment of the highest such position on, mostly the last but one, none may be missing
//! and none may break off: sled does not read what comes behind such a gap, and writes zeros over it
//! (`check_contiguity_in_unstable_tail`, `advance_snapshot`). Yet sled empties segments of the tail like all
//! others. If all that the last but one held was replaced in the last, sled has emptied the last but one, and
//! only the snapshot keeps the next start from taking the whole log for empty.
//!
//! So before sled opens a database, the heads in its tail are made to say that the log is whole up to the
//! very segment that they head. It is: the file was synced, and a head is written anew only if the
//! segments of the tail before it were read through to their ends. From then on the tail begins with the
//! segment that the log ends in. That one sled never empties: it is being written, or the last page that
//! was written stands in it.
//!
//! A cut may tear a head that is being written, and a torn head is none. So the new ones stand in a file
//! of their own before, and the next start writes them once more. That file is gone from
//! the disk before sled opens anything.

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

/// The file with heads that are being written.
const NAME: &str = "heads";
/// Bytes of a segment, as positions count.
const SEGMENT: i64 = (SEGMENT_BYTES as u64).cast_signed();

/// Where in the file a segment begins, and its head.
type HeadAt = (u64, Head);

/// Makes all of a database durable that no engine has open, and its log tell its end. A caller that lets sled
/// open one calls this before.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`] where an engine has it open.
pub(crate) fn settle_tail(folder: &Path) -> io::Result<()> {
    let path = folder.join("db");
    let database = match File::options().read(true).write(true).open(path) {
        // It is to be made.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        database => database?,
    };
    // sled's own lock, too: a worker of an engine that was just closed may still write.
    crate::folder::take(&database)?;
    durable_write::trust(&database)?;
    if let Some(heads) = read(folder)? {
        heads
            .into_iter()
            .try_for_each(|head_at| write_once_more(&database, head_at))?;
        database.sync_data()?;
    }
    remove(folder)?;
    // Names first: a process that was killed may have given a snapshot its name before it emptied segments.
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

/// Writes a head that may be torn, unless another segment than its own stands there: torn or not, the
/// bytes of its position are as they were.
fn write_once_more(database: &File, (offset, head): HeadAt) -> io::Result<()> {
    let (new, mut found) = (head.write(), [0; SEGMENT_HEAD]);
    match database.read_exact_at(&mut found, offset) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(()),
        Ok(()) if found[POSITION] != new[POSITION] => Ok(()),
        read => read.and_then(|()| database.write_all_at(&new, offset)),
    }
}

/// The position from which sled reads the log: that of the segment that the newest snapshot ends in.
fn newest_snapshot(folder: &Path) -> io::Result<i64> {
    let newest = unreadable::newest_snapshot(folder)?;
    Ok(newest.map_or(0, |(end, _)| segment_of(end)))
}

/// Where the segment of a position begins.
fn segment_of(position: i64) -> i64 {
    (position - position.rem_euclid(SEGMENT)).max(0)
}

/// The segments of the log's tail up to the one that it ends in, as sled finds them from a position on.
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

/// Whether all of a segment reads back.
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

/// Bytes of an offset and a head in the file.
const HEAD_AT: usize = 8 + SEGMENT_HEAD;

/// Writes the file: offsets and heads, then their check sum.
fn write(folder: &Path, heads: &[HeadAt]) -> io::Result<()> {
    let mut bytes = Vec::new();
    for (offset, head) in heads {
        bytes.extend(offset.to_be_bytes());
        bytes.extend(head.write());
    }
    bytes.extend(crc32fast::hash(&bytes).to_be_bytes());
    kassette_files::write(&folder.join(NAME), 0o600, &bytes)
}

/// What the file says; none where there is none. One that does not read back says nothing: what it was
/// written for is only needed if a cut has torn a head as well.
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
