//! What falls due: one row per payment, in order of time.

use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::PaymentId;
use kassette_domain::ledger::Change;
use kassette_domain::time::Time;

use super::applier::Operation;
use super::ledgers::{self, Loaded};
use super::rows::{Rows, Source, Span};
use super::{Secrets, keys, parking};
use crate::Fault;

/// Most payments that one claim takes: the applier does nothing else meanwhile.
const MAX_CLAIM: usize = 256;

/// Takes payments with something due.
pub(super) struct ClaimDue {
    pub(super) now: Time,
    pub(super) lease: Duration,
    pub(super) at_most: usize,
    pub(super) secrets: Arc<Secrets>,
}

impl Operation for ClaimDue {
    type Outcome = Vec<PaymentId>;

    fn apply(self, rows: &mut Rows<'_>) -> Result<Self::Outcome, Fault> {
        let sealer = &self.secrets.sealer;
        parking::sweep(rows, self.now)?;
        let limit = self.at_most.min(MAX_CLAIM);
        let mut claimed = Vec::new();
        for (key, _) in rows.scan(&Span::prefix(keys::DUE), limit)? {
            let due = keys::leading_time(&key, keys::DUE);
            if due.is_none_or(|due| self.now < due) {
                break;
            }
            let Some(id) = keys::trailing_id(&key).map(PaymentId::from_bytes) else {
                break;
            };
            let later = self.now.after(self.lease);
            if claimed.contains(&id) {
                continue;
            }
            let Loaded { ledger, mut books } = match ledgers::load_promised(rows, sealer, id) {
                Ok(loaded) => loaded,
                Err(Fault::Corrupt(_)) => {
                    // One damaged payment must not keep the others waiting for ever.
                    rows.remove(key);
                    rows.save(keys::due(later, id), &())?;
                    continue;
                }
                Err(fault) => return Err(fault),
            };
            if books.due != due {
                // Put off while the payment did not read back: from here on it has one row again.
                rows.remove(key);
                if let Some(old) = books.due.take() {
                    rows.remove(keys::due(old, id));
                }
            }
            let before = ledger.clone();
            let mut after = Loaded { ledger, books };
            after.ledger.payment.claimed_until = Some(later);
            ledgers::save(rows, sealer, &before, &after, &Change::default(), self.now)?;
            claimed.push(id);
        }
        Ok(claimed)
    }
}

/// When the next payment is due.
pub(super) fn next(source: &impl Source) -> Result<Option<Time>, Fault> {
    let first = source.scan(&Span::prefix(keys::DUE), 1)?;
    Ok(first
        .first()
        .and_then(|(key, _)| keys::leading_time(key, keys::DUE)))
}
