//! Builds the guest modules from source and copies them to the plugin folder, at the start and whenever a source
//! file is saved.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kassette_build::{BuildError, Builder, Built, Guest, Progress};
use kassette_domain::id::Digest;
use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time without changes before a build. Editors and formatters write two times.
const QUIET: Duration = Duration::from_millis(80);
/// File with the digest of the last build of each slot. A module that was copied there by hand is replaced only
/// when its source changes.
const STAMP: &str = "dev-built.json";

/// Reason why the guests are not available.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GuestError {
    /// They do not compile, or the compiler is missing.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A component cannot be written to the plugin folder.
    #[error("{path}: {source}")]
    File {
        path: String,
        source: std::io::Error,
    },
}

/// The guests of a workspace, and the plugin folder that they are copied to.
pub(super) struct Guests {
    root: PathBuf,
    builder: Builder,
    plugin_dir: PathBuf,
    stamp: PathBuf,
    /// Provider slots that are not simulated.
    unwanted: Vec<String>,
}

impl Guests {
    /// Uses the guests of the workspace at `root`, except provider modules that could be simulated but are not.
    pub(super) fn new(root: &Path, plugin_dir: &Path, data_dir: &Path, simulated: &[&str]) -> Self {
        let unwanted = kassette_sim::modules().iter();
        let unwanted = unwanted.filter(|module| !simulated.contains(module));
        Self {
            root: root.to_owned(),
            builder: Builder::new(root),
            plugin_dir: plugin_dir.to_owned(),
            stamp: data_dir.join(STAMP),
            unwanted: unwanted
                .map(|module| format!("provider.{module}"))
                .collect(),
        }
    }

    /// Builds all guests, or only those without a file in their slot, and shows progress.
    pub(super) fn build(&self, only_missing: bool) -> Result<(), GuestError> {
        let mut guests = self.discover()?;
        if only_missing {
            guests.retain(|guest| !self.slot_file(&guest.slot).exists());
        }
        if guests.is_empty() {
            return Ok(());
        }
        let bar = ProgressBar::new(guests.len() as u64);
        if let Ok(style) =
            ProgressStyle::with_template("  building modules {bar:24} {pos}/{len} {wide_msg}")
        {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        let built = self.run(&guests, &mut |progress| match progress {
            Progress::Waiting => bar.set_message("waiting for another build"),
            Progress::Installing(what) => bar.set_message(format!("installing: {what}")),
            Progress::Compiled { package, .. } => bar.set_message(package),
            Progress::Component(built) => {
                bar.inc(1);
                bar.set_message(built.slot);
            }
        });
        bar.finish_and_clear();
        self.install(&built?)
    }

    fn discover(&self) -> Result<Vec<Guest>, BuildError> {
        let mut guests = self.builder.discover()?;
        guests.retain(|guest| !self.unwanted.contains(&guest.slot));
        Ok(guests)
    }

    fn run(
        &self,
        guests: &[Guest],
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Built>, BuildError> {
        let packages: Vec<&str> = guests.iter().map(|guest| guest.package.as_str()).collect();
        self.builder.build(&packages, progress)
    }

    fn slot_file(&self, slot: &str) -> PathBuf {
        self.plugin_dir.join(format!("{slot}.wasm"))
    }

    /// Copies changed components to the plugin folder, via temporary files.
    fn install(&self, built: &[Built]) -> Result<(), GuestError> {
        let mut stamps: BTreeMap<String, String> = std::fs::read(&self.stamp)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        for built in built {
            let file = self.slot_file(&built.slot);
            let failed = |source| GuestError::File {
                path: file.display().to_string(),
                source,
            };
            let bytes = std::fs::read(&built.path).map_err(failed)?;
            let digest = Digest::hash(&bytes).to_string();
            if stamps.get(&built.slot) == Some(&digest) && file.exists() {
                continue;
            }
            kassette_files::write(&file, 0o600, &bytes).map_err(failed)?;
            stamps.insert(built.slot.clone(), digest);
        }
        let text = serde_json::to_vec_pretty(&stamps).unwrap_or_default();
        kassette_files::write(&self.stamp, 0o600, &text).map_err(|source| GuestError::File {
            path: self.stamp.display().to_string(),
            source,
        })
    }

    /// Rebuilds guests after changes until `stop`. The runtime watches the plugin folder.
    pub(super) async fn watch(self, stop: CancellationToken) -> Result<(), notify::Error> {
        // If the channel is full, paths are dropped. A guest without any other path is then not rebuilt.
        let (tell, mut told) = mpsc::channel::<PathBuf>(256);
        let mut watcher =
            notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
                let Ok(event) = event else { return };
                if !event.kind.is_access() {
                    for path in event.paths.into_iter().filter(|path| is_source(path)) {
                        let _ = tell.try_send(path);
                    }
                }
            })?;
        for folder in ["plugins", "providers", "wit"] {
            watcher.watch(&self.root.join(folder), RecursiveMode::Recursive)?;
        }
        let guests = std::sync::Arc::new(self);
        loop {
            let first = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                first = told.recv() => first,
            };
            let Some(first) = first else { return Ok(()) };
            let mut saved = vec![first];
            while let Ok(Some(path)) = tokio::time::timeout(QUIET, told.recv()).await {
                saved.push(path);
            }
            let guests = std::sync::Arc::clone(&guests);
            let rebuilt = tokio::task::spawn_blocking(move || guests.rebuild(&saved)).await;
            match rebuilt {
                Ok(Ok(slots)) if !slots.is_empty() => {
                    tracing::info!(slots = slots.join(" "), "modules were rebuilt");
                }
                Ok(Err(error)) => tracing::error!("modules were not rebuilt: {error}"),
                Ok(Ok(_)) | Err(_) => {}
            }
        }
    }

    /// Builds the guests that own the saved files, or all guests if a shared file was saved. Returns the slots
    /// that changed.
    fn rebuild(&self, saved: &[PathBuf]) -> Result<Vec<String>, GuestError> {
        let guests = self.discover()?;
        let owner = |path: &PathBuf| guests.iter().find(|guest| path.starts_with(&guest.folder));
        let owners: Vec<Option<&Guest>> = saved.iter().map(owner).collect();
        let mut wanted: Vec<Guest> = if owners.iter().any(Option::is_none) {
            guests.clone()
        } else {
            owners.into_iter().flatten().cloned().collect()
        };
        wanted.sort_by(|a, b| a.slot.cmp(&b.slot));
        wanted.dedup();
        let built = self.run(&wanted, &mut |_| {})?;
        self.install(&built)?;
        Ok(built
            .into_iter()
            .filter(|built| !built.fresh)
            .map(|built| built.slot)
            .collect())
    }
}

fn is_source(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    let hidden = path
        .file_name()
        .is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && matches!(ending, Some("rs" | "toml" | "wit"))
}

/// The workspace's folder: above the working folder, or else the one that this program was built from.
pub(super) fn workspace_root() -> Option<PathBuf> {
    let built_from = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2)?;
    root_above(&std::env::current_dir().ok()?).or_else(|| root_above(built_from))
}

/// The workspace's folder at or above a folder.
fn root_above(folder: &Path) -> Option<PathBuf> {
    let is_root = |folder: &&Path| folder.join("plugins/sdk/Cargo.toml").exists();
    folder.ancestors().find(is_root).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_workspace_is_found_from_the_folders_in_it() {
        let copy = tempfile::tempdir().unwrap();
        let sdk = copy.path().join("plugins/sdk");
        std::fs::create_dir_all(&sdk).unwrap();
        assert_eq!(root_above(&sdk), None);
        std::fs::write(sdk.join("Cargo.toml"), "").unwrap();
        assert_eq!(root_above(&sdk).as_deref(), Some(copy.path()));
    }
}
