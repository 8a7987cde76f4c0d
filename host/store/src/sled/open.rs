//! Opening: the right key, a format that is known.

use std::path::{Path, PathBuf};

use kassette_engine::{Db, Folder, IVec, Key, Opened, Opening};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::Fault;
use crate::rows::seal::{CANARY_TEXT, Marker, MasterKey, Sealer, Unopened, fill};
use crate::rows::{records, schema};
use crate::sled::memory::Memory;

/// The version of the rows' layout that this program reads and writes.
pub(crate) const FORMAT: u32 = 6;
/// The oldest one that a store can be brought from.
pub(crate) const OLDEST_FORMAT: u32 = 3;

/// What a store is opened with.
#[derive(Debug)]
pub struct OpenOptions {
    /// The folder; it is made where it does not exist.
    pub path: PathBuf,
    /// The key that secrets are sealed under.
    pub master: MasterKey,
    /// Memory for pages of the database, in bytes. sled's own default is a gibibyte.
    pub cache_bytes: u64,
}

impl OpenOptions {
    /// Makes the folder where it does not exist, and keeps others out of it.
    pub(crate) fn take_folder(&self) -> Result<Folder, OpenError> {
        Ok(Folder::take(self.path.clone(), self.cache_bytes)?)
    }
}

/// Why a store does not open, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Its engine does not open.
    #[error(transparent)]
    Engine(#[from] kassette_engine::OpenError),
    /// It was made under another master key.
    #[error(
        "{} was sealed under another master key: set the key that it was made with", .path.display()
    )]
    WrongMasterKey {
        /// The folder.
        path: PathBuf,
    },
    /// A later release wrote it.
    #[error(
        "{} has format {found}, this program knows up to {FORMAT}: run the release that wrote it, or a later one", .path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A program from before the first release wrote it.
    #[error(
        "{} has format {found}, which no release has written; this program reads {OLDEST_FORMAT} to {FORMAT}: name an empty data directory", .path.display()
    )]
    Older {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// It was copied to a database.
    #[error(
        "{} was moved to a database by `kassette copy`, or is being moved: serve that one. Where the copy was interrupted, run it again. To serve this store after all, remove {}", .path.display(), .mark.display()
    )]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The file that says so.
        mark: PathBuf,
    },
    /// It has an earlier format, and keeps it.
    #[error(
        "{} could not be brought to format {FORMAT} ({detail}): it is as it was. Run the release that wrote it, and have `kassette verify` list what is wrong", .path.display()
    )]
    NotUpgraded {
        /// The folder.
        path: PathBuf,
        /// Why not.
        detail: String,
    },
}

/// That something in a folder does not read back as it was written.
pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> OpenError {
    kassette_engine::OpenError::damaged(path, detail).into()
}

/// Opens the database in a folder, which has to have a format; makes one where there is none.
pub(crate) fn open_as(
    folder: &Folder,
    sealer: &Sealer,
    format: u32,
) -> Result<(Opened<Memory>, Marker), OpenError> {
    let (opening, marker) = begin_as(folder, sealer, format)?;
    Ok((opening.finish(Memory::load)?, marker))
}

/// Opens the rows of a database alone, which can be looked at even where the store does not start with them.
pub(crate) fn open_rows(folder: &Folder, sealer: &Sealer) -> Result<(Db, Marker), OpenError> {
    let (opening, marker) = begin_as(folder, sealer, FORMAT)?;
    Ok((opening.into_database()?, marker))
}

fn begin_as<'f>(
    folder: &'f Folder,
    sealer: &Sealer,
    format: u32,
) -> Result<(Opening<'f>, Marker), OpenError> {
    let path = folder.path();
    let opening = Opening::begin(folder, || first_rows(sealer))?;
    check_format(path, &opening, format)?;
    let marker = unseal(path, &opening, sealer)?;
    Ok((opening, marker))
}

/// What every store begins with.
fn first_rows(sealer: &Sealer) -> Result<Vec<(Key, IVec)>, Fault> {
    let mut mark = Zeroizing::new([0_u8; 32]);
    fill(mark.as_mut_slice())?;
    let canary = sealer.seal(schema::CANARY, &CANARY_TEXT)?;
    let mark = sealer.seal(schema::MARK, &*mark)?;
    Ok(vec![
        // In a form of its own, that a program of any version can read.
        (schema::FORMAT.to_vec(), this_format()),
        (
            schema::CANARY.to_vec(),
            records::encode(schema::CANARY, &canary)?,
        ),
        (schema::MARK.to_vec(), records::encode(schema::MARK, &mark)?),
    ])
}

/// The row that says which format the others have.
pub(crate) fn this_format() -> IVec {
    IVec::from(&FORMAT.to_be_bytes())
}

fn check_format(path: &Path, opening: &Opening<'_>, format: u32) -> Result<(), OpenError> {
    let damaged = |detail: &str| damaged(path, detail);
    let row = opening
        .get(schema::FORMAT)?
        .ok_or_else(|| damaged("it has no format version"))?;
    let found = <[u8; 4]>::try_from(&row[..])
        .map(u32::from_be_bytes)
        .map_err(|_| damaged("its format version is not a number"))?;
    match found {
        found if found == format => Ok(()),
        0 => Err(damaged("its format version is 0")),
        found if found < FORMAT => Err(OpenError::Older {
            path: path.to_owned(),
            found,
        }),
        found => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
        }),
    }
}

/// Proves the master key and reads the key of the e-mail mark.
fn unseal(path: &Path, opening: &Opening<'_>, sealer: &Sealer) -> Result<Marker, OpenError> {
    let row = |key: &[u8]| -> Result<IVec, OpenError> {
        opening
            .get(key)?
            .ok_or_else(|| damaged(path, "a row that every store has is missing"))
    };
    let closed = |unsealed| match unsealed {
        Unsealed::OtherKey => OpenError::WrongMasterKey {
            path: path.to_owned(),
        },
        Unsealed::Fault(fault) => damaged(path, fault.to_string()),
    };
    match prove(sealer, &row(schema::CANARY)?) {
        Ok(true) => {}
        Ok(false) => {
            let detail = "the proof of the master key is another";
            return Err(damaged(path, detail));
        }
        Err(unsealed) => return Err(closed(unsealed)),
    }
    mark(sealer, &row(schema::MARK)?).map_err(closed)
}

/// Why a row that every store has does not open.
pub(crate) enum Unsealed {
    /// It was sealed under another key.
    OtherKey,
    /// It is not as it was written.
    Fault(Fault),
}

fn unseal_row<T: DeserializeOwned>(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<T, Unsealed> {
    let sealed: Vec<u8> = records::decode(key, row).map_err(Unsealed::Fault)?;
    sealer
        .open(key, &sealed)
        .map_err(|unopened| match unopened {
            Unopened::OtherKey => Unsealed::OtherKey,
            Unopened::Damaged => {
                Unsealed::Fault(records::damaged(key, "its sealed part does not open"))
            }
        })
}

/// Whether the row that proves the master key says what it should.
pub(crate) fn prove(sealer: &Sealer, row: &[u8]) -> Result<bool, Unsealed> {
    unseal_row::<String>(sealer, schema::CANARY, row).map(|canary| canary == CANARY_TEXT)
}

/// Reads the key of the e-mail mark from its row.
pub(crate) fn mark(sealer: &Sealer, row: &[u8]) -> Result<Marker, Unsealed> {
    let key: Zeroizing<[u8; 32]> = unseal_row(sealer, schema::MARK, row).map(Zeroizing::new)?;
    Marker::new(&key).map_err(Unsealed::Fault)
}
