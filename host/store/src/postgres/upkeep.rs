//! `Upkeep` on PostgreSQL.

use crate::postgres::{PostgresStore, audit, number};
use crate::rows;
use crate::*;
use kassette_domain::audit::Chain;
use kassette_domain::time::Time;

/// Lines of the audit log that are read at once.
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
            let noted = row.as_ref().map(audit::end).transpose()?.flatten();
            // What is written meanwhile comes behind.
            let (end, mut last) = (noted.map_or(0, |(id, _)| number(id)), 0_i64);
            let mut chain = Chain::default();
            loop {
                let sql = "SELECT number, body FROM audit WHERE number > $1 AND number <= $2 ORDER BY number LIMIT $3";
                let rows = self.workers.read(sql, &[&last, &end, &LINES]).await?;
                for row in &rows {
                    last = row.get(0);
                    let at = last.unsigned_abs();
                    let line = rows::audit::decode(&rows::schema::audit(at), row.get(1)).ok();
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
