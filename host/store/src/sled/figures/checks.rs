//! Checks of the rows of figures.

use kassette_domain::figures::Figures;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::Kind;

/// The kinds of rows of figures.
pub(crate) const KINDS: &[Kind] = &[Kind::new(104, "figures", schema::FIGURES, figures)];

/// Figures of a period.
fn figures(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    records::decode::<Figures>(&verifier.secrets.sealer, key, row)?;
    if schema::period_of_figures(key).is_none() {
        verifier.find(key, "it is of no period");
    }
    Ok(())
}
