//! The guarded outgoing HTTP client: resolves, filters and connects in one step.
//!
//! Anyone who can make a server send requests could use it to reach systems behind its firewall. So every request
//! to a destination that another party chose (a merchant's webhook, a shop that connects, a provider module) uses
//! [`Client`]. It checks the URL as a browser would read it, resolves the name once, filters the addresses, and
//! connects to one of these addresses, directly or through a [`Proxy`]. It does not follow redirects or use a
//! proxy from the environment. One deadline covers everything, and headers and body are limited.
//!
//! Errors have two variants, which decide whether money can have moved: [`SendError::NotSent`] and
//! [`SendError::NoAnswer`].
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
mod proxy;
mod tls;
mod unprocessed;

pub use address::{is_public, subscriber};
pub use client::Client;
pub use destination::{Guard, Refused};
pub use exchange::{Answer, NoAnswer, NoTls, NotSent, Request, Response, SendError};
pub use hosts::{HostList, HostPattern, NotAHost};
/// HTTP methods, names and values, so that callers need no dependency on `http`.
pub use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
pub use network::{Dialing, LOOK_UPS, Network, Resolving, System};
pub use proxy::{Proxy, Resolver};
pub use tls::Trust;
/// A certificate as [`Trust`] takes it.
pub use tokio_rustls::rustls::pki_types::CertificateDer;
