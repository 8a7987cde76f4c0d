//! Signals to a running process: to stop, or to read its files again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGTERM and SIGINT. Clones share the state.
#[derive(Clone)]
pub(crate) struct Stop {
    /// Cancelled by the first signal.
    pub(crate) stop_requested: CancellationToken,
    /// Cancelled by the second signal.
    pub(crate) again: CancellationToken,
}

impl Stop {
    /// Handles both signals from now on. Call it inside the async runtime.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub(crate) fn catch() -> io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let stop = Self {
            stop_requested: CancellationToken::new(),
            again: CancellationToken::new(),
        };
        let tell = stop.clone();
        tokio::spawn(async move {
            for token in [tell.stop_requested, tell.again] {
                tokio::select! {
                    _ = terminate.recv() => {}
                    _ = interrupt.recv() => {}
                }
                token.cancel();
            }
            // Further signals are still caught, but ignored.
        });
        Ok(stop)
    }
}

/// Signals that a server handles.
pub(crate) struct Signals {
    pub(crate) stop: Stop,
    /// SIGHUP. Several signals before the next read count as one.
    pub(crate) hang_up: Signal,
}

impl Signals {
    /// Handles SIGTERM, SIGINT and SIGHUP from now on. Call it inside the async runtime.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            stop: Stop::catch()?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}
