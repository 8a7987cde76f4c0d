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
mod pages;
mod proxies;
mod ready;
mod serve;
mod simulators;
mod telemetry;

/// Requests allocate in one thread and are freed in another, in small pieces: this allocator answers
/// a fifth more of them than the C library's, for a few megabytes (`cargo bench`). It is built without
/// huge pages: what is alive lies scattered, and each piece would keep two megabytes resident.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    cli::main()
}
