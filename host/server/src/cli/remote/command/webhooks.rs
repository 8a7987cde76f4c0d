//! Webhook endpoints and the delivery log.

use clap::{ArgGroup, Subcommand};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::{Map, Value, json};

use super::merchants::Owner;
use super::payments::Period;
use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};

/// Commands for webhook endpoints.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum EndpointAction {
    /// Send the events of a merchant's payments, or of payments created by a reseller, to a URL; the signing
    /// secret is shown only this time.
    Create {
        #[command(flatten)]
        owner: Owner,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Environment,
        /// The URL, such as https://shop.example/webhooks.
        #[arg(long)]
        url: String,
        /// Event type, such as payment.completed; all except payment.attempt_failed if absent. May be repeated.
        #[arg(long = "event-type")]
        event_types: Vec<String>,
    },
    /// List the endpoints of all merchants, or of a merchant or a reseller, with their backlogs.
    List {
        /// Only endpoints of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// Only endpoints of this reseller.
        #[arg(long, alias = "reseller", conflicts_with_all = ["merchant_id", "failing"])]
        reseller_id: Option<u64>,
        /// Only endpoints that keep failing, so that their circuits are open.
        #[arg(long)]
        failing: bool,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show an endpoint.
    Show {
        /// The endpoint's id.
        endpoint_id: String,
    },
    /// Change an endpoint; absent options leave values unchanged.
    #[command(group = ArgGroup::new("change").required(true).multiple(true)
        .args(["url", "event_types", "all_event_types", "enabled"]))]
    Update {
        /// The endpoint's id.
        endpoint_id: String,
        /// The new URL, which also gets waiting deliveries.
        #[arg(long)]
        url: Option<String>,
        /// Event type, such as payment.completed. May be repeated.
        #[arg(long = "event-type", conflicts_with = "all_event_types")]
        event_types: Vec<String>,
        /// All events except payment.attempt_failed, including those of later releases.
        #[arg(long)]
        all_event_types: bool,
        /// true or false; deliveries of a disabled endpoint wait for at most 72 hours.
        #[arg(long)]
        enabled: Option<bool>,
    },
    /// Delete an endpoint; its waiting deliveries are cancelled.
    Delete {
        /// The endpoint's id.
        endpoint_id: String,
    },
    /// Send a webhook.test event.
    Test {
        /// The endpoint's id.
        endpoint_id: String,
    },
    /// Generate a new secret, which signs after the overlap. Needs --actor and --reason.
    ///
    /// Without an overlap, a receiver that does not know the new secret yet refuses events, so the command asks
    /// for confirmation.
    Rotate {
        /// The endpoint's id.
        endpoint_id: String,
        /// Do not ask for confirmation if there is no overlap.
        #[arg(long)]
        yes: bool,
        /// How long the old secret still signs, 0-72 hours: time to configure both at the receiver.
        #[arg(long)]
        overlap_hours: Option<u64>,
    },
    /// Deliver events now that wait for their next attempt, for example after an outage; this uses an attempt.
    #[command(group = ArgGroup::new("whose").required(true)
        .args(["endpoint_id", "merchant_id", "reseller_id", "all"]))]
    Deliver {
        /// The endpoint's id.
        endpoint_id: Option<String>,
        /// Waiting deliveries of a merchant's endpoints.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// Waiting deliveries of a reseller's endpoints.
        #[arg(long, alias = "reseller")]
        reseller_id: Option<u64>,
        /// Waiting deliveries of all endpoints.
        #[arg(long)]
        all: bool,
    },
    /// Deliver exhausted events again that were queued since a time.
    Recover {
        /// The endpoint's id.
        endpoint_id: String,
        /// Time when the first of them was queued, or earlier, such as 2030-01-31T12:00:00Z.
        #[arg(long)]
        since: String,
    },
}

/// Path segment after an owner.
const WHAT: &str = "webhook-endpoints";

const ENDPOINTS: Shape = Shape::List(
    "webhook_endpoints",
    &[
        ("ID", "/id"),
        ("Environment", "/environment"),
        ("Address", "/url"),
        ("Enabled", "/enabled"),
        ("Circuit", "/circuit"),
        ("Failing since", "/failing_since"),
        ("Merchant", "/merchant_id"),
        ("Waiting", "/waiting"),
        ("Last error", "/last_error"),
        ("Events", "/event_types"),
        ("Created", "/created_at"),
    ],
);

impl Action for EndpointAction {
    fn call(self) -> Result<Call, String> {
        let one = |method, id: &str| Call::new(method, ["webhook-endpoints", id]);
        let act = |id: &str, act| Call::new(Method::POST, ["webhook-endpoints", id, act]);
        Ok(match self {
            Self::Create {
                owner,
                environment,
                url,
                event_types,
            } => {
                let types = (!event_types.is_empty()).then_some(event_types);
                let body = json!({ "url": url, "environment": environment, "event_types": types });
                owner.call(Method::POST, WHAT).body(body).shown(Shape::Once)
            }
            Self::List {
                merchant_id,
                reseller_id,
                failing,
                paging,
            } => {
                let call = match reseller_id {
                    Some(id) => Call::new(Method::GET, ["resellers", &id.to_string(), WHAT]),
                    None => Call::new(Method::GET, [WHAT])
                        .with("merchant_id", merchant_id)
                        .with("failing", failing.then_some(true)),
                };
                paging.put(call.shown(ENDPOINTS))
            }
            Self::Show { endpoint_id } => one(Method::GET, &endpoint_id),
            Self::Update {
                endpoint_id,
                url,
                event_types,
                all_event_types,
                enabled,
            } => {
                let mut body = Map::new();
                body.extend(url.map(|url| ("url".to_owned(), url.into())));
                body.extend(enabled.map(|enabled| ("enabled".to_owned(), enabled.into())));
                if all_event_types {
                    body.insert("event_types".into(), Value::Null);
                } else if !event_types.is_empty() {
                    body.insert("event_types".into(), json!(event_types));
                }
                one(Method::PATCH, &endpoint_id).body(body.into())
            }
            Self::Delete { endpoint_id } => {
                let done = format!("The endpoint {endpoint_id} gets nothing any more.");
                one(Method::DELETE, &endpoint_id).shown(Shape::Nothing(done))
            }
            Self::Test { endpoint_id } => act(&endpoint_id, "test"),
            Self::Rotate {
                endpoint_id,
                yes,
                overlap_hours,
            } => {
                let has_overlap = overlap_hours.is_some_and(|hours| hours > 0);
                let question = format!(
                    "{endpoint_id} signs with the new secret at once: until its receiver knows it, it refuses events \
                     (--overlap-hours 24 leaves time)."
                );
                act(&endpoint_id, "rotate")
                    .body(json!({ "overlap_hours": overlap_hours }))
                    .confirmed(question, yes || has_overlap)
                    .shown(Shape::Once)
            }
            Self::Deliver {
                endpoint_id: Some(endpoint_id),
                ..
            } => act(&endpoint_id, "deliver"),
            Self::Deliver {
                merchant_id,
                reseller_id,
                all,
                ..
            } => {
                let body = match (merchant_id, reseller_id) {
                    (Some(id), _) => json!({ "merchant_id": id }),
                    (None, Some(id)) => json!({ "reseller_id": id }),
                    (None, None) => json!({ "all": all }),
                };
                Call::new(Method::POST, ["webhook-endpoints", "deliver"])
                    .body(body)
                    .shown(Shape::Sums("made due"))
            }
            Self::Recover { endpoint_id, since } => {
                act(&endpoint_id, "recover").body(json!({ "since": since }))
            }
        })
    }
}

/// Commands for deliveries.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum DeliveryAction {
    /// List deliveries, newest first.
    List {
        /// Only deliveries to this endpoint.
        #[arg(long, alias = "endpoint")]
        endpoint_id: Option<String>,
        /// Only deliveries of this payment.
        #[arg(long, alias = "payment")]
        payment_id: Option<String>,
        /// Only deliveries of this event.
        #[arg(long, alias = "event")]
        event_id: Option<String>,
        /// Only deliveries to endpoints of this merchant.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// pending, delivered, exhausted, cancelled, or failed: exhausted, or waiting after a failed attempt.
        #[arg(long)]
        status: Option<String>,
        #[command(flatten)]
        period: Period,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show a delivery with all its attempts.
    Show {
        /// The delivery's id.
        delivery_id: String,
    },
    /// Deliver the same event again.
    Redeliver {
        /// The delivery's id.
        delivery_id: String,
    },
}

const DELIVERIES: Shape = Shape::List(
    "deliveries",
    &[
        ("ID", "/id"),
        ("Event", "/event_type"),
        ("Status", "/status"),
        ("Next attempt", "/next_attempt_at"),
        ("Queued", "/created_at"),
        ("Payment", "/payment_id"),
        ("Event ID", "/event_id"),
    ],
);

impl Action for DeliveryAction {
    fn call(self) -> Result<Call, String> {
        Ok(match self {
            Self::List {
                endpoint_id,
                payment_id,
                event_id,
                merchant_id,
                status,
                period,
                paging,
            } => {
                let call = Call::new(Method::GET, ["deliveries"])
                    .with("endpoint_id", endpoint_id)
                    .with("payment_id", payment_id)
                    .with("event_id", event_id)
                    .with("merchant_id", merchant_id)
                    .with("status", status);
                paging.put(period.put(call.shown(DELIVERIES)))
            }
            Self::Show { delivery_id } => Call::new(Method::GET, ["deliveries", &delivery_id]),
            Self::Redeliver { delivery_id } => {
                Call::new(Method::POST, ["deliveries", &delivery_id, "redeliver"])
            }
        })
    }
}
