//! Checks of the rows of trials.

use kassette_engine::IVec;

use crate::Fault;
use crate::rows::trials::TrialRow;
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::Kind;

/// The kinds of rows of trials.
pub(crate) const KINDS: &[Kind] = &[Kind::new(90, "trial", schema::TRIALS, trial)];

/// Counts of a slot.
fn trial(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    records::decode::<TrialRow>(&verifier.secrets.sealer, key, row)?;
    if schema::slot_of_trial(key).is_none() {
        verifier.find(key, "it is of no slot");
    }
    Ok(())
}
