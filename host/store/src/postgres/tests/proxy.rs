//! A proxy between a store and its database that injects network failures and collisions at the worst moments,
//! and leads to another server after a failover. The crash test also places it between nodes and database.
//!
//! It forwards requests one by one: the client's bytes up to a `Sync` or a simple query, then the server's
//! answer up to `ReadyForQuery`. Faults affect only requests that execute something.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The name of a server's socket in its folder.
const SOCKET: &str = ".s.PGSQL.5432";
/// An error of class 40001, without the message that the session is ready.
const COLLISION: &[u8] = b"SERROR\0VERROR\0C40001\0Mcould not serialize access\0\0";

/// Rates of injected faults, per thousand requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    /// A statement, or the commit of a transaction, that collides with another transaction.
    pub(super) collisions: u64,
    /// Connections cut before the server receives a request that is not a commit.
    pub(super) cuts_before: u64,
    /// Connections cut after the server has executed the request.
    pub(super) cuts_after: u64,
    /// Nothing is forwarded, and no connection is cut.
    pub(super) swallows: bool,
}

/// Destination of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Route {
    /// The folder of a server's socket.
    pub(super) server: PathBuf,
    /// A process whose connections have another destination.
    pub(super) but: Option<(i32, PathBuf)>,
}

impl Route {
    fn path(&self, process: Option<i32>) -> &Path {
        match &self.but {
            Some((but, elsewhere)) if Some(*but) == process => elsewhere,
            _ => &self.server,
        }
    }
}

/// Fault injected into a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Fair,
    Collides,
    CutBefore,
    CutAfter,
}

#[derive(Default)]
struct Chance {
    faults: watch::Sender<Faults>,
    random: AtomicU64,
    /// Number of injected faults.
    met: AtomicU64,
}

impl Chance {
    fn draw(&self) -> Fate {
        let faults = *self.faults.borrow();
        // Weyl's sequence through a mixer: splitmix64.
        let mut z = self
            .random
            .fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = (z ^ (z >> 31)) % 1000;
        let collides = faults.collisions;
        let before = collides + faults.cuts_before;
        let fate = match drawn {
            at if at < collides => Fate::Collides,
            at if at < before => Fate::CutBefore,
            at if at < before + faults.cuts_after => Fate::CutAfter,
            _ => return Fate::Fair,
        };
        self.met.fetch_add(1, Ordering::Relaxed);
        fate
    }

    async fn until_passed(&self) {
        let mut faults = self.faults.subscribe();
        let _ = faults.wait_for(|faults| !faults.swallows).await;
    }
}

/// The proxy. Dropping it ends it and its connections.
pub(super) struct Proxy {
    folder: TempDir,
    chance: Arc<Chance>,
    route: watch::Sender<Route>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    /// Starts a proxy that has no destination yet.
    pub(super) fn start(seed: u64) -> io::Result<Self> {
        let folder = TempDir::new()?;
        let listener = UnixListener::bind(folder.path().join(SOCKET))?;
        let chance = Arc::new(Chance::default());
        chance.random.store(seed, Ordering::Relaxed);
        let (route, routes) = watch::channel(Route::default());
        let task = tokio::spawn(serve(listener, routes, Arc::clone(&chance)));
        Ok(Self {
            folder,
            chance,
            route,
            task,
        })
    }

    /// Directs new connections to `route`, and cuts those that lead elsewhere.
    pub(super) fn lead(&self, route: Route) {
        self.route.send_replace(route);
    }

    /// The folder of its socket.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Sets the rates of injected faults.
    pub(super) fn set(&self, faults: Faults) {
        self.chance.faults.send_replace(faults);
    }

    /// Number of injected faults.
    pub(super) fn met(&self) -> u64 {
        self.chance.met.load(Ordering::Relaxed)
    }
}

async fn serve(listener: UnixListener, routes: watch::Receiver<Route>, chance: Arc<Chance>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let (mut routes, chance) = (routes.clone(), Arc::clone(&chance));
        connections.spawn(async move {
            let process = client.peer_cred().ok().and_then(|peer| peer.pid());
            let to = routes.borrow_and_update().path(process).to_owned();
            let passed = async {
                chance.until_passed().await;
                let server = UnixStream::connect(to.join(SOCKET)).await?;
                pass(client, server, &chance).await
            };
            tokio::select! {
                _ended = passed => {}
                _leads_elsewhere = routes.wait_for(|route| route.path(process) != to) => {}
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards requests and answers until either side or a fault ends the connection.
async fn pass(mut client: UnixStream, mut server: UnixStream, chance: &Chance) -> io::Result<()> {
    // The first message has no type byte.
    let length = client.read_u32().await?;
    let mut begin = length.to_be_bytes().to_vec();
    begin.resize(length as usize, 0);
    client.read_exact(&mut begin[4..]).await?;
    server.write_all(&begin).await?;
    let (mut answer, mut state) = answer(&mut server).await?;
    client.write_all(&answer).await?;
    loop {
        let kind = tokio::select! {
            ready = client.readable() => match ready.and_then(|()| begun(&client))? {
                Some(kind) => kind,
                None => continue,
            },
            // Forward unsolicited messages, such as a notice that the server shuts down.
            ready = server.readable() => {
                if let Some(kind) = ready.and_then(|()| begun(&server))? {
                    let mut notice = Vec::new();
                    rest(kind, &mut server, &mut notice).await?;
                    client.write_all(&notice).await?;
                }
                continue;
            }
        };
        let Request { bytes, executes } = request(kind, &mut client).await?;
        chance.until_passed().await;
        let is_commit = bytes.starts_with(b"Q") && bytes.ends_with(b"COMMIT\0");
        let fate = match (executes || is_commit).then(|| chance.draw()) {
            // A cut commit has an unknown outcome; cuts after the commit already test that.
            None | Some(Fate::CutBefore) if is_commit => Fate::Fair,
            fate => fate.unwrap_or(Fate::Fair),
        };
        match fate {
            Fate::CutBefore => return Ok(()),
            Fate::Collides => {
                if is_commit {
                    server.write_all(&message(b'Q', b"ROLLBACK\0")).await?;
                    state = self::answer(&mut server).await?.1;
                }
                client.write_all(&message(b'E', COLLISION)).await?;
                // A failed transaction accepts nothing except its end.
                let now = if state == b'T' { b'E' } else { state };
                client.write_all(&message(b'Z', &[now])).await?;
                continue;
            }
            Fate::Fair | Fate::CutAfter => server.write_all(&bytes).await?,
        }
        if bytes.starts_with(b"X") {
            return Ok(());
        }
        (answer, state) = self::answer(&mut server).await?;
        if fate == Fate::CutAfter {
            return Ok(());
        }
        client.write_all(&answer).await?;
    }
}

struct Request {
    bytes: Vec<u8>,
    executes: bool,
}

/// Reads a client's request up to the point at which it waits for an answer.
async fn request(first: u8, client: &mut UnixStream) -> io::Result<Request> {
    let mut bytes = Vec::new();
    let (mut kind, mut executes) = (first, false);
    loop {
        rest(kind, client, &mut bytes).await?;
        executes |= kind == b'E';
        if matches!(kind, b'S' | b'Q' | b'X') {
            return Ok(Request { bytes, executes });
        }
        kind = client.read_u8().await?;
    }
}

/// Reads a server's answer up to `ReadyForQuery`; also returns the transaction state.
async fn answer(server: &mut UnixStream) -> io::Result<(Vec<u8>, u8)> {
    let mut bytes = Vec::new();
    loop {
        let kind = server.read_u8().await?;
        rest(kind, server, &mut bytes).await?;
        if kind == b'Z' {
            let state = bytes.last().copied().unwrap_or(b'I');
            return Ok((bytes, state));
        }
    }
}

/// The type of a message if one has arrived.
fn begun(from: &UnixStream) -> io::Result<Option<u8>> {
    let mut kind = [0];
    match from.try_read(&mut kind) {
        Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(_) => Ok(Some(kind[0])),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends the rest of a message of type `kind`.
async fn rest(kind: u8, from: &mut UnixStream, bytes: &mut Vec<u8>) -> io::Result<()> {
    let length = from.read_u32().await?;
    bytes.push(kind);
    bytes.extend(length.to_be_bytes());
    let begin = bytes.len();
    bytes.resize(begin + (length as usize).saturating_sub(4), 0);
    from.read_exact(&mut bytes[begin..]).await?;
    Ok(())
}

fn message(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len() + 4).unwrap_or(u32::MAX);
    [&[kind], &length.to_be_bytes()[..], payload].concat()
}
