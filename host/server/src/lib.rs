//! The Kassette payment checkout gateway: what the program is made of.
//!
//! A library so that the fuzzing targets reach its routers in their own process; it has no other user than
//! them and the program.
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
mod telemetry;
mod web;

pub use cli::main;
