//! `Upkeep` on PostgreSQL.

use crate::postgres::{PostgresStore, audit, number};
use crate::rows;
use crate::*;
use kassette_domain::audit::Chain;
use kassette_domain::time::Time;

/// Number of audit entries that one query reads.
const LINES: i64 = 500;

impl Upkeep for PostgresStore {
    fn backup(&self, _now: Time) -> StoreFuture<'_, Result<Pieces, NoBackup>> {
        Box::pin(async { Ok(Err(NoBackup::Database)) })
    }

    fn forget(&self, retention: Retention, now: Time) -> StoreFuture<'_, Forgotten> {
        self.run_to_end(async move |store| store.forget_some(retention, now).await)
    }
    fn verify_audit(&self) -> StoreFuture<'_, Chain> {
        Box::pin(async {
            let row = self.workers.read_one(audit::END, &[]).await?;
            let noted = row
                .as_ref()
                .map(|row| audit::end(&self.secrets.sealer, row));
            let noted = noted.transpose()?.flatten();
            // Entries appended in the meantime come after this end.
            let (end, mut last) = (noted.map_or(0, |(id, _)| number(id)), 0_i64);
            let mut chain = Chain::default();
            loop {
                let sql = "SELECT number, body FROM audit WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3";
                let rows = self.workers.read(sql, &[&last, &end, &LINES]).await?;
                for row in &rows {
                    last = row.get(0);
                    let at = last.unsigned_abs();
                    let line = rows::audit::decode(
                        &self.secrets.sealer,
                        &rows::schema::audit(at),
                        row.get(1),
                    )
                    .ok();
                    chain.follow(at, line.as_ref());
                }
                if rows.is_empty() {
                    chain.end(noted);
                    return Ok(chain);
                }
            }
        })
    }
}
