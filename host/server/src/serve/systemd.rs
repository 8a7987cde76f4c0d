//! Notifications to systemd (sd_notify(3)). Without effect unless systemd asked for them.

use std::time::Duration;

use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Time for an orderly stop after the drain: requests in flight, calls to providers, and the disk.
const STOP: Duration = Duration::from_secs(180);

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told how the gateway is; look at NOTIFY_SOCKET");
    }
}

/// Reports that requests are served.
pub(super) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Reports that the configuration is read again, until [`ready`].
pub(super) fn reloading() {
    // Without the time, systemd would treat the reload as failed.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}

/// Reports that the stop has started. Extends the timeout for it to the drain plus `STOP`.
pub(super) fn stopping(drain: Duration) {
    let most = u32::try_from((drain + STOP).as_micros()).unwrap_or(u32::MAX);
    tell(&[NotifyState::Stopping, NotifyState::ExtendTimeoutUsec(most)]);
}

/// Notifies the watchdog two times per period while `answer` completes in time. Returns immediately if systemd has
/// set no watchdog.
pub(super) async fn feed_watchdog<F: Future<Output = ()>>(answer: impl FnMut() -> F) {
    if let Some(period) = sd_notify::watchdog_enabled() {
        feed(period, answer, || tell(&[NotifyState::Watchdog])).await;
    }
}

/// Notifies with a given period. The notification also proves that the async runtime makes progress.
async fn feed<F: Future<Output = ()>>(
    period: Duration,
    mut answer: impl FnMut() -> F,
    mut tell: impl FnMut(),
) {
    let half = (period / 2).max(Duration::from_millis(1));
    let mut ticks = interval(half);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        match timeout(half, answer()).await {
            Ok(()) => tell(),
            Err(_) => tracing::error!(
                "the store has not answered for {} ms: systemd is not told that the gateway is well, \
                 and starts it anew",
                half.as_millis()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::mpsc::unbounded_channel;

    #[tokio::test]
    async fn the_watchdog_hears_nothing_while_no_answer_comes() {
        const SILENT: usize = 3;
        let asked = Arc::new(AtomicUsize::new(0));
        let (tell, mut told) = unbounded_channel();
        let count = Arc::clone(&asked);
        let answer = move || {
            let before = count.fetch_add(1, Ordering::SeqCst);
            async move {
                if before < SILENT {
                    std::future::pending::<()>().await;
                }
            }
        };
        let at = Arc::clone(&asked);
        let told_after = move || {
            let _ = tell.send(at.load(Ordering::SeqCst));
        };
        let feeding = tokio::spawn(feed(Duration::from_millis(20), answer, told_after));
        assert_eq!(told.recv().await, Some(SILENT + 1));
        assert_eq!(told.recv().await, Some(SILENT + 2));
        feeding.abort();
    }
}
