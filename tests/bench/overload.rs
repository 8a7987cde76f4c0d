//! Twice the load that the gateway can carry: its rate, the rejection of the rest, and the recovery afterwards.
//! Also the rate while a crowd of slow clients is connected.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::client::{self, Measured, Requests};
use super::figure::{Figure, Goal, median};
use super::gateway::Gateway;
use super::http::CONNECTIONS;
use super::options::Options;
use super::requests::Creates;

/// Number of connections for the overload. With fewer than the gateway admits, requests would queue in this
/// client.
const CROWD: usize = 2000;
/// Number of slow clients, which send a byte per second. Together with the others they stay below the limit of
/// connections per address.
const SLOW: usize = 1000;
/// Number of connections on which nothing is sent.
const SILENT: usize = 900;
/// Duration of each part of a round.
const PART: Duration = Duration::from_secs(3);

/// One round: before, at twice that rate, afterwards, and with slow clients.
struct Round {
    before: Measured,
    twice: Measured,
    after: Measured,
    beside: Measured,
}

pub(crate) fn run(options: &Options) -> Vec<Figure> {
    let gateway = Gateway::fresh("");
    let rounds = if options.quick { 1 } else { 5 };
    let rounds: Vec<Round> = (0..rounds).map(|_| round(&gateway)).collect();
    let of = |value: &dyn Fn(&Round) -> f64| -> f64 {
        let values: Vec<f64> = rounds.iter().map(value).collect();
        median(&values)
    };
    let good = |measured: &Measured| measured.rate(&[201]);
    let peak = of(&|round| good(&round.before));
    let compared = |name: &str, value: &dyn Fn(&Round) -> f64| {
        let ratio = of(&|round| value(round) / good(&round.before));
        Figure::new(name, of(value), "requests/s").against("peak", peak, ratio)
    };
    vec![
        Figure::new("peak of creates", peak, "requests/s"),
        compared("creates at twice that", &|round| good(&round.twice)).goal(Goal::Ratio(0.9)),
        Figure::new(
            "  their p99",
            of(&|round| round.twice.percentile_ms(99.0)),
            "ms",
        ),
        compared("  503 with Retry-After", &|round| round.twice.rate(&[503])),
        Figure::new(
            "  their p99",
            of(&|round| round.twice.refusals.value_at_percentile(99.0) as f64 / 1000.0),
            "ms",
        ),
        compared("creates right afterwards", &|round| good(&round.after)).goal(Goal::Ratio(0.9)),
        compared("creates beside slow clients", &|round| good(&round.beside))
            .goal(Goal::Ratio(0.9)),
        Figure::new(
            "  their p99",
            of(&|round| round.beside.percentile_ms(99.0)),
            "ms",
        ),
    ]
}

fn round(gateway: &Gateway) -> Round {
    let creates = || -> Requests {
        let mut creates = Creates::hosted(&gateway.key);
        Box::new(move |request| {
            creates.write(request);
            true
        })
    };
    let closed = || {
        client::closed(
            gateway.address,
            CONNECTIONS,
            PART,
            creates(),
            |_, _: &[u8]| {},
        )
    };
    let before = closed();
    let rate = 2.0 * before.rate(&[201]);
    let twice = client::open(gateway.address, CROWD, rate, PART, creates());
    let other = twice
        .statuses
        .keys()
        .find(|status| ![201, 503].contains(status));
    assert!(other.is_none(), "answered with {other:?}");
    let after = closed();
    let slow = SlowClients::come(gateway.address);
    let beside = closed();
    drop(slow);
    Round {
        before,
        twice,
        after,
        beside,
    }
}

/// Slow and silent connections, until this is dropped.
struct SlowClients(Option<(Sender<()>, JoinHandle<()>)>);

impl SlowClients {
    /// Opens all connections.
    fn come(address: SocketAddr) -> Self {
        /// The start of a request, which the slow clients never complete.
        const HEAD: &[u8] = b"POST /api/v1/payments HTTP/1.1\r\nhost: pay.example\r\n";
        let open = |count| -> Vec<TcpStream> {
            let streams = (0..count).map(|_| TcpStream::connect(address));
            streams.collect::<Result<_, _>>().unwrap()
        };
        let (mut slow, silent) = (open(SLOW), open(SILENT));
        let (here, gone) = channel();
        let thread = std::thread::spawn(move || {
            for byte in HEAD {
                for stream in &mut slow {
                    // The gateway has closed connections that were too slow.
                    let _ended = stream.write_all(&[*byte]);
                }
                if gone.recv_timeout(Duration::from_secs(1)) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
            }
            drop(silent);
        });
        Self(Some((here, thread)))
    }
}

impl Drop for SlowClients {
    fn drop(&mut self) {
        if let Some((here, thread)) = self.0.take() {
            drop(here);
            thread.join().unwrap();
        }
    }
}
