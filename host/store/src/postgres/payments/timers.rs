//! Timers of payments: due payments and their claims.

use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::time::Time;

use crate::postgres::columns::payment_id;
use crate::postgres::database::count_lapsed;
use crate::postgres::{PostgresStore, millis, time};
use crate::{Fault, MAX_DUE};

impl PostgresStore {
    pub(super) async fn claim_timers(
        &self,
        now: Time,
        lease: Duration,
        at_most: usize,
    ) -> Result<Vec<PaymentId>, Fault> {
        // Materialized: a plan that evaluates it again would claim more than the limit.
        let sql = "WITH c AS MATERIALIZED (SELECT payment, due_at, claimed_until FROM due WHERE due_at <= $1 ORDER BY due_at, payment
                LIMIT $3 FOR UPDATE SKIP LOCKED),
            taken AS (UPDATE due d SET due_at = greatest(d.due_at, $2), claimed_until = $2, claim = d.claim + 1
                FROM c WHERE d.payment = c.payment RETURNING d.payment)
            SELECT c.payment, c.claimed_until IS NOT NULL FROM c JOIN taken USING (payment) ORDER BY c.due_at, c.payment";
        let limit = i64::try_from(at_most.min(MAX_DUE)).unwrap_or_default();
        // If the answer is lost, the claimed payments wait until the lease ends.
        let rows = self
            .workers
            .repeat(sql, &[&millis(now), &millis(now.after(lease)), &limit])
            .await?;
        let lapsed = rows.iter().filter(|row| row.get::<_, bool>(1)).count();
        count_lapsed("payment", lapsed);
        Ok(rows.iter().map(|row| payment_id(row, 0)).collect())
    }

    pub(super) async fn next_timer(&self) -> Result<Option<Time>, Fault> {
        let row = self
            .workers
            .read_one("SELECT min(due_at) FROM due", &[])
            .await?;
        Ok(row.and_then(|row| row.get::<_, Option<i64>>(0)).map(time))
    }
}
