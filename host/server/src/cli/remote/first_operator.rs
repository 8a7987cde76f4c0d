//! The first operator: written into the store while the server is stopped.

use kassette_domain::audit::Audited;
use kassette_domain::time::Time;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_store::{Directory as _, Health as _, SledStore};
use serde_json::{Value, json};

use super::Connection;
use super::call::Shape;
use super::command::OperatorCreate;
use crate::admin;
use crate::cli::place::Place;

/// Writes the operator with its line in the audit log; answers id and token.
///
/// # Errors
/// A sentence: what stands in the way, such as a server that is running.
pub(super) async fn create(
    connection: &Connection,
    create: &OperatorCreate,
) -> Result<(Value, Shape), String> {
    let now = SystemClock.now();
    let (name, role) = (admin::operator_name(&create.name)?, create.role.into());
    let expires_at = create
        .expires_at
        .as_deref()
        .map(|text| until(text, now))
        .transpose()?;
    let (operator, token) =
        admin::draw_operator(name, role, expires_at, now).map_err(|error| error.to_string())?;
    let audited = Audited {
        operator: "system".to_owned(),
        actor: connection
            .actor
            .clone()
            .unwrap_or_else(|| "system".to_owned()),
        reason: Some(
            connection
                .reason
                .clone()
                .unwrap_or_else(|| "made on the data directory".to_owned()),
        ),
        action: "operator.create".to_owned(),
        object: format!("operator/{}", operator.id),
        before: None,
        after: Some(admin::operator_view(&operator).to_string()),
    };
    let place = Place::of(create.config.clone(), create.data_dir.clone());
    let options = place.options()?;
    if let Some(data_dir) = options.path.parent() {
        crate::files::make_private_folder(data_dir)
            .map_err(|error| format!("{}: {error}", data_dir.display()))?;
    }
    let store = SledStore::open(&options).map_err(|error| error.to_string())?;
    let made = store.create_operator(operator, audited, now).await;
    let closed = store.shut_down().await;
    let made = made.map_err(|fault| fault.to_string())?;
    closed.map_err(|fault| fault.to_string())?;
    let answer = json!({ "operator_id": made.id.to_string(), "token": token.expose() });
    Ok((answer, Shape::Once))
}

fn until(text: &str, now: Time) -> Result<Time, String> {
    admin::future(text, now).map_err(|why| format!("--expires-at {why}"))
}
