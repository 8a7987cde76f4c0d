//! Duration of a start, and resident memory, with many stored payments.

use std::time::Duration;

use super::client;
use super::figure::{Figure, Goal};
use super::gateway::Gateway;
use super::http::CONNECTIONS;
use super::options::Options;
use super::requests::Creates;

/// Maximum duration of filling.
const FILLING: Duration = Duration::from_secs(3600);
/// Delay between a start and the measurement of memory, in which memory for the start is freed.
const SETTLING: Duration = Duration::from_secs(1);
/// Duration of load before memory is measured again.
const USING: Duration = Duration::from_secs(5);
/// Bytes of a megabyte in the goals.
const MB: f64 = 1e6;

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let count = options.payments;
    let gateway = Gateway::fresh("");
    let rate = fill(&gateway, count);
    let filled = gateway.resident();
    let gateway = gateway.restart();
    std::thread::sleep(SETTLING);
    let started = gateway.resident();
    let mut creates = Creates::hosted(&gateway.key);
    let more = move |request: &mut Vec<u8>| {
        creates.write(request);
        true
    };
    let nothing = |_, _: &[u8]| {};
    client::closed(gateway.address, CONNECTIONS, USING, Box::new(more), nothing);
    let used = gateway.resident();
    let memory = |name: String, bytes: u64| {
        Figure::new(name, bytes as f64 / MB, "MB").goal(Goal::AtMost(150.0))
    };
    vec![
        Figure::new(format!("filling with {count} payments"), rate, "requests/s"),
        memory(format!("resident after {count} creates"), filled),
        Figure::new(
            format!("start to ready with {count} payments"),
            gateway.started_in.as_secs_f64(),
            "s",
        )
        .goal(Goal::AtMost(3.0)),
        memory("resident after that start".into(), started),
        memory("resident after further creates".into(), used),
    ]
}

/// Creates payments and returns their number per second.
fn fill(gateway: &Gateway, mut left: usize) -> f64 {
    let mut creates = Creates::hosted(&gateway.key);
    let requests = move |request: &mut Vec<u8>| {
        let more = left > 0;
        if more {
            left -= 1;
            creates.write(request);
        }
        more
    };
    let seen = |status, _: &[u8]| assert_eq!(status, 201);
    client::closed(
        gateway.address,
        CONNECTIONS,
        FILLING,
        Box::new(requests),
        seen,
    )
    .rate(&[201])
}
