//! The Kassette payment checkout gateway.
//!
//! It is a library so that the fuzzing targets can use its routers in their process. Only these targets and the
//! program use it.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admin;
mod admission;
mod api;
mod bundle;
mod cli;
mod compiler;
mod config;
mod dev;
mod docs;
mod files;
#[doc(hidden)]
pub mod fuzzing;
mod last_try;
#[cfg(test)]
mod limits_table;
mod listen;
mod master_key;
mod memory;
mod pages;
mod proxies;
mod ready;
mod serve;
mod signals;
mod simulators;
mod status;
mod telemetry;
mod web;

pub use cli::main;
