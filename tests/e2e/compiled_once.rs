//! Shares compiled modules between all gateways that tests start, because compiling took most of the time of a
//! start.
//!
//! A gateway trusts only modules that were compiled under its own master key, so gateways on fresh folders share
//! one key. Key and compiled modules stay in the target folder between runs. A test about compiling empties
//! `data/compiled`.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Maximum number of files in the shared folder. Rebuilt modules leave their old files behind.
const MOST_FILES: usize = 200;

static KEPT: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    fs::create_dir_all(&folder).unwrap();
    let files = artifacts(&folder).unwrap();
    if files.len() > MOST_FILES {
        for file in files {
            // Another run may have removed it first.
            let _ = fs::remove_file(folder.join(file));
        }
    }
    folder
});

/// Copies the key and the modules compiled under it to a data directory that no gateway has used yet.
pub(super) fn lend(data: &Path) -> io::Result<()> {
    let key = data.join("master.key");
    if key.exists() || !KEPT.join("master.key").exists() {
        return Ok(());
    }
    let compiled = data.join("compiled");
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&compiled)?;
    for file in artifacts(&KEPT)? {
        // Another run may have removed it; the gateway then compiles the module.
        let _ = fs::copy(KEPT.join(&file), compiled.join(&file));
    }
    fs::copy(KEPT.join("master.key"), key).map(drop)
}

/// Shares the modules that a gateway with the shared key has compiled. The first gateway's key becomes the shared
/// key.
pub(super) fn keep(data: &Path) -> io::Result<()> {
    copy_new(&data.join("master.key"), &KEPT.join("master.key"))?;
    if fs::read(data.join("master.key"))? != fs::read(KEPT.join("master.key"))? {
        return Ok(());
    }
    let compiled = data.join("compiled");
    for file in artifacts(&compiled)? {
        copy_new(&compiled.join(&file), &KEPT.join(&file))?;
    }
    Ok(())
}

/// Names of the compiled modules in a folder.
fn artifacts(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    // A file that is still being written has a name that starts with a dot.
    let is_whole = |name: &String| name.ends_with(".cwasm") && !name.starts_with('.');
    Ok(names.filter(is_whole).collect())
}

/// Copies a file atomically. An existing target stays unchanged.
fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    if to.exists() {
        return Ok(());
    }
    let mut source = match fs::File::open(from) {
        // The gateway may have removed a file that it no longer needs.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        opened => opened?,
    };
    let mut file = tempfile::NamedTempFile::new_in(&*KEPT)?;
    io::copy(&mut source, &mut file)?;
    match file.persist_noclobber(to) {
        Err(taken) if taken.error.kind() != ErrorKind::AlreadyExists => Err(taken.error),
        _ => Ok(()),
    }
}
