//! The schema, and how it is brought about.
//!
//! | file | holds |
//! |---|---|
//! | `base.sql` | single rows, the node, the directory, the audit log, nonces |
//! | `payments.sql` | payments, attempts, what is due, references, timelines, the work list |
//! | `webhooks.sql`, `resellers.sql`, `connects.sql`, `retention.sql`, `modules.sql`, `routing_log.sql`,
//! `trials.sql` | what their names say |
//!
//! A `body` is a row as [`crate::rows`] writes it for its key: with a version and a check sum, and what is secret
//! in it sealed. Columns beside it hold what is searched or compared. Texts from outside are `bytea`: they may hold
//! any character, and stand in order of their bytes.
//!
//! Tables `due` and `parked` hold timers and pending callbacks. They keep these names: a migration only expands, and
//! no rename does.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::postgres::errors::{OpenError, said};

/// The schema's version that this program writes. With 2 came several nodes, modules of all of them, resellers'
/// endpoints, and the routing log; with 3, versions on trial.
pub(crate) const VERSION: i32 = 3;
/// The oldest program's schema version that still reads it. Those of version 1 serve a database alone; to those of
/// version 2 a slot whose version goes on trial is one that is taken away.
pub(crate) const OLDEST_READER: i32 = 3;

/// Applied in order; each statement can be repeated.
const MIGRATIONS: [&str; 9] = [
    include_str!("schema/base.sql"),
    include_str!("schema/payments.sql"),
    include_str!("schema/webhooks.sql"),
    include_str!("schema/resellers.sql"),
    include_str!("schema/connects.sql"),
    include_str!("schema/retention.sql"),
    include_str!("schema/modules.sql"),
    include_str!("schema/routing_log.sql"),
    include_str!("schema/trials.sql"),
];

/// How often a statement is tried that another transaction is in the way of.
const TRIES: usize = 100;
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Brings the schema about.
pub(crate) async fn migrate(client: &Client) -> Result<(), OpenError> {
    // A change of a table that waits for a reader stops all readers after it: rather try again.
    run(client, "SET lock_timeout = '100ms'").await?;
    // An index of a large table takes longer than a request may.
    run(client, "SET statement_timeout = 0").await?;
    run(client, "CREATE SCHEMA IF NOT EXISTS kassette").await?;
    for file in MIGRATIONS {
        for statement in file
            .split("\n\n")
            .filter(|statement| !is_comment(statement))
        {
            run(client, statement).await?;
        }
    }
    Ok(())
}

fn is_comment(statement: &str) -> bool {
    statement
        .lines()
        .all(|line| line.is_empty() || line.starts_with("--"))
}

async fn run(client: &Client, statement: &str) -> Result<(), OpenError> {
    for _ in 1..TRIES {
        let Err(error) = client.batch_execute(statement).await else {
            return Ok(());
        };
        let Some(code) = error.code() else {
            return Err(OpenError::Database(said(&error)));
        };
        // The last three: another migration makes the same at this moment.
        let again = [
            SqlState::LOCK_NOT_AVAILABLE,
            SqlState::T_R_DEADLOCK_DETECTED,
            SqlState::T_R_SERIALIZATION_FAILURE,
            SqlState::UNIQUE_VIOLATION,
            SqlState::DUPLICATE_TABLE,
            SqlState::DUPLICATE_OBJECT,
        ];
        if !again.contains(code) {
            return Err(OpenError::Database(said(&error)));
        }
        tokio::time::sleep(PAUSE).await;
    }
    client
        .batch_execute(statement)
        .await
        .map_err(|error| OpenError::Database(said(&error)))
}
