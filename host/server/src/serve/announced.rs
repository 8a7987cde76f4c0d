//! Information about this node for other nodes: its addresses, versions of the program, configuration and modules,
//! and whether it is about to stop.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use kassette_gateway::Gateway;
use kassette_runtime::Runtime;
use kassette_store::NodeInfo;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio_util::sync::CancellationToken;

use crate::config::shared_parts;
use crate::telemetry::version;

pub(super) struct Announced {
    gateway: Gateway,
    info: Mutex<NodeInfo>,
}

impl Announced {
    /// Creates the information about a node with these addresses.
    pub(super) fn new(gateway: Gateway, public_address: String, admin_address: String) -> Self {
        let info = NodeInfo {
            version: version(),
            started_at: gateway.clock().now(),
            public_address,
            admin_address,
            ..NodeInfo::default()
        };
        Self {
            gateway,
            info: Mutex::new(info),
        }
    }

    /// Announces the configuration that was applied from a folder.
    pub(super) fn configured(&self, folder: &Path) {
        let digest = digest(shared_parts(folder));
        self.change(|info| info.configuration = digest);
    }

    /// Announces changes of modules and the start of the stop, until `ending`.
    pub(super) async fn follow(
        self: Arc<Self>,
        stopping: CancellationToken,
        ending: CancellationToken,
    ) {
        let Some(runtime) = self.gateway.runtime().cloned() else {
            return;
        };
        let mut changes = runtime.changes();
        loop {
            let (modules, draining) = (modules(&runtime), stopping.is_cancelled());
            self.change(|info| {
                info.modules = modules;
                info.draining = draining;
            });
            tokio::select! {
                () = ending.cancelled() => return,
                () = stopping.cancelled(), if !draining => {}
                changed = changes.changed() => if changed.is_err() { return },
            }
        }
    }

    fn change(&self, change: impl FnOnce(&mut NodeInfo)) {
        let mut info = self.info.lock();
        change(&mut info);
        self.gateway.store().announce(info.clone());
    }
}

/// Digest of the active versions of all slots.
fn modules(runtime: &Runtime) -> String {
    let slots = runtime.slots().into_iter().filter_map(|status| {
        let digest = status.active?.digest.to_string();
        Some((status.slot.to_string(), digest.into_bytes()))
    });
    digest(slots.collect())
}

fn digest(parts: BTreeMap<String, Vec<u8>>) -> String {
    let mut digest = Sha256::new();
    for (name, part) in parts {
        for bytes in [name.as_bytes(), &part] {
            digest.update(u64::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
            digest.update(bytes);
        }
    }
    hex::encode(digest.finalize())
}
