//! A store of an earlier format, brought to this one when it is opened: every row is read in the old
//! format and written in the new one, in a new store that takes the place of the old one as a whole.

use kassette_engine::{Folder, Memtable, Opened, Rebuild, always};

use crate::Fault;
use crate::rows::seal::{Marker, Sealer, Secrets};
use crate::sled::maintenance::MaintenanceError;
use crate::sled::maintenance::compact::judged;
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::memory::Memory;
use crate::sled::open::{FORMAT, OLDEST_FORMAT, OpenError, OpenOptions, open_as};

/// Takes a folder, and opens or makes the database in it. One of an earlier format is brought to this
/// one first.
pub(crate) fn open(
    options: &OpenOptions,
    sealer: &Sealer,
) -> Result<(Folder, Opened<Memory>, Marker), OpenError> {
    let folder = options.take_folder()?;
    match open_as(&folder, sealer, FORMAT) {
        Err(OpenError::Older { found, path }) if found >= OLDEST_FORMAT => {
            upgrade(folder, options, found).map_err(|error| OpenError::NotUpgraded {
                path,
                detail: error.to_string(),
            })?;
        }
        opened => {
            let (opened, marker) = opened?;
            return Ok((folder, opened, marker));
        }
    }
    let folder = options.take_folder()?;
    let (opened, marker) = open_as(&folder, sealer, FORMAT)?;
    Ok((folder, opened, marker))
}

/// Brings a store of a format to this program's.
///
/// # Errors
/// See [`MaintenanceError`]; then the store is as it was. One with findings is refused: what is wrong
/// with it would be written anew as if it were right.
fn upgrade(folder: Folder, options: &OpenOptions, from: u32) -> Result<(), MaintenanceError> {
    let sealer = Sealer::new(&options.master);
    let (opened, marker) = open_as(&folder, &sealer, from)?;
    let db = opened.into_database();
    tracing::warn!(from, to = FORMAT, "the store is brought to a new format");
    let secrets = Secrets { sealer, marker };
    let (rebuild, new) = Rebuild::begin(folder)?.attempt(|rebuild| {
        let memtable = Memtable::of(db.clone());
        let new = rebuild.fill(|bulk| {
            for row in db.iter() {
                let (key, row) = row.map_err(Fault::database)?;
                let (kind, _) = KINDS.split(&key)?;
                let Some(migrate) = kind.migration(from) else {
                    bulk.push(key, Some(row))?;
                    continue;
                };
                for (key, row) in migrate(&memtable, &secrets.sealer, &key, &row)? {
                    bulk.push(key.into(), Some(row))?;
                }
            }
            Ok::<_, MaintenanceError>(())
        })?;
        drop((memtable, db));
        let after = judged(&new, &secrets, "Verifying what was written", &())?;
        if !after.is_whole() {
            return Err(MaintenanceError::NotWhole {
                what: "the store is not whole, so it is not brought to a new format",
                report: Box::new(after),
            });
        }
        Ok(new)
    })?;
    Ok(rebuild.finish(new, &always)?)
}
