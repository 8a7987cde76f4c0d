//! The ledger of movements: its closing time, daily sums, and operators' corrections.

use std::collections::BTreeMap;
use std::time::Duration;

use kassette_domain::audit::Audited;
use kassette_domain::id::{AccountId, MerchantId, MovementId, PaymentId};
use kassette_domain::key::Environment;
use kassette_domain::lifecycle::{NewCorrection, Refusal, Step};
use kassette_domain::money::Minor;
use kassette_domain::movement::{Bucket, Effect, Movement, MovementKind, Source};
use kassette_domain::order::IdempotencyKey;
use kassette_domain::time::Time;
use kassette_store::{About, Booking, Fault, LedgerState, Listed, MovementFilter, Paging, Stepped};

use crate::Gateway;

/// How often the closing time of the ledger is advanced.
const CLOSE_EVERY: Duration = Duration::from_secs(60);
/// Number of movements read per page.
const AT_ONCE: usize = 100;

/// A correction: a movement that an operator books and no provider reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CorrectionAsked {
    pub account: AccountId,
    /// `None`: money of the account that belongs to no payment.
    pub payment: Option<PaymentId>,
    /// [`Effect::In`] or [`Effect::Out`].
    pub effect: Effect,
    /// `None`: the payment's own money, or no bucket without a payment.
    pub bucket: Option<Bucket>,
    /// Minor units of `currency`.
    pub amount: Minor,
    pub currency: String,
    /// `None`: now.
    pub occurred_at: Option<Time>,
    pub provider_references: Vec<String>,
    /// Makes the request idempotent at the account.
    pub key: IdempotencyKey,
}

/// Result of a correction request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Corrected {
    Booked(Movement),
    /// The same correction was booked before.
    Replayed(Movement),
}

/// Reason why nothing was booked.
#[derive(Debug, thiserror::Error)]
pub enum CorrectionError {
    #[error("provider_id: there is no such account")]
    NoAccount,
    #[error("payment_id: the payment has no attempt at the account")]
    NoPayment,
    #[error("currency: the payment's money at the account is of another currency")]
    OtherCurrency,
    #[error("this idempotency key was used before with a different {0}")]
    Differs(&'static str),
    #[error("{0}")]
    Refused(Refusal),
    #[error(transparent)]
    Store(#[from] Fault),
}

/// The owner of a balance.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BalanceOf {
    pub environment: Environment,
    pub account: AccountId,
    /// `None` for money of a payment that the store does not know.
    pub merchant: Option<MerchantId>,
    pub currency: String,
}

/// Sums of one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaySums {
    /// Index of the day in the request.
    pub day: usize,
    pub of: BalanceOf,
    /// The balance before the day, in minor units. May be negative.
    pub opening: i128,
    /// The balance after the day, in minor units.
    pub closing: i128,
    /// By kind, in minor units: positive, except that of corrections (in less out).
    pub sums: BTreeMap<MovementKind, i128>,
}

/// Formats an amount in minor units, which may be negative, with two decimals.
pub fn signed(amount: i128) -> String {
    let sign = if amount < 0 { "-" } else { "" };
    let units = amount.unsigned_abs();
    format!("{sign}{}.{:02}", units / 100, units % 100)
}

impl Gateway {
    /// Advances the closing time of the ledger regularly; it stays behind the clock.
    pub(crate) async fn keep_ledger(&self) {
        let mut first = true;
        loop {
            let allowed = first || self.settings().plain_loopback;
            match self.store().advance_closed_until(self.now(), allowed).await {
                Ok(state) => {
                    first = false;
                    if let Some(jump) = state.jump {
                        tracing::error!(
                            ledger.from = %jump.from, ledger.to = %jump.to,
                            "the clock has jumped: movements are booked by the time before until an \
                             operator confirms it (kassette finance confirm-clock)"
                        );
                    }
                }
                Err(fault) => {
                    tracing::warn!(error = %fault, "the closing time of the ledger was not moved");
                }
            }
            self.clock().wait_until(self.now().after(CLOSE_EVERY)).await;
        }
    }

    /// Books a correction. Each idempotency key books at most one.
    ///
    /// # Errors
    /// See [`CorrectionError`].
    pub async fn correct(
        &self,
        asked: CorrectionAsked,
        audited: Audited,
    ) -> Result<Corrected, CorrectionError> {
        let settings = self.settings();
        let account = settings.accounts.get(&asked.account);
        let environment = account.ok_or(CorrectionError::NoAccount)?.environment;
        let kind = MovementKind::Correction;
        let object = NewCorrection::object(&asked.key);
        let id = MovementId::derived(&asked.account, &object, kind, 0);
        let now = self.now();
        if let Some(known) = self.store().movement(asked.payment, id).await? {
            return replayed(&asked, known);
        }
        let Some(payment) = asked.payment else {
            let movement = Movement {
                id,
                account: asked.account.clone(),
                environment,
                merchant: None,
                payment: None,
                attempt: None,
                kind,
                effect: asked.effect,
                bucket: asked.bucket,
                from_bucket: None,
                amount: asked.amount,
                currency: asked.currency.clone(),
                provider_references: asked.provider_references.clone(),
                occurred_at: asked.occurred_at.unwrap_or(now),
                booked_at: now,
                source: Source::Operator,
            };
            return match self.store().book(movement, Some(audited), now).await? {
                Booking::New(movement) => Ok(Corrected::Booked(movement)),
                Booking::Known(known) => replayed(&asked, known),
            };
        };
        let about = About::Payment(payment);
        let aggregate = self.store().aggregate(about.clone()).await?;
        let aggregate = aggregate.ok_or(CorrectionError::NoPayment)?;
        let mut at_account = aggregate
            .attempts
            .iter()
            .filter(|attempt| attempt.account == asked.account);
        // The attempt that captured money, otherwise the newest one.
        let taken = at_account.clone().find(|attempt| attempt.funds.is_taken());
        let attempt = taken.or_else(|| at_account.next_back());
        let new = NewCorrection {
            attempt: attempt.ok_or(CorrectionError::NoPayment)?.id,
            effect: asked.effect,
            bucket: asked.bucket.unwrap_or_default(),
            amount: asked.amount,
            currency: asked.currency.clone(),
            occurred_at: asked.occurred_at.unwrap_or(now),
            provider_references: asked.provider_references.clone(),
            key: asked.key.clone(),
        };
        let step = Step::Correct(Box::new(new));
        let change = match self.step(about, step, Some(audited)).await? {
            Stepped::Done { change, .. } => change,
            Stepped::Refused {
                refusal: Refusal::OtherCurrency,
                ..
            } => return Err(CorrectionError::OtherCurrency),
            Stepped::Refused { refusal, .. } => return Err(CorrectionError::Refused(refusal)),
            Stepped::ReferenceTaken(_) | Stepped::Unknown => {
                return Err(CorrectionError::NoPayment);
            }
        };
        self.reconcile_soon(payment);
        match change
            .movements
            .into_iter()
            .find(|movement| movement.id == id)
        {
            Some(movement) => Ok(Corrected::Booked(movement)),
            None => {
                let known = self.store().movement(Some(payment), id).await?;
                replayed(&asked, known.ok_or(CorrectionError::NoPayment)?)
            }
        }
    }

    /// Confirms that the clock is right after it jumped. `None` if no jump is waiting for confirmation.
    ///
    /// # Errors
    /// The store's.
    pub async fn confirm_clock(&self, audited: Audited) -> Result<Option<LedgerState>, Fault> {
        self.store().confirm_clock(audited, self.now()).await
    }

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
        let filter = MovementFilter {
            since: None,
            until: Some(end),
            ..filter
        };
        let mut balances: BTreeMap<BalanceOf, i128> = BTreeMap::new();
        let mut rows: BTreeMap<(usize, BalanceOf), DaySums> = BTreeMap::new();
        let mut cursor = None;
        loop {
            let paging = Paging {
                limit: AT_ONCE,
                cursor,
            };
            let Listed::Page(page) = self.store().movements(filter.clone(), paging).await? else {
                return Err(Fault::Corrupt("a list's own cursor".into()));
            };
            for movement in page.items {
                count(&mut balances, &mut rows, days, movement);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
            // Lets other tasks run between two pages.
            tokio::task::yield_now().await;
        }
        Ok(rows.into_values().collect())
    }
}

/// Adds a movement. Movements arrive in the order of their booking times.
fn count(
    balances: &mut BTreeMap<BalanceOf, i128>,
    rows: &mut BTreeMap<(usize, BalanceOf), DaySums>,
    days: &[Time],
    movement: Movement,
) {
    let amount = i128::from(movement.amount.0);
    let effect = match movement.effect {
        Effect::In => amount,
        Effect::Out => -amount,
        Effect::None => 0,
    };
    let of = BalanceOf {
        environment: movement.environment,
        account: movement.account,
        merchant: movement.merchant,
        currency: movement.currency,
    };
    let balance = balances.entry(of.clone()).or_default();
    let opening = *balance;
    *balance += effect;
    let begun = days.partition_point(|day| *day <= movement.booked_at);
    let Some(day) = begun.checked_sub(1) else {
        return;
    };
    let row = rows.entry((day, of.clone())).or_insert_with(|| DaySums {
        day,
        of,
        opening,
        closing: opening,
        sums: BTreeMap::new(),
    });
    row.closing += effect;
    let signed = if movement.kind == MovementKind::Correction {
        effect
    } else {
        amount
    };
    *row.sums.entry(movement.kind).or_default() += signed;
}

/// Compares a request with the correction that its key booked before.
fn replayed(asked: &CorrectionAsked, known: Movement) -> Result<Corrected, CorrectionError> {
    let bucket = match asked.payment {
        Some(_) => Some(asked.bucket.unwrap_or_default()),
        None => asked.bucket,
    };
    let same = [
        (known.payment == asked.payment, "payment_id"),
        (known.effect == asked.effect, "effect"),
        (known.bucket == bucket, "bucket"),
        (known.amount == asked.amount, "amount"),
        (known.currency == asked.currency, "currency"),
        (
            asked.occurred_at.is_none_or(|at| at == known.occurred_at),
            "occurred_at",
        ),
        (
            known.provider_references == asked.provider_references,
            "provider_references",
        ),
    ];
    match same.into_iter().find(|(same, _)| !same) {
        Some((_, field)) => Err(CorrectionError::Differs(field)),
        None => Ok(Corrected::Replayed(known)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn movement(at: u64, kind: MovementKind, effect: Effect, amount: u64) -> Movement {
        let account = AccountId::parse("sandbox-test").unwrap();
        Movement {
            id: MovementId::derived(&account, &at.to_string(), kind, 0),
            account,
            environment: Environment::Test,
            merchant: Some(MerchantId(1)),
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

    #[test]
    fn a_day_opens_with_the_balance_of_all_movements_before_it() {
        let days = [100, 200, 300].map(Time::from_secs);
        let (mut balances, mut rows) = (BTreeMap::new(), BTreeMap::new());
        for movement in [
            movement(50, MovementKind::Captured, Effect::In, 8000),
            movement(100, MovementKind::Refunded, Effect::Out, 3000),
            movement(250, MovementKind::Correction, Effect::Out, 6000),
            movement(260, MovementKind::Correction, Effect::In, 500),
            movement(270, MovementKind::DisputeOpened, Effect::None, 100),
        ] {
            count(&mut balances, &mut rows, &days, movement);
        }
        let rows: Vec<_> = rows
            .into_values()
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
    fn amounts_keep_their_sign_and_two_decimals() {
        assert_eq!(
            [-500, -5, 0, 12345].map(signed),
            ["-5.00", "-0.05", "0.00", "123.45"]
        );
    }
}
