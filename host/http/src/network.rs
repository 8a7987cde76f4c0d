//! Where addresses and connections come from: the system, or in tests something that plays it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::net::TcpStream;

use crate::look_up::LookUps;

/// Look-ups of names at once. It is more than requests are under way at once, because a look-up can
/// outlive the request that it was for.
pub const LOOK_UPS: usize = 512;

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
    /// Where the address accepts no connection.
    fn dial(&self, address: SocketAddr) -> Dialing<'_> {
        Box::pin(TcpStream::connect(address))
    }
}

/// The operating system's resolver and network. Clones share its look-ups.
#[derive(Clone, Debug)]
pub struct System {
    look_ups: LookUps,
}

impl Default for System {
    fn default() -> Self {
        Self {
            look_ups: LookUps::at_most(LOOK_UPS),
        }
    }
}

impl Network for System {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let asked = name.to_owned();
        Box::pin(self.look_ups.run(name, move || {
            // The port plays no part in the answer.
            let found = (asked.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let system = System::default();
        let found = system.resolve("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
    }
}
