//! Webhooks: merchants' and resellers' endpoints, and the worker that delivers events to them.
//!
//! | module | contents |
//! |---|---|
//! | `endpoints`, `log` | use cases of operators, merchants and resellers |
//! | `destination` | addresses to which events may be sent |
//! | `worker` | claims due deliveries, runs attempts, sleeps until something is queued |
//! | `scheduler`, `circuit` | order of the attempts: fair sharing of slots, circuit breakers |
//! | `attempt`, `retry_after` | one attempt: sign, send, evaluate, record |
//! | `recipient` | an endpoint in the form that attempts need |
//! | `status` | the state of the worker, for operators and metrics |

mod attempt;
mod circuit;
mod destination;
mod endpoints;
mod gone;
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
