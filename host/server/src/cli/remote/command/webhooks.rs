//! Webhook endpoints and the delivery log.

use clap::{ArgGroup, Subcommand};
use http::Method;
use kassette_domain::key::Environment;
use serde_json::{Map, Value, json};

use super::merchants::Owner;
use super::{Action, Paging, environment};
use crate::cli::remote::call::{Call, Shape};

/// What can be done with webhook endpoints.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum EndpointAction {
    /// Send the events of a merchant's payments, or of those that a reseller made, to an address; the secret that
    /// signs them is shown this once.
    Create {
        #[command(flatten)]
        owner: Owner,
        /// test or live.
        #[arg(long, value_parser = environment)]
        environment: Environment,
        /// Such as https://shop.example/webhooks.
        #[arg(long)]
        url: String,
        /// Such as payment.completed; all but payment.attempt_failed where none is named. May be repeated.
        #[arg(long = "event-type")]
        event_types: Vec<String>,
    },
    /// List the endpoints of a merchant or a reseller, newest first.
    List {
        #[command(flatten)]
        owner: Owner,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one.
    Show {
        /// Its id.
        endpoint_id: String,
    },
    /// Change one; what is not said stays as it is.
    #[command(group = ArgGroup::new("change").required(true).multiple(true)
        .args(["url", "event_types", "all_event_types", "enabled"]))]
    Update {
        /// Its id.
        endpoint_id: String,
        /// What waits goes to the new address too.
        #[arg(long)]
        url: Option<String>,
        /// Such as payment.completed. May be repeated.
        #[arg(long = "event-type", conflicts_with = "all_event_types")]
        event_types: Vec<String>,
        /// Every event but payment.attempt_failed, those of later releases too.
        #[arg(long)]
        all_event_types: bool,
        /// true or false; what waits is held back meanwhile, for 72 hours at most.
        #[arg(long)]
        enabled: Option<bool>,
    },
    /// Send it nothing any more; what waits is cancelled.
    Delete {
        /// Its id.
        endpoint_id: String,
    },
    /// Send it a webhook.test.
    Test {
        /// Its id.
        endpoint_id: String,
    },
    /// Draw a new secret, which signs after the overlap.
    Rotate {
        /// Its id.
        endpoint_id: String,
        /// For how long the old secret goes on signing, 0-72 hours: time to give the receiver both.
        #[arg(long)]
        overlap_hours: Option<u64>,
    },
    /// Deliver now what waits for its next attempt, as after an outage: each uses an attempt.
    #[command(group = ArgGroup::new("whose").required(true)
        .args(["endpoint_id", "merchant_id", "reseller_id", "all"]))]
    Deliver {
        /// The endpoint's id.
        endpoint_id: Option<String>,
        /// What waits for a merchant's endpoints.
        #[arg(long, alias = "merchant")]
        merchant_id: Option<u64>,
        /// What waits for a reseller's endpoints.
        #[arg(long, alias = "reseller")]
        reseller_id: Option<u64>,
        /// What waits for all of them.
        #[arg(long)]
        all: bool,
    },
    /// Deliver again whatever was given up of what was queued since a time.
    Recover {
        /// Its id.
        endpoint_id: String,
        /// When the first of it was queued, or before: such as 2030-01-31T12:00:00Z.
        #[arg(long)]
        since: String,
    },
}

/// What stands below an owner's path.
const WHAT: &str = "webhook-endpoints";

const ENDPOINTS: Shape = Shape::List(
    "webhook_endpoints",
    &[
        ("ID", "/id"),
        ("Environment", "/environment"),
        ("Address", "/url"),
        ("Enabled", "/enabled"),
        ("Circuit", "/circuit"),
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
            Self::List { owner, paging } => {
                paging.of(owner.call(Method::GET, WHAT).shown(ENDPOINTS))
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
                overlap_hours,
            } => act(&endpoint_id, "rotate")
                .body(json!({ "overlap_hours": overlap_hours }))
                .shown(Shape::Once),
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

/// What can be done with deliveries.
#[derive(Subcommand, Debug)]
pub(in crate::cli) enum DeliveryAction {
    /// List deliveries, newest first.
    List {
        /// To this endpoint.
        #[arg(long, alias = "endpoint")]
        endpoint_id: Option<String>,
        /// pending, delivered, exhausted or cancelled.
        #[arg(long)]
        status: Option<String>,
        #[command(flatten)]
        paging: Paging,
    },
    /// Show one with every attempt.
    Show {
        /// Its id.
        delivery_id: String,
    },
    /// Deliver the same event once more.
    Redeliver {
        /// Its id.
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
                status,
                paging,
            } => {
                let call = Call::new(Method::GET, ["deliveries"])
                    .with("endpoint_id", endpoint_id)
                    .with("status", status);
                paging.of(call.shown(DELIVERIES))
            }
            Self::Show { delivery_id } => Call::new(Method::GET, ["deliveries", &delivery_id]),
            Self::Redeliver { delivery_id } => {
                Call::new(Method::POST, ["deliveries", &delivery_id, "redeliver"])
            }
        })
    }
}
