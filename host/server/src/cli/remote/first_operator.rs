//! Creates the first operator in the store of a stopped server.

use std::sync::Arc;

use kassette_domain::audit::{Audited, SYSTEM};
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_store::{PostgresStore, SledStore, Store};
use serde_json::{Value, json};

use super::Connection;
use super::call::Shape;
use super::command::OperatorCreate;
use crate::admin;
use crate::cli::stopped_store::{StoppedStore, StoreLocation};

/// Inserts the operator with an audit entry; returns id and token.
///
/// # Errors
/// A sentence with the reason, such as a running server.
pub(super) async fn create(
    connection: &Connection,
    create: &OperatorCreate,
) -> Result<(Value, Shape), String> {
    let now = SystemClock.now();
    let (name, role) = (
        Operator::read_name(&create.name).map_err(|why| format!("--name {why}"))?,
        create.role.into(),
    );
    let expires_at = create
        .expires_at
        .as_deref()
        .map(|text| until(text, now))
        .transpose()?;
    let (operator, token) =
        admin::draw_operator(name, role, expires_at, now).map_err(|error| error.to_string())?;
    let audited = Audited {
        operator: SYSTEM.into(),
        operator_id: None,
        actor: audit_text("--actor", connection.actor.as_deref(), SYSTEM)?,
        reason: Some(audit_text(
            "--reason",
            connection.reason.as_deref(),
            "made on the data directory",
        )?),
        action: "operator.create".to_owned(),
        object: format!("operator/{}", operator.id),
        before: None,
        after: Some(admin::operator_view(&operator).to_string()),
    };
    let store = StoppedStore::new(create.config.clone(), create.data_dir.clone());
    let store = open(&store.place()?).await?;
    let made = store.create_operator(operator, audited, now).await;
    let closed = store.shut_down().await;
    let made = made.map_err(|fault| fault.to_string())?;
    closed.map_err(|fault| fault.to_string())?;
    let made = made.ok_or(admin::NAME_TAKEN)?;
    let answer = json!({ "operator_id": made.id.to_string(), "token": token.expose() });
    Ok((answer, Shape::Once))
}

/// Opens a store. A store in a folder must not be served; a database may have running nodes.
async fn open(place: &StoreLocation) -> Result<Arc<dyn Store>, String> {
    match place {
        StoreLocation::Folder(options) => {
            if let Some(data_dir) = options.path.parent() {
                crate::files::make_private_folder(data_dir)
                    .map_err(|error| format!("{}: {error}", data_dir.display()))?;
            }
            let store = SledStore::open(options);
            Ok(store.map_err(|error| error.to_string())?)
        }
        StoreLocation::Database(options) => {
            let store = PostgresStore::visit(options).await;
            Ok(store.map_err(|error| error.to_string())?)
        }
    }
}

/// Checks an actor or reason for the audit log; `otherwise` is the default.
fn audit_text(option: &str, said: Option<&str>, otherwise: &str) -> Result<String, String> {
    admin::audit_text(said.unwrap_or(otherwise)).map_err(|why| format!("{option} {why}"))
}

fn until(text: &str, now: Time) -> Result<Time, String> {
    crate::web::text::future(text, now).map_err(|why| format!("--expires-at {why}"))
}
