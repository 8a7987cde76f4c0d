//! Another master key: every sealed value is sealed anew, in a new store that takes the place of the
//! old one as a whole. Either key opens one store and only one, whenever the process is ended.

use std::collections::BTreeMap;

use kassette_engine::{GoOn, Rebuild};
use serde_json::json;

use crate::Fault;
use crate::rows::seal::{MasterKey, Sealer, Secrets};
use crate::sled::maintenance::compact::{judged, judged_whole};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::maintenance::{AuditNote, MaintenanceError, Progress, Stopped, Unit};
use crate::sled::open::OpenOptions;

/// What became of a change of the master key.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rekeyed {
    /// Rows whose secrets were sealed anew, by kind.
    pub resealed: BTreeMap<&'static str, u64>,
    /// All rows, without the line in the audit log.
    pub rows: u64,
}

/// Seals a stopped store under another master key. The key of the e-mail mark stays, so requests
/// that were made before are still compared.
///
/// # Errors
/// See [`MaintenanceError`]; then the store is as it was, under the old key.
pub fn rekey(
    options: &OpenOptions,
    new_key: &MasterKey,
    note: AuditNote,
    progress: &dyn Progress,
    go_on: GoOn<'_>,
) -> Result<Rekeyed, MaintenanceError> {
    let Stopped {
        db,
        secrets,
        folder,
    } = Stopped::open(options)?;
    if options.master.is_same(new_key) {
        return Err(MaintenanceError::SameKey);
    }
    let new_secrets = Secrets {
        sealer: Sealer::new(new_key),
        marker: secrets.marker.clone(),
    };
    let mut resealed = BTreeMap::new();
    let written = Rebuild::begin(folder)?.attempt(|rebuild| {
        let what =
            "the store is not whole, so its key is not changed; `kassette verify` lists it all";
        let before = judged_whole(&db, &secrets, what, progress)?;
        progress.begin("Sealing anew", Unit::Rows, Some(before.rows.values().sum()));
        let new = rebuild.fill(|bulk| {
            for row in db.iter() {
                let (key, mut row) = row.map_err(Fault::database)?;
                let (kind, _) = KINDS.split(&key)?;
                if let Some(reseal) = kind.reseal {
                    row = reseal(&secrets.sealer, &new_secrets.sealer, &key, &row)?;
                    *resealed.entry(kind.name).or_default() += 1;
                }
                bulk.push(key, Some(row))?;
                progress.advance(1);
            }
            Ok::<_, MaintenanceError>(())
        })?;
        drop(db);
        // Opens every sealed value under the new key.
        let after = judged(&new, &new_secrets, "Verifying what was written", progress)?;
        if after != before {
            return Err(MaintenanceError::NotTheSame);
        }
        let [old_id, new_id] = [&secrets.sealer, &new_secrets.sealer]
            .map(|sealer| json!({ "master_key": hex::encode(sealer.key_id()) }));
        note.write(&new, "store.rekey", Some(&old_id), Some(&new_id))?;
        Ok((new, after))
    });
    let (rebuild, (new, after)) = written?;
    rebuild.finish(new, go_on)?;
    Ok(Rekeyed {
        resealed,
        rows: after.rows.values().sum(),
    })
}
