//! Parts of `dev` that exist once for all nodes: the clock, the simulated providers, the demo credentials, and the
//! demo shop's receiver.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kassette_domain::delegation::DelegationStatus;
use kassette_gateway::clock::{AdjustableClock, Clock};
use kassette_store::Store;

use super::credentials::Credentials;
use super::error::DevError;
use super::receiver::Receiver;
use super::seed::{self, SeedError};
use crate::ready::{ReadyMerchant, ReadyReseller};
use crate::simulators::{PlannedAccount, SimulatorSettings, Simulators};

/// The clock, the credentials, and their folder.
pub(super) struct Demo {
    pub(super) clock: Arc<AdjustableClock>,
    credentials: Credentials,
    data_dir: PathBuf,
}

/// Demo data for the ready file.
pub(super) struct Seeded {
    pub(super) operator_token: String,
    pub(super) merchant: ReadyMerchant,
    pub(super) reseller: Option<ReadyReseller>,
}

impl Demo {
    /// Loads the credentials of a data directory and starts the simulators.
    pub(super) async fn start(
        modules: &[&'static str],
        data_dir: &Path,
    ) -> Result<(Self, Simulators), DevError> {
        let planned = PlannedAccount::of_modules(modules);
        let ids: Vec<&str> = planned.iter().map(|planned| planned.id.as_str()).collect();
        let credentials = Credentials::load(data_dir, &ids)?;
        let clock = Arc::new(AdjustableClock::new());
        let planned: Vec<_> = planned
            .into_iter()
            .filter_map(|planned| {
                let shared = credentials.simulator(&planned.id)?;
                Some((planned, shared))
            })
            .collect();
        let settings = SimulatorSettings {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            data_dir: data_dir.join("simulators"),
            public_base: None,
            redirect_hosts: Vec::new(),
        };
        let simulators = Simulators::start(&planned, settings, Arc::clone(&clock) as _).await?;
        let demo = Self {
            clock,
            credentials,
            data_dir: data_dir.to_owned(),
        };
        Ok((demo, simulators))
    }

    /// Creates missing demo data in the store, and starts the demo shop's receiver.
    pub(super) async fn seed(mut self, store: &dyn Store) -> Result<Seeded, DevError> {
        let now = self.clock.now();
        let credentials = &mut self.credentials;
        let merchant = seed::seed(store, credentials, now).await?;
        let mut webhook = None;
        if let Some(demo) = &mut credentials.webhook {
            let receiver = Receiver::bind(demo.port)
                .await
                .map_err(DevError::NoReceiver)?;
            demo.port = Some(receiver.port());
            let id = seed::endpoint(store, merchant.id, demo, receiver.url(), now).await?;
            webhook = Some((id.to_string(), demo.secret.expose().to_owned()));
            receiver.begin(demo.secret.clone(), Arc::clone(&self.clock) as _);
        }
        let mut shown = None;
        if let Some(demo) = &credentials.reseller {
            let reseller = seed::reseller(store, merchant.id, demo, now).await?;
            let delegation = store.delegation(reseller.id, merchant.id).await;
            let delegation = delegation.map_err(SeedError::from)?;
            let authorized = delegation
                .filter(|delegation| delegation.status() == DelegationStatus::Authorized)
                .map(|delegation| delegation.merchant.0);
            shown = Some(ReadyReseller {
                reseller_id: reseller.id.0,
                test_key: demo.test_key.expose().to_owned(),
                live_key: demo.live_key.expose().to_owned(),
                authorized_merchant_ids: authorized.into_iter().collect(),
            });
        }
        credentials.save(&self.data_dir)?;
        let (webhook_endpoint_id, webhook_secret) = webhook.unzip();
        Ok(Seeded {
            operator_token: credentials.operator_token.expose().to_owned(),
            merchant: ReadyMerchant {
                merchant_id: merchant.id.0,
                name: merchant.name,
                test_key: credentials.test_key.expose().to_owned(),
                live_key: credentials.live_key.expose().to_owned(),
                verified_domain: seed::DOMAIN.to_owned(),
                webhook_endpoint_id,
                webhook_secret,
            },
            reseller: shown,
        })
    }
}
