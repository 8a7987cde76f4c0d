//! The ready file: says to scripts that requests are served, and where.

use std::path::Path;

use kassette_domain::secret::Secret;
use serde::Serialize;

/// What the file holds. Names and shapes are fixed: scripts rely on them.
#[derive(Clone, Serialize)]
pub(crate) struct Ready {
    /// `http://127.0.0.1:8080`
    pub(crate) base_url: String,
    /// `http://127.0.0.1:8081/admin/v1`
    pub(crate) admin_url: String,
    /// Where the public listener really is: behind a proxy not what `base_url` names.
    pub(crate) listen: String,
    /// Under `dev` alone.
    pub(crate) operator_token: Option<String>,
    /// Where a module's file is picked up.
    pub(crate) plugin_dir: String,
    /// Under `dev` the demo merchant.
    pub(crate) merchants: Vec<ReadyMerchant>,
    /// Under `dev` the demo reseller.
    pub(crate) resellers: Vec<ReadyReseller>,
    /// The processes that serve.
    pub(crate) nodes: Vec<ReadyNode>,
    /// Where what is kept is kept.
    pub(crate) store: ReadyStore,
}

/// A process of the ready file.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyNode {
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) base_url: String,
    pub(crate) admin_url: String,
}

impl ReadyNode {
    /// This process, the only one.
    pub(crate) fn only(base_url: &str, admin_url: String) -> Self {
        Self {
            name: "n1".to_owned(),
            pid: std::process::id(),
            base_url: base_url.to_owned(),
            admin_url,
        }
    }
}

/// The store of the ready file.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyStore {
    /// `sled` or `postgres`.
    pub(crate) kind: &'static str,
    /// The database's address, without its password.
    pub(crate) url: Option<String>,
    /// PostgreSQL's first process, where `dev` started it.
    pub(crate) pid: Option<u32>,
}

impl ReadyStore {
    /// That of a database, or of the data directory where there is none.
    pub(crate) fn of(database: Option<&Secret>) -> Self {
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

/// An address as it can be shown; none where it cannot be read.
fn without_password(address: &str) -> Option<String> {
    let mut url = url::Url::parse(address).ok()?;
    url.set_password(None).ok()?;
    // One that stands among the options.
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

/// A merchant of the ready file.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyMerchant {
    pub(crate) merchant_id: u64,
    pub(crate) name: String,
    /// A key for test payments.
    pub(crate) test_key: String,
    /// A key for live payments.
    pub(crate) live_key: String,
    /// A domain under which return URLs are accepted.
    pub(crate) verified_domain: String,
    /// The webhook endpoint for its test payments' events, at a receiver that `dev` runs.
    pub(crate) webhook_endpoint_id: Option<String>,
    /// What signs them.
    pub(crate) webhook_secret: Option<String>,
}

/// A reseller of the ready file.
#[derive(Clone, Serialize)]
pub(crate) struct ReadyReseller {
    pub(crate) reseller_id: u64,
    /// A key for test payments.
    pub(crate) test_key: String,
    /// A key for live payments.
    pub(crate) live_key: String,
    /// The merchants that it may work for.
    pub(crate) authorized_merchant_ids: Vec<u64>,
}

impl Ready {
    /// Writes the file, mode 0600, aside and renamed.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self).map_err(std::io::Error::other)?;
        kassette_files::write(path, 0o600, &text)
    }
}
