//! What falls due, and who does it.

use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;
use uuid::Uuid;

use crate::Fault;
use crate::postgres::database::Failure;
use crate::postgres::{PostgresStore, millis, time};

/// Most payments that one claim takes.
const MAX_CLAIM: usize = 256;

impl PostgresStore {
    pub(super) async fn due_claimed(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> Result<Vec<PaymentId>, Fault> {
        // Materialized: a plan that joins it again would take more than the limit.
        let sql = "WITH c AS MATERIALIZED (SELECT payment, due_at FROM due WHERE due_at <= $1 ORDER BY due_at, payment
                LIMIT $3 FOR UPDATE SKIP LOCKED),
            taken AS (UPDATE due d SET due_at = greatest(d.due_at, $2), claimed_until = $2, claim = d.claim + 1
                FROM c WHERE d.payment = c.payment RETURNING d.payment)
            SELECT c.payment FROM c JOIN taken USING (payment) ORDER BY c.due_at, c.payment";
        let limit = i64::try_from(at_most.min(MAX_CLAIM)).unwrap_or_default();
        let rows = self
            .workers
            .write(sql, &[&millis(now), &millis(now.after(lease)), &limit])
            .await;
        let rows = rows.map_err(Failure::fault)?;
        Ok(rows
            .iter()
            .map(|row| PaymentId::from_bytes(row.get::<_, Uuid>(0).into_bytes()))
            .collect())
    }

    pub(super) async fn due_next(&self) -> Result<Option<Time>, Fault> {
        let row = self
            .workers
            .read_one("SELECT min(due_at) FROM due", &[])
            .await?;
        Ok(row.and_then(|row| row.get::<_, Option<i64>>(0)).map(time))
    }
}
