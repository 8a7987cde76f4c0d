//! Counts of versions on trial, from all nodes.

use kassette_domain::candidate::Counts;
use tokio_postgres::Row;

use crate::postgres::PostgresStore;
use crate::postgres::database::{Failure, TransactionWork, Tx, execute, row};
use crate::rows::seal::Sealer;
use crate::rows::trials::{self, TrialRow};
use crate::rows::{records, schema};
use crate::{Fault, StoreFuture, Trial, Trials};

const KEPT: &str = "/* trials: kept */ SELECT body FROM trial WHERE slot = $1";
const LOCK: &str = "/* trials: lock */ SELECT body FROM trial WHERE slot = $1 FOR UPDATE";
const BEGIN: &str =
    "/* trials: begin */ INSERT INTO trial (slot, body) VALUES ($1, $2) ON CONFLICT DO NOTHING";
const COUNT: &str = "/* trials: count */ UPDATE trial SET body = $2 WHERE slot = $1";

/// Adds counts to a trial.
struct CountTrial {
    trial: Trial,
    counted: Vec<(u8, Counts)>,
}

impl TransactionWork for CountTrial {
    type Outcome = Vec<(u8, Counts)>;
    const CHANGES_DIRECTORY: bool = false;

    async fn apply(&self, tx: &Tx<'_>) -> Result<Self::Outcome, Failure> {
        let slot = self.trial.slot.as_str();
        let locked = row(tx, LOCK, &[&slot]).await?;
        let Some(mut kept) = kept(tx.sealer(), &self.trial, locked.as_ref())? else {
            return Ok(Vec::new());
        };
        kept.add(&self.counted);
        let body = records::encode(tx.sealer(), &schema::trial(&self.trial.slot), &kept)?;
        let sql = if locked.is_some() { COUNT } else { BEGIN };
        match execute(tx, sql, &[&slot, &&body[..]]).await? {
            // Another node has inserted the row concurrently.
            0 => Err(Failure::Collided),
            _ => Ok(kept.sums()),
        }
    }
}

/// The row of a trial. `None` if the slot's row belongs to a later trial.
fn kept(sealer: &Sealer, trial: &Trial, row: Option<&Row>) -> Result<Option<TrialRow>, Fault> {
    let key = schema::trial(&trial.slot);
    let kept = row.map(|row| records::decode(sealer, &key, row.get(0)));
    Ok(TrialRow::new(trial, kept.transpose()?))
}

impl Trials for PostgresStore {
    fn count_trial(
        &self,
        trial: Trial,
        counted: Vec<(u8, Counts)>,
    ) -> StoreFuture<'_, Vec<(u8, Counts)>> {
        let counted = trials::counted(counted);
        if !counted.is_empty() {
            let count = CountTrial { trial, counted };
            return self.run_to_end(async move |store| store.workers.transact(&count).await);
        }
        Box::pin(async move {
            let found = self.workers.read_one(KEPT, &[&trial.slot.as_str()]).await?;
            let kept = kept(&self.secrets.sealer, &trial, found.as_ref())?;
            Ok(kept.map_or_else(Vec::new, |row| row.sums()))
        })
    }
}
