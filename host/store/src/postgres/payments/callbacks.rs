//! Pending callbacks: their reference belongs to no attempt yet, because they arrived before the answer to the
//! start. The reference's row counts them, so that the step which makes the reference known can check that it
//! has seen all.

use kassette_domain::id::AccountId;
use kassette_domain::pending_callback::{Admission, PendingCallback};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;

use crate::postgres::database::{Database, Failure, Tries};
use crate::postgres::payments::stored;
use crate::postgres::statement::{StatementBuilder, values};
use crate::postgres::{PostgresStore, millis};
use crate::rows::seal::Sealer;
use crate::rows::{records, schema};
use crate::{About, Fault, KeptCallback};

/// Maximum number of callbacks that one sweep removes.
const SWEPT: i64 = 1000;

/// Number of callbacks ever stored for a reference, and those that have not expired, oldest first.
pub(super) async fn kept(
    database: &Database,
    account: &AccountId,
    reference: &str,
    now: Time,
) -> Result<(i32, Vec<PendingCallback>), Fault> {
    let sql = "SELECT r.parked, k.ordinal, k.body FROM reference r LEFT JOIN parked k USING (account, reference)
        WHERE r.account = $1 AND r.reference = $2 ORDER BY k.ordinal";
    let rows = database
        .read(sql, &[&account.as_str(), &reference.as_bytes()])
        .await?;
    let parked = rows.first().map_or(0, |row| row.get(0));
    let mut waiting = Vec::new();
    for row in rows {
        let Some(ordinal) = row.get::<_, Option<i32>>(1) else {
            continue;
        };
        let notice = read(database.sealer(), account, reference, ordinal, row.get(2))?;
        if notice.is_alive(now) {
            waiting.push(notice);
        }
    }
    Ok((parked, waiting))
}

fn read(
    sealer: &Sealer,
    account: &AccountId,
    reference: &str,
    ordinal: i32,
    body: &[u8],
) -> Result<PendingCallback, Fault> {
    let key = schema::pending_callback(account, reference, ordinal.unsigned_abs());
    records::decode(sealer, &key, body)
}

/// Deletes a batch of expired callbacks; returns whether there may be more.
pub(crate) async fn sweep(database: &Database, now: Time) -> Result<bool, Fault> {
    // References that belong to an attempt by now, or to another pending callback, remain.
    let sql = "WITH gone AS (DELETE FROM parked WHERE (account, reference, ordinal) IN
            (SELECT account, reference, ordinal FROM parked WHERE until <= $1 ORDER BY until LIMIT $2
                FOR UPDATE SKIP LOCKED) RETURNING 1),
        free AS (DELETE FROM reference WHERE payment IS NULL AND (account, reference) IN
            (SELECT account, reference FROM reference WHERE payment IS NULL AND until <= $1 ORDER BY until LIMIT $2
                FOR UPDATE SKIP LOCKED) RETURNING 1)
        SELECT greatest((SELECT count(*) FROM gone), (SELECT count(*) FROM free))";
    let rows = database.repeat(sql, &[&millis(now), &SWEPT]).await?;
    Ok(rows
        .first()
        .is_some_and(|row| row.get::<_, i64>(0) >= SWEPT))
}

impl PostgresStore {
    pub(super) async fn callback_kept(
        &self,
        account: AccountId,
        reference: String,
        report: Option<Report>,
        now: Time,
    ) -> Result<KeptCallback, Fault> {
        let mut tries = Tries::new();
        loop {
            match self.try_to_keep(&account, &reference, &report, now).await {
                // If the callback was stored but its answer was lost, the next try finds it.
                Err(failure @ (Failure::Stale | Failure::Duplicate(_) | Failure::Lost)) => {
                    tries.again(&failure).await?;
                }
                Ok(KeptCallback::Kept) if tries.lost => {
                    self.requests.confirm().await.map_err(Failure::fault)?;
                    return Ok(KeptCallback::Kept);
                }
                kept => return kept.map_err(Failure::fault),
            }
        }
    }

    async fn try_to_keep(
        &self,
        account: &AccountId,
        reference: &str,
        report: &Option<Report>,
        now: Time,
    ) -> Result<KeptCallback, Failure> {
        let sql = "SELECT r.payment, r.parked, k.ordinal, k.body,
                (SELECT count(*) FROM (SELECT FROM parked WHERE account = $1 LIMIT $3) of_account)
            FROM (SELECT) one LEFT JOIN reference r ON r.account = $1 AND r.reference = $2
            LEFT JOIN parked k ON k.account = $1 AND k.reference = $2 ORDER BY k.ordinal";
        let (about, most) = (
            &account.as_str(),
            i64::from(PendingCallback::MAX_PER_ACCOUNT),
        );
        let rows = self
            .requests
            .read(sql, &[about, &reference.as_bytes(), &most])
            .await?;
        let first = rows.first().ok_or(Failure::Stale)?;
        if first.get::<_, Option<uuid::Uuid>>(0).is_some() {
            // The row only leads to the payment; the attempt itself confirms the reference.
            let about = About::Reference {
                account: account.clone(),
                reference: reference.to_owned(),
            };
            let loaded = stored::load(&self.requests, &self.secrets.sealer, &about).await?;
            let loaded = loaded.ok_or(Failure::Stale)?;
            let named = loaded.aggregate.attempts.iter().find(|attempt| {
                attempt.account == *account
                    && attempt.references.iter().any(|each| each == reference)
            });
            return named
                .map(|attempt| KeptCallback::Known(attempt.id))
                .ok_or(Failure::Stale);
        }
        let (parked, of_account): (Option<i32>, i64) = (first.get(1), first.get(4));
        let mut waiting = Vec::new();
        for row in &rows {
            let Some(ordinal) = row.get::<_, Option<i32>>(2) else {
                continue;
            };
            let sealer = &self.secrets.sealer;
            waiting.push(read(sealer, account, reference, ordinal, row.get(3))?);
        }
        let of_account = u32::try_from(of_account).unwrap_or(u32::MAX);
        let notice = match PendingCallback::admit(report.clone(), &waiting, of_account, now) {
            Admission::New(notice) => notice,
            Admission::Kept => return Ok(KeptCallback::Kept),
            Admission::Full => {
                // Expired callbacks make room for new ones.
                sweep(&self.workers, now).await?;
                return Ok(KeptCallback::Full);
            }
        };
        let (parked, until) = (parked.unwrap_or(0), notice.until);
        let key = schema::pending_callback(account, reference, parked.unsigned_abs());
        let body = records::encode(&self.secrets.sealer, &key, &notice)?.to_vec();
        let mut statement = StatementBuilder::default();
        statement.add(
            "counted",
            "INSERT INTO reference AS known (account, reference, parked, until) VALUES ($1, $2, $3 + 1, $4)
                ON CONFLICT (account, reference) DO UPDATE SET parked = known.parked + 1,
                    until = greatest(known.until, excluded.until)
                WHERE known.payment IS NULL AND known.parked = $3 RETURNING 1",
            values![
                account.as_str().to_owned(),
                reference.as_bytes().to_vec(),
                parked,
                millis(until),
            ],
        );
        statement.assert("counted", 1);
        statement.add(
            "kept",
            // A callback of this ordinal may remain from before the reference was pruned.
            "INSERT INTO parked (account, reference, ordinal, until, body) VALUES ($1, $2, $3, $4, $5)
                ON CONFLICT (account, reference, ordinal) DO UPDATE SET until = excluded.until, body = excluded.body",
            values![
                account.as_str().to_owned(),
                reference.as_bytes().to_vec(),
                parked,
                millis(until),
                body,
            ],
        );
        statement.write(&self.requests).await?;
        Ok(KeptCallback::Kept)
    }
}
