//! Name look-ups that are running.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use tokio::sync::{OnceCell, Semaphore, watch};

/// Running look-ups: each has its own thread, and a name has at most one.
///
/// The system's resolver cannot be cancelled. If a name's servers do not respond, it blocks its thread for half a
/// minute, long after the caller has given up. On the runtime's threads, which all blocking work shares, a
/// merchant with such names could delay everything. So callers of the same name share one look-up. Results are not
/// cached.
///
/// Decided 2026-11-24: the system's resolver, not `hickory-resolver`, because that crate does not follow
/// `nsswitch.conf`. An operator's settings there, in `/etc/hosts` and in search domains, decide what the name of a
/// provider or a staging receiver means, and a second resolver could give different results than the other tools
/// of the machine. Speed does not matter: callers share a look-up, and a connection that is kept open needs none.
#[derive(Clone, Debug)]
pub(crate) struct LookUps(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    permits: Arc<Semaphore>,
    under_way: Mutex<HashMap<String, UnderWay>>,
}

#[derive(Debug, Default)]
struct UnderWay {
    look_up: Arc<LookUp>,
    /// Number of callers that wait for it.
    askers: usize,
}

/// The look-up of one name. Initialized when its thread starts. If the caller that starts it gives up before that,
/// the next waiting caller starts it.
type LookUp = OnceCell<watch::Receiver<Option<Found>>>;

/// Errors as kinds, because an `io::Error` cannot be cloned for several callers.
type Found = Result<Vec<IpAddr>, io::ErrorKind>;

impl LookUps {
    pub(crate) fn at_most(count: usize) -> Self {
        Self(Arc::new(Inner {
            permits: Arc::new(Semaphore::new(count)),
            under_way: Mutex::default(),
        }))
    }

    /// Waits for the running look-up of a name, or starts one.
    pub(crate) async fn run(
        &self,
        name: &str,
        look_up: impl FnOnce() -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> io::Result<Vec<IpAddr>> {
        let inner = &self.0;
        let waiter = Waiter::new(inner, name);
        let begin = || inner.begin(name, &waiter.look_up, look_up);
        let mut told = waiter.look_up.get_or_try_init(begin).await?.clone();
        let found = told.wait_for(Option::is_some).await;
        let found = found.map_err(io::Error::other)?.clone();
        found
            .unwrap_or(Err(io::ErrorKind::Other))
            .map_err(Into::into)
    }
}

impl Inner {
    /// Waits for a permit and starts the thread.
    async fn begin(
        self: &Arc<Self>,
        name: &str,
        this: &Arc<LookUp>,
        look_up: impl FnOnce() -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> io::Result<watch::Receiver<Option<Found>>> {
        let permits = Arc::clone(&self.permits);
        let permit = match Arc::clone(&permits).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                metrics::counter!("kassette_name_lookups_waited_total").increment(1);
                permits.acquire_owned().await.map_err(io::Error::other)?
            }
        };
        let (tell, told) = watch::channel(None);
        let running = Running {
            inner: Arc::clone(self),
            name: name.to_owned(),
            look_up: Arc::clone(this),
        };
        let named = thread::Builder::new().name("look-up".into());
        named.spawn(move || {
            let found = look_up().map_err(|error| error.kind());
            // A caller from now on starts a new look-up.
            drop(running);
            drop(permit);
            // All callers may have given up.
            let _ = tell.send(Some(found));
        })?;
        Ok(told)
    }

    fn under_way(&self) -> MutexGuard<'_, HashMap<String, UnderWay>> {
        // A panic cannot leave the map in an inconsistent state: every change is a single call.
        self.under_way
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A caller that waits for a name.
struct Waiter<'a> {
    inner: &'a Inner,
    name: &'a str,
    look_up: Arc<LookUp>,
}

impl<'a> Waiter<'a> {
    fn new(inner: &'a Inner, name: &'a str) -> Self {
        let mut all = inner.under_way();
        let this = all.entry(name.to_owned()).or_default();
        this.askers += 1;
        Self {
            inner,
            name,
            look_up: Arc::clone(&this.look_up),
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut all = self.inner.under_way();
        let this = all.get_mut(self.name);
        // A newer look-up of the same name may be running; it does not belong to this caller.
        let Some(this) = this.filter(|this| Arc::ptr_eq(&this.look_up, &self.look_up)) else {
            return;
        };
        this.askers -= 1;
        // A running look-up removes its own entry.
        if this.askers == 0 && !self.look_up.initialized() {
            all.remove(self.name);
        }
    }
}

/// Removes the entry of a look-up when its thread ends.
struct Running {
    inner: Arc<Inner>,
    name: String,
    look_up: Arc<LookUp>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut all = self.inner.under_way();
        let known = all.get(&self.name);
        if known.is_some_and(|known| Arc::ptr_eq(&known.look_up, &self.look_up)) {
            all.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::sync::oneshot;
    use tokio::task::JoinHandle;
    use tokio::time::timeout;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(93, 184, 215, 14));

    /// A look-up that runs until the test ends it.
    struct Silent {
        asker: JoinHandle<io::Result<Vec<IpAddr>>>,
        end: mpsc::Sender<()>,
    }

    impl Silent {
        async fn begun(look_ups: &LookUps, name: &'static str) -> Self {
            let (begins, begun) = oneshot::channel();
            let (end, ends) = mpsc::channel::<()>();
            let look_ups = look_ups.clone();
            let asker = tokio::spawn(async move {
                let look_up = move || {
                    let _ = begins.send(());
                    let _ = ends.recv();
                    Ok(vec![ADDRESS])
                };
                look_ups.run(name, look_up).await
            });
            begun.await.unwrap();
            Self { asker, end }
        }
    }

    fn never() -> io::Result<Vec<IpAddr>> {
        panic!("a second look-up")
    }

    #[test]
    fn silent_look_ups_hold_threads_of_their_own_and_no_more_than_so_many() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .max_blocking_threads(1)
            .enable_time()
            .build();
        runtime.unwrap().block_on(async {
            let look_ups = LookUps::at_most(2);
            let mut silent = Vec::new();
            for name in ["a.example", "b.example"] {
                let one = Silent::begun(&look_ups, name).await;
                // The caller gives up, but the resolver continues.
                one.asker.abort();
                silent.push(one.end);
            }
            tokio::task::spawn_blocking(|| ()).await.unwrap();
            let third = look_ups.run("c.example", || Ok(vec![ADDRESS]));
            let mut third = std::pin::pin!(third);
            let early = timeout(Duration::from_millis(20), &mut third).await;
            assert!(early.is_err(), "no third thread");
            silent.pop();
            assert_eq!(third.await.unwrap(), [ADDRESS]);
        });
    }

    #[tokio::test]
    async fn callers_that_want_a_name_that_is_looked_up_share_the_answer() {
        let look_ups = LookUps::at_most(1);
        let first = Silent::begun(&look_ups, "a.example").await;
        let mut second = std::pin::pin!(look_ups.run("a.example", never));
        assert!(waits(second.as_mut()).await);
        // The caller that started it gives up. The callers that joined it still get the result.
        first.asker.abort();
        assert!(first.asker.await.is_err());
        drop(first.end);
        assert_eq!(second.await.unwrap(), [ADDRESS]);
        // The look-up has ended, so the next caller starts a new one.
        let kind = io::ErrorKind::NotFound;
        let next = look_ups.run("a.example", move || Err(kind.into())).await;
        assert_eq!(next.unwrap_err().kind(), kind);
        assert!(look_ups.0.under_way().is_empty());
    }

    #[tokio::test]
    async fn a_name_whose_askers_gave_up_before_its_turn_leaves_nothing_behind() {
        let look_ups = LookUps::at_most(1);
        let busy = Silent::begun(&look_ups, "a.example").await;
        {
            let mut begins = std::pin::pin!(look_ups.run("b.example", never));
            let mut joins = std::pin::pin!(look_ups.run("b.example", never));
            assert!(waits(begins.as_mut()).await);
            assert!(waits(joins.as_mut()).await);
            assert_eq!(look_ups.0.under_way().len(), 2);
        }
        assert_eq!(look_ups.0.under_way().len(), 1);
        drop(busy.end);
        busy.asker.await.unwrap().unwrap();
        // A look-up that panics does not leave an entry either, and its callers get an error.
        let ended = look_ups.run("c.example", never).await;
        assert!(ended.is_err());
        assert!(look_ups.0.under_way().is_empty());
    }

    #[tokio::test]
    async fn who_joined_one_that_gave_up_waiting_for_its_turn_takes_over() {
        let look_ups = LookUps::at_most(1);
        let busy = Silent::begun(&look_ups, "a.example").await;
        let mut joins = std::pin::pin!(look_ups.run("b.example", || Ok(vec![ADDRESS])));
        {
            let mut begins = std::pin::pin!(look_ups.run("b.example", never));
            assert!(waits(begins.as_mut()).await);
            assert!(waits(joins.as_mut()).await);
        }
        let mut third = std::pin::pin!(look_ups.run("b.example", never));
        assert!(waits(third.as_mut()).await);
        drop(busy.end);
        let (joined, third) = tokio::join!(joins, third);
        assert_eq!(
            (joined.unwrap(), third.unwrap()),
            (vec![ADDRESS], vec![ADDRESS])
        );
    }

    /// Polls once and returns whether the future is pending.
    async fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|context| {
            let pending = future
                .take()
                .is_some_and(|future| future.poll(context).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
