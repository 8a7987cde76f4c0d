//! Several nodes on one machine, as `dev --nodes` runs them.
//!
//! | File | Content |
//! |---|---|
//! | `balancer` | sends each request to a ready node |
//! | `process` | a node's process, from the parent process |
//! | `node` | a node's process, from inside |
//! | `control` | orders of nodes to the parent process: move the clock, inject faults into simulators |
//! | `messages` | messages between the processes |

mod balancer;
mod control;
mod messages;
mod node;
mod process;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::key::base62;
use kassette_domain::secret::Secret;
use kassette_store::StoreHealth as _;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use self::balancer::{Balancer, Side};
use self::control::ControlServer;
use self::messages::{Assignment, Serving};
use self::process::{Member, Process};
use super::database::DevDatabase;
use super::demo::Demo;
use super::error::DevError;
use super::ready_file::ReadyFile;
use super::{DevArgs, Folders};
use crate::config::Config;
use crate::listen::{Caps, Listener, within_limit};
use crate::ready::Ready;
use crate::serve::{ServeError, origin};
use crate::signals::Signals;

pub(crate) use self::node::node;

/// Command with which `dev` starts a node.
pub(crate) const NODE: &str = "dev-node";

/// Any free loopback ports.
const ANYWHERE: Serving = Serving {
    listen: LOOPBACK,
    admin_listen: LOOPBACK,
};
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Pause between attempts to restart a node.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum time until all serving nodes are ready.
const READY: Duration = Duration::from_secs(60);
/// Interval of checks whether all nodes are ready.
const LOOK: Duration = Duration::from_millis(20);
/// Length of the nodes' secret, in base62 characters.
const SECRET: usize = 32;

/// Runs the nodes until a signal to stop.
pub(super) async fn run(
    args: &DevArgs,
    config: Config,
    folders: Folders,
    master: Secret,
    database: DevDatabase,
    signals: Signals,
) -> Result<(), DevError> {
    let (demo, simulators) = Demo::start(args.simulated(), &folders.data).await?;
    let clock = Arc::clone(&demo.clock);
    let store = database.visit().await?;
    let seeded = demo.seed(store.as_ref()).await?;
    store.shut_down().await.map_err(ServeError::from)?;
    drop(store);

    let main = &config.main;
    let (public_caps, admin_caps) = within_limit(main.limits.caps(), Caps::operators());
    let public = Listener::bind(args.listen, None).await;
    let public = public
        .map_err(ServeError::from)?
        .without_counting(&main.trusted_proxies)
        .idle_for(main.limits.idle())
        .capped(public_caps);
    let operators = Listener::bind(args.admin_listen, None).await;
    let operators = operators.map_err(ServeError::from)?.capped(admin_caps);
    let base_url = origin("http", public.address());
    simulators.call_back_to(&base_url)?;

    let names = (1..=args.nodes).map(|number| format!("n{number}"));
    let members: Vec<_> = names.map(|name| Arc::new(Member::new(name))).collect();
    let secret =
        base62(SECRET, getrandom::fill).map_err(|error| DevError::NoNode(error.to_string()))?;
    let secret = Secret::new(secret);
    let control =
        ControlServer::open(clock, Arc::clone(&simulators.sim), members.clone(), &secret).await?;
    let order = Assignment {
        name: String::new(),
        parent: std::process::id(),
        config: config.folder.clone(),
        data_dir: folders.data.join("nodes"),
        plugin_dir: folders.plugins.clone(),
        compiled_dir: folders.data.join("compiled"),
        master,
        database: database.serving(),
        at: ANYWHERE,
        base_url: base_url.clone(),
        front_admin: operators.address(),
        accounts: simulators.described.clone(),
        office: control.address,
        office_secret: secret,
        ahead: 0,
    };
    let nodes = Arc::new(Nodes { control, order });

    let (closing, ending) = (CancellationToken::new(), CancellationToken::new());
    let mut watching = JoinSet::new();
    for member in &members {
        watching.spawn(Arc::clone(&member.backend).watch(ending.clone()));
    }
    let mut processes = Vec::new();
    for member in &members {
        // Started one after the other: the first node compiles the modules for the others.
        processes.push(nodes.start(member, ANYWHERE).await?);
    }
    let all_ready = async {
        while !members.iter().all(|member| member.backend.is_ready()) {
            sleep(LOOK).await;
        }
    };
    let in_time = timeout(READY, all_ready).await;
    in_time.map_err(|_| DevError::NoNode("not all are ready in time".to_owned()))?;

    let listen = public.address().to_string();
    let admin_url = format!("{}/admin/v1", origin("http", operators.address()));
    let backends = members.iter().map(|member| Arc::clone(&member.backend));
    let balancer = Balancer::new(backends.collect(), main.trusted_proxies.clone());
    let balancer = Arc::new(balancer);
    let mut listening = JoinSet::new();
    listening.spawn(public.serve(balancer.router(Side::Public), closing.clone()));
    listening.spawn(operators.serve(balancer.router(Side::Admin), closing.clone()));

    let shown = members.iter().zip(&processes);
    let ready = Ready {
        base_url,
        admin_url,
        listen,
        operator_token: Some(seeded.operator_token),
        plugin_dir: folders.plugins.display().to_string(),
        merchants: vec![seeded.merchant],
        resellers: seeded.reseller.into_iter().collect(),
        nodes: shown
            .map(|(member, process)| process.ready(&member.name))
            .collect(),
        store: database.ready(),
    };
    super::announce(&ready);
    let ready = Arc::new(ReadyFile::write(args.ready_file.as_deref(), ready)?);
    let without_database = CancellationToken::new();
    let kept = tokio::spawn(database.keep(Arc::clone(&ready), without_database.clone()));
    let mut keeping = JoinSet::new();
    for (member, process) in members.into_iter().zip(processes) {
        let (nodes, ready) = (Arc::clone(&nodes), Arc::clone(&ready));
        keeping.spawn(nodes.keep(member, process, ready, ending.clone()));
    }

    signals.stop.stop_requested.cancelled().await;
    tracing::info!("stopping: finishing what is in hand");
    closing.cancel();
    listening.join_all().await;
    ending.cancel();
    keeping.join_all().await;
    watching.join_all().await;
    // At this point, the nodes have closed their connections.
    without_database.cancel();
    let _ = kept.await;
    tracing::info!("stopped");
    Ok(())
}

/// Starts nodes.
struct Nodes {
    control: ControlServer,
    order: Assignment,
}

impl Nodes {
    async fn start(&self, member: &Member, at: Serving) -> Result<Process, DevError> {
        let child = {
            // The clock must not move before the node receives moves.
            let clock_at = self.control.clock_at.lock().await;
            let order = Assignment {
                name: member.name.clone(),
                data_dir: self.order.data_dir.join(&member.name),
                at,
                ahead: clock_at.ahead,
                ..self.order.clone()
            };
            member.spawn(&order).await?
        };
        member.until_it_serves(child).await
    }

    /// Restarts a node whenever its process ends, and updates the ready file.
    async fn keep(
        self: Arc<Self>,
        member: Arc<Member>,
        mut process: Process,
        ready: Arc<ReadyFile>,
        stop: CancellationToken,
    ) {
        loop {
            let ended = stop.run_until_cancelled(process.has_ended()).await;
            member.ended().await;
            let Some(status) = ended else {
                return process.end().await;
            };
            tracing::warn!("node {} ended ({status}): it is started again", member.name);
            let mut at = process.at;
            process = loop {
                let Some(started) = stop.run_until_cancelled(self.start(&member, at)).await else {
                    return member.ended().await;
                };
                match started {
                    Ok(process) => break process,
                    Err(error) => tracing::error!("{error}"),
                }
                // Another process may use its ports by now.
                at = ANYWHERE;
                if stop.run_until_cancelled(sleep(AGAIN)).await.is_none() {
                    return;
                }
            };
            let shown = process.ready(&member.name);
            ready.change(|ready| {
                let mut nodes = ready.nodes.iter_mut();
                if let Some(node) = nodes.find(|node| node.name == member.name) {
                    *node = shown;
                }
            });
        }
    }
}
