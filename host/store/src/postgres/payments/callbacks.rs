//! Notices about references that no attempt has yet: a callback that is faster than the start's answer. The row of
//! the reference counts them, so that a step which makes it known knows whether it has seen all.

use kassette_domain::id::{AccountId, AttemptId};
use kassette_domain::provider::Report;
use kassette_domain::time::Time;

use crate::postgres::database::{Database, Failure, Tries};
use crate::postgres::statement::{StatementBuilder, values};
use crate::postgres::{PostgresStore, millis};
use crate::rows::stored::PendingCallback;
use crate::rows::{records, schema};
use crate::{
    CALLBACK_KEPT_FOR, Fault, KeptCallback, MAX_CALLBACKS_PER_ACCOUNT, MAX_CALLBACKS_PER_REFERENCE,
};

/// Most that one sweep removes.
const SWEPT: i64 = 1000;

/// How many notices were ever kept for a reference, and those whose time has not passed, oldest first.
pub(super) async fn kept(
    database: &Database,
    account: &AccountId,
    reference: &str,
    now: Time,
) -> Result<(i32, Vec<Option<Report>>), Fault> {
    let sql = "SELECT r.parked, k.ordinal, k.body FROM reference r LEFT JOIN parked k USING (account, reference)
        WHERE r.account = $1 AND r.reference = $2 ORDER BY k.ordinal";
    let rows = database
        .read(sql, &[&account.as_str(), &reference.as_bytes()])
        .await?;
    let parked = rows.first().map_or(0, |row| row.get(0));
    let mut reports = Vec::new();
    for row in rows {
        let Some(ordinal) = row.get::<_, Option<i32>>(1) else {
            continue;
        };
        let notice = read(account, reference, ordinal, row.get(2))?;
        if now < notice.until {
            reports.push(notice.report);
        }
    }
    Ok((parked, reports))
}

fn read(
    account: &AccountId,
    reference: &str,
    ordinal: i32,
    body: &[u8],
) -> Result<PendingCallback, Fault> {
    let key = schema::pending_callback(account, reference, ordinal.unsigned_abs());
    records::decode(&key, body)
}

/// Cleans away notices whose time has passed, some of them; says whether there may be more.
pub(crate) async fn sweep(database: &Database, now: Time) -> Result<bool, Fault> {
    // A reference that an attempt has by now, or that another notice was kept for, stays.
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
                // Where the answer was lost and it was kept, it is found.
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
        let sql = "SELECT a.id, r.parked, k.ordinal, k.body,
                (SELECT count(*) FROM (SELECT FROM parked WHERE account = $1 LIMIT $3) of_account)
            FROM (SELECT) one LEFT JOIN reference r ON r.account = $1 AND r.reference = $2
            LEFT JOIN attempt a ON a.payment = r.payment AND a.ordinal = r.ordinal
            LEFT JOIN parked k ON k.account = $1 AND k.reference = $2 ORDER BY k.ordinal";
        let (about, most) = (&account.as_str(), i64::from(MAX_CALLBACKS_PER_ACCOUNT));
        let rows = self
            .requests
            .read(sql, &[about, &reference.as_bytes(), &most])
            .await?;
        let first = rows.first().ok_or(Failure::Stale)?;
        if let Some(known) = first.get::<_, Option<uuid::Uuid>>(0) {
            return Ok(KeptCallback::Known(AttemptId::from_bytes(
                known.into_bytes(),
            )));
        }
        let (parked, of_account): (Option<i32>, i64) = (first.get(1), first.get(4));
        let mut alive = 0;
        for row in &rows {
            let Some(ordinal) = row.get::<_, Option<i32>>(2) else {
                continue;
            };
            let notice = read(account, reference, ordinal, row.get(3))?;
            if now < notice.until {
                if notice.report == *report {
                    return Ok(KeptCallback::Kept);
                }
                alive += 1;
            }
        }
        if alive >= MAX_CALLBACKS_PER_REFERENCE || of_account >= most {
            // Those whose time has passed make room.
            sweep(&self.workers, now).await?;
            return Ok(KeptCallback::Full);
        }
        let (parked, until) = (parked.unwrap_or(0), now.after(CALLBACK_KEPT_FOR));
        let key = schema::pending_callback(account, reference, parked.unsigned_abs());
        let notice = PendingCallback {
            report: report.clone(),
            until,
        };
        let body = records::encode(&key, &notice)?.to_vec();
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
            // One of this number is left from before the reference was forgotten.
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
