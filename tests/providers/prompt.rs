//! Time from a provider's last callback to the completion of an approved payment.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::stream::{self, StreamExt as _};

use crate::visit::Visit;
use crate::world::{Desk, calm};

/// Number of payments per module, unless `KASSETTE_PROMPT_PAYMENTS` is set.
const USUAL: usize = 24;
/// Number of concurrent payers of a module.
const AT_ONCE: usize = 8;
/// Upper bound of the time to completion: a callback must not wait for a later query of its payment.
const SPACING: Duration = Duration::from_secs(5);

/// Time from the last callback before the payment's completion to the completion. `None` if there was no callback.
async fn delay(visit: &Visit) -> Option<Duration> {
    let inside = visit.desk.server().inside(&visit.payment).await;
    let completed = inside["payment"]["completed_at"].as_str().unwrap();
    let completed: jiff::Timestamp = completed.parse().unwrap();
    let completed = u64::try_from(completed.as_millisecond()).unwrap();
    let millis = |at: SystemTime| {
        let since = at.duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(since.as_millis()).unwrap()
    };
    let letters = visit.desk.world.tap.letters(&visit.words().await);
    let before = letters.iter().map(|letter| millis(letter.came_at));
    let last = before.filter(|at| *at <= completed).max()?;
    Some(Duration::from_millis(completed - last))
}

#[tokio::test]
async fn no_notice_waits_for_another_look_at_its_payment() {
    let asked = std::env::var("KASSETTE_PROMPT_PAYMENTS").ok();
    let number = asked.map_or(USUAL, |asked| asked.parse().expect("a number"));
    let world = calm().await;
    let each = async |desk: Desk| {
        let methods = &desk.module.methods;
        let visits: Vec<Visit> = stream::iter(0..number)
            .map(|i| desk.paid(&methods[i % methods.len()]))
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut delays = Vec::new();
        for visit in &visits {
            delays.extend(delay(visit).await);
        }
        delays.sort_unstable();
        let at = |share: usize| delays.get(delays.len() * share / 100).or(delays.last());
        let over = delays
            .iter()
            .filter(|delay| delay.as_millis() > 100)
            .count();
        println!(
            "{}: {} payments, {} by a notice; from the notice to completion: median {:?}, p99 {:?}, \
             longest {:?}, {over} over 100 ms",
            desk.module.name,
            visits.len(),
            delays.len(),
            at(50),
            at(99),
            delays.last(),
        );
        let late = delays.last().is_some_and(|longest| *longest >= SPACING);
        assert!(!late, "a notice waited for another look");
    };
    // One module after the other, because many payers at the same time would measure the machine's load.
    for module in &world.modules {
        world.one(module, &each).await;
    }
}
