//! Webhooks for merchants: endpoints, signatures, retries (spec, "Events"; decisions, "Webhooks").
//!
//! | file | holds |
//! |---|---|
//! | `endpoint` | an endpoint, its selection of events, its secrets |
//! | `delivery` | the delivery of one event to one endpoint, with the log of its attempts |
//! | `schedule` | retries of failed deliveries |
//! | `message` | the body's bytes and their signature |

mod delivery;
mod endpoint;
mod message;
mod schedule;

pub use delivery::{AttemptRecord, Delivery, DeliveryAttempt, DeliveryStatus, MAX_RESPONSE, Tried};
pub use endpoint::{
    Endpoint, EndpointCreator, EndpointSecrets, EventFilter, NoSuchOverlap, generate_secret,
};
pub use message::{Additions, Message, SIGNATURE_VERSION, sign, sign_standard};
pub use schedule::{ATTEMPTS, HELD_BACK_MOST, RETRY_AFTER_MOST, RetrySchedule};
