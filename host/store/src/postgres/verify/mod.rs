//! Reading a database through, beside the gateway that serves it: all of it as of one moment.
//!
//! Every row is decoded and opened, its columns are compared with its body, and what rows say of each other is
//! compared both ways: two tables are read in the order of the same id, side by side, so that memory does not grow
//! with them.
//!
//! | file | holds |
//! |---|---|
//! | `reading` | the snapshot, its rows, and what was found in them |
//! | `payments` | payments with all that is written with them |
//! | `webhooks` | endpoints, events and deliveries |
//! | `directory` | merchants, keys, operators, resellers, codes |
//! | `routing_log`, `trials` | routing decisions; what is counted of versions on trial |
//! | `singles` | the audit log, counters, and what stands once |

mod directory;
mod payments;
mod reading;
mod routing_log;
mod singles;
mod trials;
mod webhooks;

use tokio_postgres::IsolationLevel;

use crate::postgres::errors::OpenError;
use crate::postgres::open::{self, OpenOptions};
use crate::postgres::target::Target;
use crate::postgres::verify::reading::Reading;
use crate::report::{Progress, Unit, VerifyReport};

/// Columns of a row are not those that its body leads to.
const COLUMNS: &str = "its columns say something else than its body";

/// Reads every row of a database and checks how they fit each other. A gateway may serve it meanwhile: it is read
/// as it was when this began.
///
/// # Errors
/// Where the database does not open, or the connection was lost. What is found in it is no error: it is in the
/// answer.
pub async fn verify(
    options: &OpenOptions,
    progress: &(dyn Progress + Sync),
) -> Result<VerifyReport, OpenError> {
    let mut client = Target::parse(&options.url)?.connect().await?;
    // What it would lose when its machine stops does not matter to a reader.
    open::check(&client, true).await?;
    let secrets = open::secrets(&client, &options.master).await?;
    let snapshot = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await?;
    // The session's time-outs are for requests.
    let sql = "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
    snapshot.batch_execute(sql).await?;
    progress.begin("Verifying", Unit::Rows, None);
    let mut reading = Reading::new(&snapshot, &secrets, progress);
    payments::read(&mut reading).await?;
    webhooks::read(&mut reading).await?;
    directory::read(&mut reading).await?;
    routing_log::read(&mut reading).await?;
    trials::read(&mut reading).await?;
    singles::read(&mut reading).await?;
    Ok(reading.report())
}
