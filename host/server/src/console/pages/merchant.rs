//! A merchant: keys, webhook endpoints, policy, rates, domains, brand.

use askama::Template;
use axum::extract::Path;
use serde_json::Value;

use super::names::without_scheme;
use super::node::Node;
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/merchant.html")]
pub(super) struct Page {
    context: Context,
    merchant: Value,
    keys: Value,
    endpoints: Value,
    rates: Value,
}

/// `GET /console/merchants/{id}`
pub(super) async fn show(
    context: Context,
    Path(id): Path<String>,
) -> Result<Html<Page>, ConsoleError> {
    let path = format!("/merchants/{}", super::node::segment(&id));
    let merchant = context.read(&path).await?;
    let keys = context.read(&format!("{path}/keys?limit=100")).await?;
    let rates = context.read(&format!("{path}/rates")).await?;
    let id = merchant["merchant_id"].as_u64().unwrap_or_default();
    let endpoints = format!("/webhook-endpoints?merchant_id={id}");
    let endpoints = context.read(&endpoints).await?;
    Ok(Html(Page {
        context,
        merchant,
        keys,
        endpoints,
        rates,
    }))
}

impl Page {
    /// Whether a key or endpoint is of the page's environment.
    fn is_here(&self, item: &Node<'_>) -> bool {
        item.at("environment").is(self.context.environment_name())
    }

    /// The currency whose rate the address asks to change.
    fn chosen_rate(&self) -> Option<&str> {
        let currency = self.context.parameter("rate")?;
        let known = self.context.node(&self.rates).at("rates").list();
        let mut known = known.into_iter();
        known
            .any(|rate| rate.at("currency").is(currency))
            .then_some(currency)
    }

    /// Name of the field for a currency's rate.
    fn rate_field(&self, currency: &str) -> String {
        format!("fx_rates.{currency}")
    }

    /// The merchant's own rate of a currency. Empty without one.
    fn own_rate(&self, currency: &str) -> String {
        let rates = &self.merchant["fx_rates"];
        rates[currency].as_str().unwrap_or_default().to_owned()
    }

    /// Whether a key can still be used.
    fn is_usable(&self, key: &Node<'_>) -> bool {
        let now = self.context.now().rfc3339();
        let expired = key.at("expires_at");
        // Both are UTC with milliseconds, so they sort as texts.
        !key.at("revoked_at").is_set() && (!expired.is_set() || expired.raw() > &*now)
    }
}
