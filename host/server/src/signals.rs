//! What signals tell a running process: to stop, to read its files again.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// SIGTERM and SIGINT. Clones share what was requested.
#[derive(Clone)]
pub(crate) struct Stop {
    /// Cancelled by the first.
    pub(crate) stop_requested: CancellationToken,
    /// Cancelled by the second.
    pub(crate) again: CancellationToken,
}

impl Stop {
    /// Catches both signals from now on. Call it inside of the runtime.
    ///
    /// # Errors
    /// The system's, where they cannot be caught.
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
            // What comes later is caught for good and says nothing new.
        });
        Ok(stop)
    }
}

/// What a server is told.
pub(crate) struct Signals {
    pub(crate) stop: Stop,
    /// SIGHUP; those that come before it is asked again are one.
    pub(crate) hang_up: Signal,
}

impl Signals {
    /// Catches SIGTERM, SIGINT and SIGHUP from now on. Call it inside of the runtime.
    ///
    /// # Errors
    /// The system's, where they cannot be caught.
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self {
            stop: Stop::catch()?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }
}
