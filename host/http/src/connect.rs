//! Resolves, filters and connects in one step, so that a second look-up cannot give a different result.

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
use crate::proxy::{Proxy, Resolver};
use crate::tls::{H2, trouble};

/// Maximum number of allowed addresses of a name that are tried, so that a name with many does not take longer.
const MAX_ADDRESSES: usize = 4;
/// Maximum size of a response's headers, in bytes.
const MAX_HEADER_BYTES: usize = 64 * 1024;
/// Maximum number of headers of a response.
const MAX_HEADERS: usize = 100;
/// Flow-control window of an HTTP/2 stream, in bytes. Small, because responses are small. A connection has four
/// times as much.
const H2_WINDOW: u32 = 256 * 1024;
/// Time without traffic after which an HTTP/2 connection with open requests is pinged, and time that the peer has
/// to respond. Without it, requests to a vanished peer would wait until their deadlines.
const H2_QUIET: Duration = Duration::from_secs(5);

/// A connection that can carry requests.
pub(crate) struct Connection {
    pub(crate) sender: Sender,
    /// Time at which the connection was started, before its name was resolved and its certificate checked.
    pub(crate) made: Instant,
}

pub(crate) enum Sender {
    /// HTTP/1.1, one request at a time.
    H1(http1::SendRequest<Payload>),
    /// HTTP/2, many requests at a time. Clones share the connection.
    H2(http2::SendRequest<Payload>),
}

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Connects to the host of a URL that the guard has accepted. If `is_inner`, its addresses may be private. A proxy
/// is used for all hosts except inner ones and loopback.
pub(crate) async fn connect(
    url: &Url,
    network: &dyn Network,
    tls: Option<&TlsConnector>,
    is_inner: bool,
    proxy: Option<&Proxy>,
) -> Result<Connection, NotSent> {
    let made = Instant::now();
    let sender = sender(url, network, tls, is_inner, proxy).await?;
    Ok(Connection { sender, made })
}

async fn sender(
    url: &Url,
    network: &dyn Network,
    tls: Option<&TlsConnector>,
    is_inner: bool,
    proxy: Option<&Proxy>,
) -> Result<Sender, NotSent> {
    let host = url.host().ok_or(NotSent::NoSuchName)?;
    let port = url.port_or_known_default().ok_or(NotSent::NoSuchName)?;
    let addresses = addresses(network, &host, port, is_inner);
    let stream = match proxy.filter(|_| !is_inner && !is_loopback(&host)) {
        None => dial(network, &addresses.await?).await?,
        Some(proxy) => {
            let targets = match proxy.resolver() {
                Resolver::Proxy => vec![format!("{host}:{port}")],
                Resolver::Gateway => addresses.await?.iter().map(ToString::to_string).collect(),
            };
            proxy.tunnel(network, &targets).await?
        }
    };
    // Requests are written in one piece. Waiting for more data would only add latency.
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

/// Returns the addresses of a host that may be connected to, at most [`MAX_ADDRESSES`].
///
/// The guard has already accepted a loopback host; this checks that the name also resolves to loopback.
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

/// Starts HTTP/1.1 on a stream. The task that drives the connection ends when the last sender is dropped or the
/// peer closes.
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
