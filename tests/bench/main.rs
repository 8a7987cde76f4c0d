//! The benchmarks: `cargo bench -p kassette`. The real binary is measured against floors of the same
//! run, because absolute figures swing with the machine and ratios hardly do.
//!
//! | file | holds |
//! |---|---|
//! | `figure` | one line of the table, its goal, the table, the JSON |
//! | `options` | what to measure |
//! | `floor` | an axum server that does nothing but JSON, in a process of its own |
//! | `gateway` | `kassette serve` in a process of its own, with a merchant |
//! | `client` | the load: keep-alive connections, closed loop or open |
//! | `requests` | what is asked |
//! | `http` | requests in turn with their floor |
//! | `signed` | signed requests of resellers, and the store alone |
//! | `overload` | twice what can be carried |
//! | `attack` | what others get beside one who attacks |
//! | `payment` | whole payments, in turn with a floor that sends the same requests and events |
//! | `payment/hour` | an hour of them, while modules are replaced and providers and receivers fail |
//! | `calls` | modules by themselves: a call, a swap, a version's memory |
//! | `million` | start and memory with many payments stored |
//! | `store` | the store by itself, against a raw log and redb; with a thousand and a million payments |
//!
//! What is stored goes to the folder of temporary files, some gigabytes; `TMPDIR` names another disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::allow_attributes
)]

mod attack;
#[path = "../attacks.rs"]
mod attacks;
mod calls;
mod client;
mod figure;
mod floor;
mod gateway;
mod http;
mod million;
mod nodes;
mod options;
mod overload;
mod payment;
mod requests;
#[path = "../serving.rs"]
mod serving;
mod signed;
mod store;
#[path = "../tls_server.rs"]
mod tls_server;

use std::process::ExitCode;

use clap::Parser as _;

use self::figure::Figure;
use self::options::{Group, Options};

/// The gateway's: floor, store and runtime are measured with what they are served with.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(floor::ARGUMENT) {
        floor::serve();
        return ExitCode::SUCCESS;
    }
    if std::env::args().nth(1).as_deref() == Some(floor::DISCARD) {
        floor::discard();
        return ExitCode::SUCCESS;
    }
    if std::env::args()
        .nth(1)
        .is_some_and(|argument| payment::serve(&argument))
    {
        return ExitCode::SUCCESS;
    }
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(store::ARGUMENT) {
        store::fill(arguments);
        return ExitCode::SUCCESS;
    }
    let options = Options::parse();
    let mut figures = Vec::new();
    for group in options.groups() {
        eprintln!("measuring {}", group.name());
        let measured = match group {
            Group::Http => http::run(&options),
            Group::Signed => signed::run(&options),
            Group::Overload => overload::run(&options),
            Group::Attack => attack::run(&options),
            Group::Payment => payment::run(&options),
            Group::Nodes => nodes::run(&options),
            Group::Hour => payment::hour(&options),
            Group::Calls => calls::run(&options),
            Group::Store => store::speed(&options),
            Group::Million => [store::size(&options), million::run(&options)].concat(),
        };
        figures.extend(measured);
    }
    println!("\n{}", figure::table(&figures));
    if let Some(path) = &options.json {
        std::fs::write(path, figure::json(&figures)).expect("the JSON file cannot be written");
    }
    let held = figures.iter().all(Figure::holds);
    println!(
        "{}",
        if held {
            "every goal holds"
        } else {
            "a goal does not hold"
        }
    );
    ExitCode::from(u8::from(!held))
}
