//! Write-ahead log, which makes a group durable with one write and one `fdatasync`.
//!
//! sled's own way to the disk wakes seven threads, waits for the disk two times and writes whole pages. Each group
//! is therefore appended here before its callers are answered; the database follows once per epoch. The next start
//! recovers from the log what the database lacks.
//!
//! The log has two files, each with one **epoch**: consecutive groups. A file is overwritten only when the
//! database has its whole epoch on disk; until then the next epoch goes to the other file. Files are created at
//! their full length, so that a sync does not have to write a new length.
//!
//! Each group is one **record**, which starts at a page boundary. No write touches a page of an acknowledged
//! group. Records of an earlier epoch behind the last record are recognized by their salt.
//! | bytes | part of a record |
//! |---|---|
//! | 4 | CRC-32 of this layout's name and everything that follows, without the padding |
//! | 4 | length of the rows |
//! | 8 | number of the epoch |
//! | 8 | salt, drawn for each epoch |
//! | 8 | number of the group |
//! | | rows: length of the key, length of the value or [`REMOVED`], key, value |
//! | | zeros up to the next page |

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use sled::IVec;

use crate::durable::{ACKNOWLEDGED, GroupNumberFile};
use crate::rows::Made;

/// Names of the two files.
pub const NAMES: [&str; 2] = ["log.0", "log.1"];
/// Length of a file in bytes. Only a group that is longer than a whole file makes it longer.
pub(crate) const FILE_BYTES: usize = 512 << 10;
/// Bytes of a page: the disk's write unit or a multiple of it.
const PAGE: usize = 4096;
/// Bytes of a record's header.
const HEADER: usize = 32;
/// Stored instead of a value's length if the row was removed.
const REMOVED: u32 = u32::MAX;
/// Prefix of the checksummed data. Another layout needs another name.
const LAYOUT: &[u8] = b"kassette log 1";

/// The log, open for appending.
pub(crate) struct Journal {
    files: [File; 2],
    acknowledged: GroupNumberFile,
    /// Index of the file with the current epoch.
    current: usize,
    epoch: u64,
    salt: u64,
    /// Offset of the next record.
    end: usize,
    /// Whether this process has appended to the current epoch.
    is_used: bool,
    /// Offset up to which each file could be read when it was opened.
    read_to: [usize; 2],
    record: Vec<u8>,
}

/// A group read from the log. A row is `None` if it was removed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) number: u64,
    pub(crate) rows: Vec<(IVec, Option<IVec>)>,
}

impl Journal {
    /// Opens or creates the log of a database and returns the consecutive groups in it, oldest first. Some may
    /// already be in the database. Before the first append, the database must have all of them on disk.
    pub(crate) fn open(folder: &Path) -> io::Result<(Self, Vec<Logged>)> {
        let [first, second] = NAMES.map(|name| open_file(&folder.join(name)));
        let files = [first?, second?];
        let [first, second] = [read_epoch(&files[0])?, read_epoch(&files[1])?];
        let latest = [&first, &second].map(|epoch| epoch.as_ref().map_or(0, |each| each.number));
        let read_to = [&first, &second].map(|epoch| epoch.as_ref().map_or(0, |each| each.end));
        // The first append rotates, and so starts in the other file.
        let current = usize::from(latest[1] > latest[0]);
        let mut epochs: Vec<Epoch> = [first, second].into_iter().flatten().collect();
        epochs.sort_by_key(|epoch| epoch.number);
        let mut logged: Vec<Logged> = Vec::new();
        for epoch in epochs {
            // Groups that a crash removed from the end of an epoch were never acknowledged, and the next epoch
            // reuses their numbers.
            let first = epoch.groups.first().map_or(0, |group| group.number);
            logged.retain(|group| group.number < first);
            if logged.last().is_some_and(|last| last.number + 1 != first) {
                logged.clear();
            }
            logged.extend(epoch.groups);
        }
        let journal = Self {
            files,
            acknowledged: GroupNumberFile::open(folder, ACKNOWLEDGED)?,
            current,
            epoch: latest[0].max(latest[1]),
            salt: 0,
            end: FILE_BYTES,
            is_used: false,
            read_to,
            record: Vec::new(),
        };
        Ok((journal, logged))
    }

    /// Number of the last acknowledged group; see [`GroupNumberFile`].
    pub(crate) fn last_acknowledged(&self) -> io::Result<Option<u64>> {
        self.acknowledged.read()
    }

    /// Offset up to which each file could be read when it was opened. Data behind it belongs to an earlier epoch
    /// or is damaged.
    pub(crate) const fn read_to(&self) -> [usize; 2] {
        self.read_to
    }

    /// Whether a group fits into the current epoch.
    pub(crate) fn has_room(&self, made: &Made) -> bool {
        self.end + length(made) <= FILE_BYTES
    }

    /// Starts an epoch in the other file. The database must have that file's old epoch on disk. Returns whether
    /// anything was appended to the epoch that ends.
    pub(crate) fn rotate(&mut self) -> io::Result<bool> {
        let was_used = self.is_used;
        let mut salt = [0; 8];
        getrandom::fill(&mut salt).map_err(io::Error::other)?;
        self.salt = u64::from_be_bytes(salt);
        self.epoch += 1;
        self.current = 1 - self.current;
        self.end = 0;
        self.is_used = false;
        Ok(was_used)
    }

    /// Appends a group. The caller has checked [`has_room`](Self::has_room) or has just rotated.
    pub(crate) fn append(&mut self, number: u64, made: &Made) -> io::Result<()> {
        let Self { record, .. } = self;
        record.clear();
        record.extend([0; 8]);
        record.extend(self.epoch.to_be_bytes());
        record.extend(self.salt.to_be_bytes());
        record.extend(number.to_be_bytes());
        for (key, row) in &made.written {
            let of = |bytes: &[u8]| u32::try_from(bytes.len()).map_err(io::Error::other);
            let value = row.as_deref();
            record.extend(of(key)?.to_be_bytes());
            record.extend(value.map_or(Ok(REMOVED), of)?.to_be_bytes());
            record.extend(key);
            record.extend(value.unwrap_or_default());
        }
        let length = u32::try_from(record.len() - HEADER).map_err(io::Error::other)?;
        record[4..8].copy_from_slice(&length.to_be_bytes());
        let sum = checksum(record);
        record[..4].copy_from_slice(&sum.to_be_bytes());
        record.resize(record.len().next_multiple_of(PAGE), 0);
        self.files[self.current].write_all_at(record, self.end as u64)?;
        self.is_used = true;
        self.end += record.len();
        Ok(())
    }

    /// Returns once everything appended is on disk.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.files[self.current].sync_data()
    }

    /// Records that a group is on disk, before its callers are answered.
    pub(crate) fn acknowledge(&self, group: u64) -> io::Result<()> {
        self.acknowledged.write(group)
    }
}

/// Length of a group's record in bytes, with padding.
fn length(made: &Made) -> usize {
    (HEADER + 8 * made.written.len() + made.bytes).next_multiple_of(PAGE)
}

/// Checksum of a record, without its first four bytes.
fn checksum(record: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(LAYOUT);
    crc.update(record.get(4..).unwrap_or_default());
    crc.finalize()
}

/// Opens a file, extends it to its full length and syncs it, but not its name.
fn open_file(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let length = file.metadata()?.len();
    let missing = (FILE_BYTES as u64).saturating_sub(length);
    if missing > 0 {
        // The zeros are written so that blocks are allocated and a later sync writes no metadata.
        let zeros = vec![0; usize::try_from(missing).unwrap_or(FILE_BYTES)];
        file.write_all_at(&zeros, length)?;
    }
    file.sync_all()?;
    Ok(file)
}

/// Contents of a file.
struct Epoch {
    number: u64,
    groups: Vec<Logged>,
    /// Offset at which the last group ends.
    end: usize,
}

/// Reads an epoch up to the first record that is damaged or belongs to another epoch. `None` if there is no
/// record.
fn read_epoch(file: &File) -> io::Result<Option<Epoch>> {
    let mut bytes = vec![0; usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?];
    file.read_exact_at(&mut bytes, 0)?;
    let mut rest = bytes.as_slice();
    let mut found: Option<(Epoch, u64)> = None;
    while let Some(record) = Record::first_of(rest) {
        let (epoch, salt) = found.get_or_insert_with(|| {
            let number = record.epoch;
            let groups = Vec::new();
            let end = 0;
            let epoch = Epoch {
                number,
                groups,
                end,
            };
            (epoch, record.salt)
        });
        let follows = epoch
            .groups
            .last()
            .is_none_or(|last| last.number + 1 == record.group);
        if (epoch.number, *salt) != (record.epoch, record.salt) || !follows {
            break;
        }
        let Some(rows) = rows(record.rows) else { break };
        epoch.groups.push(Logged {
            number: record.group,
            rows,
        });
        let length = (HEADER + record.rows.len()).next_multiple_of(PAGE);
        epoch.end += length;
        rest = rest.get(length..).unwrap_or_default();
    }
    Ok(found.map(|(epoch, _)| epoch))
}

/// A record with a valid checksum.
struct Record<'a> {
    epoch: u64,
    salt: u64,
    group: u64,
    rows: &'a [u8],
}

impl<'a> Record<'a> {
    fn first_of(bytes: &'a [u8]) -> Option<Self> {
        let (sum, rest) = bytes.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let whole = bytes.get(..HEADER.checked_add(length)?)?;
        if checksum(whole) != u32::from_be_bytes(*sum) {
            return None;
        }
        let (epoch, rest) = rest.split_first_chunk()?;
        let (salt, rest) = rest.split_first_chunk()?;
        let (group, rest) = rest.split_first_chunk()?;
        Some(Self {
            epoch: u64::from_be_bytes(*epoch),
            salt: u64::from_be_bytes(*salt),
            group: u64::from_be_bytes(*group),
            rows: rest.get(..length)?,
        })
    }
}

fn rows(mut bytes: &[u8]) -> Option<Vec<(IVec, Option<IVec>)>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let (key, rest) = bytes.split_first_chunk()?;
        let (value, rest) = rest.split_first_chunk()?;
        let [key, value] = [*key, *value].map(u32::from_be_bytes);
        let (key, rest) = rest.split_at_checked(usize::try_from(key).ok()?)?;
        let (value, rest) = match value {
            REMOVED => (None, rest),
            length => {
                let (value, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
                (Some(IVec::from(value)), rest)
            }
        };
        rows.push((IVec::from(key), value));
        bytes = rest;
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    fn made(number: u64, length: usize) -> Made {
        let key = |name: &str| format!("{name} of {number}").into_bytes();
        let value = IVec::from(number.to_string().repeat(length).as_bytes());
        let rows = [(key("written"), Some(value)), (key("removed"), None)];
        Made::new(rows.into())
    }

    fn append(journal: &mut Journal, number: u64, length: usize) {
        let made = made(number, length);
        if !journal.has_room(&made) {
            journal.rotate().unwrap();
        }
        journal.append(number, &made).unwrap();
    }

    fn logged(number: u64, length: usize) -> Logged {
        let rows = made(number, length).written.into_iter();
        let rows = rows.map(|(key, row)| (IVec::from(key), row)).collect();
        Logged { number, rows }
    }

    fn opened(folder: &TempDir) -> (Journal, Vec<Logged>) {
        Journal::open(folder.path()).unwrap()
    }

    fn numbers(folder: &TempDir) -> Vec<u64> {
        let (_, logged) = opened(folder);
        logged.iter().map(|group| group.number).collect()
    }

    #[test]
    fn what_was_appended_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, found) = opened(&folder);
        assert_eq!(found, []);
        let lengths = [1, 0, 5_000, 100_000, 7];
        for (number, length) in (5..).zip(lengths) {
            append(&mut journal, number, length);
        }
        let all: Vec<Logged> = (5..)
            .zip(lengths)
            .map(|(n, length)| logged(n, length))
            .collect();
        assert_eq!(opened(&folder).1, all);
    }

    #[test]
    fn a_group_that_is_longer_than_a_file_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&folder);
        append(&mut journal, 1, 1);
        append(&mut journal, 2, FILE_BYTES + 1);
        append(&mut journal, 3, 1);
        assert_eq!(opened(&folder).1, [logged(2, FILE_BYTES + 1), logged(3, 1)]);
    }

    #[test]
    fn the_last_two_epochs_are_there_and_none_before_them() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&folder);
        let mut begins = Vec::new();
        for number in 1..2_000 {
            let epoch = journal.epoch;
            append(&mut journal, number, 10);
            if journal.epoch > epoch {
                begins.push(number);
            }
        }
        let [.., before, _] = begins[..] else {
            panic!("{begins:?}");
        };
        assert!(begins.len() > 4);
        assert_eq!(numbers(&folder), (before..2_000).collect::<Vec<_>>());
    }

    #[test]
    fn what_an_epoch_lost_in_a_crash_does_not_come_back_behind_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&folder);
        for number in 1..=6 {
            append(&mut journal, number, 10);
        }
        // The crash removes group 4 and leaves the groups behind it. Groups 1 to 3 were acknowledged.
        let path = folder.path().join(NAMES[journal.current]);
        let mut bytes = fs::read(&path).unwrap();
        let lost = bytes[3 * PAGE..4 * PAGE].to_vec();
        bytes[3 * PAGE..4 * PAGE].fill(0);
        fs::write(&path, &bytes).unwrap();
        let (mut journal, found) = opened(&folder);
        assert_eq!(found.len(), 3);
        append(&mut journal, 4, 20);
        // The old record must not count even if it reappears later.
        bytes[3 * PAGE..4 * PAGE].copy_from_slice(&lost);
        fs::write(&path, &bytes).unwrap();
        let (mut journal, found) = opened(&folder);
        assert_eq!(found.last(), Some(&logged(4, 20)));
        assert_eq!(found.len(), 4);
        // The file is rotated to again: the old records behind the new one belong to another epoch.
        append(&mut journal, 5, 1);
        assert_eq!(numbers(&folder), [4, 5]);
    }

    #[test]
    fn an_epoch_is_not_taken_for_one_of_the_same_number() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = opened(&folder);
        for number in 1..=3 {
            append(&mut journal, number, 10);
        }
        let current = folder.path().join(NAMES[journal.current]);
        let mut bytes = fs::read(&current).unwrap();
        // The first record never reached the disk, so its number is used again.
        let rest = bytes[PAGE..2 * PAGE].to_vec();
        bytes[..PAGE].fill(0);
        fs::write(&current, &bytes).unwrap();
        let (mut journal, found) = opened(&folder);
        assert_eq!(found, []);
        append(&mut journal, 1, 9);
        let current = folder.path().join(NAMES[journal.current]);
        let mut bytes = fs::read(&current).unwrap();
        bytes[PAGE..2 * PAGE].copy_from_slice(&rest);
        fs::write(&current, &bytes).unwrap();
        assert_eq!(opened(&folder).1, [logged(1, 9)]);
    }

    proptest! {
        #[test]
        fn damage_takes_a_record_and_those_behind_it_and_changes_none(
            lengths in prop::collection::vec(0_usize..4_000, 1..12),
            at: prop::sample::Index,
            bit in 0_u8..8,
            cut: bool,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (mut journal, _) = opened(&folder);
            // End of each record's rows, and end of its padding.
            let mut ends = Vec::new();
            for (number, length) in (1..).zip(&lengths) {
                append(&mut journal, number, *length);
                let made = made(number, *length);
                let filled = HEADER + 8 * made.written.len() + made.bytes;
                ends.push((journal.end - filled.next_multiple_of(PAGE) + filled, journal.end));
            }
            let path = folder.path().join(NAMES[journal.current]);
            let mut bytes = fs::read(&path).unwrap();
            let at = at.index(journal.end);
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << bit;
            }
            fs::write(&path, &bytes).unwrap();
            let (_, found) = opened(&folder);
            let before = ends.iter().take_while(|(_, end)| *end <= at).count();
            let harmless = at >= ends[before].0;
            let left = match (harmless, cut) {
                (false, _) => before,
                (true, true) => before + 1,
                (true, false) => lengths.len(),
            };
            let all = (1..).zip(&lengths).map(|(number, length)| logged(number, *length));
            prop_assert_eq!(found, all.take(left).collect::<Vec<_>>());
        }
    }
}
