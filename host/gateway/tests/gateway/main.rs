//! The use cases over the real store and scripted modules.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        reason = "a test that cannot go on fails"
    )
)]

mod accounts;
mod auth;
mod callbacks;
mod create;
mod inside;
mod listing;
mod modules;
mod operators;
mod pages;
mod receiver;
mod records;
mod refunds;
mod reseller;
mod starts;
mod webhooks;
mod webhooks_tls;
mod world;
