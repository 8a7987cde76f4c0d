//! Counts of versions on trial. The row of a removed slot stays, like the switch of an account: their number
//! is limited to slots that ever had a trial, and the next trial replaces the row.

pub(crate) mod checks;

use kassette_domain::candidate::Counts;
use kassette_engine::Operation;

use crate::rows::schema;
use crate::rows::source::{RowSource as _, Save as _};
use crate::rows::trials::{self, TrialRow};
use crate::sled::SledStore;
use crate::sled::memory::{Memory, Rows};
use crate::{Fault, StoreFuture, Trial, Trials};

/// Adds counts.
struct CountTrial {
    trial: Trial,
    counted: Vec<(u8, Counts)>,
}

impl Operation<Memory> for CountTrial {
    type Outcome = Vec<(u8, Counts)>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let key = schema::trial(&self.trial.slot);
        let Some(mut row) = TrialRow::new(&self.trial, rows.load(&key)?) else {
            return Ok(Vec::new());
        };
        row.add(&self.counted);
        rows.save(key, &row)?;
        Ok(row.sums())
    }
}

impl Trials for SledStore {
    fn count_trial(
        &self,
        trial: Trial,
        counted: Vec<(u8, Counts)>,
    ) -> StoreFuture<'_, Vec<(u8, Counts)>> {
        let counted = trials::counted(counted);
        if !counted.is_empty() {
            return self.operate(CountTrial { trial, counted });
        }
        self.read(move |view| {
            let kept = view.load(&schema::trial(&trial.slot))?;
            Ok(TrialRow::new(&trial, kept).map_or_else(Vec::new, |row| row.sums()))
        })
    }
}
