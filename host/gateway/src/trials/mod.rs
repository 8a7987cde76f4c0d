//! Versions on trial: which payments a candidate decides, their outcomes, and the automatic end of a trial.
//!
//! | module | contents |
//! |---|---|
//! | `sides` | calls the candidate for the payments on its side |
//! | `outcomes` | counts the outcomes on both sides, each payment one time |
//! | `judging` | ends a trial with bad results, and performs the steps of a ramp |
//! | `shadow` | repeats live decisions with a candidate that decides nothing |
//! | `changes` | puts a version on trial and ends the trial, on one node or on all |

mod changes;
mod judging;
mod outcomes;
mod shadow;
mod sides;

pub use self::changes::{CanaryError, TrialError};
pub use self::judging::{figures, rates};
pub use self::shadow::{QUEUED_MOST as SHADOWED, ShadowReport};

use std::collections::{BTreeMap, HashMap};

use kassette_domain::candidate::{Candidate, Counts};
use kassette_domain::id::Slot;
use kassette_store::Trial;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::outcomes::RefusedPayments;
use self::shadow::Shadows;

/// This node's state of its trials.
#[derive(Default)]
pub(crate) struct LocalTrials {
    /// Counts that are not yet in the store.
    pending: Mutex<HashMap<Slot, Pending>>,
    refused: Mutex<RefusedPayments>,
    /// Notified when a candidate fails, so that its trial is checked immediately.
    look: Notify,
    shadows: Shadows,
}

/// Counts of a trial, by the key of the cohort.
struct Pending {
    of: Trial,
    counted: BTreeMap<u8, Counts>,
}

fn trial(slot: &Slot, candidate: &Candidate) -> Trial {
    Trial {
        slot: slot.clone(),
        digest: candidate.digest,
        since: candidate.since,
    }
}
