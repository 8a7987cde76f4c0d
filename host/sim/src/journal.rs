//! The file of an account's books: one JSON record per line, appended and synced before a request is answered,
//! replayed and rewritten without its history at the start.
use std::{
    fs::File,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
};

use kassette_files::NewFile;
use serde::{Serialize, de::DeserializeOwned};

use crate::config::SimError;

/// An open journal. After a failed write it accepts nothing, because the content of the disk is unknown until the
/// next start reads it.
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    broken: bool,
}

impl Journal {
    /// The records in the file, oldest first; empty if the file does not exist. An incomplete last line was never
    /// acknowledged and is ignored.
    pub(crate) fn read<R: DeserializeOwned>(path: &Path) -> Result<Vec<R>, SimError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => {
                return Err(SimError::Books {
                    path: path.into(),
                    source,
                });
            }
        };
        let mut reader = BufReader::new(file);
        let mut records = Vec::new();
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            reader
                .read_until(b'\n', &mut bytes)
                .map_err(|source| SimError::Books {
                    path: path.into(),
                    source,
                })?;
            if bytes.pop() != Some(b'\n') {
                return Ok(records);
            }
            let line = records.len() + 1;
            let record = serde_json::from_slice(&bytes).map_err(|_| SimError::Damaged {
                path: path.into(),
                line,
            })?;
            records.push(record);
        }
    }

    /// Replaces the file by a new one with these records, and opens it.
    pub(crate) fn rewrite<R: Serialize>(path: &Path, records: &[R]) -> Result<Self, SimError> {
        let books = |source| SimError::Books {
            path: path.into(),
            source,
        };
        let lines = lines(records).map_err(books)?;
        let written = NewFile::beside(path, 0o600).and_then(|mut file| {
            file.write_all(&lines)?;
            file.replace()
        });
        Ok(Self {
            path: path.into(),
            file: written.map_err(books)?,
            broken: false,
        })
    }

    /// Appends records in one write, and returns once they are on the disk.
    pub(crate) fn append<R: Serialize>(&mut self, records: &[R]) -> Result<(), SimError> {
        let wrote = if self.broken {
            Err(io::Error::other("an earlier write failed"))
        } else {
            lines(records)
                .and_then(|bytes| self.file.write_all(&bytes))
                .and_then(|()| self.file.sync_data())
        };
        wrote.map_err(|source| {
            self.broken = true;
            SimError::Books {
                path: self.path.clone(),
                source,
            }
        })
    }
}

fn lines<R: Serialize>(records: &[R]) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for record in records {
        serde_json::to_writer(&mut bytes, record)?;
        bytes.push(b'\n');
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_torn_last_line_is_dropped_and_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(&path, "1\n2\n3").unwrap();
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [1, 2]);
        fs::write(&path, "1\n{\n3\n").unwrap();
        assert!(matches!(
            Journal::read::<u32>(&path),
            Err(SimError::Damaged { line: 2, .. })
        ));
    }

    #[test]
    fn books_are_not_written_into_what_another_user_planted() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a.jsonl"), folder.path().join("other"));
        fs::write(&other, "another's").unwrap();
        std::os::unix::fs::symlink(&other, folder.path().join("a.jsonl.new")).unwrap();
        Journal::rewrite(&path, &[1]).unwrap().append(&[2]).unwrap();
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [1, 2]);
        assert_eq!(fs::read(&other).unwrap(), b"another's");
    }

    #[test]
    fn what_was_appended_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let mut journal = Journal::rewrite(&path, &[1, 2]).unwrap();
        journal.append(&[3, 4]).unwrap();
        drop(journal);
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn a_file_that_is_rewritten_keeps_no_history() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        Journal::rewrite(&path, &[1, 2]).unwrap();
        Journal::rewrite(&path, &[9])
            .unwrap()
            .append(&[10])
            .unwrap();
        assert_eq!(Journal::read::<u32>(&path).unwrap(), [9, 10]);
    }
}
