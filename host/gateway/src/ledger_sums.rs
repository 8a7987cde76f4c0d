//! Sums of the closed part of the ledger, in memory, so that a day book need not read all movements.
//!
//! What is closed never changes, so its sums are read once after a start and then extended. The sums are by quarter of
//! an hour, which every time zone's days consist of; older ones are by day.

use std::collections::BTreeMap;

use kassette_domain::movement::{Effect, Movement, MovementKind};
use kassette_domain::time::Time;
use kassette_store::{Fault, Listed, MovementFilter, Paging};

use crate::Gateway;
use crate::ledger::{BalanceOf, DaySums};

/// Number of movements read per page.
const AT_ONCE: usize = 100;
/// Seconds of a quarter of an hour and of a day.
const QUARTER: u64 = 15 * 60;
const DAY: u64 = 24 * 3600;
/// Days for which quarters are kept. It bounds the memory: later days have one row for each balance.
const KEPT_DAYS: u64 = 35;

/// Sums of movements at one balance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sums {
    /// Effects in minus effects out.
    effect: i128,
    kinds: BTreeMap<MovementKind, i128>,
}

impl Sums {
    fn of(movement: &Movement) -> Self {
        let amount = i128::from(movement.amount.0);
        let effect = match movement.effect {
            Effect::In => amount,
            Effect::Out => -amount,
            Effect::None => 0,
        };
        // A correction has no direction of its own.
        let signed = match movement.kind {
            MovementKind::Correction => effect,
            _ => amount,
        };
        Self {
            effect,
            kinds: [(movement.kind, signed)].into(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.effect += other.effect;
        for (kind, sum) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += sum;
        }
    }
}

/// The closed part of the ledger.
#[derive(Debug, Default)]
pub(crate) struct ClosedSums {
    /// All movements booked before this time are contained.
    until: Time,
    /// By start of the quarter, or of the day before `quarters_since`.
    sums: BTreeMap<(Time, BalanceOf), Sums>,
    quarters_since: Time,
}

/// The start of the part of the day that contains a time.
fn start_of(at: Time, seconds: u64) -> Time {
    Time::from_secs(at.as_secs() / seconds * seconds)
}

impl ClosedSums {
    fn add(&mut self, movement: Movement) {
        let sums = Sums::of(&movement);
        let at = start_of(movement.booked_at, QUARTER);
        let of = BalanceOf::of_movement(movement);
        self.sums.entry((at, of)).or_default().add(&sums);
    }

    /// Adds up the quarters of days that are older than [`KEPT_DAYS`].
    fn combine_old(&mut self) {
        let kept = Time::from_secs(self.until.as_secs().saturating_sub(KEPT_DAYS * DAY));
        let since = start_of(kept, DAY);
        if since <= self.quarters_since {
            return;
        }
        let mut old = std::mem::take(&mut self.sums);
        for ((at, of), sums) in std::mem::take(&mut old) {
            let at = if at < since { start_of(at, DAY) } else { at };
            self.sums.entry((at, of)).or_default().add(&sums);
        }
        self.quarters_since = since;
    }

    /// Whether days with these bounds consist of the sums' parts.
    fn can_answer(&self, days: &[Time]) -> bool {
        days.iter().all(|day| {
            let part = match *day < self.quarters_since {
                true => DAY,
                false => QUARTER,
            };
            *day == start_of(*day, part)
        })
    }
}

/// The sums of days so far.
struct Days<'a> {
    /// The times at which the days begin, with the end of the last one.
    begins: &'a [Time],
    balances: BTreeMap<BalanceOf, i128>,
    rows: BTreeMap<(usize, BalanceOf), DaySums>,
}

impl Days<'_> {
    /// Adds sums at a time that is not before those that were added earlier.
    fn add(&mut self, at: Time, of: &BalanceOf, sums: &Sums) {
        let balance = self.balances.entry(of.clone()).or_default();
        let opening = *balance;
        *balance += sums.effect;
        let begun = self.begins.partition_point(|day| *day <= at);
        let Some(day) = begun.checked_sub(1) else {
            return;
        };
        let row = self.rows.entry((day, of.clone()));
        let row = row.or_insert_with(|| DaySums {
            day,
            of: of.clone(),
            opening,
            closing: opening,
            sums: BTreeMap::new(),
        });
        row.closing += sums.effect;
        for (kind, sum) in &sums.kinds {
            *row.sums.entry(*kind).or_default() += sum;
        }
    }
}

fn is_wanted(filter: &MovementFilter, of: &BalanceOf) -> bool {
    let environment = filter.environment;
    environment.is_none_or(|environment| environment == of.environment)
        && filter
            .merchant
            .is_none_or(|merchant| Some(merchant) == of.merchant)
        && filter
            .account
            .as_ref()
            .is_none_or(|account| *account == of.account)
}

impl Gateway {
    /// Sums of days, the oldest day first: a row for each day, account, merchant and currency with a
    /// movement on that day. `days` are the times at which the days begin, with the end of the last one.
    ///
    /// # Errors
    /// The store's.
    pub async fn day_sums(
        &self,
        filter: MovementFilter,
        days: &[Time],
    ) -> Result<Vec<DaySums>, Fault> {
        let Some(end) = days.last().copied() else {
            return Ok(Vec::new());
        };
        let mut found = Days {
            begins: days,
            balances: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        let mut since = None;
        {
            let mut closed = self.inner.closed_sums.lock().await;
            self.extend_closed_sums(&mut closed).await?;
            if closed.can_answer(days) {
                let before_end = closed.sums.iter().take_while(|((at, _), _)| *at < end);
                for ((at, of), sums) in before_end.filter(|((_, of), _)| is_wanted(&filter, of)) {
                    found.add(*at, of, sums);
                }
                since = Some(closed.until);
            }
        }
        let rest = MovementFilter {
            since,
            until: Some(end),
            ..filter
        };
        self.each_movement(rest, |movement| {
            let (at, sums) = (movement.booked_at, Sums::of(&movement));
            found.add(at, &BalanceOf::of_movement(movement), &sums);
        })
        .await?;
        Ok(found.rows.into_values().collect())
    }

    /// Adds what was closed since the last call.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn keep_closed_sums(&self) -> Result<(), Fault> {
        let mut closed = self.inner.closed_sums.lock().await;
        self.extend_closed_sums(&mut closed).await
    }

    async fn extend_closed_sums(&self, closed: &mut ClosedSums) -> Result<(), Fault> {
        let until = self.store().ledger().await?.closed_until;
        if until <= closed.until {
            return Ok(());
        }
        let filter = MovementFilter {
            since: Some(closed.until),
            until: Some(until),
            ..MovementFilter::default()
        };
        let added = self
            .each_movement(filter, |movement| closed.add(movement))
            .await;
        if let Err(fault) = added {
            // What was added is unknown, so the next call begins anew.
            *closed = ClosedSums::default();
            return Err(fault);
        }
        closed.until = until;
        closed.combine_old();
        Ok(())
    }

    async fn each_movement(
        &self,
        filter: MovementFilter,
        mut each: impl FnMut(Movement) + Send,
    ) -> Result<(), Fault> {
        let mut cursor = None;
        loop {
            let paging = Paging {
                limit: AT_ONCE,
                cursor,
            };
            let Listed::Page(page) = self.store().movements(filter.clone(), paging).await? else {
                return Err(Fault::Corrupt("a list's own cursor".into()));
            };
            page.items.into_iter().for_each(&mut each);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
            // Lets other tasks run between two pages.
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use kassette_domain::id::{AccountId, MerchantId, MovementId};
    use kassette_domain::key::Environment;
    use kassette_domain::money::Minor;
    use kassette_domain::movement::{Bucket, Source};

    use super::*;

    fn movement(at: u64, kind: MovementKind, effect: Effect, amount: u64) -> Movement {
        let account = AccountId::parse("sandbox-test").unwrap();
        Movement {
            id: MovementId::derived(&account, &at.to_string(), kind, 0),
            account,
            environment: Environment::Test,
            merchant: Some(MerchantId(1 + at % 3)),
            payment: None,
            attempt: None,
            kind,
            effect,
            bucket: Some(Bucket::Own),
            from_bucket: None,
            amount: Minor(amount),
            currency: "EUR".to_owned(),
            provider_references: Vec::new(),
            occurred_at: Time::from_secs(at),
            booked_at: Time::from_secs(at),
            source: Source::Query,
        }
    }

    /// The sums of days from single movements, and from the sums of their quarters and days.
    fn both_ways(movements: &[Movement], until: u64, days: &[Time]) -> [Vec<DaySums>; 2] {
        let fresh = || Days {
            begins: days,
            balances: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        let (mut single, mut combined) = (fresh(), fresh());
        let mut closed = ClosedSums::default();
        for movement in movements {
            let sums = Sums::of(movement);
            let of = BalanceOf::of_movement(movement.clone());
            single.add(movement.booked_at, &of, &sums);
            closed.add(movement.clone());
        }
        closed.until = Time::from_secs(until);
        closed.combine_old();
        assert!(closed.can_answer(days));
        for ((at, of), sums) in &closed.sums {
            combined.add(*at, of, sums);
        }
        [single, combined].map(|days| days.rows.into_values().collect())
    }

    #[test]
    fn a_day_opens_with_the_balance_of_all_movements_before_it() {
        let days = [100, 200, 300].map(Time::from_secs);
        let movements = [
            movement(51, MovementKind::Captured, Effect::In, 8000),
            movement(102, MovementKind::Refunded, Effect::Out, 3000),
            movement(252, MovementKind::Correction, Effect::Out, 6000),
            movement(261, MovementKind::Correction, Effect::In, 500),
            movement(270, MovementKind::DisputeOpened, Effect::None, 100),
        ];
        let mut found = Days {
            begins: &days,
            balances: BTreeMap::new(),
            rows: BTreeMap::new(),
        };
        for movement in movements {
            let sums = Sums::of(&movement);
            found.add(movement.booked_at, &BalanceOf::of_movement(movement), &sums);
        }
        let rows = found.rows.into_values();
        let rows: Vec<_> = rows
            .map(|row| (row.day, row.opening, row.closing, row.sums))
            .collect();
        let first = BTreeMap::from([(MovementKind::Refunded, 3000)]);
        let second = BTreeMap::from([
            (MovementKind::Correction, -5500),
            (MovementKind::DisputeOpened, 100),
        ]);
        assert_eq!(rows, [(0, 8000, 5000, first), (1, 5000, -500, second)]);
    }

    #[test]
    fn sums_of_quarters_and_days_give_the_same_day_book_as_their_movements() {
        let kinds = [
            (MovementKind::Captured, Effect::In),
            (MovementKind::Refunded, Effect::Out),
            (MovementKind::Correction, Effect::Out),
            (MovementKind::DisputeOpened, Effect::None),
        ];
        // Every 7 hours and a bit, for 100 days.
        let movements: Vec<_> = (0..340_u64)
            .map(|number| {
                let (kind, effect) = kinds[(number % 4) as usize];
                movement(number * 25_231, kind, effect, 100 + number)
            })
            .collect();
        let last = 100 * DAY;
        // Old days begin at midnight UTC, later ones in a zone that is 5 hours and 45 minutes ahead.
        let old: Vec<_> = (3..40).map(|day| Time::from_secs(day * DAY)).collect();
        let zone = |day: u64| Time::from_secs(day * DAY - 5 * 3600 - 45 * 60);
        let late: Vec<_> = (70..99).map(zone).collect();
        for days in [old, late] {
            let [single, combined] = both_ways(&movements, last, &days);
            assert!(!single.is_empty());
            assert_eq!(single, combined);
        }
    }

    #[test]
    fn days_that_do_not_consist_of_the_parts_are_read_from_the_ledger() {
        let closed = ClosedSums {
            quarters_since: Time::from_secs(10 * DAY),
            ..ClosedSums::default()
        };
        let at = |seconds| Time::from_secs(seconds);
        assert!(closed.can_answer(&[at(2 * DAY), at(10 * DAY), at(10 * DAY + QUARTER)]));
        assert!(
            !closed.can_answer(&[at(2 * DAY + QUARTER)]),
            "an old day of another zone"
        );
        assert!(
            !closed.can_answer(&[at(10 * DAY + 60)]),
            "a zone of the past"
        );
    }
}
