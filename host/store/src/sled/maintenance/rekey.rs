//! Changes the master key: seals every secret again and renews the MAC of every row, in a new store that
//! replaces the old one as a whole. At any time exactly one of the two keys opens the store, even if the
//! process is killed.

use std::collections::BTreeMap;

use kassette_engine::{GoOn, Rebuild};
use serde_json::json;

use crate::Fault;
use crate::rows::seal::{MasterKey, Sealer, Secrets};
use crate::sled::maintenance::compact::{judged, judged_whole};
use crate::sled::maintenance::kinds::KINDS;
use crate::sled::maintenance::{AuditNote, MaintenanceError, Progress, Stopped, Unit};
use crate::sled::open::OpenOptions;

/// Result of a change of the master key.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Rekeyed {
    /// Number of rows whose secrets were sealed again, by kind.
    pub resealed: BTreeMap<&'static str, u64>,
    /// Number of all rows, without the line in the audit log.
    pub rows: u64,
}

/// Seals a stopped store under another master key. The key of the e-mail mark stays the same, so that earlier
/// requests can still be compared.
///
/// # Errors
/// See [`MaintenanceError`]. The store is then unchanged, under the old key.
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
                let (key, row) = row.map_err(Fault::database)?;
                let (kind, _) = KINDS.split(&key)?;
                let row = kind.rekeyed(&secrets.sealer, &new_secrets.sealer, &key, &row)?;
                if kind.has_secrets() {
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
        note.write(
            &new,
            &new_secrets.sealer,
            "store.rekey",
            Some(&old_id),
            Some(&new_id),
        )?;
        Ok((new, after))
    });
    let (rebuild, (new, after)) = written?;
    rebuild.finish(new, go_on)?;
    Ok(Rekeyed {
        resealed,
        rows: after.rows.values().sum(),
    })
}
