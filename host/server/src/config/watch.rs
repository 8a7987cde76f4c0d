//! Reads the configuration again when a file of it changes.

use std::path::Path;
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How long a folder must be quiet: an editor writes a file in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Calls `changed` once, for what changed between the first reading of the files and the begin of the
/// watch, and after each burst of changes below `folder`, until `stop`.
///
/// # Errors
/// Those of the watch itself; without one the files are read at start only.
pub(crate) async fn watch<F, A>(
    folder: &Path,
    stop: CancellationToken,
    mut changed: F,
) -> Result<(), notify::Error>
where
    F: FnMut() -> A,
    A: Future<Output = ()>,
{
    // One place is enough: any number of changes makes one reading.
    let (tell, mut told) = mpsc::channel(1);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let touched = !event.is_ok_and(|event| event.kind.is_access());
        if touched {
            let _ = tell.try_send(());
        }
    })?;
    watcher.watch(folder, RecursiveMode::Recursive)?;
    changed().await;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            told = told.recv() => if told.is_none() { return Ok(()) },
        }
        while tokio::time::timeout(QUIET, told.recv())
            .await
            .is_ok_and(|told| told.is_some())
        {}
        changed().await;
    }
}
