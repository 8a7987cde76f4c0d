//! The slots and what serves in them.

use axum::Json;
use axum::extract::{RawQuery, State};
use kassette_domain::id::SlotKind;
use kassette_runtime::{ActiveVersion, PreviousVersion, SlotStatus};
use serde_json::{Value, json};

use super::AdminState;
use super::caller::Viewer;
use super::query::{Query, named};
use crate::api::ApiError;

/// `GET /plugins`: every slot that was ever offered a module, by name.
pub(super) async fn list(
    _: Viewer,
    State(state): State<AdminState>,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, ApiError> {
    let paging = Query::of(query.as_deref())?.paging()?;
    let runtime = state.gateway.runtime();
    let slots = runtime.map(|runtime| runtime.slots()).unwrap_or_default();
    named(
        "plugins",
        &slots,
        |status| status.slot.as_str(),
        view,
        &paging,
    )
}

fn view(status: &SlotStatus) -> Value {
    json!({
        "slot": status.slot,
        "kind": match status.kind {
            SlotKind::Method => "method",
            SlotKind::Provider => "provider",
        },
        "state": status.state.as_str(),
        "active": status.active.as_ref().map(active),
        "candidate": null,
        "previous": status.previous.map(previous),
        "last_error": status.last_error,
    })
}

fn active(version: &ActiveVersion) -> Value {
    json!({
        "digest": version.digest.to_string(),
        "name": version.name,
        "version": version.version,
        "wit": version.wit,
        "class": version.class.as_str(),
        "since": version.since.rfc3339(),
    })
}

fn previous(version: PreviousVersion) -> Value {
    json!({ "digest": version.digest.to_string(), "since": version.since.rfc3339() })
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{Digest, Slot};
    use kassette_domain::time::Time;
    use kassette_runtime::{Class, SlotState};

    use super::*;

    #[test]
    fn a_slot_has_the_fields_that_scripts_rely_on() {
        let digest = Digest::of(b"module");
        let since = Time::from_secs(1);
        let status = SlotStatus {
            slot: Slot::parse("method.ideal").unwrap(),
            kind: SlotKind::Method,
            state: SlotState::Serving,
            active: Some(ActiveVersion {
                digest,
                name: "iDEAL".into(),
                version: "1.0.0".into(),
                wit: "0.1.0".into(),
                class: Class::Native,
                since,
            }),
            previous: Some(PreviousVersion { digest, since }),
            last_error: Some("too large".into()),
        };
        let digest = digest.to_string();
        let expected = json!({
            "slot": "method.ideal", "kind": "method", "state": "serving",
            "active": {
                "digest": digest, "name": "iDEAL", "version": "1.0.0", "wit": "0.1.0",
                "class": "native", "since": "1970-01-01T00:00:01.000Z",
            },
            "candidate": null,
            "previous": { "digest": digest, "since": "1970-01-01T00:00:01.000Z" },
            "last_error": "too large",
        });
        assert_eq!(view(&status), expected);
    }
}
