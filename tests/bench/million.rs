//! With many payments stored: how long a start takes, and how much memory is resident.

use std::time::Duration;

use super::client;
use super::figure::{Figure, Goal};
use super::gateway::Gateway;
use super::http::CONNECTIONS;
use super::options::Options;
use super::requests::Creates;

/// Most of the time that filling may take.
const FILLING: Duration = Duration::from_secs(3600);
/// How long after a start its memory is looked at: what only the start needed goes back meanwhile.
const SETTLING: Duration = Duration::from_secs(1);
/// How long the started gateway is used before its memory is looked at again.
const USING: Duration = Duration::from_secs(5);
/// A megabyte of the goals.
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

/// Makes payments; answers how many a second.
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
