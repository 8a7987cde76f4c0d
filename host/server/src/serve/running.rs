//! An assembled server, from its first answer to its last.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use kassette_gateway::Gateway;
use kassette_store::{Health as _, SledStore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::ServeError;
use super::assembly::settings;
use crate::config::{Config, Profile, refusal};
use crate::listen::Listener;
use crate::simulators::Simulators;

/// An assembled server; nothing is answered before [`Running::begin`].
pub(crate) struct Running {
    pub(super) gateway: Gateway,
    pub(super) store: Arc<SledStore>,
    pub(super) base_url: String,
    pub(super) admin_url: String,
    /// Where no event goes.
    pub(super) own_origins: Vec<String>,
    pub(super) listen: SocketAddr,
    pub(super) listeners: parking_lot::Mutex<Vec<(Listener, Router)>>,
    pub(super) simulators: Option<Simulators>,
    /// Ends listeners first.
    pub(super) closing: CancellationToken,
    /// Ends workers once no request is served any more.
    pub(super) ending: CancellationToken,
    pub(super) listening: TaskTracker,
    pub(super) working: TaskTracker,
    pub(super) profile: Profile,
    pub(super) config: Config,
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

    /// Base of the admin API.
    pub(crate) fn admin_url(&self) -> String {
        format!("{}/admin/v1", self.admin_url)
    }

    /// Starts to answer and to work.
    pub(crate) fn begin(&self) {
        for (listener, router) in self.listeners.lock().drain(..) {
            self.listening
                .spawn(listener.serve(router, self.closing.clone()));
        }
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working
            .spawn(async move { gateway.run_workers(ending.cancelled_owned()).await });
        let (gateway, ending) = (self.gateway.clone(), self.ending.clone());
        self.working.spawn(super::drops::audit(gateway, ending));
        self.watch_config();
        tracing::info!(base_url = %self.base_url, listen = %self.listen, admin_url = %self.admin_url, "serving");
    }

    /// Takes changed files over while payments flow; what is wrong is said and changes nothing.
    fn watch_config(&self) {
        if !self.config.folder.exists() {
            return;
        }
        let (folder, profile) = (self.config.folder.clone(), self.profile);
        let simulated = self
            .simulators
            .as_ref()
            .map(|simulators| simulators.accounts.clone());
        let (gateway, base_url) = (self.gateway.clone(), self.base_url.clone());
        let own_origins = self.own_origins.clone();
        let (watched, ending) = (folder.clone(), self.ending.clone());
        let reload = move || {
            let (gateway, folder) = (gateway.clone(), folder.clone());
            let read = Config::read(&folder, profile).map(|config| {
                settings(
                    &config,
                    &base_url,
                    &own_origins,
                    profile,
                    simulated.as_ref(),
                )
            });
            async move {
                let taken = match read {
                    Ok(settings) => gateway
                        .configure(settings)
                        .await
                        .map_err(|refused| refusal(&folder, &refused)),
                    Err(error) => Err(error.to_string()),
                };
                match taken {
                    Ok(()) => tracing::info!("the configuration was read again"),
                    Err(why) => tracing::error!("the configuration was not taken over: {why}"),
                }
            }
        };
        self.working.spawn(async move {
            if let Err(error) = crate::config::watch(&watched, ending, reload).await {
                tracing::warn!("the configuration is not watched: {error}");
            }
        });
    }

    /// Waits to be told to stop, or for the store to give up; then finishes what is in hand.
    pub(crate) async fn until(self, stop: CancellationToken) -> Result<(), ServeError> {
        let failed = tokio::select! {
            () = stop.cancelled() => None,
            why = self.store.failed() => Some(why),
        };
        self.closing.cancel();
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
}
