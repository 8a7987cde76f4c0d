//! End-to-end tests of Kassette: the real binary, real modules, real sockets, simulated providers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes
)]

mod account;
mod additions;
mod assaults;
#[path = "../attacks.rs"]
mod attacks;
mod books;
mod browser;
mod callbacks;
mod compiled;
mod connect;
mod connect_kill;
mod connect_plugin;
mod connect_refusals;
mod crash;
mod damage;
mod declining;
mod delegates;
mod dev;
mod disk;
mod documents;
mod expiry;
mod explain;
mod fallback;
mod fallible;
mod faults;
mod fields;
mod forms;
mod harness;
mod heads;
mod idempotency;
mod install;
mod invitations;
mod keeping;
mod keys;
mod late;
mod ledger;
mod lifecycle;
mod limits;
mod memory;
mod mistakes;
mod new_method;
mod nodes;
mod operators_day;
mod overload;
mod pages;
mod races;
mod rates;
mod reading;
mod receiver;
mod receivers;
mod refunds;
mod releases;
mod replay;
mod requests;
mod reseller_calls;
mod reseller_clients;
mod reseller_endpoints;
mod reseller_nonces;
mod reseller_payments;
mod reseller_signing;
mod reseller_walk;
mod return_urls;
mod review;
mod samples;
mod service;
#[path = "../serving.rs"]
mod serving;
mod signatures;
mod sim;
mod slow;
mod staging;
mod start;
mod steps;
mod swap;
#[path = "../tls_server.rs"]
mod tls_server;
mod trials;
mod uploads;
mod versions;
mod viewers;
mod visits;
mod watching;
mod webhooks;
mod webhooks_failing;
mod webhooks_once;
mod webhooks_operators;
mod webhooks_seen;
