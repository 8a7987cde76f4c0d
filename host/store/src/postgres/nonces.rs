//! Nonces of signed requests: one row each, reserved in batches.
//!
//! An expired row can be reserved again. A sweep deletes expired rows and stores the latest expiry among them:
//! whether earlier nonces were used is then unknown. Another node whose clock is ahead may sweep during a
//! reservation, so the stored time is read again after each batch. Rows are retained for [`KEPT`] after expiry;
//! otherwise nodes whose clock is behind would refuse requests.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use kassette_domain::id::ResellerId;
use kassette_domain::time::Time;
use parking_lot::Mutex;

use crate::postgres::batches::Commit;
use crate::postgres::database::{Arguments, Database, Failure, Tries};
use crate::postgres::{PostgresStore, millis, number, time};
use crate::rows::nonces::{NonceDigest, OVERTAKEN, mark};
use crate::rows::seal::fill;
use crate::{Fault, Nonces, Reservation, Reserved, StoreFuture};

/// Maximum number of nonces in one batch.
pub(crate) const AT_ONCE: usize = 64;
/// Maximum number of rows that one sweep deletes.
const SWEPT: i64 = 64;
/// How long a row is retained after it expires; the clocks of two nodes may differ by this much.
const KEPT: Duration = Duration::from_mins(10);
/// How long after the oldest nonce has expired a request performs a sweep, so that not every request does.
const GRACE: Duration = Duration::from_secs(1);

const TAKE: &str = "INSERT INTO nonce AS known (reseller, mark, until, asked, holder)
    SELECT reseller, mark, until, asked, $5 FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[])
        AS v (reseller, mark, until, asked) ORDER BY reseller, mark
    ON CONFLICT (reseller, mark) DO UPDATE SET until = excluded.until, asked = excluded.asked, holder = excluded.holder
        WHERE known.until <= excluded.asked OR known.holder = excluded.holder
    RETURNING reseller, mark";

/// A nonce to be reserved.
#[derive(Clone)]
pub(crate) struct Wanted {
    reseller: i64,
    mark: NonceDigest,
    until: i64,
    now: i64,
}

/// Reserves nonces.
pub(crate) struct Taking {
    pub(crate) database: Database,
}

impl Commit for Taking {
    type Request = Wanted;
    /// Whether the nonce was free, and the latest expiry among deleted nonces.
    type Answer = (bool, Time);

    async fn commit(&self, batch: Vec<Wanted>) -> Vec<Result<Self::Answer, Fault>> {
        // If several requests have the same nonce, the first of the batch gets it.
        let mut seen = BTreeSet::new();
        let firsts: Vec<&Wanted> = batch
            .iter()
            .filter(|each| seen.insert((each.reseller, each.mark)))
            .collect();
        let (mut taken, freed) = match self.take(&firsts).await {
            Ok(taken) => taken,
            Err(failure) => {
                let fault = failure.fault();
                return batch.iter().map(|_| Err(fault.clone())).collect();
            }
        };
        batch
            .iter()
            .map(|each| Ok((taken.remove(&(each.reseller, each.mark.to_vec())), freed)))
            .collect()
    }
}

impl Taking {
    async fn take(&self, wanted: &[&Wanted]) -> Result<(BTreeSet<(i64, Vec<u8>)>, Time), Failure> {
        let mut random = [0; 8];
        fill(&mut random)?;
        let holder = i64::from_be_bytes(random);
        let resellers: Vec<_> = wanted.iter().map(|each| each.reseller).collect();
        let marks: Vec<_> = wanted.iter().map(|each| &each.mark[..]).collect();
        let ends: Vec<_> = wanted.iter().map(|each| each.until).collect();
        let asked: Vec<_> = wanted.iter().map(|each| each.now).collect();
        let mut tries = Tries::new();
        let taken = loop {
            let taken = self
                .database
                .write(TAKE, &[&resellers, &marks, &ends, &asked, &holder])
                .await;
            match taken {
                // A nonce reserved by a statement whose answer was lost belongs to the same holder.
                Err(failure @ Failure::Lost) => tries.again(&failure).await.map_err(|_| failure)?,
                taken => break taken?,
            }
        };
        let taken = taken.iter().map(|row| (row.get(0), row.get(1))).collect();
        Ok((taken, freed(&self.database).await?))
    }
}

/// Refuses a time for which used nonces were already deleted.
fn is_after(freed: Time, now: Time) -> Result<(), Fault> {
    if freed > now.after(OVERTAKEN) {
        let why = "the clock went back to a time whose nonces are forgotten";
        return Err(Fault::Unavailable(why.into()));
    }
    Ok(())
}

/// Latest expiry among nonces deleted by any node.
async fn freed(database: &Database) -> Result<Time, Fault> {
    let sql = "SELECT freed FROM nonce_end";
    let row = database.read_one(sql, &[]).await?;
    Ok(time(row.map_or(0, |row| row.get(0))))
}

/// This node's counts of nonces, so that most requests need no query.
#[derive(Default)]
pub(crate) struct Counts {
    of: Mutex<HashMap<i64, Count>>,
    /// Expiry of the oldest row, if known.
    next_end: Mutex<Option<Time>>,
    /// Allows one sweep at a time.
    sweeping: tokio::sync::Mutex<()>,
}

/// Number of reserved nonces of a reseller, by the second in which they expire, rounded up.
#[derive(Default)]
struct Count {
    ends: BTreeMap<i64, usize>,
    taken: usize,
    /// The second in which the rows were last counted.
    counted: i64,
}

/// Milliseconds per second.
const SECOND: i64 = 1000;

impl Count {
    fn note(&mut self, until: i64, taken: usize) {
        *self
            .ends
            .entry(until.saturating_add(SECOND - 1) / SECOND)
            .or_default() += taken;
        self.taken += taken;
    }

    /// Number of nonces in use; removes expired ones.
    fn taken(&mut self, now: i64) -> usize {
        while let Some(first) = self
            .ends
            .first_entry()
            .filter(|first| first.key().saturating_mul(SECOND) <= now)
        {
            self.taken -= first.remove();
        }
        self.taken
    }
}

impl Nonces for PostgresStore {
    fn reserve_nonce(&self, reservation: Reservation, now: Time) -> StoreFuture<'_, Reserved> {
        self.run_to_end(async move |store| store.reserve(reservation, now).await)
    }
}

impl PostgresStore {
    async fn reserve(&self, reservation: Reservation, now: Time) -> Result<Reserved, Fault> {
        let wanted = Wanted {
            reseller: number(reservation.reseller.0),
            mark: mark(reservation.reseller, &reservation.nonce),
            until: millis(reservation.until),
            now: millis(now),
        };
        if let Err(fault) = self.sweep_nonces(now, GRACE).await {
            tracing::warn!(error = %fault, "nonces that are over are not forgotten yet");
        }
        let full = self.is_full(reservation.reseller, reservation.at_most, now);
        if let Some(next) = full.await? {
            is_after(freed(&self.requests).await?, now)?;
            let sql = "SELECT FROM nonce WHERE reseller = $1 AND mark = $2 AND until > $3";
            let about: Arguments<'_> = &[&wanted.reseller, &&wanted.mark[..], &wanted.now];
            let used = self.requests.read_one(sql, about).await?.is_some();
            return Ok(if used {
                Reserved::Used
            } else {
                Reserved::Full { next }
            });
        }
        let (reseller, until) = (wanted.reseller, wanted.until);
        let (is_free, freed) = self.taking.commit(wanted).await?;
        is_after(freed, now)?;
        if !is_free {
            return Ok(Reserved::Used);
        }
        if let Some(count) = self.nonces.of.lock().get_mut(&reseller) {
            count.note(until, 1);
        }
        let mut next_end = self.nonces.next_end.lock();
        *next_end = next_end.map(|next| next.min(time(until)));
        Ok(Reserved::Fresh)
    }

    /// If the reseller has reserved as many nonces as it may, the time at which the next nonce of any reseller
    /// expires. Otherwise `None`.
    async fn is_full(
        &self,
        reseller: ResellerId,
        at_most: usize,
        now: Time,
    ) -> Result<Option<Time>, Fault> {
        let (reseller, now) = (number(reseller.0), millis(now));
        let known = self
            .nonces
            .of
            .lock()
            .get_mut(&reseller)
            .map(|count| (count.taken(now), count.counted));
        let taken = match known {
            Some((taken, _)) if taken < at_most => return Ok(None),
            Some((taken, counted)) if counted == now / SECOND => taken,
            // The count is by whole seconds, so it may be too high.
            _ => self.count_nonces(reseller, now).await?,
        };
        if taken < at_most {
            return Ok(None);
        }
        let sql = "SELECT min(until) FROM nonce WHERE until > $1";
        let next = self.requests.read_one(sql, &[&now]).await?;
        let next = next
            .and_then(|row| row.get::<_, Option<i64>>(0))
            .unwrap_or(now);
        Ok(Some(time(next)))
    }

    async fn count_nonces(&self, reseller: i64, now: i64) -> Result<usize, Fault> {
        let sql =
            "SELECT until, count(*) FROM nonce WHERE reseller = $1 AND until > $2 GROUP BY until";
        let rows = self.requests.read(sql, &[&reseller, &now]).await?;
        let mut count = Count {
            counted: now / SECOND,
            ..Count::default()
        };
        for row in rows {
            count.note(
                row.get(0),
                usize::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
            );
        }
        let taken = count.taken;
        self.nonces.of.lock().insert(reseller, count);
        Ok(taken)
    }

    /// Deletes a batch of nonces that are past retention, once the oldest has been due for `grace`. Returns
    /// when the next deletion is due.
    pub(crate) async fn sweep_nonces(
        &self,
        now: Time,
        grace: Duration,
    ) -> Result<Option<Time>, Fault> {
        let known = self.nonces.next_end.lock().map(|next| next.after(KEPT));
        if known.is_some_and(|next| now < next.after(grace)) {
            return Ok(known);
        }
        let Ok(_alone) = self.nonces.sweeping.try_lock() else {
            return Ok(known);
        };
        let sql = "WITH gone AS (DELETE FROM nonce WHERE (reseller, mark) IN
                (SELECT reseller, mark FROM nonce WHERE until <= $1 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED)
                RETURNING until)
            UPDATE nonce_end SET freed = greatest(freed, (SELECT max(until) FROM gone))";
        // Set first, so that if the deletion fails, for example because of a long transaction, not every
        // request tries it again.
        *self.nonces.next_end.lock() = Some(now);
        self.workers
            .repeat(sql, &[&millis(now.before(KEPT)), &SWEPT])
            .await?;
        let row = self
            .workers
            .read_one("SELECT min(until) FROM nonce", &[])
            .await?;
        let next = row.and_then(|row| row.get::<_, Option<i64>>(0)).map(time);
        *self.nonces.next_end.lock() = next;
        Ok(next.map(|next| next.after(KEPT)))
    }
}

/// Deletes a batch of nonces that are past retention; returns when the next deletion is due.
pub(crate) async fn sweep(store: &PostgresStore, now: Time) -> Result<Option<Time>, Fault> {
    store.sweep_nonces(now, Duration::ZERO).await
}
