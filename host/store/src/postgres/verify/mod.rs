//! Verifies a whole database in one snapshot, also while a gateway serves it.
//!
//! Every row is decoded and authenticated, its columns are compared with its body, and references between rows
//! are checked in both directions. Related tables are read side by side in the order of the same id, so that
//! memory stays bounded.
//!
//! | file | holds |
//! |---|---|
//! | `reading` | the snapshot, its rows, and findings |
//! | `payments` | payments and the rows that belong to them |
//! | `webhooks` | endpoints, events and deliveries |
//! | `directory` | merchants, keys, operators, resellers, codes |
//! | `modules` | the content of slots |
//! | `routing_log`, `trials` | routing decisions; counts of versions on trial |
//! | `singles` | the audit log, counters, and tables with a single row |

mod directory;
mod modules;
mod payments;
mod reading;
mod routing_log;
mod singles;
mod trials;
mod webhooks;

use tokio_postgres::{IsolationLevel, Transaction};

use crate::postgres::errors::OpenError;
use crate::postgres::open::{self, OpenOptions};
use crate::postgres::target::Target;
use crate::postgres::verify::reading::Reading;
use crate::report::{Progress, Unit, VerifyReport};
use crate::rows::records::OTHER_COLUMNS as COLUMNS;
use crate::rows::seal::Secrets;

/// Reads every row of a database and checks rows against each other, in a snapshot from the start of the call.
/// A gateway may serve the database.
///
/// # Errors
/// If the database cannot be opened or the connection is lost. Damage is not an error; it is part of the
/// report.
pub async fn verify(
    options: &OpenOptions,
    progress: &(dyn Progress + Sync),
) -> Result<VerifyReport, OpenError> {
    let mut client = Target::parse(&options.url)?.connect().await?;
    // Durability does not matter for reading.
    open::check(&client, true).await?;
    let secrets = open::secrets(&client, &options.master).await?;
    let snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    // The session's time-outs are meant for requests.
    let sql = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    snapshot.batch_execute(sql).await?;
    read(&snapshot, &secrets, progress).await
}

/// Verifies every row that a transaction sees.
pub(crate) async fn read(
    snapshot: &Transaction<'_>,
    secrets: &Secrets,
    progress: &(dyn Progress + Sync),
) -> Result<VerifyReport, OpenError> {
    progress.begin("Verifying", Unit::Rows, None);
    let mut reading = Reading::new(snapshot, secrets, progress);
    let newest = singles::audit_log(&mut reading).await?;
    payments::read(&mut reading).await?;
    webhooks::read(&mut reading).await?;
    directory::read(&mut reading, &newest).await?;
    modules::read(&mut reading, &newest).await?;
    routing_log::read(&mut reading).await?;
    trials::read(&mut reading).await?;
    singles::read(&mut reading).await?;
    Ok(reading.report())
}
