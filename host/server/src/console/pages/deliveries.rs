//! Deliveries of events, and the endpoints that are failing.

use askama::Template;
use kassette_domain::id::PaymentId;
use kassette_domain::key::Environment;
use serde_json::Value;

use super::names::{Endpoints, Merchants, without_scheme};
use super::node::Node;
use super::words::{self, delivery_state};
use crate::console::context::Context;
use crate::console::reply::{ConsoleError, Html};

#[derive(Template)]
#[template(path = "console/deliveries.html")]
pub(super) struct Page {
    context: Context,
    failing: Value,
    data: Value,
    merchants: Merchants,
    endpoints: Endpoints,
}

/// `GET /console/deliveries`. The list may be shorter than its limit, because it shows one environment.
pub(super) async fn show(context: Context) -> Result<Html<Page>, ConsoleError> {
    let names = [
        "status",
        "merchant_id",
        "event_id",
        "payment_id",
        "endpoint_id",
        "since",
        "until",
        "limit",
        "cursor",
    ];
    let query = super::audit::days(&context.query(&names));
    let mut data = context.read(&format!("/deliveries?{query}")).await?;
    let mut failing = context
        .read("/webhook-endpoints?failing=true&limit=100")
        .await?;
    if let Some(endpoints) = failing["webhook_endpoints"].as_array_mut() {
        endpoints.retain(|endpoint| endpoint["environment"] == context.environment_name());
    }
    let listed = context.node(&failing).at("webhook_endpoints").list();
    let merchants = Merchants::of(&context, &listed).await?;
    let listed = context.node(&data).at("deliveries").list();
    let endpoints = Endpoints::of(&context, &listed).await?;
    let mut here = Vec::new();
    for delivery in &listed {
        let environment = match endpoints.environment(delivery) {
            Some(environment) => Some(environment),
            None => environment_of_payment(&context, delivery).await?,
        };
        here.push(environment == Some(context.environment));
    }
    let mut here = here.into_iter();
    if let Some(deliveries) = data["deliveries"].as_array_mut() {
        deliveries.retain(|_| here.next().unwrap_or_default());
    }
    Ok(Html(Page {
        context,
        failing,
        data,
        merchants,
        endpoints,
    }))
}

/// The environment of a delivery whose endpoint was deleted. `None` for a test event.
async fn environment_of_payment(
    context: &Context,
    delivery: &Node<'_>,
) -> Result<Option<Environment>, ConsoleError> {
    let Ok(id) = PaymentId::parse(delivery.at("payment_id").raw()) else {
        return Ok(None);
    };
    let payment = context.gateway().store().payment(id).await;
    let payment = payment.map_err(ConsoleError::internal)?;
    Ok(payment.map(|payment| payment.environment))
}

impl Page {
    /// The last answer of an endpoint to a delivery.
    fn answer(&self, delivery: &Node<'_>) -> String {
        let attempts = delivery.at("attempts").list();
        let Some(last) = attempts.last() else {
            return "none yet".to_owned();
        };
        match last.at("error").is_set() {
            true => last.at("error").to_string(),
            false => format!("{} after {} ms", last.at("status"), last.at("duration_ms")),
        }
    }

    /// Since when an endpoint is failing; a day ago if that is unknown.
    fn since(&self, endpoint: &Node<'_>) -> String {
        let since = endpoint.at("failing_since");
        match since.is_set() {
            true => since.to_string(),
            false => self.yesterday(),
        }
    }

    fn yesterday(&self) -> String {
        let day = std::time::Duration::from_secs(24 * 3600);
        self.context.now().before(day).rfc3339()
    }

    /// Whether any endpoint shown is failing.
    fn any_failing(&self) -> bool {
        let failing = self.context.node(&self.failing);
        failing.at("webhook_endpoints").is_set()
    }
}
