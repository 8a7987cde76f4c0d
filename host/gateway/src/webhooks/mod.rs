//! Webhooks: merchants' and resellers' endpoints, and the worker that delivers events to them.
//!
//! | file | holds |
//! |---|---|
//! | `endpoints`, `log` | use cases of operators, merchants and resellers |
//! | `destination` | where events may be sent |
//! | `worker` | claims what is due, has it tried, sleeps until something is queued |
//! | `scheduler`, `circuit` | whose turn it is: slots shared fairly, endpoints left alone that fail |
//! | `attempt`, `retry_after` | one attempt: signed, sent, judged, recorded |
//! | `recipient` | an endpoint as attempts see it |
//! | `status` | the state of the worker, for operators and metrics |

mod attempt;
mod circuit;
mod destination;
mod endpoints;
mod log;
mod recipient;
mod retry_after;
mod scheduler;
mod status;
mod worker;

pub(crate) use attempt::count_ended;
pub use circuit::CircuitState;
pub use destination::NotADestination;
pub use endpoints::{EndpointError, IssuedEndpoint, NewEndpoint, RotatedEndpoint, WaitingSlice};
pub use log::DeliveryError;
pub(crate) use recipient::Recipient;
pub(crate) use worker::Deliverer;
