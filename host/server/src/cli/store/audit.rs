//! `kassette audit verify`.

use http::Method;
use kassette_store::sled::maintenance;
use kassette_store::{PostgresStore, Upkeep as _};
use serde_json::Value;

use super::{blocking, tell};
use crate::admin::{audit_altered, audit_hash};
use crate::cli::output;
use crate::cli::remote::{Connection, ask_with};
use crate::cli::stopped_store::{StoppedStore, StoreLocation};

/// Verifies the audit log of a running server if there is an operator token and no store is named. Otherwise
/// verifies that of a stopped server's store or of a database.
pub(in crate::cli) async fn verify(
    connection: &Connection,
    store: StoppedStore,
    expected: Option<(u64, String)>,
) -> Result<(), String> {
    let offline = store.is_named() || connection.token()?.is_none();
    let mut altered = None;
    let verdict = if offline {
        let chain = match store.place()? {
            StoreLocation::Folder(options) => {
                if expected.is_some() {
                    return Err("--entry and --hash need a running server or a database: name an operator token".to_owned());
                }
                let read = blocking(move || {
                    maintenance::verify_audit(&options).map_err(|error| error.to_string())
                });
                read.await?
            }
            StoreLocation::Database(options) => {
                let visited = PostgresStore::visit(&options).await;
                let database = visited.map_err(|error| error.to_string())?;
                let read = database.verify_audit().await;
                if let Some((entry, hash)) = expected {
                    let hash = audit_hash(&hash).ok_or("--hash must be 64 hexadecimal digits")?;
                    let found = audit_altered(&*database, entry, hash).await;
                    altered = found.map_err(|error| error.to_string())?;
                }
                read.map_err(|error| error.to_string())?
            }
        };
        crate::admin::audit_verdict(&chain, altered)
    } else {
        let query = expected.map(|(entry, hash)| [("entry", entry.to_string()), ("hash", hash)]);
        let query = query.into_iter().flatten().collect();
        ask_with(connection, Method::GET, &["audit", "verify"], query).await?
    };
    let text = |pointer: &str| verdict.pointer(pointer).map_or_else(String::new, plain);
    let breaks = verdict.get("breaks").and_then(Value::as_array);
    let breaks: Vec<String> = breaks.into_iter().flatten().map(plain).collect();
    if verdict.get("verified").and_then(Value::as_bool) == Some(true) {
        let sentence = match verdict.get("head") {
            Some(Value::Null) | None => "The audit log is empty.".to_owned(),
            Some(_) => format!(
                "The audit log is whole: {} lines. The last one's hash is {}; keep both elsewhere, \
                 and a rewrite of what stands before it can be proved.",
                text("/head/id"),
                text("/head/hash")
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

/// A value without quotation marks and terminal control characters.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => output::plain(text),
        value => output::plain(&value.to_string()),
    }
}
