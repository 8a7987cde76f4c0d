//! `kassette audit verify`.

use http::Method;
use kassette_store::sled::maintenance;
use kassette_store::{PostgresStore, Upkeep as _};
use serde_json::Value;

use super::{blocking, tell};
use crate::cli::remote::{Connection, ask};
use crate::cli::stopped_store::{StoppedStore, StoreLocation};

/// Goes along the audit log of a running server where there is an operator token, else of a stopped
/// one's store, or of a database.
pub(in crate::cli) async fn verify(
    connection: &Connection,
    store: StoppedStore,
) -> Result<(), String> {
    let offline = store.is_named() || connection.token()?.is_none();
    let verdict = if offline {
        let chain = match store.place()? {
            StoreLocation::Folder(options) => {
                let read = blocking(move || {
                    maintenance::verify_audit(&options).map_err(|error| error.to_string())
                });
                read.await?
            }
            StoreLocation::Database(options) => {
                let visited = PostgresStore::visit(&options).await;
                let database = visited.map_err(|error| error.to_string())?;
                let read = database.verify_audit().await;
                read.map_err(|error| error.to_string())?
            }
        };
        crate::admin::audit_verdict(&chain)
    } else {
        ask(connection, Method::GET, &["audit", "verify"]).await?
    };
    let text = |pointer: &str| verdict.pointer(pointer).map_or_else(String::new, plain);
    let breaks = verdict.get("breaks").and_then(Value::as_array);
    let breaks: Vec<String> = breaks.into_iter().flatten().map(plain).collect();
    if verdict.get("whole").and_then(Value::as_bool) == Some(true) {
        let sentence = match verdict.get("last") {
            Some(Value::Null) | None => "The audit log is empty.".to_owned(),
            Some(_) => format!(
                "The audit log is whole: {} lines. The last one's hash is {}; keep both elsewhere, \
                 and a rewrite of what stands before it can be proved.",
                text("/last/id"),
                text("/last/hash")
            ),
        };
        return tell(&verdict, connection.json, &sentence);
    }
    if connection.json {
        tell(&verdict, true, "")?;
    } else {
        breaks.iter().for_each(|found| eprintln!("{found}"));
    }
    Err(format!(
        "the audit log is not whole: {} places; compare it with the one in a backup from before",
        breaks.len()
    ))
}

/// A value without quotation marks, and without what steers a terminal.
fn plain(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    text.replace(char::is_control, "\u{fffd}")
}
