//! An account's own listener, whose port can really be closed.
use std::{
    future::{Future, pending},
    io,
    net::SocketAddr,
    sync::Arc,
    time::Duration,
};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use tokio::{
    net::{TcpListener, TcpSocket},
    sync::{Semaphore, watch},
    task::JoinSet,
    time,
};

/// Maximum number of concurrent connections of an account.
const MOST_CONNECTIONS: usize = 512;

/// Maximum number of connections that the system queues.
const BACKLOG: u32 = 1024;

/// Maximum time for a caller to send its headers.
const HEADERS: Duration = Duration::from_secs(10);

/// Time for which the port stays closed per call to be refused. The system refuses without notifying the
/// simulator, so only [`Listener::refused`] can count; if it is not called, the port opens after this time.
const CLOSED_PER_CALL: Duration = Duration::from_secs(5);

/// Maximum time for which the port stays closed.
const CLOSED_AT_MOST: Duration = Duration::from_secs(60);

/// Pause after a failed `accept`, for example because of missing file descriptors.
const RECOVER: Duration = Duration::from_millis(50);

/// The handle of a listener that [`Listener::open`] runs.
pub(crate) struct Listener {
    /// Number of calls to be refused; 0 means open.
    refusals: watch::Sender<u32>,
    address: SocketAddr,
}

impl Listener {
    /// Binds `wanted`, or any port of that address if it is in use.
    pub(crate) fn bind(wanted: SocketAddr) -> io::Result<(Self, TcpSocket)> {
        let socket = bound(wanted).or_else(|error| {
            let any_port = SocketAddr::new(wanted.ip(), 0);
            if wanted.port() == 0 {
                Err(error)
            } else {
                bound(any_port)
            }
        })?;
        let address = socket.local_addr()?;
        Ok((
            Self {
                refusals: watch::Sender::new(0),
                address,
            },
            socket,
        ))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Closes the port for that many calls; 0 opens it again.
    pub(crate) fn refuse(&self, calls: u32) {
        self.refusals.send_replace(calls);
    }

    /// Counts a caller that met the closed port.
    pub(crate) fn refused(&self) {
        self.refusals
            .send_modify(|left| *left = left.saturating_sub(1));
    }

    /// Serves `routes` on the bound socket until `stop` changes.
    pub(crate) fn open(
        self: &Arc<Self>,
        socket: TcpSocket,
        routes: Router,
        stop: watch::Receiver<bool>,
    ) -> io::Result<impl Future<Output = ()> + Send + use<>> {
        let listener = socket.listen(BACKLOG)?;
        Ok(serve(Arc::clone(self), listener, routes, stop))
    }

    /// Reserves the port without listening, so that the system refuses every connection, until enough were
    /// refused.
    async fn stay_closed(&self) -> io::Result<TcpListener> {
        let socket = loop {
            match bound(self.address) {
                Ok(socket) => break socket,
                // The last connections of the closed listener may still occupy the port.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    time::sleep(RECOVER).await
                }
                Err(error) => return Err(error),
            }
        };
        let mut refusals = self.refusals.subscribe();
        let calls = *refusals.borrow_and_update();
        let patience = CLOSED_PER_CALL.saturating_mul(calls).min(CLOSED_AT_MOST);
        if time::timeout(patience, until(&mut refusals, |left| left == 0))
            .await
            .is_err()
        {
            self.refusals.send_replace(0);
        }
        socket.listen(BACKLOG)
    }
}

fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

async fn serve(
    this: Arc<Listener>,
    mut listener: TcpListener,
    routes: Router,
    mut stop: watch::Receiver<bool>,
) {
    loop {
        tokio::select! {
            _ = stop.changed() => return,
            () = accept(&this, listener, &routes) => {}
        }
        // The listener and its connections are closed: calls are refused from here on.
        listener = tokio::select! {
            _ = stop.changed() => return,
            reopened = this.stay_closed() => match reopened {
                Ok(listener) => listener,
                Err(error) => {
                    tracing::error!(address = %this.address, %error, "a simulator's port is lost");
                    return;
                }
            },
        };
    }
}

/// Accepts until the port has to be closed; then open connections are cut.
async fn accept(this: &Listener, listener: TcpListener, routes: &Router) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut refusals = this.refusals.subscribe();
    let mut connections = JoinSet::new();
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else {
            return;
        };
        let stream = tokio::select! {
            () = until(&mut refusals, |left| left > 0) => return,
            Some(_) = reap(&mut connections) => continue,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    time::sleep(RECOVER).await;
                    continue;
                }
            },
        };
        let service = TowerToHyperService::new(routes.clone());
        connections.spawn(async move {
            let mut server = auto::Builder::new(TokioExecutor::new());
            server
                .http1()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADERS);
            // A caller that disconnects early is not an error.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
            drop(permit);
        });
    }
}

/// Waits until the number of calls to refuse satisfies `wanted`.
async fn until(refusals: &mut watch::Receiver<u32>, wanted: impl Fn(u32) -> bool) {
    // Cannot fail: the sender lives in the `Listener`, which the caller holds.
    let _ = refusals
        .wait_for(|left| wanted(*left))
        .await
        .map(|left| *left);
}

/// The next finished connection; pending forever if there is none.
async fn reap(connections: &mut JoinSet<()>) -> Option<()> {
    match connections.join_next().await {
        Some(_) => Some(()),
        None => pending().await,
    }
}
