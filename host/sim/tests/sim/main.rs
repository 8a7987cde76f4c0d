//! The simulators over real sockets.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod afterwards;
mod api;
mod books;
mod callbacks;
mod captures;
mod changes;
mod faults;
mod payer;
mod refunds;
mod world;
