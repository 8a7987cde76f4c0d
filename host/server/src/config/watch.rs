//! Reads the configuration again when one of its files changes.

use std::path::Path;
use std::time::Duration;

use notify::{RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Time without changes after which a burst has ended. An editor writes a file in several steps.
const QUIET: Duration = Duration::from_millis(50);

/// Calls `changed` once at the start, for changes between the first reading and the start of the watch, and again
/// after each burst of changes below `folder`, until `stop`.
///
/// # Errors
/// Errors of the watch itself. Without a watch, the files are only read at the start.
pub(crate) async fn watch<F, A>(
    folder: &Path,
    stop: CancellationToken,
    mut changed: F,
) -> Result<(), notify::Error>
where
    F: FnMut() -> A,
    A: Future<Output = ()>,
{
    // A capacity of one is enough: any number of changes causes one reading.
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
