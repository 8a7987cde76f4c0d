//! The injected clock: nobody else asks the system for the time.

use std::future::Future;
use std::pin::Pin;

use kassette_domain::time::Time;

/// Tells the time and waits for it.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Time;
    /// Resolves once `now() >= time`, at once where it is; wakes when the clock is moved.
    fn wait_until(&self, time: Time) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
