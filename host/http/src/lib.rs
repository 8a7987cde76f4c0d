//! The guarded outgoing HTTP client: resolve, filter, connect in one step.
//!
//! A client that can make a server send requests can reach what stands behind its firewall. So every
//! request that another party aims (a merchant's webhook, a shop that connects, a provider's
//! module) goes through [`Client`]: the destination is judged as a browser would read it, its name
//! is resolved once, every address is filtered, and the connection is made to one of those very
//! addresses. No redirects are followed, no proxy of the environment is used, one deadline spans
//! everything, and headers and body are capped.
//!
//! What failed is told in two kinds that decide whether money can have moved: [`SendError::NotSent`]
//! and [`SendError::NoAnswer`].
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test that cannot go on fails"
    )
)]

mod address;
mod client;
mod connect;
mod destination;
mod dial;
mod exchange;
mod heard;
mod hosts;
mod look_up;
mod message;
mod network;
mod payload;
mod pool;
mod tls;
mod unprocessed;

pub use address::{is_public, subscriber};
pub use client::Client;
pub use destination::{Guard, Refused};
pub use exchange::{Answer, NoAnswer, NoTls, NotSent, Request, Response, SendError};
pub use hosts::{HostList, HostPattern, NotAHost};
/// HTTP's own methods, names and values, so that callers need no dependency for them.
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
pub use network::{Dialing, LOOK_UPS, Network, Resolving, System};
pub use tls::Trust;
/// A certificate in the form that [`Trust`] takes.
pub use tokio_rustls::rustls::pki_types::CertificateDer;
