//! Opening a store: checks the key and the format.

use std::path::{Path, PathBuf};

use kassette_engine::{Db, Folder, IVec, Key, Opened, Opening};
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::Fault;
use crate::rows::seal::{CANARY_TEXT, Marker, MasterKey, Sealer, Unopened, fill};
use crate::rows::{records, schema};
use crate::sled::memory::Memory;

/// The version of the row layout that this program reads and writes.
pub(crate) const FORMAT: u32 = 1;

/// Options for opening a store.
#[derive(Debug)]
pub struct OpenOptions {
    /// The folder. Created if it does not exist.
    pub path: PathBuf,
    /// The key under which secrets are sealed.
    pub master: MasterKey,
    /// Memory for pages of the database, in bytes. sled's own default is a gibibyte.
    pub cache_bytes: u64,
}

impl OpenOptions {
    /// Creates the folder if it does not exist, and locks it.
    pub(crate) fn take_folder(&self) -> Result<Folder, OpenError> {
        Ok(Folder::take(self.path.clone(), self.cache_bytes)?)
    }
}

/// Reason why a store cannot be opened, with the remedy.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The engine cannot be opened.
    #[error(transparent)]
    Engine(#[from] kassette_engine::OpenError),
    /// The store was made under another master key.
    #[error(
        "{} was sealed under another master key: set the key that it was made with", .path.display()
    )]
    WrongMasterKey {
        /// The folder.
        path: PathBuf,
    },
    /// A later release wrote the store.
    #[error(
        "{} has format {found}, this program knows up to {FORMAT}: run the release that wrote it, or a later one", .path.display()
    )]
    Newer {
        /// The folder.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// The store was copied to a database.
    #[error(
        "{} was moved to a database by `kassette copy`, or is being moved: serve that one. Where the copy was interrupted, run it again. To serve this store after all, remove {}", .path.display(), .mark.display()
    )]
    Moved {
        /// The folder.
        path: PathBuf,
        /// The mark of the copy.
        mark: PathBuf,
    },
}

/// Error for data in a folder that cannot be read back.
pub(crate) fn damaged(path: &Path, detail: impl Into<String>) -> OpenError {
    kassette_engine::OpenError::damaged(path, detail).into()
}

/// Opens the database in a folder. Creates one if there is none.
pub(crate) fn open_in(
    folder: &Folder,
    sealer: &Sealer,
) -> Result<(Opened<Memory>, Marker), OpenError> {
    let (opening, marker) = begin(folder, sealer)?;
    Ok((opening.finish(|db| Memory::load(db, sealer))?, marker))
}

/// Opens only the rows of a database, which is possible even if the store cannot start with them.
pub(crate) fn open_rows(folder: &Folder, sealer: &Sealer) -> Result<(Db, Marker), OpenError> {
    let (opening, marker) = begin(folder, sealer)?;
    Ok((opening.into_database()?, marker))
}

fn begin<'f>(folder: &'f Folder, sealer: &Sealer) -> Result<(Opening<'f>, Marker), OpenError> {
    let path = folder.path();
    let opening = Opening::begin(folder, || first_rows(sealer))?;
    check_format(path, &opening)?;
    let marker = unseal(path, &opening, sealer)?;
    Ok((opening, marker))
}

/// The first rows of every store.
fn first_rows(sealer: &Sealer) -> Result<Vec<(Key, IVec)>, Fault> {
    let mut mark = Zeroizing::new([0_u8; 32]);
    fill(mark.as_mut_slice())?;
    let canary = sealer.seal(schema::CANARY, &CANARY_TEXT)?;
    let mark = sealer.seal(schema::MARK, &*mark)?;
    Ok(vec![
        // In a special encoding that a program of any version can read.
        (schema::FORMAT.to_vec(), this_format()),
        // A sealed value is authentic if it opens. It names the key under which it was sealed.
        (schema::CANARY.to_vec(), canary.into()),
        (schema::MARK.to_vec(), mark.into()),
    ])
}

/// The row with the format version of the other rows.
pub(crate) fn this_format() -> IVec {
    IVec::from(&FORMAT.to_be_bytes())
}

fn check_format(path: &Path, opening: &Opening<'_>) -> Result<(), OpenError> {
    let damaged = |detail: &str| damaged(path, detail);
    let row = opening
        .get(schema::FORMAT)?
        .ok_or_else(|| damaged("it has no format version"))?;
    let found = <[u8; 4]>::try_from(&row[..])
        .map(u32::from_be_bytes)
        .map_err(|_| damaged("its format version is not a number"))?;
    match found {
        FORMAT => Ok(()),
        0 => Err(damaged("its format version is 0")),
        found => Err(OpenError::Newer {
            path: path.to_owned(),
            found,
        }),
    }
}

/// Verifies the master key and reads the key of the e-mail mark.
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

/// Reason why a row that every store has cannot be opened.
pub(crate) enum Unsealed {
    /// It was sealed under another key.
    OtherKey,
    /// It is damaged.
    Fault(Fault),
}

fn unseal_row<T: DeserializeOwned>(sealer: &Sealer, key: &[u8], row: &[u8]) -> Result<T, Unsealed> {
    sealer.open(key, row).map_err(|unopened| match unopened {
        Unopened::OtherKey => Unsealed::OtherKey,
        Unopened::Damaged => {
            Unsealed::Fault(records::damaged(key, "its sealed part does not open"))
        }
    })
}

/// Whether the row that proves the master key has the expected content.
pub(crate) fn prove(sealer: &Sealer, row: &[u8]) -> Result<bool, Unsealed> {
    unseal_row::<String>(sealer, schema::CANARY, row).map(|canary| canary == CANARY_TEXT)
}

/// Reads the key of the e-mail mark from its row.
pub(crate) fn mark(sealer: &Sealer, row: &[u8]) -> Result<Marker, Unsealed> {
    let key: Zeroizing<[u8; 32]> = unseal_row(sealer, schema::MARK, row).map(Zeroizing::new)?;
    Marker::new(&key).map_err(Unsealed::Fault)
}
