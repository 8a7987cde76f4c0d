//! One of several nodes: the server of a single `dev`, but the parent process owns the clock, the simulators and
//! the demo data.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Duration;

use kassette_gateway::Gateway;
use kassette_gateway::clock::AdjustableClock;
use kassette_store::Fault;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep};

use super::messages::{Assignment, Move, Moved, Serving};
use crate::config::{Config, Profile};
use crate::dev::error::DevError;
use crate::listen::HandedOver;
use crate::proxies::Proxies;
use crate::serve::{self, BalancerAddress, DatabasePlace, OpenStore, ServeError, ServerOptions};
use crate::signals::Signals;
use crate::simulators::{DevControls, Elsewhere, Vendors, accounts};

/// Time for which due work is retried while the store is busy or unavailable, and pause between attempts.
const RETRY_FOR: Duration = Duration::from_secs(30);
const AGAIN: Duration = Duration::from_millis(200);

/// Serves the assignment from standard input until the input ends or a signal arrives.
pub(crate) async fn node(signals: Signals) -> Result<(), DevError> {
    let mut input = Input::open()?;
    let order: Option<Assignment> = input.next().await;
    let order = order.ok_or_else(|| failed("standard input names no assignment"))?;
    // A stopped process (SIGSTOP) does not notice the end of its input.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let parent = getppid().map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if parent != Some(order.parent) {
        return Err(failed("the process that started it has ended"));
    }
    crate::files::make_private_folder(&order.data_dir)
        .map_err(|error| ServeError::folder(&order.data_dir, error))?;
    let config = Config::read(&order.config, Profile::Dev)?;
    let place = DatabasePlace {
        url: order.database,
        node: order.name,
        is_own: false,
        server_clock: false,
    };
    let store = OpenStore::open(&order.data_dir, Some(place), &order.master, &config.main).await?;
    let clock = Arc::new(AdjustableClock::new());
    clock.advance(Duration::from_millis(order.ahead));
    let elsewhere = Elsewhere::new(order.office, &order.office_secret);
    let elsewhere = Arc::new(elsewhere.map_err(failed)?);
    let simulators = Vendors::Elsewhere(Arc::clone(&elsewhere), accounts(&order.accounts));
    let options = ServerOptions {
        profile: Profile::Dev,
        store,
        data_dir: order.data_dir,
        compiled_dir: order.compiled_dir,
        plugin_dir: order.plugin_dir,
        listen: order.at.listen,
        admin_listen: order.at.admin_listen,
        sockets: HandedOver::default(),
        public_url: Some(order.base_url),
        front: Some(BalancerAddress {
            proxies: Proxies::trusting(Ipv4Addr::LOCALHOST.into()),
            admin_listen: order.front_admin,
        }),
        clock: Arc::clone(&clock) as _,
        simulators: Some(simulators),
        controls: Some(Arc::new(DevControls::Elsewhere(elsewhere))),
        bundled: std::collections::BTreeMap::new(),
        config,
    };
    let running = serve::start(options).await?;
    running.begin();
    tell(&Serving {
        listen: running.listen(),
        admin_listen: running.admin_listen(),
    })?;
    let (gateway, stop) = (running.gateway().clone(), signals.stop.clone());
    let follows = tokio::spawn(async move {
        follow(input, order.ahead, &clock, &gateway).await;
        // Without the balancer there are no requests, so a drain is unnecessary.
        stop.stop_requested.cancel();
        stop.again.cancel();
    });
    let ended = running.until(signals).await;
    follows.abort();
    Ok(ended?)
}

/// Moves the clock as instructed, until the input ends.
async fn follow(mut input: Input, mut ahead: u64, clock: &AdjustableClock, gateway: &Gateway) {
    while let Some(to) = input.next::<Move>().await {
        clock.advance(Duration::from_millis(to.ahead.saturating_sub(ahead)));
        ahead = ahead.max(to.ahead);
        let done = do_what_is_due(gateway).await;
        let moved = Moved {
            number: to.number,
            failed: done.err().map(|fault| fault.to_string()),
        };
        if tell(&moved).is_err() {
            return;
        }
    }
}

/// All nodes do this at the same time, and the store may have just become available again. Therefore it is
/// retried.
async fn do_what_is_due(gateway: &Gateway) -> Result<(), Fault> {
    let until = Instant::now() + RETRY_FOR;
    loop {
        match gateway.do_what_is_due().await {
            Err(Fault::Busy | Fault::Unavailable(_)) if Instant::now() < until => {
                sleep(AGAIN).await;
            }
            done => return done,
        }
    }
}

/// Lines of standard input.
struct Input(Lines<BufReader<pipe::Receiver>>);

impl Input {
    /// Does not use a blocking thread: a thread that waits for a line would delay the end of the process.
    fn open() -> Result<Self, DevError> {
        let pipe = std::io::stdin().as_fd().try_clone_to_owned();
        let pipe = pipe.and_then(pipe::Receiver::from_owned_fd);
        Ok(Self(BufReader::new(pipe.map_err(failed)?).lines()))
    }

    /// The next message. `None` at the end of the input or if it cannot be parsed.
    async fn next<T: DeserializeOwned>(&mut self) -> Option<T> {
        let line = self.0.next_line().await.ok()??;
        serde_json::from_str(&line).ok()
    }
}

/// Writes a message to standard output.
fn tell(what: &impl Serialize) -> Result<(), DevError> {
    let line = serde_json::to_string(what).map_err(failed)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{line}").map_err(failed)?;
    output.flush().map_err(failed)
}

fn failed(why: impl ToString) -> DevError {
    DevError::NoNode(why.to_string())
}
