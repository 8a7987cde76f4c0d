//! The ready file, which informs scripts that requests are served, and where.

use std::path::Path;

use kassette_domain::secret::Secret;
use serde::Serialize;

/// Content of the file. Names and types are stable, because scripts rely on them.
#[derive(Clone, Serialize)]
pub(crate) struct Ready {
    /// `http://127.0.0.1:8080`
    pub(crate) base_url: String,
    /// `http://127.0.0.1:8081/admin/v1`
    pub(crate) admin_url: String,
    /// Actual address of the public listener. Differs from `base_url` behind a proxy.
    pub(crate) listen: String,
    /// Token of an operator. `None` under `serve`.
    pub(crate) operator_token: Option<String>,
    /// Folder of the modules.
    pub(crate) plugin_dir: String,
    /// The demo merchant. Empty under `serve`.
    pub(crate) merchants: Vec<ReadyMerchant>,
    /// The demo reseller. Empty under `serve`.
    pub(crate) resellers: Vec<ReadyReseller>,
    /// The serving processes.
    pub(crate) nodes: Vec<ReadyNode>,
    pub(crate) store: ReadyStore,
}

#[derive(Clone, Serialize)]
pub(crate) struct ReadyNode {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) base_url: String,
    pub(crate) admin_url: String,
}

impl ReadyNode {
    /// This process, if it is the only one.
    pub(crate) fn only(base_url: &str, admin_url: String) -> Self {
        Self {
            name: "n1".to_owned(),
            pid: std::process::id(),
            base_url: base_url.to_owned(),
            admin_url,
        }
    }
}

/// The store.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyStore {
    /// `sled` or `postgres`.
    pub(crate) kind: &'static str,
    /// Address of the database, without its password.
    pub(crate) url: Option<String>,
    /// Process id of PostgreSQL if `dev` started it.
    pub(crate) pid: Option<u32>,
}

impl ReadyStore {
    /// The given database. `None` for the store in the data directory.
    pub(crate) fn from_url(database: Option<&Secret>) -> Self {
        Self {
            kind: if database.is_some() {
                "postgres"
            } else {
                "sled"
            },
            url: database.and_then(|url| without_password(url.expose())),
            pid: None,
        }
    }
}

/// Removes the password from an address. `None` if the address cannot be parsed.
fn without_password(address: &str) -> Option<String> {
    let mut url = url::Url::parse(address).ok()?;
    url.set_password(None).ok()?;
    // A password may also be a query parameter.
    let others: Vec<_> = url
        .query_pairs()
        .filter(|(name, _)| name != "password")
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    url.set_query(None);
    if !others.is_empty() {
        url.query_pairs_mut().extend_pairs(&others);
    }
    Some(url.into())
}

/// A merchant with its keys.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyMerchant {
    pub(crate) merchant_id: u64,
    pub(crate) name: String,
    /// A key for test payments.
    pub(crate) test_key: String,
    /// A key for live payments.
    pub(crate) live_key: String,
    /// A domain that is accepted in return URLs.
    pub(crate) verified_domain: String,
    /// Webhook endpoint for events of test payments, at a receiver that `dev` runs.
    pub(crate) webhook_endpoint_id: Option<String>,
    /// Secret that signs these events.
    pub(crate) webhook_secret: Option<String>,
}

/// A reseller with its keys.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyReseller {
    pub(crate) reseller_id: u64,
    /// A key for test payments.
    pub(crate) test_key: String,
    /// A key for live payments.
    pub(crate) live_key: String,
    /// Merchants that have authorized the reseller.
    pub(crate) authorized_merchant_ids: Vec<u64>,
}

impl Ready {
    /// Writes the file with mode 0600, via a temporary file.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other)?;
        kassette_files::write(path, 0o600, &text)
    }
}
