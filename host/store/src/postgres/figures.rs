//! Figures of payments by period, from all nodes.

use kassette_domain::figures::Figures;
use kassette_domain::key::Environment;
use kassette_domain::time::Time;

use crate::figures::MOST_EXPIRED;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::postgres::directory::keys;
use crate::postgres::{PostgresStore, millis, time};
use crate::rows::{records, schema};
use crate::{PeriodFigures, StoreFuture, StoredFigures};

const LOCK: &str =
    "/* figures: lock */ SELECT body FROM figures WHERE environment = $1 AND begin = $2 FOR UPDATE";
const BEGIN: &str = "/* figures: begin */ INSERT INTO figures (environment, begin, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING";
const ADD: &str =
    "/* figures: add */ UPDATE figures SET body = $3 WHERE environment = $1 AND begin = $2";
const EXPIRE: &str = "/* figures: expire */ DELETE FROM figures WHERE (environment, begin) IN (
    SELECT environment, begin FROM figures WHERE begin < $1 ORDER BY begin LIMIT $2
    FOR UPDATE SKIP LOCKED)";
const LIST: &str = "/* figures: list */ SELECT begin, body FROM figures
    WHERE environment = $1 AND begin >= $2 AND begin < $3 ORDER BY begin";

/// Adds figures to a period.
struct AddFigures(PeriodFigures);

impl TransactionWork for AddFigures {
    type Outcome = ();
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<(), Failure> {
        let PeriodFigures {
            environment,
            begin,
            figures: added,
        } = &self.0;
        let (of, at) = (keys::environment(*environment), millis(*begin));
        let key = schema::figures(*environment, *begin);
        let locked = row(tx, LOCK, &[&of, &at]).await?;
        let mut figures: Figures = match &locked {
            Some(row) => records::decode(tx.sealer(), &key, row.get(0))?,
            None => Figures::default(),
        };
        figures.add(added);
        let body = records::encode(tx.sealer(), &key, &figures)?;
        let sql = if locked.is_some() { ADD } else { BEGIN };
        match execute(tx, sql, &[&of, &at, &&body[..]]).await? {
            // Another node has inserted the row concurrently.
            0 => Err(Failure::Collided),
            _ => Ok(()),
        }
    }
}

impl StoredFigures for PostgresStore {
    fn add_figures(&self, added: Vec<PeriodFigures>, expired: Time) -> StoreFuture<'_, ()> {
        self.run_to_end(async move |store| {
            for each in added {
                store.workers.transact(&AddFigures(each)).await?;
            }
            let most = i64::try_from(MOST_EXPIRED).unwrap_or(i64::MAX);
            let removed = store
                .workers
                .write(EXPIRE, &[&millis(expired), &most])
                .await;
            removed.map(drop).map_err(Failure::fault)
        })
    }

    fn figures(
        &self,
        environment: Environment,
        since: Time,
        until: Time,
    ) -> StoreFuture<'_, Vec<(Time, Figures)>> {
        Box::pin(async move {
            let (of, since, until) = (keys::environment(environment), millis(since), millis(until));
            let rows = self.workers.read(LIST, &[&of, &since, &until]).await?;
            let decoded = rows.iter().map(|row| {
                let begin = time(row.get(0));
                let key = schema::figures(environment, begin);
                Ok((
                    begin,
                    records::decode(&self.secrets.sealer, &key, row.get(1))?,
                ))
            });
            decoded.collect()
        })
    }
}
