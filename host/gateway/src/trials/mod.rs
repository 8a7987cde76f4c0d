//! Versions on trial: which payments a candidate decides, what becomes of them, and when the trial ends by itself.
//!
//! | file | does |
//! |---|---|
//! | `sides` | asks the candidate about the payments that are on its side |
//! | `outcomes` | counts what became of both sides, each payment once |
//! | `judging` | ends a trial that goes badly, and goes on with a ramp |
//! | `shadow` | asks a candidate that decides nothing what live decisions asked the active version |
//! | `changes` | puts a version on trial and takes it away, on one node or on all |

mod changes;
mod judging;
mod outcomes;
mod shadow;
mod sides;

pub use self::changes::{CanaryError, TrialError};
pub use self::judging::rates;
pub use self::shadow::{QUEUED_MOST as SHADOWED, ShadowReport};

use std::collections::{BTreeMap, HashMap};

use kassette_domain::candidate::{Candidate, Counts};
use kassette_domain::id::Slot;
use kassette_store::Trial;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::outcomes::RefusedPayments;
use self::shadow::Shadows;

/// What this node knows of its trials.
#[derive(Default)]
pub(crate) struct LocalTrials {
    /// What was counted and is not in the store yet.
    pending: Mutex<HashMap<Slot, Pending>>,
    refused: Mutex<RefusedPayments>,
    /// A candidate has failed: its trial is looked at at once.
    look: Notify,
    shadows: Shadows,
}

/// What was counted of a trial, by the keys of cohorts.
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
