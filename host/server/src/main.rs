//! The Kassette payment checkout gateway.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

mod admin;
mod api;
mod cli;
mod config;
mod dev;
mod listen;
mod pages;
mod serve;
mod telemetry;

fn main() -> std::process::ExitCode {
    cli::main()
}
