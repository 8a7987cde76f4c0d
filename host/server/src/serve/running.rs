//! An assembled server, from its first to its last response.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use kassette_gateway::Gateway;
use kassette_store::Store;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::announced::Announced;
use super::ecb::Ecb;
use super::reload::Reloader;
use super::{ServeError, systemd};
use crate::listen::Listener;
use crate::signals::Signals;
use crate::simulators::Vendors;
use crate::status::Reporter;

/// An assembled server. It serves requests after [`Running::begin`].
pub(crate) struct Running {
    pub(super) gateway: Gateway,
    pub(super) store: Arc<dyn Store>,
    pub(super) base_url: String,
    pub(super) admin_url: String,
    pub(super) listen: SocketAddr,
    pub(super) admin_listen: SocketAddr,
    pub(super) listeners: parking_lot::Mutex<Vec<(Listener, Router)>>,
    pub(super) simulators: Option<Vendors>,
    pub(super) reloader: Arc<Reloader>,
    pub(super) announced: Arc<Announced>,
    pub(super) reporter: Arc<Reporter>,
    /// Folder of the status report.
    pub(super) data_dir: PathBuf,
    pub(super) ecb: parking_lot::Mutex<Option<Ecb>>,
    /// Cancelled when the server is no longer ready.
    pub(super) stopping: CancellationToken,
    /// Cancelled to end the listeners, which end first.
    pub(super) closing: CancellationToken,
    /// Cancelled to end the workers after all requests are complete.
    pub(super) ending: CancellationToken,
    pub(super) listening: TaskTracker,
    pub(super) working: TaskTracker,
}

impl Running {
    pub(crate) const fn gateway(&self) -> &Gateway {
        &self.gateway
    }

    /// Origin of the public listener.
    pub(crate) fn base_url(&self) -> &str {
        &self.base_url
    }

    /// Address of the public listener.
    pub(crate) const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Address of the admin listener.
    pub(crate) const fn admin_listen(&self) -> SocketAddr {
        self.admin_listen
    }

    /// Base URL of the admin API.
    pub(crate) fn admin_url(&self) -> String {
        format!("{}/admin/v1", self.admin_url)
    }

    /// Starts the listeners and the workers.
    pub(crate) fn begin(&self) {
        for (listener, router) in self.listeners.lock().drain(..) {
            self.listening
                .spawn(listener.serve(router, self.closing.clone()));
        }
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working
            .spawn(async move { gateway.run_workers(ending.cancelled_owned()).await });
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working
            .spawn(super::unattended::audit(gateway, ending));
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working
            .spawn(async move { gateway.follow_modules(ending).await });
        let announced = Arc::clone(&self.announced);
        self.working
            .spawn(announced.follow(self.stopping.clone(), self.ending.clone()));
        let reloader = Arc::clone(&self.reloader);
        self.working
            .spawn(reloader.watch_configuration(self.ending.clone()));
        let reloader = Arc::clone(&self.reloader);
        self.working
            .spawn(reloader.watch_files(self.ending.clone()));
        let reporter = Arc::clone(&self.reporter);
        self.working
            .spawn(reporter.write_file_until(self.data_dir.clone(), self.ending.clone()));
        if let Some(ecb) = self.ecb.lock().take() {
            self.working.spawn(ecb.run(self.ending.clone()));
        }
        tracing::info!(base_url = %self.base_url, listen = %self.listen, admin_url = %self.admin_url, "serving");
    }

    /// Waits for the signal to stop or a failure of the store. If a drain is configured, the server then keeps
    /// serving and reports not ready until the drain ends or a second signal arrives. Afterwards it completes the
    /// requests in flight.
    pub(crate) async fn until(self, signals: Signals) -> Result<(), ServeError> {
        let Signals { stop, hang_up } = signals;
        let reloader = Arc::clone(&self.reloader);
        let (stopping, ending) = (self.stopping.clone(), self.ending.clone());
        self.working
            .spawn(reloader.follow_signals(hang_up, stopping, ending));
        systemd::ready();
        let _watchdog = self.feed_watchdog();
        let mut failed = tokio::select! {
            () = stop.stop_requested.cancelled() => None,
            why = self.store.failed() => Some(why),
        };
        self.stopping.cancel();
        let drain = match failed {
            None => self.reloader.drain(),
            Some(_) => Duration::ZERO,
        };
        systemd::stopping(drain);
        if !drain.is_zero() {
            tracing::info!(
                "told to stop: /readyz answers 503, requests are served for {} s more",
                drain.as_secs()
            );
            tokio::select! {
                () = tokio::time::sleep(drain) => tracing::info!("the drain is over"),
                () = stop.again.cancelled() => tracing::info!("told to stop again: the drain ends"),
                why = self.store.failed() => failed = Some(why),
            }
        }
        tracing::info!("stopping: finishing what is in hand");
        self.closing.cancel();
        self.gateway.end_replays();
        self.listening.close();
        self.listening.wait().await;
        self.ending.cancel();
        self.working.close();
        self.working.wait().await;
        drop(self.simulators);
        if let Some(why) = failed {
            return Err(ServeError::StoreFailed(why));
        }
        self.gateway.finish().await;
        self.store.shut_down().await?;
        tracing::info!("stopped");
        Ok(())
    }

    /// Notifies systemd's watchdog while the returned handle exists.
    ///
    /// The store has to respond, but may respond with an error: a failing disk is no better after a restart, and
    /// the store recovers automatically. During the stop, the store is not asked, and systemd's stop timeout
    /// applies.
    fn feed_watchdog(&self) -> AbortOnDropHandle<()> {
        let (store, ending) = (Arc::clone(&self.store), self.ending.clone());
        let feeding = systemd::feed_watchdog(move || {
            let (store, ending) = (Arc::clone(&store), ending.clone());
            async move {
                let _answer = ending.run_until_cancelled(store.next_due()).await;
            }
        });
        AbortOnDropHandle::new(tokio::spawn(feeding))
    }
}
