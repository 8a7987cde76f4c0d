//! Records changes of modules without an operator's request in the audit log: put into the plugin folder, bundled
//! with the program, or chosen because a slot's history is not authentic.
//!
//! Without a request, the person is unknown. The entry records the version and the time.

use std::collections::VecDeque;
use std::time::Duration;

use kassette_domain::audit::{Audited, PLUGIN_FOLDER, SYSTEM};
use kassette_domain::id::Digest;
use kassette_gateway::Gateway;
use kassette_runtime::{Cause, Unattended, UnattendedInstall};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Pause after the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes an entry for each change until `ending`.
pub(super) async fn audit(gateway: Gateway, ending: CancellationToken) {
    let Some(runtime) = gateway.runtime().cloned() else {
        return;
    };
    let mut changes = runtime.changes();
    let mut waiting = VecDeque::new();
    loop {
        let last = ending.is_cancelled();
        waiting.extend(runtime.take_unattended());
        while let Some(install) = waiting.front() {
            let now = gateway.clock().now();
            if let Err(fault) = gateway.store().audit(line(install), now).await {
                tracing::error!(error = %fault, "a change of modules is not in the audit log yet: {fault}");
                break;
            }
            waiting.pop_front();
        }
        if last {
            return;
        }
        let again = async {
            match waiting.is_empty() {
                true => std::future::pending().await,
                false => tokio::time::sleep(AGAIN).await,
            }
        };
        tokio::select! {
            () = ending.cancelled() => {}
            changed = changes.changed() => if changed.is_err() { return },
            () = again => {}
        }
    }
}

fn line(install: &UnattendedInstall) -> Audited {
    let version = |digest: Digest| json!({ "digest": digest.to_string() }).to_string();
    let (operator, action, before, after) = match install.what {
        Unattended::Installed {
            cause: Cause::Bundled,
            digest,
            before,
        } => (SYSTEM, "plugin.install", before, Some(digest)),
        Unattended::Installed { digest, before, .. } => {
            (PLUGIN_FOLDER, "plugin.drop", before, Some(digest))
        }
        Unattended::SetAside { serving } => (SYSTEM, "plugin.set_aside", None, serving),
    };
    Audited {
        operator: operator.into(),
        operator_id: None,
        actor: operator.into(),
        reason: match install.what {
            Unattended::SetAside { .. } => Some("the slot's history is not authentic".into()),
            Unattended::Installed { .. } => None,
        },
        action: action.into(),
        object: format!("plugin/{}", install.slot),
        before: before.map(version),
        after: after.map(version),
    }
}
