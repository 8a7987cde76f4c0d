//! Moves a whole store from the embedded store to PostgreSQL, or back.
//!
//! The source is first marked, so that no gateway serves it, and verified. The target is filled with its
//! records and verified, and the numbers of rows are compared. Only then may the target be served. A database
//! is marked while it is filled, in one transaction; a folder gets its store once that is complete. Both stores
//! have the same master key, so bodies of rows are copied unchanged, except payments, which lose their leases.
//!
//! | file | holds |
//! |---|---|
//! | `tables` | how every table and kind of row is copied |
//! | `to_postgres`, `to_sled` | conversion of records in each direction |
//! | `database` | access to the database |

mod database;
mod tables;
#[cfg(test)]
mod tests;
mod to_postgres;
mod to_sled;

use std::collections::BTreeMap;

use kassette_domain::audit::Audited;
use kassette_engine::{DiskHooks, Folder, Rebuild, RebuildError, always};
use serde_json::json;
use tokio::runtime::Handle;

use crate::copy::database::{CopyConnection, Writer};
use crate::copy::tables::COUNTED;
use crate::mark::CopyState;
use crate::report::{Progress, VerifyReport};
use crate::sled::maintenance::compact::{judged, judged_whole};
use crate::sled::maintenance::restore::refuse_full;
use crate::sled::maintenance::{AuditNote, MaintenanceError, Stopped};
use crate::sled::{SledStore, mark};
use crate::{Directory as _, Fault, StoreHealth as _, postgres, sled};

/// Names of the stores in audit entries.
const SLED: &str = "sled";
const POSTGRES: &str = "postgres";
/// Error for a damaged source.
const SOURCE: &str = "the store is not whole, so it is not copied; `kassette verify` lists it all";
/// Error for a damaged copy.
const TARGET: &str = "the copy is not whole; the store that it was made from may be served again";

/// Summary of a copy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Copied {
    /// Number of rows of each kind in the new store.
    pub rows: BTreeMap<&'static str, u64>,
    /// Number of payments.
    pub payments: u64,
    /// Number of audit entries, the last of which records the copy.
    pub audit_lines: u64,
}

/// Reason why a store was not moved. The source is unchanged except for an audit entry, and can be served again
/// unless its mark could not be removed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The database failed or is unsuitable.
    #[error(transparent)]
    Database(#[from] postgres::OpenError),
    /// The store in the folder failed or is unsuitable.
    #[error(transparent)]
    Folder(#[from] MaintenanceError),
    /// A row that could not be read or written.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The stores have different master keys.
    #[error(
        "both stores have to have the same master key: change one of them with `kassette rekey` first"
    )]
    OtherKey,
    /// The database already contains records.
    #[error(
        "the database holds a store already: name one that is new, and run `kassette migrate` on it"
    )]
    NotEmpty,
    /// A node serves the database.
    #[error("node `{0}` serves the database: stop all of its nodes first")]
    Served(String),
    /// The numbers of rows differ.
    #[error(
        "the copy has {after} rows of kind {kind} for {before}: it is not served; run it again"
    )]
    Differs {
        /// The kind of row.
        kind: &'static str,
        /// Number of rows in the source.
        before: u64,
        /// Number of rows in the copy.
        after: u64,
    },
}

impl From<sled::OpenError> for CopyError {
    fn from(error: sled::OpenError) -> Self {
        Self::Folder(error.into())
    }
}

impl From<RebuildError> for CopyError {
    fn from(error: RebuildError) -> Self {
        Self::Folder(error.into())
    }
}

impl From<tokio_postgres::Error> for CopyError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}

/// Moves a stopped store to a migrated, empty database. Blocks. `runtime` executes the database's operations
/// and must not be driven by this thread.
///
/// # Errors
/// See [`CopyError`]. The database may remain marked; another call then starts over.
pub fn to_postgres(
    runtime: &Handle,
    from: &sled::OpenOptions,
    to: &postgres::OpenOptions,
    note: AuditNote,
    progress: &(dyn Progress + Sync),
) -> Result<Copied, CopyError> {
    if !from.master.is_same(&to.master) {
        return Err(CopyError::OtherKey);
    }
    let database = CopyConnection::connect(runtime.clone(), to)?;
    match database.mark()? {
        Some(CopyState::Copying) => {}
        Some(CopyState::Moving | CopyState::Moved) => return Err(postgres::OpenError::Moved.into()),
        None if database.is_empty()? => {}
        None => return Err(CopyError::NotEmpty),
    }
    if mark::read(&from.path)? == Some(CopyState::Moved) {
        mark::check(&from.path)?;
    }
    audit_folder(runtime, from, note)?;
    let source = Stopped::open_marked(from)?;
    mark::write(&from.path, Some(CopyState::Moving))?;
    let copied = fill_database(&source, &database, to, runtime, progress);
    match copied {
        Ok(_) => {
            database.set_mark(None)?;
            mark::write(&from.path, Some(CopyState::Moved))?;
        }
        // No gateway has served the copy.
        Err(_) => served_again(mark::write(&from.path, None)),
    }
    copied
}

fn fill_database(
    source: &Stopped,
    database: &CopyConnection,
    options: &postgres::OpenOptions,
    runtime: &Handle,
    progress: &(dyn Progress + Sync),
) -> Result<Copied, CopyError> {
    let before = judged_whole(&source.db, &source.secrets, SOURCE, progress)?;
    let before_it = database.mark()?;
    database.set_mark(Some(CopyState::Copying))?;
    if let Err(used) = database.fence() {
        database.set_mark(before_it)?;
        return Err(used);
    }
    database.run("BEGIN")?;
    database.clear()?;
    to_postgres::copy(source, Writer::new(database)?, &before, progress)?;
    database.run("COMMIT; ANALYZE")?;
    let after = runtime.block_on(postgres::verify(options, progress))?;
    compare(&before, after)
}

/// Moves the store of a database that no node serves to a folder without a store. Blocks, as [`to_postgres`].
///
/// # Errors
/// See [`CopyError`]. The folder then contains no store.
pub fn to_sled(
    runtime: &Handle,
    from: &postgres::OpenOptions,
    to: &sled::OpenOptions,
    note: AuditNote,
    progress: &(dyn Progress + Sync),
) -> Result<Copied, CopyError> {
    if !from.master.is_same(&to.master) {
        return Err(CopyError::OtherKey);
    }
    refuse_full(&to.path)?;
    let mut database = CopyConnection::connect(runtime.clone(), from)?;
    match database.mark()? {
        None | Some(CopyState::Moving) => {}
        Some(CopyState::Copying) => return Err(postgres::OpenError::Copying.into()),
        Some(CopyState::Moved) => return Err(postgres::OpenError::Moved.into()),
    }
    // Locks the folder before the mark is set: two concurrent copies would remove each other's mark.
    let folder = to.take_folder()?;
    database.set_mark(Some(CopyState::Moving))?;
    let copied = (|| {
        database.fence()?;
        let at = note.at;
        database.audit(line(note, POSTGRES, SLED), at)?;
        fill_folder(&database, from, folder, runtime, progress)
    })();
    match copied {
        Ok(_) => database.set_mark(Some(CopyState::Moved))?,
        // The store is complete in its folder and may be served.
        Err(_) if kassette_engine::holds_a_database(&to.path) => {}
        Err(_) => {
            // Ends the transaction in case it has failed.
            let ended = database.run("ROLLBACK");
            served_again(ended.and_then(|()| database.set_mark(None)));
        }
    }
    copied
}

fn fill_folder(
    database: &CopyConnection,
    options: &postgres::OpenOptions,
    folder: Folder,
    runtime: &Handle,
    progress: &(dyn Progress + Sync),
) -> Result<Copied, CopyError> {
    let before = runtime.block_on(postgres::verify(options, progress))?;
    let before = whole(before, SOURCE)?;
    let (rebuild, (db, copied)) = Rebuild::begin(folder)?.attempt(|rebuild| {
        database.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        let db = rebuild.fill(|bulk| to_sled::fill(database, bulk, &before, progress))?;
        database.run("COMMIT")?;
        to_sled::derive(&db, &database.secrets, progress)?;
        let what = "Verifying what was written";
        let after = judged(&db, &database.secrets, what, progress)?;
        Ok::<_, CopyError>((db, compare(&before, after)?))
    })?;
    rebuild.finish(db, &always)?;
    Ok(copied)
}

/// Warns if the source keeps its mark although it was not moved. The next copy or an operator removes it.
fn served_again<E: std::fmt::Display>(unmarked: Result<(), E>) {
    if let Err(error) = unmarked {
        tracing::warn!(%error, "the store keeps the mark that it is being moved");
    }
}

/// Appends the audit entry to the source before it is copied, so that both logs contain it.
fn audit_folder(
    runtime: &Handle,
    options: &sled::OpenOptions,
    note: AuditNote,
) -> Result<(), CopyError> {
    if !kassette_engine::holds_a_database(&options.path) {
        return Err(MaintenanceError::NoStore(options.path.clone()).into());
    }
    runtime.block_on(async {
        let store = SledStore::start(options, DiskHooks::default())?;
        let at = note.at;
        let written = store.audit(line(note, SLED, POSTGRES), at).await;
        store.shut_down().await?;
        Ok(written.map(drop)?)
    })
}

fn line(note: AuditNote, from: &str, to: &str) -> Audited {
    let [from, to] = [from, to].map(|kind| json!({ "store": kind }));
    note.audited("store.copy", Some(&from), Some(&to))
}

fn whole(report: VerifyReport, what: &'static str) -> Result<VerifyReport, CopyError> {
    match report.is_whole() {
        true => Ok(report),
        false => Err(MaintenanceError::NotWhole {
            what,
            report: Box::new(report),
        }
        .into()),
    }
}

/// Compares the numbers of rows in source and target.
fn compare(before: &VerifyReport, after: VerifyReport) -> Result<Copied, CopyError> {
    let after = whole(after, TARGET)?;
    let rows = |report: &VerifyReport, kind| report.rows.get(kind).copied().unwrap_or_default();
    for kind in COUNTED {
        let (before, after) = (rows(before, kind), rows(&after, kind));
        if before != after {
            return Err(CopyError::Differs {
                kind,
                before,
                after,
            });
        }
    }
    Ok(Copied {
        payments: after.payments,
        audit_lines: after.audit_lines,
        rows: after.rows,
    })
}
