//! Resolve, filter, connect: one step, so that no second look-up can answer differently.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use url::{Host, Url};

use crate::address::{is_private, is_public};
use crate::destination::is_loopback;
use crate::dial::dial;
use crate::exchange::{NoTls, NotSent};
use crate::network::Network;
use crate::payload::Payload;
use crate::tls::{H2, trouble};

/// Addresses of one name that are tried; a name with more is not waited for longer.
const MAX_ADDRESSES: usize = 4;
/// Most bytes of an answer's headers that are read.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Most headers of an answer.
const MAX_HEADERS: usize = 100;
/// What an HTTP/2 peer may keep in flight towards us, per stream and per connection: small, because
/// answers are small.
const H2_WINDOW: u32 = 256 * 1024;
/// How long an HTTP/2 connection with requests on it may be quiet before its peer is asked whether it
/// is still there, and how long it may take to say so: without it a vanished peer would hold every
/// request up to its deadline.
const H2_QUIET: Duration = Duration::from_secs(5);

/// A connection that requests can be handed to.
pub(crate) struct Connection {
    pub(crate) sender: Sender,
    /// When its name was resolved and its certificate judged.
    pub(crate) made: Instant,
}

/// The way into a connection.
pub(crate) enum Sender {
    /// One request at a time.
    H1(http1::SendRequest<Payload>),
    /// Many at once; clones share the connection.
    H2(http2::SendRequest<Payload>),
}

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Connects to the host of a judged URL; that of an inner one may stand on a private network.
pub(crate) async fn connect(
    url: &Url,
    network: &dyn Network,
    tls: Option<&TlsConnector>,
    is_inner: bool,
) -> Result<Connection, NotSent> {
    let made = Instant::now();
    let sender = sender(url, network, tls, is_inner).await?;
    Ok(Connection { sender, made })
}

async fn sender(
    url: &Url,
    network: &dyn Network,
    tls: Option<&TlsConnector>,
    is_inner: bool,
) -> Result<Sender, NotSent> {
    let host = url.host().ok_or(NotSent::NoSuchName)?;
    let port = url.port_or_known_default().ok_or(NotSent::NoSuchName)?;
    let addresses = addresses(network, &host, port, is_inner).await?;
    let stream = dial(network, &addresses).await?;
    // Requests are written whole; waiting for more only adds latency.
    stream
        .set_nodelay(true)
        .map_err(|error| NotSent::NoConnection(error.kind()))?;
    if url.scheme() == "http" {
        return h1(Box::new(stream)).await;
    }
    let name = server_name(&host)?;
    let stream = tls
        .ok_or(NotSent::NoTls(NoTls::Handshake))?
        .connect(name, stream)
        .await
        .map_err(|error| {
            tracing::debug!(tls.error = %error, "no secure connection");
            NotSent::NoTls(trouble(&error))
        })?;
    if stream.get_ref().1.alpn_protocol() == Some(H2) {
        h2(Box::new(stream)).await
    } else {
        h1(Box::new(stream)).await
    }
}

/// The addresses behind a host that may be connected to.
///
/// A loopback host has passed the guard; it is checked to lead to loopback all the same.
async fn addresses(
    network: &dyn Network,
    host: &Host<&str>,
    port: u16,
    is_inner: bool,
) -> Result<Vec<SocketAddr>, NotSent> {
    let allowed: fn(IpAddr) -> bool = if is_loopback(host) {
        |address| address.is_loopback()
    } else if is_inner {
        |address| is_public(address) || is_private(address)
    } else {
        is_public
    };
    let all: Vec<IpAddr> = match host {
        Host::Ipv4(address) => vec![(*address).into()],
        Host::Ipv6(address) => vec![(*address).into()],
        Host::Domain(name) => network
            .resolve(name)
            .await
            .map_err(|_| NotSent::NoSuchName)?,
    };
    if all.is_empty() {
        return Err(NotSent::NoSuchName);
    }
    let open: Vec<SocketAddr> = all
        .into_iter()
        .filter(|address| allowed(*address))
        .take(MAX_ADDRESSES)
        .map(|address| (address, port).into())
        .collect();
    if open.is_empty() {
        Err(NotSent::NotPublic)
    } else {
        Ok(open)
    }
}

fn server_name(host: &Host<&str>) -> Result<ServerName<'static>, NotSent> {
    match host {
        Host::Ipv4(address) => Ok(ServerName::from(IpAddr::V4(*address))),
        Host::Ipv6(address) => Ok(ServerName::from(IpAddr::V6(*address))),
        Host::Domain(name) => {
            ServerName::try_from((*name).to_owned()).map_err(|_| NotSent::NoTls(NoTls::WrongName))
        }
    }
}

/// The task that drives a connection ends when its last sender is dropped or the peer closes.
pub(crate) async fn h1(io: Box<dyn Io>) -> Result<Sender, NotSent> {
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(io))
        .await
        .map_err(|_| NotSent::Unusable)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(http.error = %error, "an outgoing connection ended");
        }
    });
    Ok(Sender::H1(sender))
}

pub(crate) async fn h2(io: Box<dyn Io>) -> Result<Sender, NotSent> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(H2_QUIET)
        .keep_alive_timeout(H2_QUIET)
        .initial_stream_window_size(H2_WINDOW)
        .initial_connection_window_size(H2_WINDOW * 4)
        .max_header_list_size(u32::try_from(MAX_HEADER_BYTES).unwrap_or(u32::MAX))
        .handshake(TokioIo::new(io))
        .await
        .map_err(|_| NotSent::Unusable)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(http.error = %error, "an outgoing connection ended");
        }
    });
    Ok(Sender::H2(sender))
}
