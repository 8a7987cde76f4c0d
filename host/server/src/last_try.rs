//! Decline of the payer's last try at the provider's page, while the payer may try again there.

use kassette_domain::attempt::{Attempt, AttemptState};

/// The provider's code for the decline of an open attempt's last try. `None` without a decline, or if the code contains
/// `cancel`, because then the payer canceled.
pub(crate) fn declined(attempt: &Attempt) -> Option<&str> {
    let reason = attempt.particulars.reason.as_deref();
    let reason = reason.filter(|_| attempt.state() == AttemptState::Open);
    reason.filter(|reason| !reason.to_ascii_lowercase().contains("cancel"))
}
