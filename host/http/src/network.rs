//! Source of addresses and connections: the operating system, or a fake in tests.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;

use tokio::net::TcpStream;

use crate::look_up::LookUps;

/// Maximum number of name look-ups at a time. Higher than the number of requests at a time, because a look-up can
/// outlive its request.
pub const LOOK_UPS: usize = 512;

/// Future of the addresses of a name.
pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;
/// Future of a connection.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send + 'a>>;

/// Resolves names and opens connections for the client.
///
/// For each connection the client resolves the name once, filters the addresses, and dials the remaining ones. An
/// implementation can therefore return any address: the client sends nothing to an address outside the rules.
pub trait Network: Send + Sync + 'static {
    /// Resolves a name to its addresses.
    ///
    /// # Errors Fails if the name does not resolve.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;

    /// Opens a TCP connection to an address.
    ///
    /// # Errors Fails if the address does not accept a connection.
    fn dial(&self, address: SocketAddr) -> Dialing<'_> {
        Box::pin(TcpStream::connect(address))
    }
}

/// The operating system's resolver and network. Clones share running look-ups.
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
            // The port does not affect the result.
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
