//! How an account's simulator can be made to misbehave.
use std::{fmt, str::FromStr};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// One way to misbehave. The names are those of `dev/faults`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The API's port is closed.
    RefuseConnection,
    /// The call is read, nothing is done, no answer comes.
    TimeoutBeforeEffect,
    /// The call does its work, no answer comes.
    TimeoutAfterEffect,
    /// 429 with `Retry-After`, nothing is done.
    #[serde(rename = "status-429")]
    Status429,
    /// 500, nothing is done (which the caller cannot know).
    #[serde(rename = "status-500")]
    Status500,
    /// The call does its work, the answer is no JSON.
    Malformed,
    /// The call does its work, the answer breaks off in the middle.
    Truncated,
    /// A callback is delivered twice.
    CallbackTwice,
    /// A callback is delivered ten seconds of the injected clock later.
    CallbackLate,
    /// A callback is followed by an older one.
    CallbackReordered,
    /// A callback is never delivered.
    CallbackNever,
    /// Instead of the callback comes a claim that the payment was captured, with a wrong signature.
    CallbackForged,
    /// The payment is captured with another amount than the one asked for.
    WrongAmount,
    /// The payment is captured in another currency than the one asked for.
    WrongCurrency,
    /// A new payment is refused until the payer's e-mail address and name are known.
    Ask,
    /// Approving only authorises: the merchant has to capture.
    NeedsCapture,
    /// The vendor refuses the merchant's capture; what becomes of the authorisation is the
    /// vendor's own way.
    CaptureRefused,
    /// 1.00 less is captured than was asked for.
    CaptureShort,
    /// 1.00 more is captured than was asked for.
    CaptureOver,
    /// The capture is taken in, and confirmed when the injected clock is next moved.
    CaptureLate,
    /// The vendor itself voids an authorisation a moment after it was given.
    VoidsApproval,
    /// The payment that is asked about next is unknown from then on.
    Forgets,
    /// The payer's approval is taken although the payment was called off, declined for good or out of
    /// time.
    LateMoney,
    /// The vendor refuses the merchant's refund.
    RefundRefused,
    /// The merchant's refund is taken in, and fails a moment later.
    RefundFails,
    /// The merchant's refund is taken in, and ends when the injected clock is next moved.
    RefundLate,
    /// Every call is answered 503, until the faults are cleared.
    Down,
}

impl Fault {
    /// The most calls one order can spoil; more is a mistake in a script.
    pub const MOST_TIMES: u32 = 1_000_000;

    pub const ALL: [Self; 27] = [
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
        Self::VoidsApproval,
        Self::Forgets,
        Self::LateMoney,
        Self::RefundRefused,
        Self::RefundFails,
        Self::RefundLate,
        Self::Down,
    ];

    /// The name as `dev/faults` writes it.
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
            Self::VoidsApproval => "voids-approval",
            Self::Forgets => "forgets",
            Self::LateMoney => "late-money",
            Self::RefundRefused => "refund-refused",
            Self::RefundFails => "refund-fails",
            Self::RefundLate => "refund-late",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A name that is no fault's.
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

/// What an account's simulator has still been told to do wrong. Different faults stand beside
/// one another; ordering one again replaces its count.
#[derive(Default)]
pub(crate) struct Faults(Mutex<Vec<Armed>>);

struct Armed {
    fault: Fault,
    left: u32,
}

impl Faults {
    /// Spoils the next `times` calls.
    pub(crate) fn arm(&self, fault: Fault, times: u32) {
        let mut armed = self.0.lock();
        armed.retain(|a| a.fault != fault);
        armed.push(Armed { fault, left: times });
    }

    /// Back to good manners.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Whether this fault is ordered, without using it up.
    pub(crate) fn has(&self, fault: Fault) -> bool {
        self.0.lock().iter().any(|a| a.fault == fault)
    }

    /// Uses up one call of this fault.
    pub(crate) fn take(&self, fault: Fault) -> bool {
        self.take_first(&[fault]).is_some()
    }

    /// Uses up one call of whichever of these was ordered first. `down` is never used up.
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

    /// Scripts rely on them.
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
