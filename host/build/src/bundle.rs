//! Modules appended to the executable file, so that a release is one file.
//!
//! The operating system ignores bytes after the program. These are: the modules, one after the other; an index of
//! them in JSON; its length as a 64-bit little-endian integer; and a mark.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};

/// Last bytes of a program with appended modules.
const MARK: &[u8; 16] = b"kassette modules";
/// Length of the mark and of the length before it, in bytes.
const TAIL: u64 = 24;

/// A module appended to a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundledModule {
    /// `method.ideal`
    pub slot: String,
    /// The component.
    pub bytes: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    slot: String,
    bytes: u64,
}

/// Appends modules to a program that has none.
pub(crate) fn append(program: &mut Vec<u8>, modules: &[BundledModule]) -> serde_json::Result<()> {
    let entries: Vec<_> = modules
        .iter()
        .map(|module| Entry {
            slot: module.slot.clone(),
            bytes: module.bytes.len() as u64,
        })
        .collect();
    let index = serde_json::to_vec(&entries)?;
    for module in modules {
        program.extend_from_slice(&module.bytes);
    }
    program.extend_from_slice(&index);
    program.extend_from_slice(&(index.len() as u64).to_le_bytes());
    program.extend_from_slice(MARK);
    Ok(())
}

/// Returns the modules appended to a program. Empty if it has none.
///
/// # Errors File system errors, and [`io::ErrorKind::InvalidData`] if the index is damaged.
pub fn bundled(program: &Path) -> io::Result<Vec<BundledModule>> {
    let mut file = File::open(program)?;
    let Some(index_ends) = file.metadata()?.len().checked_sub(TAIL) else {
        return Ok(Vec::new());
    };
    file.seek(SeekFrom::Start(index_ends))?;
    let (mut length, mut mark) = ([0; 8], [0; MARK.len()]);
    file.read_exact(&mut length)?;
    file.read_exact(&mut mark)?;
    if mark != *MARK {
        return Ok(Vec::new());
    }
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the modules in it are damaged");
    // The `checked_sub` calls keep every length within the size of the file.
    let index_length = u64::from_le_bytes(length);
    let index_starts = index_ends.checked_sub(index_length).ok_or_else(damaged)?;
    let index = read_at(&mut file, index_starts, index_length)?;
    let entries: Vec<Entry> = serde_json::from_slice(&index).map_err(|_| damaged())?;
    let mut starts = entries
        .iter()
        .try_fold(index_starts, |left, entry| left.checked_sub(entry.bytes))
        .ok_or_else(damaged)?;
    let mut modules = Vec::with_capacity(entries.len());
    for Entry { slot, bytes } in entries {
        let read = read_at(&mut file, starts, bytes)?;
        modules.push(BundledModule { slot, bytes: read });
        starts += bytes;
    }
    Ok(modules)
}

fn read_at(file: &mut File, at: u64, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at))?;
    file.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules() -> Vec<BundledModule> {
        [
            ("method.ideal", b"one".to_vec()),
            ("provider.x", Vec::new()),
        ]
        .map(|(slot, bytes)| BundledModule {
            slot: slot.into(),
            bytes,
        })
        .to_vec()
    }

    /// Result of [`bundled`] for a program with these bytes.
    fn read(bytes: &[u8]) -> io::Result<Vec<BundledModule>> {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("kassette");
        std::fs::write(&program, bytes).unwrap();
        bundled(&program)
    }

    #[test]
    fn a_program_gives_back_the_modules_that_were_put_behind_it() {
        let mut program = b"\x7fELF and so on".to_vec();
        append(&mut program, &modules()).unwrap();
        assert!(program.starts_with(b"\x7fELF and so on"));
        assert_eq!(read(&program).unwrap(), modules());
    }

    #[test]
    fn a_program_without_modules_brings_none() {
        for program in [&b""[..], b"short", &[b'x'; 4096]] {
            assert_eq!(read(program).unwrap(), []);
        }
    }

    #[test]
    fn damage_is_told_whatever_it_says() {
        let mut program = Vec::new();
        append(&mut program, &modules()).unwrap();
        let length_at = program.len() - TAIL as usize;
        for length in [u64::MAX, 1 << 40, 3, 0] {
            let mut damaged = program.clone();
            damaged[length_at..length_at + 8].copy_from_slice(&length.to_le_bytes());
            let error = read(&damaged).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{length}");
        }
        let longer = |bytes: u64| {
            let mut damaged = Vec::new();
            let index = format!(r#"[{{"slot":"method.ideal","bytes":{bytes}}}]"#);
            damaged.extend_from_slice(index.as_bytes());
            damaged.extend_from_slice(&(index.len() as u64).to_le_bytes());
            damaged.extend_from_slice(MARK);
            read(&damaged).unwrap_err().kind()
        };
        assert_eq!(longer(1), io::ErrorKind::InvalidData);
        assert_eq!(longer(u64::MAX), io::ErrorKind::InvalidData);
    }
}
