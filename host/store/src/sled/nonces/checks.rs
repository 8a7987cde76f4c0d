//! Checks of the rows of nonces.

use kassette_domain::time::Time;
use kassette_engine::IVec;

use crate::Fault;
use crate::rows::{records, schema};
use crate::sled::memory::taken_nonces::Taken;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Kind, plain};

/// The kinds of rows of nonces.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(70, "nonces", schema::NONCES, nonces),
    Kind::new(72, "nonces-freed", schema::NONCES_FREED, plain::<Time>),
];

/// Checks the nonces of a group. The last one expires at the time in the key.
fn nonces(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let taken: Vec<Taken> = records::decode(&verifier.secrets.sealer, key, row)?;
    let last = taken.iter().map(|taken| taken.until).max();
    if last.is_none() || last != schema::leading_time(key, schema::NONCES) {
        return Err(records::damaged(key, "it stands at another time"));
    }
    Ok(())
}
