//! Names of objects that lists refer to by number or id.

use std::collections::BTreeMap;

use kassette_domain::id::{EndpointId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::webhook::Endpoint;

use super::node::{Node, neutral};
use crate::console::context::Context;
use crate::console::reply::ConsoleError;

/// Names of merchants by number.
#[derive(Default)]
pub(super) struct Merchants(BTreeMap<u64, String>);

impl Merchants {
    /// The names of the merchants of a list's items, whose field `merchant_id` may be null.
    pub(super) async fn of(context: &Context, items: &[Node<'_>]) -> Result<Self, ConsoleError> {
        let mut names = BTreeMap::new();
        for item in items {
            let number = item.at("merchant_id").number();
            if number == 0 || names.contains_key(&number) {
                continue;
            }
            let merchant = context.gateway().store().merchant(MerchantId(number)).await;
            let merchant = merchant.map_err(ConsoleError::internal)?;
            let name = merchant.map_or_else(|| number.to_string(), |merchant| merchant.name);
            names.insert(number, neutral(&name).into_owned());
        }
        Ok(Self(names))
    }

    /// The name of an item's merchant. Empty if it has none.
    pub(super) fn name(&self, item: &Node<'_>) -> &str {
        let name = self.0.get(&item.at("merchant_id").number());
        name.map_or("", String::as_str)
    }
}

/// Webhook endpoints by id.
#[derive(Default)]
pub(super) struct Endpoints(BTreeMap<String, Endpoint>);

impl Endpoints {
    /// The endpoints of a list of deliveries. Deleted ones are left out.
    pub(super) async fn of(
        context: &Context,
        deliveries: &[Node<'_>],
    ) -> Result<Self, ConsoleError> {
        let mut endpoints = BTreeMap::new();
        for delivery in deliveries {
            let text = delivery.at("endpoint_id").raw();
            let Ok(id) = EndpointId::parse(text) else {
                continue;
            };
            if endpoints.contains_key(text) {
                continue;
            }
            let endpoint = context.gateway().store().endpoint(id).await;
            if let Some(endpoint) = endpoint.map_err(ConsoleError::internal)? {
                endpoints.insert(text.to_owned(), endpoint);
            }
        }
        Ok(Self(endpoints))
    }

    /// The environment of a delivery's endpoint. `None` if it was deleted.
    pub(super) fn environment(&self, delivery: &Node<'_>) -> Option<Environment> {
        let endpoint = self.0.get(delivery.at("endpoint_id").raw());
        endpoint.map(|endpoint| endpoint.environment)
    }

    /// The address of a delivery's endpoint, without its scheme.
    pub(super) fn url(&self, delivery: &Node<'_>) -> String {
        match self.0.get(delivery.at("endpoint_id").raw()) {
            Some(endpoint) => without_scheme(&endpoint.url),
            None => "an endpoint that was deleted".to_owned(),
        }
    }

    /// The host of a delivery's endpoint.
    pub(super) fn host(&self, delivery: &Node<'_>) -> String {
        let url = self.url(delivery);
        url.split('/').next().unwrap_or_default().to_owned()
    }
}

/// An address as pages show it.
pub(super) fn without_scheme(url: &str) -> String {
    let short = url.strip_prefix("https://").or(url.strip_prefix("http://"));
    neutral(short.unwrap_or(url)).into_owned()
}
