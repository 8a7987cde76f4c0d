//! Modules that took over without an operator's call, in the audit log: put into the plugin folder, or
//! brought along by the program.
//!
//! No request says which person put them there; the log says which version took over, and when.

use std::collections::VecDeque;
use std::time::Duration;

use kassette_domain::audit::{Audited, PLUGIN_FOLDER, SYSTEM};
use kassette_domain::id::Digest;
use kassette_gateway::Gateway;
use kassette_runtime::{Cause, UnattendedInstall};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// After the store failed.
const AGAIN: Duration = Duration::from_secs(1);

/// Writes a line for each, until told to end.
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
    let (operator, action) = match install.cause {
        Cause::Bundled => (SYSTEM, "plugin.install"),
        _ => (PLUGIN_FOLDER, "plugin.drop"),
    };
    Audited {
        operator: operator.into(),
        operator_id: None,
        actor: operator.into(),
        reason: None,
        action: action.into(),
        object: format!("plugin/{}", install.slot),
        before: install.before.map(version),
        after: Some(version(install.digest)),
    }
}
