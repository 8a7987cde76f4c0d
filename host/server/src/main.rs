//! The Kassette payment checkout gateway.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admin;
mod admission;
mod api;
mod cli;
mod config;
mod dev;
mod files;
mod listen;
mod master_key;
mod memory;
mod pages;
mod proxies;
mod ready;
mod serve;
mod simulators;
mod telemetry;

fn main() -> std::process::ExitCode {
    cli::main()
}
