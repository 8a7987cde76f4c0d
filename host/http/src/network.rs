//! Where addresses and connections come from: the system, or in tests something that plays it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use tokio::net::TcpStream;

/// The addresses behind a name, to come.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
/// A connection, to come.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// What the client asks for names and connections.
///
/// The client asks once per connection for a name's addresses, filters them, and dials what is left:
/// a network can answer anything and still gets no request to an address that is not public.
pub trait Network: Send + Sync + 'static {
    /// The addresses behind a name.
    ///
    /// # Errors
    /// Where the name does not resolve.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;

    /// A TCP connection to one address.
    ///
    /// # Errors
    /// Where nobody accepts.
    fn dial(&self, address: SocketAddr) -> Dialing<'_> {
        Box::pin(TcpStream::connect(address))
    }
}

/// The operating system's resolver and network.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Network for System {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        Box::pin(async move {
            // The port plays no part in the answer.
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
