//! Finds the damaged bytes in a database's files.
//!
//! sled reports only where a damaged record starts, or panics without details. Its newest snapshot contains the
//! locations and lengths of all pages' records, so this module reads them all again. A record has one checksum, so
//! the damaged bytes within it cannot be determined.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::durable::{ACKNOWLEDGED, CHECKPOINTED, is_mark};
use crate::segment::{self, Head, SEGMENT_BYTES, SEGMENT_HEAD, take_number};

/// sled's file with all pages.
const DATABASE: &str = "db";
/// sled's folder for pages that are too long for that file.
const BLOBS: &str = "blobs";
/// Bytes of a segment, in the file and in the log.
const SEGMENT: u64 = SEGMENT_BYTES as u64;
/// Description of a record with a wrong checksum.
const ALTERED: &str = "does not read back as it was written";

/// A range of damaged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// Name of the file, relative to the database's folder.
    pub file: String,
    /// Range in the file: one record or the whole file. Empty if the file is missing.
    pub bytes: Range<u64>,
    /// Description of the damage.
    pub what: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, bytes, what } = self;
        match bytes.end.checked_sub(1) {
            Some(last) => write!(f, "bytes {} to {last} of `{file}`: {what}", bytes.start),
            None => write!(f, "`{file}`: {what}"),
        }
    }
}

/// Searches a database that no engine is writing to for damage. Changes nothing.
///
/// # Errors
/// The folder or the names in it cannot be read. A file that cannot be read is part of the result.
pub fn unreadable(folder: &Path) -> io::Result<Vec<Unreadable>> {
    let mut found = Vec::new();
    for name in [ACKNOWLEDGED, CHECKPOINTED] {
        let is_right = |bytes: &[u8]| bytes.is_empty() || is_mark(bytes);
        check_file(folder, name, is_right, &mut found)?;
    }
    let Some((_, name)) = newest_snapshot(folder)? else {
        return Ok(found);
    };
    let mut records = None;
    let parse = |bytes: &[u8]| {
        records = Snapshot::read(bytes).and_then(|snapshot| snapshot.records());
        records.is_some()
    };
    check_file(folder, &name, parse, &mut found)?;
    if let Some(records) = records {
        let (blobs, inline) = records.into_iter().partition(Record::is_blob);
        check_database(folder, inline, &mut found)?;
        check_blobs(folder, blobs, &mut found)?;
    }
    let is_known = |end: &Unreadable| {
        let mut places = found.iter().filter(|known| known.file == end.file);
        places.any(|known| known.bytes.contains(&end.bytes.start))
    };
    match damaged_end(folder) {
        Ok(end) => {
            let end = end.filter(|end| !is_known(end));
            found.extend(end);
        }
        // The records already report what the disk cannot read.
        Err(_) if !found.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// The first damaged record in the segment in which sled's log ends, even if no page uses it any longer. sled
/// would take the log to end before it, overwrite everything that follows with zeros and then refuse to open. This
/// must therefore be checked before sled opens the database.
///
/// `None` if there is no damage, or if the log has continued in another segment since the newest snapshot.
///
/// # Errors
/// The folder or a file cannot be read.
pub(crate) fn damaged_end(folder: &Path) -> io::Result<Option<Unreadable>> {
    let Some((position, name)) = newest_snapshot(folder)? else {
        return Ok(None);
    };
    let snapshot = fs::read(folder.join(name))?;
    let snapshot = Snapshot::read(&snapshot);
    let Some((snapshot, end)) = snapshot.and_then(|snapshot| {
        let end = snapshot.end?;
        Some((snapshot, end))
    }) else {
        return Ok(None);
    };
    let begins = end - end % SEGMENT;
    let position = position - position.rem_euclid(SEGMENT.cast_signed());
    let database = match File::open(folder.join(DATABASE)) {
        // sled creates a new file and rejects it because the snapshot does not match.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        database => database?,
    };
    if !is_last(&database, begins, position)? {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(end - begins).unwrap_or_default()];
    match database.read_exact_at(&mut bytes, begins) {
        // The file was truncated. sled rejects that without changes.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let number = position.cast_unsigned() / SEGMENT;
    let mut at = SEGMENT_HEAD;
    let message = |at: usize| segment::first(bytes.get(at..)?, number);
    while let Some(message) = message(at) {
        at += message.length;
    }
    if at >= bytes.len() {
        return Ok(None);
    }
    // The damage may be in the record's length; the locations of pages limit its range.
    let at = begins + at as u64;
    let records = snapshot.records().unwrap_or_default();
    let behind = records.iter().filter(|record| record.at >= at);
    let to = match behind.min_by_key(|record| record.at) {
        Some(record) if record.at == at => at.saturating_add(record.length),
        Some(record) => record.at,
        None => end,
    };
    Ok(Some(Unreadable {
        file: DATABASE.to_owned(),
        bytes: at..to.min(end),
        what: format!("a record of the segment that the log ends in {ALTERED}"),
    }))
}

/// Whether the segment at offset `begins` has this position, and no segment has a higher one.
fn is_last(database: &File, begins: u64, position: i64) -> io::Result<bool> {
    let length = database.metadata()?.len();
    let mut is_there = false;
    for offset in (0..length).step_by(SEGMENT_BYTES) {
        let mut head = [0; SEGMENT_HEAD];
        match database.read_exact_at(&mut head, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            read => read?,
        }
        match Head::read(head) {
            Some(head) if head.position > position => return Ok(false),
            head if offset == begins => is_there = head.is_some_and(|it| it.position == position),
            _ => {}
        }
    }
    Ok(is_there)
}

/// Offset in `db` up to which sled's log was complete when sled last opened it. `None` if that is the end of a
/// segment, or is unknown.
pub(crate) fn log_end(folder: &Path) -> Option<u64> {
    let (_, name) = newest_snapshot(folder).ok()??;
    Snapshot::read(&fs::read(folder.join(name)).ok()?)?.end
}

/// The log position at which the newest snapshot ends, and the snapshot's name.
pub(crate) fn newest_snapshot(folder: &Path) -> io::Result<Option<(i64, String)>> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        // The name is `snap.` and the log position in hexadecimal, with sixteen digits.
        let end = name.to_str().and_then(|name| name.strip_prefix("snap."));
        let end = end.and_then(|end| i64::from_str_radix(end, 16).ok());
        newest = newest.max(end.map(|end| (end, name.to_string_lossy().into_owned())));
    }
    Ok(newest)
}

/// Reports a file that exists and is damaged.
fn check_file(
    folder: &Path,
    name: &str,
    is_right: impl FnOnce(&[u8]) -> bool,
    found: &mut Vec<Unreadable>,
) -> io::Result<()> {
    let path = folder.join(name);
    let what = match fs::read(&path) {
        Ok(bytes) if is_right(&bytes) => return Ok(()),
        Ok(_) => ALTERED.to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => cannot_be_read(&error),
    };
    found.push(Unreadable {
        file: name.to_owned(),
        bytes: 0..fs::metadata(path)?.len(),
        what: format!("the file {what}"),
    });
    Ok(())
}

fn cannot_be_read(error: &io::Error) -> String {
    format!("cannot be read from the disk ({error})")
}

/// Reports the damaged records of `db`.
fn check_database(
    folder: &Path,
    mut records: Vec<Record>,
    found: &mut Vec<Unreadable>,
) -> io::Result<()> {
    let database = File::open(folder.join(DATABASE))?;
    let length = database.metadata()?.len();
    records.sort_unstable_by_key(|record| record.at);
    let mut bytes = Vec::new();
    let mut cut_off = Vec::new();
    for record in records {
        let place = record.at..record.at.saturating_add(record.length);
        if place.end > length {
            cut_off.push(place);
        } else if let Some(what) = record.wrong(&database, &mut bytes)
            && !record.is_overwritten(&database)
        {
            found.push(Unreadable {
                file: DATABASE.to_owned(),
                bytes: place,
                what: format!("a record of page {} {what}", record.page),
            });
        }
    }
    if let (Some(first), Some(last)) = (cut_off.first(), cut_off.last()) {
        found.push(Unreadable {
            file: DATABASE.to_owned(),
            bytes: first.start..last.end,
            what: format!(
                "the file ends at byte {length}, {} records of pages stood up to here or behind that",
                cut_off.len()
            ),
        });
    }
    Ok(())
}

/// Reports damaged or missing blobs. A blob is a checksum and the data that it covers.
fn check_blobs(folder: &Path, records: Vec<Record>, found: &mut Vec<Unreadable>) -> io::Result<()> {
    for record in records {
        let Some(blob) = record.blob else { continue };
        let name = format!("{BLOBS}/{blob}");
        let is_right = |bytes: &[u8]| {
            let parts = bytes.split_first_chunk();
            parts.is_some_and(|(sum, rest)| u32::from_le_bytes(*sum) == crc32fast::hash(rest))
        };
        if folder.join(&name).try_exists()? {
            check_file(folder, &name, is_right, found)?;
        } else {
            found.push(Unreadable {
                file: name,
                bytes: 0..0,
                what: "the file is missing".to_owned(),
            });
        }
    }
    Ok(())
}

/// sled's snapshot: the end of the log and the locations of all pages (`serialization.rs` of sled 0.34).
struct Snapshot<'b> {
    /// End of the log as an offset in `db`. `None` if the log continues in another segment.
    end: Option<u64>,
    pages: &'b [u8],
}

impl<'b> Snapshot<'b> {
    /// `None` if the snapshot is damaged.
    fn read(bytes: &'b [u8]) -> Option<Self> {
        let (rest, sum) = bytes.split_last_chunk()?;
        // Uncompressed length. Compression is not used.
        let (mut rest, _) = rest.split_last_chunk::<8>()?;
        if u32::from_le_bytes(*sum) != crc32fast::hash(rest) {
            return None;
        }
        let from = &mut rest;
        // Both numbers are stored incremented by one, and zero means none.
        let end = take_position(from)?.checked_sub(1)?;
        let segment = take_number(from)?.checked_sub(1);
        let behind = u64::try_from(end).ok()? % SEGMENT;
        Some(Self {
            end: segment.map(|segment| segment.saturating_add(behind)),
            pages: rest,
        })
    }

    /// The records of all pages. `None` if the format is wrong.
    fn records(&self) -> Option<Vec<Record>> {
        let mut rest = self.pages;
        let from = &mut rest;
        let mut records = Vec::new();
        for page in 0.. {
            if from.is_empty() {
                break;
            }
            match take::<1>(from)? {
                // A removed page. Its record has no content and is not read.
                [0] => {
                    take_position(from)?;
                    take_pointer(from)?;
                }
                // A complete page and its changes since.
                [count] => {
                    for _ in 0..count {
                        records.push(Record::take(page, from)?);
                    }
                }
            }
        }
        Some(records)
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*taken)
}

fn take_position(from: &mut &[u8]) -> Option<i64> {
    take(from).map(i64::from_le_bytes)
}

/// Offset in `db`, and the number of the blob if the record has one.
fn take_pointer(from: &mut &[u8]) -> Option<(u64, Option<i64>)> {
    match take::<1>(from)? {
        [0] => Some((take_number(from)?, None)),
        [1] => Some((take_number(from)?, Some(take_position(from)?))),
        _ => None,
    }
}

/// A record of a page.
struct Record {
    page: u64,
    /// Start of the record in the log.
    position: i64,
    /// Start of the record in `db`.
    at: u64,
    length: u64,
    blob: Option<i64>,
}

impl Record {
    fn take(page: u64, from: &mut &[u8]) -> Option<Self> {
        let position = take_position(from)?;
        let (at, blob) = take_pointer(from)?;
        Some(Self {
            page,
            position,
            at,
            length: take_number(from)?,
            blob,
        })
    }

    const fn is_blob(&self) -> bool {
        self.blob.is_some()
    }

    /// Description of the record's damage in `db`. `None` if it is valid.
    fn wrong(&self, database: &File, bytes: &mut Vec<u8>) -> Option<String> {
        let number = u64::try_from(self.position).unwrap_or_default() / SEGMENT;
        // No record is longer than a segment.
        let length = usize::try_from(self.length.min(SEGMENT)).unwrap_or(SEGMENT_BYTES);
        bytes.resize(length, 0);
        if let Err(error) = database.read_exact_at(bytes, self.at) {
            return Some(cannot_be_read(&error));
        }
        let is_right = segment::first(bytes, number)
            .is_some_and(|message| message.page == self.page && message.length == length);
        (!is_right).then(|| ALTERED.to_owned())
    }

    /// Whether the record's segment was reused since the snapshot. sled reuses a segment only if no page uses it,
    /// so nothing is lost.
    fn is_overwritten(&self, database: &File) -> bool {
        let mut head = [0; SEGMENT_HEAD];
        let read = database.read_exact_at(&mut head, self.at - self.at % SEGMENT);
        let head = Head::read(head).filter(|_| read.is_ok());
        let begins = u64::try_from(self.position).unwrap_or_default() / SEGMENT * SEGMENT;
        head.is_some_and(|head| head.position != begins.cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sled::Db;
    use tempfile::TempDir;

    use super::*;
    use crate::fault::OpenError;
    use crate::folder::Folder;
    use crate::open::open_database;

    /// Enough rows for more than one segment.
    const ROWS: u32 = 3_000;
    const ROW: usize = 3_000;
    /// A row whose page gets its own file.
    const LONG: &[u8] = b"long";

    fn opened(path: &Path) -> Result<Db, OpenError> {
        open_database(&Folder::take(path.to_owned(), 8 << 20)?)
    }

    fn text(row: u32) -> Vec<u8> {
        format!("<{row}>").repeat(ROW).into_bytes()[..ROW].to_vec()
    }

    /// A database that was closed, then opened and closed again.
    fn made() -> (TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let db = opened(&path).unwrap();
        for row in 0..ROWS {
            db.insert(row.to_be_bytes(), text(row)).unwrap();
        }
        db.insert(LONG, vec![7; SEGMENT_BYTES / 2]).unwrap();
        drop(db);
        drop(opened(&path).unwrap());
        (folder, path)
    }

    /// The end of the log, and the records of pages.
    fn snapshot(path: &Path) -> (u64, Vec<Record>) {
        let (_, name) = newest_snapshot(path).unwrap().unwrap();
        let bytes = fs::read(path.join(name)).unwrap();
        let snapshot = Snapshot::read(&bytes).unwrap();
        (snapshot.end.unwrap(), snapshot.records().unwrap())
    }

    /// Runs a closure while one bit of a file is flipped.
    fn flipped<T>(file: &Path, at: u64, look: impl FnOnce() -> T) -> T {
        let file = File::options().read(true).write(true).open(file).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 4], at).unwrap();
        let looked = look();
        file.write_all_at(&byte, at).unwrap();
        looked
    }

    #[test]
    fn a_flipped_bit_is_told_with_the_record_that_holds_it_and_no_other_bit_is() {
        let (_folder, path) = made();
        assert_eq!(unreadable(&path).unwrap(), []);
        let database = path.join(DATABASE);
        let (end, records) = snapshot(&path);
        let inline: Vec<&Record> = records.iter().filter(|record| !record.is_blob()).collect();
        assert!(inline.len() > 100, "{}", inline.len());
        let holds = |at: u64| {
            let holds = |record: &&&Record| (record.at..record.at + record.length).contains(&at);
            inline.iter().find(holds).map(|record| record.page)
        };
        let length = fs::metadata(&database).unwrap().len();
        for at in (SEGMENT_HEAD as u64..length).step_by(90_001) {
            let found = flipped(&database, at, || unreadable(&path).unwrap());
            match holds(at) {
                None if at / SEGMENT == end / SEGMENT && at < end => {
                    assert_eq!(found.len(), 1, "{at}: {found:?}");
                    assert!(found[0].bytes.contains(&at), "{at}: {found:?}");
                }
                None => assert_eq!(found, [], "{at} is in use by no page"),
                Some(page) => {
                    assert_eq!(found.len(), 1, "{at}: {found:?}");
                    assert_eq!(found[0].file, DATABASE);
                    assert!(found[0].bytes.contains(&at), "{at}: {found:?}");
                    let told = format!("a record of page {page} {ALTERED}");
                    assert_eq!(found[0].what, told);
                }
            }
        }
    }

    #[test]
    fn what_is_told_is_what_sled_cannot_read() {
        let (_folder, path) = made();
        let database = path.join(DATABASE);
        let bytes = fs::read(&database).unwrap();
        for row in [0, 1_000, 2_999] {
            let text = text(row);
            let places = bytes.windows(ROW).enumerate();
            let places = places.filter(|(_, window)| *window == text);
            let mut told = 0;
            for (at, _) in places {
                let at = at as u64 + ROW as u64 / 2;
                let (found, reads) = flipped(&database, at, || {
                    let reads = |db: Db| db.get(row.to_be_bytes()).is_ok();
                    let found = unreadable(&path).unwrap();
                    (found, opened(&path).is_ok_and(reads))
                });
                assert_eq!(found.is_empty(), reads, "{row} at {at}: {found:?}");
                told += found.len();
            }
            assert!(told > 0, "a place of row {row} is in use");
        }
    }

    #[test]
    fn a_damaged_end_of_the_log_is_refused_and_nothing_behind_it_is_lost() {
        let (_folder, path) = made();
        let (end, records) = snapshot(&path);
        let last = records
            .iter()
            .filter(|record| record.at / SEGMENT == end / SEGMENT);
        let first = last.min_by_key(|record| record.at).unwrap();
        let (at, database) = (first.at + first.length / 2, path.join(DATABASE));
        let before = fs::read(&database).unwrap();
        let refused = flipped(&database, at, || opened(&path).err().unwrap());
        assert!(fs::read(&database).unwrap() == before, "sled wrote to it");
        let place = first.at..first.at + first.length;
        let told = format!("bytes {} to {} of `db`", place.start, place.end - 1);
        assert!(refused.to_string().contains(&told), "{refused}, {place:?}");
        opened(&path).unwrap();
    }

    #[test]
    fn a_page_with_a_file_of_its_own_is_told_by_that() {
        let (_folder, path) = made();
        let (_, records) = snapshot(&path);
        let blobs: Vec<i64> = records.iter().filter_map(|record| record.blob).collect();
        let [blob] = blobs[..] else {
            panic!("{blobs:?}")
        };
        let name = format!("{BLOBS}/{blob}");
        let told = |what: &str, bytes: Range<u64>| Unreadable {
            file: name.clone(),
            bytes,
            what: what.to_owned(),
        };
        let file = path.join(&name);
        let length = fs::metadata(&file).unwrap().len();
        let found = flipped(&file, length / 2, || unreadable(&path).unwrap());
        let what = format!("the file {ALTERED}");
        assert_eq!(found, [told(&what, 0..length)]);
        fs::remove_file(file).unwrap();
        let found = unreadable(&path).unwrap();
        assert_eq!(found, [told("the file is missing", 0..0)]);
    }

    #[test]
    fn a_file_that_was_cut_short_is_told_with_where_it_ends() {
        let (_folder, path) = made();
        let (_, records) = snapshot(&path);
        let inline = records.into_iter().filter(|record| !record.is_blob());
        let last = inline.max_by_key(|record| record.at).unwrap();
        let database = File::options().write(true).open(path.join(DATABASE));
        database.unwrap().set_len(last.at + 1).unwrap();
        let found = unreadable(&path).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].bytes, last.at..last.at + last.length);
        let ends = format!("the file ends at byte {}", last.at + 1);
        assert!(found[0].what.starts_with(&ends), "{found:?}");
    }

    #[test]
    fn a_segment_that_was_used_anew_is_not_told() {
        let (_folder, path) = made();
        let database = File::options()
            .read(true)
            .write(true)
            .open(path.join(DATABASE))
            .unwrap();
        let mut head = [0; SEGMENT_HEAD];
        database.read_exact_at(&mut head, 0).unwrap();
        let head = Head::read(head).unwrap();
        let zeros = vec![0; SEGMENT_BYTES - SEGMENT_HEAD];
        database.write_all_at(&zeros, SEGMENT_HEAD as u64).unwrap();
        assert!(!unreadable(&path).unwrap().is_empty());
        let anew = Head {
            position: 9 * head.position.max(SEGMENT.cast_signed()),
            ..head
        };
        database.write_all_at(&anew.write(), 0).unwrap();
        assert_eq!(unreadable(&path).unwrap(), []);
    }

    #[test]
    fn a_snapshot_or_a_mark_that_does_not_read_back_is_told() {
        let (_folder, path) = made();
        let (_, name) = newest_snapshot(&path).unwrap().unwrap();
        let length = fs::metadata(path.join(&name)).unwrap().len();
        let found = flipped(&path.join(&name), length / 2, || unreadable(&path).unwrap());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].file, &found[0].bytes), (&name, &(0..length)));
        fs::write(path.join(CHECKPOINTED), [1; 12]).unwrap();
        let found = unreadable(&path).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].file, CHECKPOINTED);
    }
}
