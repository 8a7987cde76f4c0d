//! The schema and its migrations.
//!
//! | file | holds |
//! |---|---|
//! | `base.sql` | single rows, the node, the directory, the audit log, nonces |
//! | `payments.sql` | payments, attempts, timers, references, timelines, the work list |
//! | `movements.sql`, `webhooks.sql`, `resellers.sql`, `connects.sql`, `retention.sql`, `modules.sql`, `routing_log.sql`,
//! `trials.sql` | what their names say |
//!
//! A `body` is a row as [`crate::rows`] writes it for its key: with a version and a MAC, and secrets in it
//! sealed. The columns next to it are searched or compared. Texts from outside are `bytea`: they may contain
//! any character, and sort by their bytes.
//!
//! A column may refuse a request but never permits one: if a column finds a row, the row's body is compared.
//! The following tables have rows without a body. An altered row of theirs does no more harm than a missing
//! row, which no MAC can detect:
//!
//! | table | what someone can do who changes it |
//! |---|---|
//! | `due`, `review`, `laggard`, `forgotten`, `schedule`, `probe` | delay or repeat work: the payment's body says whether a step is legal, and holds the claims to call a provider |
//! | `delivery` | delay or repeat an event, or show its log elsewhere: the event's body says whose endpoints may have it, the log has a MAC |
//! | `reference`, `search_reference`, `search_mark` | have a notice or a search find nothing: whom it finds is compared. Without its row, a provider's reference can be given to a second attempt: `verify` names the row |
//! | `refund` | have an id find nothing: the idempotency key is looked for in the payment's body first |
//! | `event` | leave events out of a list: what it shows is compared |
//! | `nonce`, `nonce_end` | have a signed request taken again within its life: all of a reseller's either read or are done once by `client_ref` or by the payment's state |
//! | `counter` | have nothing created: a number that is in use is refused |
//! | `node`, `directory` | end a node, or have one use for longer what it read before, as by putting back an old row |
//! | `api_key_seen` | show another time of last use |
//! | `module` | have a module refused: its bytes must have the digest in a change with a MAC |
//! | `meta`, `copy_mark` | only the owner may change them; the value that proves the master key is sealed |
//!
//! Tables `due` and `parked` contain timers and pending callbacks. Their names remain because migrations only
//! add to the schema.

use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::postgres::errors::{OpenError, said};

/// Schema version that this program writes. From version 4 on, rows carry a MAC.
pub(crate) const VERSION: i32 = 4;
/// Schema version of the oldest program that can still read this schema.
pub(crate) const OLDEST_READER: i32 = 4;
/// Oldest schema version that can be migrated: in earlier ones, no row is authentic.
pub(crate) const OLDEST: i32 = 4;

/// Applied in order; each statement can be repeated.
const MIGRATIONS: [&str; 10] = [
    include_str!("schema/base.sql"),
    include_str!("schema/payments.sql"),
    include_str!("schema/movements.sql"),
    include_str!("schema/webhooks.sql"),
    include_str!("schema/resellers.sql"),
    include_str!("schema/connects.sql"),
    include_str!("schema/retention.sql"),
    include_str!("schema/modules.sql"),
    include_str!("schema/routing_log.sql"),
    include_str!("schema/trials.sql"),
];

/// Maximum number of tries for a statement that collides with another transaction.
const TRIES: usize = 100;
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Creates or migrates the schema.
pub(crate) async fn migrate(client: &Client) -> Result<(), OpenError> {
    // A table change that waits for a reader blocks all later readers, so give up early and retry.
    run(client, "SET lock_timeout = '100ms'").await?;
    // Creating an index of a large table takes longer than a request may.
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

/// Rights that a serving role does not have, by table. It appends to the audit log and to the movements, closes the
/// ledger's periods, and of existing payments writes only [`PAYMENT_COLUMNS`].
pub(crate) const WITHHELD: [(&str, &[&str]); 6] = [
    ("audit", &["UPDATE", "DELETE"]),
    ("movement", &["UPDATE", "DELETE"]),
    ("ledger", &["INSERT", "DELETE"]),
    ("payment", &["UPDATE", "DELETE"]),
    ("meta", &["INSERT", "UPDATE", "DELETE"]),
    ("copy_mark", &["INSERT", "UPDATE", "DELETE"]),
];

/// Columns of a payment that a step writes. The others never change, such as the reference that prevents duplicates.
const PAYMENT_COLUMNS: &str = "status, revision, ops, body";

/// Gives a role the rights to serve: everything with rows but [`WITHHELD`].
pub(crate) async fn grant(client: &Client, role: &str) -> Result<(), OpenError> {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    for statement in [
        "GRANT USAGE ON SCHEMA kassette TO",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA kassette TO",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA kassette TO",
    ] {
        run(client, &format!("{statement} {role}")).await?;
    }
    // In one transaction, so that a serving node never lacks a right.
    let mut statements = String::new();
    for (table, rights) in WITHHELD {
        let rights = rights.join(", ");
        statements += &format!("REVOKE {rights} ON kassette.{table} FROM {role};");
    }
    statements += &format!("GRANT UPDATE ({PAYMENT_COLUMNS}) ON kassette.payment TO {role}");
    run(client, &statements).await
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
        // The last three occur if another migration creates the same object concurrently.
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
