//! Checks of movements.

use kassette_engine::IVec;

use crate::rows::movements::decode;
use crate::rows::schema;
use crate::sled::verifier::Verifier;
use crate::sled::verifier::kinds::{Derived, Kind, empty, plain};
use crate::{Fault, LedgerState};

/// The kinds of rows of the ledger.
pub(crate) const KINDS: &[Kind] = &[
    Kind::new(91, "movement", schema::MOVEMENTS, movement),
    Kind::new(92, "movement-by-time", schema::MOVEMENTS_BY_TIME, empty).following(Derived::Key),
    Kind::new(93, "ledger", schema::LEDGER, plain::<LedgerState>),
];

fn movement(verifier: &mut Verifier<'_>, key: &[u8], row: &IVec) -> Result<(), Fault> {
    let movement = decode(&verifier.secrets.sealer, key, row)?;
    verifier.promise(schema::movement_by_time(movement.booked_at, key), &[])?;
    if let Some(payment) = movement.payment {
        let missing = "the payment whose money it moved is missing";
        verifier.needs(key, &schema::payment(payment), missing)?;
    }
    Ok(())
}
