//! Creates on three nodes compared with one, each cluster with a separate PostgreSQL, alternately with the floor.
//! Connections go directly to the nodes, not to the load balancer of `kassette dev`.

use std::net::SocketAddr;
use std::time::Duration;

use super::client::{self, Measured};
use super::figure::{Figure, Goal, median};
use super::floor::Floor;
use super::gateway::{Gateway, UNLIMITED};
use super::http::CONNECTIONS;
use super::options::Options;
use super::requests::Creates;

/// Number of nodes of the two clusters.
const NODES: [usize; 2] = [1, 3];

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let floor = Floor::start();
    let clusters = NODES.map(Gateway::cluster);
    let key = |cluster: &Gateway| cluster.merchant("test", UNLIMITED);
    let [one, three] = &clusters;
    let servers = [
        (vec![floor.address], key(one)),
        (one.nodes(), key(one)),
        (three.nodes(), key(three)),
    ];
    let time = options.slice() * 2;
    let [mut rates, mut p99] = [(); 2].map(|()| [const { Vec::new() }; 3]);
    for round in 0..=options.rounds() {
        for (number, (addresses, key)) in servers.iter().enumerate() {
            let measured = creates(addresses, key, time);
            // The first round fills caches and pools.
            if round > 0 {
                rates[number].push(measured.rate(&[201]));
                p99[number].push(measured.percentile_ms(99.0));
            }
        }
    }
    let [floors, of_one, of_three] = &rates;
    let compared = |what: &str, of: &[f64], with: &str, others: &[f64]| {
        let ratios: Vec<f64> = of
            .iter()
            .zip(others)
            .map(|(of, other)| of / other)
            .collect();
        Figure::new(what, median(of), "requests/s").against(with, median(others), median(&ratios))
    };
    let latency = |what: &str, of: &[f64]| Figure::new(what, median(of), "ms");
    vec![
        compared(
            "creates, one node on PostgreSQL",
            of_one,
            "floor POST",
            floors,
        )
        .goal(Goal::Ratio(0.15)),
        latency("creates, one node, p99", &p99[1]),
        compared("creates, three nodes", of_three, "one node", of_one).goal(Goal::Ratio(0.9)),
        latency("creates, three nodes, p99", &p99[2]),
    ]
}

fn creates(addresses: &[SocketAddr], key: &str, time: Duration) -> Measured {
    let mut creates = Creates::hosted(key);
    let requests = Box::new(move |request: &mut Vec<u8>| {
        creates.write(request);
        true
    });
    client::closed_over(addresses, CONNECTIONS, time, requests, |status, body| {
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(body));
    })
}
