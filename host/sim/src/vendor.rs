//! What makes one vendor differ from another: its protocol. Everything else is shared.
use std::sync::Arc;

use axum::{Router, http::StatusCode, response::Response};

use crate::{
    account::Account,
    session::{Happened, Session},
};

/// How a call is treated while its account misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// About a payment: uses up faults.
    Payment,
    /// About credentials or health: fails only while the vendor is down, so that a fault ordered
    /// for a payment is not spent on a probe.
    Other,
}

/// A piece of news in the vendor's words.
pub(crate) struct Event<'a> {
    pub(crate) id: &'a str,
    pub(crate) happened: Happened,
    /// When, in milliseconds of the injected clock.
    pub(crate) at: u64,
    pub(crate) session: &'a Session,
}

/// A simulated vendor's protocol.
pub(crate) trait Vendor: Send + Sync {
    /// The vendor's API for one account.
    fn routes(self: Arc<Self>, account: Arc<Account>) -> Router;

    /// What kind of call a path is.
    fn call(&self, path: &str) -> Call;

    /// How the vendor words a failure of its own: 429, 500 or 503.
    fn failure(&self, status: StatusCode) -> Response;

    /// The exact bytes of a callback.
    fn event(&self, account: &Account, event: Event<'_>) -> String;

    /// The headers that a callback's delivery carries, its signature among them.
    fn sign(&self, secret: &str, body: &str, now_ms: u64) -> Vec<(&'static str, String)>;
}

/// The vendor of that module name.
pub(crate) fn by_module(module: &str) -> Option<Arc<dyn Vendor>> {
    match module {
        "sandbox" => Some(Arc::new(crate::sandbox::Sandbox::default())),
        _ => None,
    }
}
