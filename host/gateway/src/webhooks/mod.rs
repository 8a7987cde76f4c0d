//! Webhooks: merchants' endpoints, and the worker that delivers events to them.
//!
//! | file | holds |
//! |---|---|
//! | `endpoints`, `log` | use cases of operators |
//! | `destination` | where events may be sent |

mod destination;
mod endpoints;
mod log;

pub use destination::NotADestination;
pub use endpoints::{EndpointError, IssuedEndpoint, NewEndpoint, RotatedEndpoint};
pub use log::DeliveryError;
