//! Operations on nonces: reserving one, and freeing expired ones.

pub(crate) mod checks;

use kassette_domain::time::Time;
use kassette_engine::{Operation, Span};

use crate::rows::source::{RowSource as _, Save as _};
use crate::rows::{records, schema};
use crate::sled::memory::taken_nonces::{Taken, mark};
use crate::sled::memory::{Memory, Rows};
use crate::sled::store::SledStore;
use crate::{Fault, Nonces, Reservation, Reserved, StoreFuture};

/// Number of rows that a reservation reads to free expired nonces: more than it can add.
const SWEEP: usize = 2;
/// The same for an operation that does nothing else. With 256 nonces per row this takes a millisecond of the
/// writing thread.
const SWEEP_IDLE: usize = 16;

/// Reserves a nonce.
struct Reserve {
    taken: Taken,
    at_most: usize,
    now: Time,
}

impl Operation<Memory> for Reserve {
    type Outcome = Reserved;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Reserved, Fault> {
        sweep_rows(rows, SWEEP, self.now)?;
        let all = &mut rows.state_mut().nonces;
        if all.is_unsure(self.now) {
            let why = "the clock went back to a time whose nonces are forgotten";
            return Err(Fault::Unavailable(why.into()));
        }
        Ok(all.take(self.taken, self.at_most, self.now))
    }
}

/// Frees expired nonces of a few rows. Returns the time at which more expire.
pub(crate) fn sweep(rows: &mut Rows<'_>, now: Time) -> Result<Option<Time>, Fault> {
    sweep_rows(rows, SWEEP_IDLE, now)?;
    Ok(rows.state().nonces.next_end)
}

fn sweep_rows(rows: &mut Rows<'_>, limit: usize, now: Time) -> Result<(), Fault> {
    let Some(first) = rows.state().nonces.first_end(now) else {
        return Ok(());
    };
    let mut next_end = None;
    // The rows before `first` are removed, but the scan would step over their places until the current epoch
    // of the log ends. The additional row shows when more expire.
    let span = Span::prefix(schema::NONCES).since(&schema::nonces_since(first));
    let found = rows.scan(&span, limit + 1)?;
    for (at, (key, row)) in found.into_iter().enumerate() {
        let end = schema::leading_time(&key, schema::NONCES).unwrap_or_default();
        if at == limit || now < end {
            next_end = Some(end);
            break;
        }
        let taken = records::decode(rows.sealer(), &key, &row)?;
        rows.remove(key);
        rows.state_mut().nonces.sweep(taken);
    }
    rows.state_mut().nonces.next_end = next_end;
    let freed = rows.state().nonces.freed;
    rows.save(schema::NONCES_FREED.to_vec(), &freed)
}

impl Nonces for SledStore {
    fn reserve_nonce(&self, reservation: Reservation, now: Time) -> StoreFuture<'_, Reserved> {
        let taken = Taken {
            reseller: reservation.reseller,
            mark: mark(reservation.reseller, &reservation.nonce),
            until: reservation.until,
        };
        self.operate(Reserve {
            taken,
            at_most: reservation.at_most,
            now,
        })
    }
}
