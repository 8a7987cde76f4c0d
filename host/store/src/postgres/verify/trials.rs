//! Checks of the counts of versions on trial.

use kassette_domain::id::Slot;
use tokio_postgres::Row;

use crate::postgres::errors::OpenError;
use crate::postgres::verify::reading::{CheckedRow, Reading};
use crate::rows::seal::Secrets;
use crate::rows::trials::TrialRow;
use crate::rows::{records, schema};

const TRIALS: &str = "/* verify: trials */ SELECT slot, body FROM trial";

pub(super) async fn read(reading: &mut Reading<'_>) -> Result<(), OpenError> {
    reading.each("trial", TRIALS, trial).await
}

fn trial(row: &Row, secrets: &Secrets) -> CheckedRow {
    let slot: &str = row.get(0);
    let key = [schema::TRIALS, slot.as_bytes()].concat();
    let looked = records::decode::<TrialRow>(&secrets.sealer, &key, row.get(1));
    let is_slot = (Slot::parse(slot).is_some(), "it is of no slot");
    (key, looked.map(|_| vec![is_slot]))
}
