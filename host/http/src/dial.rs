//! Connects to several addresses of a name and uses the first connection that succeeds.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::exchange::NotSent;
use crate::network::{Dialing, Network};

/// Maximum time for connecting to one address.
const ADDRESS_PATIENCE: Duration = Duration::from_secs(3);
/// Delay before the next address is tried in parallel. Somewhat longer than RFC 8305 recommends: most servers are
/// far away, and should not see two connections if one is enough.
const HEAD_START: Duration = Duration::from_millis(300);

#[derive(Clone, Copy)]
struct Pace {
    patience: Duration,
    head_start: Duration,
}

/// Connects to the first address that accepts.
pub(crate) async fn dial(
    network: &dyn Network,
    addresses: &[SocketAddr],
) -> Result<TcpStream, NotSent> {
    let pace = Pace {
        patience: ADDRESS_PATIENCE,
        head_start: HEAD_START,
    };
    dial_at(pace, network, addresses).await
}

/// Tries the addresses in order. The next attempt starts when the running ones have failed or have had their head
/// start, so that an address which drops packets costs only that delay.
async fn dial_at(
    pace: Pace,
    network: &dyn Network,
    addresses: &[SocketAddr],
) -> Result<TcpStream, NotSent> {
    let mut waiting = addresses.iter();
    let mut tried: Vec<Dialing<'_>> = Vec::with_capacity(addresses.len());
    let mut last = ErrorKind::AddrNotAvailable;
    loop {
        match waiting.next() {
            Some(address) => tried.push(patiently(pace, network.dial(*address))),
            None if tried.is_empty() => return Err(NotSent::NoConnection(last)),
            None => {}
        }
        let first = poll_fn(|context| first(&mut tried, context));
        let outcome = if waiting.as_slice().is_empty() {
            Ok(first.await)
        } else {
            timeout(pace.head_start, first).await
        };
        match outcome {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.kind(),
            Err(_) => {}
        }
    }
}

fn patiently(pace: Pace, dialing: Dialing<'_>) -> Dialing<'_> {
    Box::pin(async move {
        let accepted = timeout(pace.patience, dialing).await;
        accepted.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    })
}

/// Result of the first attempt that ends, which is removed from `tried`.
fn first(tried: &mut Vec<Dialing<'_>>, context: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
    for (place, dialing) in tried.iter_mut().enumerate() {
        if let Poll::Ready(outcome) = dialing.as_mut().poll(context) {
            drop(tried.swap_remove(place));
            return Poll::Ready(outcome);
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::Mutex;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::network::Resolving;

    /// Longer than any test takes.
    const LONG: Duration = Duration::from_secs(3600);
    const SHORT: Duration = Duration::from_millis(1);

    /// Behavior of one address.
    #[derive(Clone, Copy)]
    enum Address {
        /// Never answers.
        Swallows,
        Refuses,
        Accepts,
        /// Accepts after all others were dialed.
        AcceptsLast,
    }
    use Address::{Accepts, AcceptsLast, Refuses, Swallows};

    /// A network in which the port of an address is its index in `addresses`. `dialled` lists the dialed addresses
    /// in order.
    struct Plays {
        addresses: Vec<Address>,
        listener: TcpListener,
        dialled: Mutex<Vec<SocketAddr>>,
        count: Semaphore,
    }

    impl Network for Plays {
        fn resolve<'a>(&'a self, _: &'a str) -> Resolving<'a> {
            Box::pin(async { Err(ErrorKind::NotFound.into()) })
        }

        fn dial(&self, address: SocketAddr) -> Dialing<'_> {
            self.dialled.lock().unwrap().push(address);
            self.count.add_permits(1);
            let does = self.addresses[usize::from(address.port())];
            let all = u32::try_from(self.addresses.len()).unwrap();
            Box::pin(async move {
                match does {
                    Swallows => std::future::pending().await,
                    Refuses => return Err(ErrorKind::ConnectionRefused.into()),
                    Accepts => {}
                    AcceptsLast => drop(self.count.acquire_many(all).await),
                }
                TcpStream::connect(self.listener.local_addr()?).await
            })
        }
    }

    /// Result of dialing, and the number of dialed addresses.
    async fn dialled(
        head_start: Duration,
        patience: Duration,
        addresses: &[Address],
    ) -> (Result<(), NotSent>, usize) {
        let plays = Plays {
            addresses: addresses.to_vec(),
            listener: TcpListener::bind("127.0.0.1:0").unwrap(),
            dialled: Mutex::default(),
            count: Semaphore::new(0),
        };
        let all: Vec<SocketAddr> = (0..addresses.len())
            .map(|nth| ([93, 184, 215, 14], u16::try_from(nth).unwrap()).into())
            .collect();
        let pace = Pace {
            patience,
            head_start,
        };
        let outcome = timeout(Duration::from_secs(60), dial_at(pace, &plays, &all)).await;
        let outcome = outcome.expect("it does not wait for more").map(drop);
        let order = plays.dialled.into_inner().unwrap();
        assert_eq!(order, all[..order.len()]);
        (outcome, order.len())
    }

    #[tokio::test]
    async fn an_address_that_swallows_everything_costs_its_head_start_alone() {
        let (outcome, _) = dialled(SHORT, LONG, &[Swallows, Swallows, Accepts]).await;
        assert_eq!(outcome, Ok(()));
    }

    #[tokio::test]
    async fn an_address_that_refuses_costs_nothing() {
        let outcome = dialled(LONG, LONG, &[Refuses, Refuses, Accepts, Accepts]).await;
        assert_eq!(outcome, (Ok(()), 3));
    }

    #[tokio::test]
    async fn an_address_that_is_slow_may_still_be_the_first_to_accept() {
        let outcome = dialled(SHORT, LONG, &[AcceptsLast, Swallows, Refuses]).await;
        assert_eq!(outcome, (Ok(()), 3));
    }

    #[tokio::test]
    async fn an_address_that_accepts_is_the_only_one() {
        let outcome = dialled(LONG, LONG, &[Accepts, Accepts]).await;
        assert_eq!(outcome, (Ok(()), 1));
    }

    #[tokio::test]
    async fn addresses_that_all_swallow_everything_are_given_up() {
        let timed_out = NotSent::NoConnection(ErrorKind::TimedOut);
        let outcome = dialled(SHORT, SHORT * 20, &[Swallows; 4]).await;
        assert_eq!(outcome, (Err(timed_out), 4));
    }
}
