//! Kassette end to end: the real binary, real modules, real sockets, simulated providers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    clippy::allow_attributes
)]

mod harness;
