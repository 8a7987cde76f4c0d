//! The faults of an account's simulator.
use std::{fmt, str::FromStr};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// A fault. The names are those of `dev/faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The API's port is closed.
    RefuseConnection,
    /// The call is read without effect and without an answer.
    TimeoutBeforeEffect,
    /// The call takes effect, without an answer.
    TimeoutAfterEffect,
    /// 429 with `Retry-After`, without effect.
    #[serde(rename = "status-429")]
    Status429,
    /// 500, without effect (which the caller cannot know).
    #[serde(rename = "status-500")]
    Status500,
    /// The call takes effect; the answer is not JSON.
    Malformed,
    /// The call takes effect; the answer ends in the middle.
    Truncated,
    /// A callback is delivered two times.
    CallbackTwice,
    /// A callback is delivered ten seconds of the injected clock later.
    CallbackLate,
    /// A callback is followed by an older one.
    CallbackReordered,
    /// A callback is never delivered.
    CallbackNever,
    /// The callback is replaced by one that claims a capture, with a wrong signature.
    CallbackForged,
    /// The payment is captured with another amount than requested.
    WrongAmount,
    /// The payment is captured in another currency than requested.
    WrongCurrency,
    /// A new payment is refused until the payer's e-mail address and name are known.
    Ask,
    /// An approval only authorizes: the merchant has to capture.
    NeedsCapture,
    /// The provider refuses the merchant's capture; the effect on the authorization depends on the provider.
    CaptureRefused,
    /// 1.00 less is captured than requested.
    CaptureShort,
    /// 1.00 more is captured than requested.
    CaptureOver,
    /// The capture is accepted, and confirmed when the injected clock is moved next.
    CaptureLate,
    /// The capture is confirmed, and reversed a moment later.
    CaptureFails,
    /// The provider voids an authorization a moment after the approval.
    VoidsApproval,
    /// The next payment that is queried is unknown from then on.
    Forgets,
    /// The payer's approval is accepted although the payment was cancelled, permanently declined or has expired.
    LateMoney,
    /// The provider refuses the merchant's refund.
    RefundRefused,
    /// The merchant's refund is accepted, and fails a moment later.
    RefundFails,
    /// The merchant's refund is accepted, and ends when the injected clock is moved next.
    RefundLate,
    /// Answers and callbacks carry fields and entries of lists that no document names, and callbacks come about
    /// unknown events too, until the faults are cleared.
    OddAnswers,
    /// Every call is answered with 503, until the faults are cleared.
    Down,
}

impl Fault {
    /// Maximum number of calls that one order can affect; more is a mistake in a script.
    pub const MOST_TIMES: u32 = 1_000_000;

    pub const ALL: [Self; 29] = [
        Self::RefuseConnection,
        Self::TimeoutBeforeEffect,
        Self::TimeoutAfterEffect,
        Self::Status429,
        Self::Status500,
        Self::Malformed,
        Self::Truncated,
        Self::CallbackTwice,
        Self::CallbackLate,
        Self::CallbackReordered,
        Self::CallbackNever,
        Self::CallbackForged,
        Self::WrongAmount,
        Self::WrongCurrency,
        Self::Ask,
        Self::NeedsCapture,
        Self::CaptureRefused,
        Self::CaptureShort,
        Self::CaptureOver,
        Self::CaptureLate,
        Self::CaptureFails,
        Self::VoidsApproval,
        Self::Forgets,
        Self::LateMoney,
        Self::RefundRefused,
        Self::RefundFails,
        Self::RefundLate,
        Self::OddAnswers,
        Self::Down,
    ];

    /// The name in `dev/faults`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RefuseConnection => "refuse-connection",
            Self::TimeoutBeforeEffect => "timeout-before-effect",
            Self::TimeoutAfterEffect => "timeout-after-effect",
            Self::Status429 => "status-429",
            Self::Status500 => "status-500",
            Self::Malformed => "malformed",
            Self::Truncated => "truncated",
            Self::CallbackTwice => "callback-twice",
            Self::CallbackLate => "callback-late",
            Self::CallbackReordered => "callback-reordered",
            Self::CallbackNever => "callback-never",
            Self::CallbackForged => "callback-forged",
            Self::WrongAmount => "wrong-amount",
            Self::WrongCurrency => "wrong-currency",
            Self::Ask => "ask",
            Self::NeedsCapture => "needs-capture",
            Self::CaptureRefused => "capture-refused",
            Self::CaptureShort => "capture-short",
            Self::CaptureOver => "capture-over",
            Self::CaptureLate => "capture-late",
            Self::CaptureFails => "capture-fails",
            Self::VoidsApproval => "voids-approval",
            Self::Forgets => "forgets",
            Self::LateMoney => "late-money",
            Self::RefundRefused => "refund-refused",
            Self::RefundFails => "refund-fails",
            Self::RefundLate => "refund-late",
            Self::OddAnswers => "odd-answers",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An unknown fault name.
#[derive(Debug, thiserror::Error)]
#[error("no fault of that name")]
pub struct UnknownFault;

impl FromStr for Fault {
    type Err = UnknownFault;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|fault| fault.as_str() == name)
            .ok_or(UnknownFault)
    }
}

/// The ordered faults of an account. Different faults can be ordered together; ordering a fault again replaces its
/// count.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<Armed>>);

struct Armed {
    fault: Fault,
    left: u32,
}

impl Faults {
    /// Affects the next `times` calls.
    pub(crate) fn arm(&self, fault: Fault, times: u32) {
        let mut armed = self.0.lock();
        armed.retain(|a| a.fault != fault);
        armed.push(Armed { fault, left: times });
    }

    /// Removes all faults.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Whether this fault is ordered, without using it up.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.0.lock().iter().any(|a| a.fault == fault)
    }

    /// Uses up one call of this fault. False if it is not ordered.
    pub(crate) fn take(&self, fault: Fault) -> bool {
        self.take_first(&[fault]).is_some()
    }

    /// Uses up one call of the fault among these that was ordered first. `down` is never used up.
    pub(crate) fn take_first(&self, among: &[Fault]) -> Option<Fault> {
        let mut armed = self.0.lock();
        let at = armed.iter().position(|a| among.contains(&a.fault))?;
        let found = armed.get_mut(at)?;
        let fault = found.fault;
        if fault != Fault::Down {
            found.left = found.left.saturating_sub(1);
            if found.left == 0 {
                armed.remove(at);
            }
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_equals_its_json() {
        for fault in Fault::ALL {
            assert_eq!(fault.as_str().parse::<Fault>().unwrap(), fault);
            assert_eq!(serde_json::to_value(fault).unwrap(), fault.as_str());
        }
        assert!("none".parse::<Fault>().is_err());
    }

    /// Scripts depend on these names.
    #[test]
    fn the_names_of_the_contract_are_all_there() {
        for name in [
            "refuse-connection",
            "timeout-before-effect",
            "timeout-after-effect",
            "status-429",
            "status-500",
            "malformed",
            "truncated",
            "callback-twice",
            "callback-late",
            "callback-reordered",
            "callback-never",
            "callback-forged",
            "wrong-amount",
            "wrong-currency",
            "ask",
            "needs-capture",
            "capture-refused",
            "capture-short",
            "capture-late",
            "voids-approval",
            "forgets",
            "refund-refused",
            "refund-fails",
            "refund-late",
            "odd-answers",
            "down",
        ] {
            assert!(name.parse::<Fault>().is_ok(), "{name}");
        }
    }

    #[test]
    fn a_fault_lasts_for_as_many_calls_as_ordered() {
        let faults = Faults::default();
        faults.arm(Fault::Malformed, 2);
        assert!(faults.take(Fault::Malformed));
        assert!(faults.take(Fault::Malformed));
        assert!(!faults.take(Fault::Malformed));
    }

    #[test]
    fn down_lasts_until_cleared() {
        let faults = Faults::default();
        faults.arm(Fault::Down, 1);
        assert!(faults.take(Fault::Down) && faults.take(Fault::Down));
        faults.clear();
        assert!(!faults.take(Fault::Down));
    }

    #[test]
    fn different_faults_stand_beside_one_another_in_the_order_of_arming() {
        let faults = Faults::default();
        faults.arm(Fault::NeedsCapture, 1);
        faults.arm(Fault::Status500, 1);
        faults.arm(Fault::Malformed, 1);
        assert_eq!(
            faults.take_first(&[Fault::Malformed, Fault::Status500]),
            Some(Fault::Status500)
        );
        assert!(faults.has(Fault::NeedsCapture) && faults.has(Fault::Malformed));
    }
}
