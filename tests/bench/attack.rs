//! Creates and starts during attacks on the gateway, compared with the same attacks on a listener that discards
//! its input.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use serde_json::json;

use super::attacks::{Aim, Attack, Kind};
use super::client::{self, Measured};
use super::figure::{Figure, Goal, median};
use super::floor::{DISCARD, Floor};
use super::gateway::{ACCOUNT, DEFAULT_LIMIT, Gateway};
use super::options::Options;
use super::requests::{Creates, post};

/// Number of connections of the merchant.
const CONNECTIONS: usize = 8;
/// Duration of each part of a round.
const PART: Duration = Duration::from_secs(3);
/// Duration if all attacks run at once. In the first seconds they fill their socket buffers, which takes time of
/// the shared processors.
const LONG_PART: Duration = Duration::from_secs(15);
/// Limit of the gateway's peak memory in MB.
const MEMORY: f64 = 300.0;

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let floor = Floor::serving(DISCARD);
    let each = Kind::all()
        .into_iter()
        .map(|kind| (format!("{kind:?}"), vec![kind]));
    let all = std::iter::once(("all at once".to_owned(), Kind::all()));
    let chosen = |name: &str| options.case.as_ref().is_none_or(|case| name.contains(case));
    let mut figures = Vec::new();
    let mut most: f64 = 0.0;
    for (name, kinds) in each.chain(all).filter(|(name, _)| chosen(name)) {
        // A new gateway per case, because payments of earlier attacks stay in memory.
        let production = Gateway::limited();
        figures.extend(beside(options, &production, &floor, &name, &kinds));
        most = most.max(production.resident_most() as f64 / 1e6);
    }
    figures.push(Figure::new("most memory", most, "MB").goal(Goal::AtMost(MEMORY)));
    // Effect of a test key on live payments. `serve` has no simulated live accounts, so this runs `dev`.
    let hanging = ("live, a vendor that hangs in test", vec![Kind::Hanging]);
    let mut all = Kind::all();
    all.push(Kind::Hanging);
    let both = [hanging, ("live, that and all at once", all)];
    let both: Vec<_> = both.into_iter().filter(|(name, _)| chosen(name)).collect();
    if !both.is_empty() {
        let simulated = Gateway::simulated();
        simulated.admin(
            "POST",
            "/dev/faults",
            &json!({
                "provider_id": "sandbox-test", "fault": "timeout-before-effect", "times": 1_000_000,
            }),
        );
        for (name, kinds) in both {
            figures.extend(beside(options, &simulated, &floor, name, &kinds));
        }
    }
    figures
}

/// Rates of another merchant during attacks on the gateway, relative to its rates during attacks on the discarding
/// listener.
fn beside(
    options: &Options,
    gateway: &Gateway,
    floor: &Floor,
    name: &str,
    kinds: &[Kind],
) -> Vec<Figure> {
    // The attacker has the limits of any merchant.
    let attacker = gateway.merchant("test", DEFAULT_LIMIT);
    let rounds = if options.quick { 1 } else { 3 };
    let pairs: Vec<(Measured, Measured)> = (0..rounds)
        .map(|_| {
            let beside = |listener| {
                let aim = Aim {
                    listener,
                    account: ACCOUNT.to_owned(),
                    key: attacker.clone(),
                };
                let _attacks: Vec<_> = kinds
                    .iter()
                    .map(|kind| Attack::begin(*kind, &aim))
                    .collect();
                payments(gateway, if kinds.len() > 1 { LONG_PART } else { PART })
            };
            (beside(floor.address), beside(gateway.address))
        })
        .collect();
    let of = |value: &dyn Fn(&(Measured, Measured)) -> f64| {
        median(&pairs.iter().map(value).collect::<Vec<_>>())
    };
    let mut figures = Vec::new();
    for (what, status) in [("creates", 201), ("starts", 200)] {
        let rate = |measured: &Measured| measured.rate(&[status]);
        let ratio = of(&|(floor, gateway)| rate(gateway) / rate(floor));
        figures.push(
            Figure::new(
                format!("{what} beside {name}"),
                of(&|(_, gateway)| rate(gateway)),
                "requests/s",
            )
            .against("discarded", of(&|(floor, _)| rate(floor)), ratio)
            .goal(Goal::Ratio(0.9)),
        );
    }
    let p99 = of(&|(_, gateway)| gateway.percentile_ms(99.0));
    figures.push(Figure::new("  their p99", p99, "ms"));
    let memory = gateway.resident() as f64 / 1e6;
    figures.push(Figure::new("  memory", memory, "MB"));
    figures
}

/// Creates direct payments and starts each of them.
fn payments(gateway: &Gateway, part: Duration) -> Measured {
    let key = gateway.key.clone();
    let created = Rc::new(RefCell::new(VecDeque::new()));
    let (next, made) = (Rc::clone(&created), created);
    let mut creates = Creates::direct(&key);
    let requests = Box::new(move |request: &mut Vec<u8>| {
        match next.borrow_mut().pop_front() {
            Some(payment) => {
                let body = format!(r#"{{"payment_id":"{payment}","payment_method":"ideal"}}"#);
                request.extend(post(&key, "/api/v1/payments/start", &body));
            }
            None => creates.write(request),
        }
        true
    });
    client::closed(
        gateway.address,
        CONNECTIONS,
        part,
        requests,
        move |status, body| {
            if status == 201 {
                let body: serde_json::Value = serde_json::from_slice(body).unwrap();
                let id = body["payment_id"].as_str().unwrap().to_owned();
                made.borrow_mut().push_back(id);
            }
        },
    )
}
