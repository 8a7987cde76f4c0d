//! What merchants' servers are told: where, with which signature, how often (spec, "Events";
//! decisions, "Webhooks").
//!
//! | file | holds |
//! |---|---|
//! | `endpoint` | a destination, what it wants to hear, the secrets that sign |
//! | `delivery` | one event on its way to one destination, with the log of its attempts |
//! | `schedule` | when a failed delivery is tried again |
//! | `message` | the body's bytes and their signature |

mod delivery;
mod endpoint;
mod message;
mod schedule;

pub use delivery::{AttemptRecord, Delivery, DeliveryAttempt, DeliveryStatus, MAX_RESPONSE, Tried};
pub use endpoint::{Endpoint, EndpointSecrets, EventFilter, NoSuchOverlap, generate_secret};
pub use message::{Message, SIGNATURE_VERSION, sign};
pub use schedule::{ATTEMPTS, HELD_BACK_MOST, RETRY_AFTER_MOST, RetrySchedule};
