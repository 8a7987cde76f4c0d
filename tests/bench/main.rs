//! The benchmarks: `cargo bench -p kassette`. They measure the real binary against floors of the same run, because
//! absolute values vary with the machine and ratios hardly do.
//!
//! | file | contents |
//! |---|---|
//! | `figure` | a line of the table and its goal; the table; the JSON |
//! | `options` | command line |
//! | `floor` | an axum server that only processes JSON, in a separate process |
//! | `gateway` | `kassette serve` in a separate process, with a merchant |
//! | `client` | the load: keep-alive connections, closed or open loop |
//! | `requests` | the requests |
//! | `http` | requests, alternately with their floors |
//! | `signed` | signed requests of resellers, and the store without a server |
//! | `overload` | twice the load that the gateway can carry |
//! | `attack` | the effect of attacks on others |
//! | `nodes` | three nodes on PostgreSQL compared with one |
//! | `payment` | whole payments, alternately with a floor that sends the same requests and events |
//! | `payment/hour` | an hour of whole payments, with new modules and with failing providers and receivers |
//! | `calls` | modules without a server: a call, a swap, memory of a version |
//! | `million` | start and memory with many stored payments |
//! | `store` | the store without a server, compared with a raw log and redb; a thousand and a million payments |
//!
//! Stored data goes to the folder for temporary files, some gigabytes; `TMPDIR` selects another disk.
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

/// The gateway's allocator, for floor, store and runtime too.
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
