//! Applies changed files in a running server: configuration, certificates and exchange rates. They are read when
//! they change and on SIGHUP.

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
use crate::status::{Facts, Subject};

/// Reads and applies everything that can change while the server runs.
pub(super) struct Reloader {
    folder: PathBuf,
    profile: Profile,
    gateway: Gateway,
    base_url: String,
    /// Origins that must not receive events.
    own_origins: Vec<String>,
    simulated: Option<BTreeMap<AccountId, Account>>,
    announced: Arc<Announced>,
    /// Current value of `drain_seconds`.
    drain_seconds: AtomicU64,
    /// URL of the European Central Bank's rates. `None` if they are disabled.
    ecb_address: watch::Sender<Option<Url>>,
    facts: Arc<Facts>,
    /// Serializes readings.
    state: Mutex<State>,
}

struct State {
    /// `kassette.toml` at the start of the server.
    started: MainFile,
    /// `kassette.toml` as last applied.
    taken: MainFile,
    certificates: Vec<Certificate>,
    rates_file: RatesFile,
}

impl Reloader {
    /// Creates the reloader of a server that was started with a configuration and certificates.
    pub(super) fn new(
        (config, profile): (&Config, Profile),
        certificates: Vec<Certificate>,
        (rates_file, ecb_address): (RatesFile, watch::Sender<Option<Url>>),
        gateway: Gateway,
        (base_url, own_origins): (String, Vec<String>),
        simulated: Option<BTreeMap<AccountId, Account>>,
        (announced, facts): (Arc<Announced>, Arc<Facts>),
    ) -> Self {
        facts.taken(Subject::Configuration, gateway.clock().now());
        facts.configured(Vec::new(), config.main.store.expected_nodes());
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
            facts,
            state: Mutex::new(State {
                started: config.main.clone(),
                taken: config.main.clone(),
                certificates,
                rates_file,
            }),
        }
    }

    /// Time for which the server still serves after it was asked to stop.
    pub(super) fn drain(&self) -> Duration {
        Duration::from_secs(self.drain_seconds.load(Ordering::Relaxed))
    }

    /// Applies changes of the configuration until `ending`. An invalid configuration is logged and changes
    /// nothing.
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

    /// Applies replaced certificates and exchange rates until `ending`.
    pub(super) async fn watch_files(self: Arc<Self>, ending: CancellationToken) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        while ending.run_until_cancelled(ticks.tick()).await.is_some() {
            let mut state = self.state.lock().await;
            if let Some(looked) = state.rates_file.look() {
                self.note_outcome(Subject::Rates, &looked);
                if let Err(error) = looked {
                    tracing::error!(
                        "exchange rates were not taken over, those before them go on: {error}"
                    );
                }
            }
            for certificate in &mut state.certificates {
                let listener = certificate.listener;
                let Some(looked) = certificate.look() else {
                    continue;
                };
                self.note_certificate(certificate, &looked);
                match looked {
                    Ok(()) => {
                        tracing::info!("the certificate of the {listener} listener was replaced");
                    }
                    Err(error) => tracing::error!(
                        "the certificate of the {listener} listener was not taken over, the one \
                         before it goes on serving: {error}"
                    ),
                }
            }
        }
    }

    /// Reads everything again on each SIGHUP until `ending`. systemd is not notified after the stop has started.
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
            let read = state.rates_file.read_again();
            self.note_outcome(Subject::Rates, &read);
            match read {
                Ok(()) => taken.push("the file of exchange rates".to_owned()),
                Err(error) => left.push(error.to_string()),
            }
        }
        for certificate in &mut state.certificates {
            let read = certificate.read_again();
            self.note_certificate(certificate, &read);
            match read {
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

    /// Reads the configuration's folder and applies it as a whole.
    ///
    /// # Errors
    /// All problems. In that case nothing has changed.
    async fn take_configuration(&self, state: &mut State) -> Result<(), String> {
        let taken = self.read_configuration(state).await;
        self.note_outcome(Subject::Configuration, &taken);
        taken
    }

    /// Records the outcome in the status report.
    fn note_outcome<E: ToString>(&self, subject: Subject, outcome: &Result<(), E>) {
        let now = self.gateway.clock().now();
        match outcome {
            Ok(()) => self.facts.taken(subject, now),
            Err(why) => self.facts.refused(subject, why.to_string(), now),
        }
    }

    fn note_certificate<E: ToString>(&self, certificate: &Certificate, outcome: &Result<(), E>) {
        self.note_outcome(Subject::of_listener(certificate.listener), outcome);
        if outcome.is_ok() {
            certificate.show_in(&self.facts, self.gateway.clock().now());
        }
    }

    async fn read_configuration(&self, state: &mut State) -> Result<(), String> {
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

    /// Applies the rest of the configuration, and warns about changed settings that need a restart.
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
        let needed = needed.into_iter().map(str::to_owned).collect();
        self.facts.configured(needed, main.store.expected_nodes());
        self.drain_seconds
            .store(main.drain_seconds, Ordering::Relaxed);
        state.taken = main;
    }
}
