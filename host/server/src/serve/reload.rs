//! What a running server takes over of its files: the configuration, certificates and exchange rates, when they
//! change and when it is told to read them again.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kassette_domain::id::AccountId;
use kassette_gateway::Gateway;
use kassette_gateway::settings::Account;
use tokio::signal::unix::Signal;
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::announced::Announced;
use super::certificates::{Certificate, Pair};
use super::file_watch::LOOK_EVERY;
use super::rates_file::RatesFile;
use super::settings::settings;
use super::systemd;
use crate::config::{Config, MainFile, Profile, refusal};

/// Reads again what can change while payments flow.
pub(super) struct Reloader {
    folder: PathBuf,
    profile: Profile,
    gateway: Gateway,
    base_url: String,
    /// Where no event goes.
    own_origins: Vec<String>,
    simulated: Option<BTreeMap<AccountId, Account>>,
    announced: Arc<Announced>,
    /// `drain_seconds` of now.
    drain_seconds: AtomicU64,
    /// Where the European Central Bank's rates are fetched from.
    ecb_address: watch::Sender<Option<Url>>,
    /// One reading at a time.
    state: Mutex<State>,
}

struct State {
    /// `kassette.toml` as the server was started with it.
    started: MainFile,
    /// The same as it was last taken over.
    taken: MainFile,
    certificates: Vec<Certificate>,
    rates_file: RatesFile,
}

impl Reloader {
    /// For a server that has begun with a configuration and with certificates.
    pub(super) fn new(
        (config, profile): (&Config, Profile),
        certificates: Vec<Certificate>,
        (rates_file, ecb_address): (RatesFile, watch::Sender<Option<Url>>),
        gateway: Gateway,
        (base_url, own_origins): (String, Vec<String>),
        simulated: Option<BTreeMap<AccountId, Account>>,
        announced: Arc<Announced>,
    ) -> Self {
        Self {
            folder: config.folder.clone(),
            profile,
            gateway,
            base_url,
            own_origins,
            simulated,
            announced,
            drain_seconds: config.main.drain_seconds.into(),
            ecb_address,
            state: Mutex::new(State {
                started: config.main.clone(),
                taken: config.main.clone(),
                certificates,
                rates_file,
            }),
        }
    }

    /// How long to serve on after the server was told to stop.
    pub(super) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.load(Ordering::Relaxed))
    }

    /// Takes changed files of the configuration over, until told to end; what is wrong is said and
    /// changes nothing.
    pub(super) async fn watch_configuration(self: Arc<Self>, ending: CancellationToken) {
        if !self.folder.exists() {
            return;
        }
        let watched = crate::config::watch(&self.folder, ending, || self.configuration_changed());
        if let Err(error) = watched.await {
            tracing::warn!("the configuration is not watched: {error}; SIGHUP has it read again");
        }
    }

    async fn configuration_changed(&self) {
        let mut state = self.state.lock().await;
        match self.take_configuration(&mut state).await {
            Ok(()) => tracing::info!("the configuration was read again"),
            Err(why) => tracing::error!("the configuration was not taken over: {why}"),
        }
    }

    /// Takes replaced certificates and exchange rates over, until told to end.
    pub(super) async fn watch_files(self: Arc<Self>, ending: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            let mut state = self.state.lock().await;
            if let Some(Err(error)) = state.rates_file.look() {
                tracing::error!(
                    "exchange rates were not taken over, those before them go on: {error}"
                );
            }
            for certificate in &mut state.certificates {
                let listener = certificate.listener;
                match certificate.look() {
                    None => {}
                    Some(Ok(())) => {
                        tracing::info!("the certificate of the {listener} listener was replaced");
                    }
                    Some(Err(error)) => tracing::error!(
                        "the certificate of the {listener} listener was not taken over, the one \
                         before it goes on serving: {error}"
                    ),
                }
            }
        }
    }

    /// Reads everything again at each SIGHUP, until told to end. systemd hears nothing of it once the
    /// server stops.
    pub(super) async fn follow_signals(
        self: Arc<Self>,
        mut hang_up: Signal,
        stopping: CancellationToken,
        ending: CancellationToken,
    ) {
        while let Some(Some(())) = ending.run_until_cancelled(hang_up.recv()).await {
            if !stopping.is_cancelled() {
                systemd::reloading();
            }
            self.read_again().await;
            if !stopping.is_cancelled() {
                systemd::ready();
            }
        }
    }

    async fn read_again(&self) {
        let mut state = self.state.lock().await;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        match self.take_configuration(&mut state).await {
            Ok(()) => taken.push("the configuration".to_owned()),
            Err(why) => left.push(why),
        }
        if state.rates_file.is_there() {
            match state.rates_file.read_again() {
                Ok(()) => taken.push("the file of exchange rates".to_owned()),
                Err(error) => left.push(error.to_string()),
            }
        }
        for certificate in &mut state.certificates {
            match certificate.read_again() {
                Ok(()) => taken.push(format!(
                    "the certificate of the {} listener",
                    certificate.listener
                )),
                Err(error) => left.push(error.to_string()),
            }
        }
        if !taken.is_empty() {
            tracing::info!("SIGHUP: taken over: {}", taken.join(", "));
        }
        if !left.is_empty() {
            tracing::error!("SIGHUP: not taken over: {}", left.join("; "));
        }
    }

    /// Reads the configuration's folder and takes it over as a whole.
    ///
    /// # Errors
    /// Everything that is wrong with it; then nothing has changed.
    async fn take_configuration(&self, state: &mut State) -> Result<(), String> {
        let (config, errors) = Config::read_all(&self.folder, self.profile);
        if !errors.is_empty() {
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            return Err(errors.join("; "));
        }
        let settings = settings(
            &config,
            &self.base_url,
            &self.own_origins,
            self.profile,
            self.simulated.as_ref(),
        );
        let taken = self.gateway.configure(settings).await;
        taken.map_err(|refused| refusal(&self.folder, &refused))?;
        self.announced.configured(&config.folder);
        self.note(state, config);
        Ok(())
    }

    /// Notes what was taken over, and says what of a change was not: what is read at the start alone.
    fn note(&self, state: &mut State, config: Config) {
        let [public, admin] = [Pair::public(&config), Pair::admin(&config)];
        for certificate in &mut state.certificates {
            certificate.follow(match certificate.listener {
                "public" => public.clone(),
                _ => admin.clone(),
            });
        }
        state.rates_file.follow(config.rates_file());
        let address = config.main.rates.ecb(self.profile);
        self.ecb_address.send_if_modified(|known| {
            let is_other = *known != address;
            *known = address;
            is_other
        });
        let main = config.main;
        let changed = state.taken.restart_needed(&main, self.profile);
        let needed = state.started.restart_needed(&main, self.profile);
        if !changed.is_empty() && !needed.is_empty() {
            tracing::warn!("{}: take effect with a restart", needed.join(", "));
        }
        self.drain_seconds
            .store(main.drain_seconds, Ordering::Relaxed);
        state.taken = main;
    }
}
