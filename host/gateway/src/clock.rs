//! The injected clock. No other code reads the system time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kassette_domain::time::Time;
use tokio::sync::Notify;

/// Maximum sleep before the clock is read again, because the system clock can be set in the meantime.
const NAP: Duration = Duration::from_secs(30);

/// Source of the current time.
pub trait Clock: Send + Sync + 'static {
    /// The current time.
    fn now(&self) -> Time;
    /// Resolves when `now() >= time`, immediately if that is already so. Wakes when the clock is moved.
    fn wait_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Time {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Time::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn wait_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            while let Some(left) = left(self.now(), time) {
                tokio::time::sleep(left).await;
            }
        })
    }
}

/// The system clock plus an offset that only grows. For development and tests.
#[derive(Debug, Default)]
pub struct AdjustableClock {
    ahead_ms: AtomicU64,
    moved: Notify,
}

impl AdjustableClock {
    /// Creates a clock that shows the system time.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward and wakes all tasks that wait for a time.
    pub fn advance(&self, by: Duration) {
        let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.ahead_ms.fetch_add(millis, Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

impl Clock for AdjustableClock {
    fn now(&self) -> Time {
        let ahead = Duration::from_millis(self.ahead_ms.load(Ordering::SeqCst));
        SystemClock.now().after(ahead)
    }

    fn wait_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            loop {
                // Registered before the clock is read, so that no change in between is missed.
                let moved = self.moved.notified();
                let Some(left) = left(self.now(), time) else {
                    return;
                };
                tokio::select! {
                    () = moved => {}
                    () = tokio::time::sleep(left) => {}
                }
            }
        })
    }
}

/// Duration of the next sleep. `None` if the time has come.
fn left(now: Time, time: Time) -> Option<Duration> {
    (now < time).then(|| time.since(now).min(NAP))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_sleeper_wakes_when_the_clock_is_moved() {
        let clock = Arc::new(AdjustableClock::new());
        let target = clock.now().after(Duration::from_secs(24 * 3600));
        let sleeper = tokio::spawn({
            let clock = Arc::clone(&clock);
            async move { clock.wait_until(target).await }
        });
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        clock.advance(Duration::from_secs(24 * 3600));
        sleeper.await.unwrap();
        assert!(clock.now() >= target);
    }

    #[tokio::test]
    async fn a_time_that_has_come_is_not_waited_for() {
        SystemClock.wait_until(SystemClock.now()).await;
    }
}
