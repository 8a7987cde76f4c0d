//! Shops with continuous payments, and the outcome of each payment.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::{sleep, sleep_until, timeout};

use super::ACCOUNTS;
use crate::client::alone;
use crate::payment::walk::{Connections, Leg, Legs, Pace, Shop, Walked};
use crate::requests::Creates;

/// Number of parallel payments.
const AT_ONCE: u32 = 32;
/// Maximum duration of a create, and of the rest of a payment.
const CREATE_TIMEOUT: Duration = Duration::from_secs(30);
/// Delay after a payment that was abandoned.
const PAUSE: Duration = Duration::from_secs(1);

/// Payers at each of the shops.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) shops: Arc<[Shop; ACCOUNTS.len()]>,
    /// Number of starts and ends of failures per provider. Odd during a failure.
    turns: Arc<[AtomicU64; ACCOUNTS.len()]>,
    seen: Arc<Mutex<Seen>>,
}

/// Outcomes of payments.
#[derive(Default)]
pub(super) struct Seen {
    /// Undisturbed payments of the current minute.
    walked: Walked,
    /// All payments whose completion was reported to the shop.
    pub(super) told: Vec<u128>,
    /// All payments that were abandoned.
    pub(super) left: Vec<u128>,
    /// Payments while their provider failed or recovered.
    pub(super) disturbed: u64,
    /// Rejected creates, which have no payment.
    pub(super) refused: u64,
    pub(super) left_disturbed: u64,
    pub(super) left_undisturbed: u64,
    /// Numbers of abandoned payments by reason.
    reasons: BTreeMap<String, u64>,
}

impl Load {
    pub(super) fn new(shops: [Shop; ACCOUNTS.len()]) -> Self {
        Self {
            shops: Arc::new(shops),
            turns: Arc::default(),
            seen: Arc::default(),
        }
    }

    /// Pays for some time, at a rate per second or as fast as possible.
    pub(super) fn run(&self, rate: Option<f64>, time: Duration) {
        let end = Instant::now() + time;
        let pace = rate.map(Pace::per_second);
        let payers = (0..AT_ONCE).map(|number| self.pay_until(end, number, pace.as_ref()));
        alone(futures_util::future::join_all(payers));
    }

    /// Makes one payment after the other.
    async fn pay_until(&self, end: Instant, number: u32, pace: Option<&Pace>) {
        let at = number as usize % ACCOUNTS.len();
        let shop = &self.shops[at];
        let creates = RefCell::new(Creates::by_method(&shop.key, &shop.method));
        let (mut turn, mut connections) = (self.turn(at), shop.connect().await);
        while Instant::now() < end {
            if let Some(pace) = pace {
                sleep_until(pace.next().into()).await;
            }
            let is_told = self.pay(at, &creates, &mut connections).await;
            if !is_told {
                sleep(PAUSE).await;
            }
            // Connections to a provider that was killed no longer work.
            if !is_told || self.turn(at) != turn {
                (turn, connections) = (self.turn(at), shop.connect().await);
            }
        }
    }

    /// Makes a payment at the shop with this index. Returns whether it was completed.
    async fn pay(
        &self,
        at: usize,
        creates: &RefCell<Creates>,
        connections: &mut Connections,
    ) -> bool {
        let (shop, turn) = (&self.shops[at], self.turn(at));
        let (began, mut legs) = (Instant::now(), Legs::default());
        let created = timeout(
            CREATE_TIMEOUT,
            shop.create(creates, &mut connections.server),
        )
        .await;
        let created = created.expect("a create without an answer");
        legs[Leg::Create as usize] = began.elapsed();
        let carried = match &created {
            Ok(id) => {
                let carried = shop.carry(id, Leg::Whole, connections, &mut legs);
                let carried = timeout(CREATE_TIMEOUT, carried).await;
                carried.unwrap_or_else(|_| Err("no end in time".to_owned()))
            }
            Err(why) => Err(why.clone()),
        };
        let is_disturbed = turn % 2 == 1 || self.turn(at) != turn;
        let is_told = carried.is_ok();
        let mut seen = self.seen.lock();
        seen.note(created.ok(), carried, is_disturbed, legs);
        is_told
    }

    fn turn(&self, account: usize) -> u64 {
        self.turns[account].load(Ordering::Relaxed)
    }

    /// Records the start or end of a provider's failure.
    pub(super) fn mark_failing(&self, account: usize, is_failing: bool) {
        let turn = self.turn(account);
        assert_eq!(turn % 2 == 1, !is_failing, "a provider fails twice at once");
        self.turns[account].store(turn + 1, Ordering::Relaxed);
    }

    /// Number of starts and ends of failures, and whether a provider fails now.
    pub(super) fn failures(&self) -> (u64, bool) {
        let turns = [0, 1, 2, 3].map(|account| self.turn(account));
        (turns.iter().sum(), turns.iter().any(|turn| turn % 2 == 1))
    }

    /// Number of payments so far.
    pub(super) fn payments(&self) -> u64 {
        let seen = self.seen.lock();
        (seen.told.len() + seen.left.len()) as u64
    }

    /// Takes the undisturbed payments since the last call.
    pub(super) fn take_walked(&self) -> Walked {
        std::mem::take(&mut self.seen.lock().walked)
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock()
    }
}

impl Seen {
    /// Records the outcome of a payment. `id` is `None` if its create was rejected.
    fn note(
        &mut self,
        id: Option<String>,
        carried: Result<(), String>,
        is_disturbed: bool,
        legs: Legs,
    ) {
        let number = id.map(|id| u128::from_str_radix(&id, 16).unwrap());
        self.disturbed += u64::from(is_disturbed);
        let Err(why) = carried else {
            self.told.extend(number);
            if !is_disturbed {
                self.walked.record(legs, true);
            }
            return;
        };
        self.left.extend(number);
        match (number, is_disturbed) {
            (None, _) => self.refused += 1,
            (_, true) => self.left_disturbed += 1,
            (_, false) => self.left_undisturbed += 1,
        }
        let step = why.split('{').next().unwrap_or_default();
        let count = self.reasons.entry(step.to_owned()).or_default();
        *count += 1;
        if *count == 1 || !is_disturbed {
            let how = if is_disturbed {
                ""
            } else {
                " though its provider is well"
            };
            eprintln!(
                "payment {:032x} is left behind{how}: {why}",
                number.unwrap_or_default()
            );
        }
    }
}
