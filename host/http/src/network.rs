//! Where addresses and connections come from: the system, or in tests something that plays it.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::thread;

use tokio::net::TcpStream;
use tokio::sync::{Semaphore, oneshot};

/// Look-ups of names at once. It is more than requests are under way at once, because a look-up can
/// outlive the request that it was for.
const LOOK_UPS: usize = 512;

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
        let name = name.to_owned();
        Box::pin(self.look_ups.run(move || {
            // The port plays no part in the answer.
            let found = (name.as_str(), 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        }))
    }
}

/// Look-ups under way, each with a thread of its own.
///
/// The system's resolver cannot be called off: where a name's servers keep silent it holds its thread
/// for half a minute, long after whoever asked has given up. Everything that blocks shares the
/// runtime's threads, and a merchant who has enough such names would keep it all waiting.
#[derive(Clone, Debug)]
struct LookUps(Arc<Semaphore>);

impl LookUps {
    fn at_most(count: usize) -> Self {
        Self(Arc::new(Semaphore::new(count)))
    }

    async fn run<T: Send + 'static>(
        &self,
        look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permits = Arc::clone(&self.0);
        let permit = permits.acquire_owned().await.map_err(io::Error::other)?;
        let (tell, told) = oneshot::channel();
        let named = thread::Builder::new().name("look-up".into());
        named.spawn(move || {
            let found = look_up();
            drop(permit);
            // Whoever asked may have given up.
            let _ = tell.send(found);
        })?;
        told.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[test]
    fn silent_look_ups_hold_threads_of_their_own_and_no_more_than_so_many() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let look_ups = LookUps::at_most(2);
            let mut silent = Vec::new();
            for _ in 0..2 {
                let (begins, begun) = oneshot::channel();
                let (end, ends) = mpsc::channel::<()>();
                let asked = tokio::spawn({
                    let look_ups = look_ups.clone();
                    async move {
                        let look_up = move || {
                            let _ = begins.send(());
                            let _ = ends.recv();
                            Ok(())
                        };
                        look_ups.run(look_up).await
                    }
                });
                begun.await.unwrap();
                // Whoever asked gives up; the resolver does not.
                asked.abort();
                silent.push(end);
            }
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let third = look_ups.run(|| Ok(7));
            let mut third = std::pin::pin!(third);
            let early = timeout(Duration::from_millis(20), &mut third).await;
            assert!(early.is_err(), "no third thread");
            silent.pop();
            assert_eq!(third.await.unwrap(), 7);
        });
    }

    #[tokio::test]
    async fn the_system_knows_this_machine() {
        let system = System::default();
        let found = system.resolve("localhost").await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback));
    }
}
