//! State of an attempt, with the data specific to that state.

use serde::{Deserialize, Serialize};

use crate::provider::PayerAction;
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    /// Being started, or waiting for the payer.
    Open,
    /// The outcome of its start is unknown: money may move.
    Unknown,
    /// Claimed for capture.
    Capturing,
    /// Authorized, not captured.
    Processing,
    /// Paid, waiting for proof.
    VerificationPending,
    /// The provider holds it for a review.
    Review,
    /// The payment's money is captured.
    Captured,
    /// The provider or the payer's bank declined.
    Declined,
    /// The payer cancelled at the provider.
    Cancelled,
    /// The account could not be used; nothing was created.
    Unavailable,
    /// Closed, so that the payer can choose another method.
    Closed,
    /// Expired, at the provider too.
    Expired,
    /// Ended permanently.
    Failed,
    /// Money that is not the payment's: to be refunded or decided upon.
    Surplus,
}

impl AttemptState {
    pub const ALL: [Self; 14] = [
        Self::Open,
        Self::Unknown,
        Self::Capturing,
        Self::Processing,
        Self::VerificationPending,
        Self::Review,
        Self::Captured,
        Self::Declined,
        Self::Cancelled,
        Self::Unavailable,
        Self::Closed,
        Self::Expired,
        Self::Failed,
        Self::Surplus,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unknown => "unknown",
            Self::Capturing => "capturing",
            Self::Processing => "processing",
            Self::VerificationPending => "verification_pending",
            Self::Review => "review",
            Self::Captured => "captured",
            Self::Declined => "declined",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Closed => "closed",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Surplus => "surplus",
        }
    }

    /// Whether money can still move on it as the payment's own. Holds for at most one attempt of a payment.
    pub const fn is_open(self) -> bool {
        matches!(
            self,
            Self::Open
                | Self::Unknown
                | Self::Capturing
                | Self::Processing
                | Self::VerificationPending
                | Self::Review
        )
    }
}

/// The payer's next action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayerStep {
    pub action: PayerAction,
    /// Time until which `action` can be used.
    pub until: Option<Time>,
}

/// State of an attempt, with its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// Money can still move on it as the payment's own.
    Live {
        state: Live,
        /// `None` until the start has been answered.
        step: Option<PayerStep>,
        /// Whether it was claimed for closing and not started again since: then its end is not a decline.
        closing: bool,
    },
    /// The payment's money is captured.
    Captured {
        at: Time,
        /// Kept because a start can be answered after the report of the capture.
        step: Option<PayerStep>,
        doubt: Option<Doubt>,
    },
    /// Money that is not the payment's: to be refunded or decided upon.
    Surplus { at: Time },
    /// Ended without money.
    Ended {
        how: End,
        at: Time,
        /// Whether it was claimed for closing at the provider since it ended.
        closing: bool,
    },
}

/// States in which money can still move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Live {
    /// Being started, or waiting for the payer.
    Open {
        /// Whether the outcome of a start was ever unknown: then only the provider's report, or the answer to a
        /// repeated start, proves that no money can move.
        uncertain: bool,
    },
    /// The outcome of its start is unknown.
    Unknown,
    /// Claimed for capture.
    Capturing,
    /// Authorized, not captured.
    Processing,
    /// Paid, waiting for proof.
    VerificationPending,
    /// The provider holds it for a review.
    Review,
}

/// How an attempt ends without money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum End {
    Declined,
    Cancelled,
    Unavailable,
    Closed,
    Expired,
    Failed,
}

/// Reason to doubt the money of a completed payment. A denial outweighs silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Doubt {
    /// The provider gave no final answer to the scheduled queries.
    Silence,
    /// The provider reported, after the capture, that no money was captured.
    Denied,
}

impl Stage {
    pub const fn state(&self) -> AttemptState {
        match self {
            Self::Live { state, .. } => match state {
                Live::Open { .. } => AttemptState::Open,
                Live::Unknown => AttemptState::Unknown,
                Live::Capturing => AttemptState::Capturing,
                Live::Processing => AttemptState::Processing,
                Live::VerificationPending => AttemptState::VerificationPending,
                Live::Review => AttemptState::Review,
            },
            Self::Captured { .. } => AttemptState::Captured,
            Self::Surplus { .. } => AttemptState::Surplus,
            Self::Ended { how, .. } => match how {
                End::Declined => AttemptState::Declined,
                End::Cancelled => AttemptState::Cancelled,
                End::Unavailable => AttemptState::Unavailable,
                End::Closed => AttemptState::Closed,
                End::Expired => AttemptState::Expired,
                End::Failed => AttemptState::Failed,
            },
        }
    }

    /// The payer's next action. `None` before the answer to the start, and after an end without the payment's
    /// money.
    pub const fn step(&self) -> Option<&PayerStep> {
        match self {
            Self::Live { step, .. } | Self::Captured { step, .. } => step.as_ref(),
            Self::Surplus { .. } | Self::Ended { .. } => None,
        }
    }

    pub(crate) const fn take_step(&mut self) -> Option<PayerStep> {
        match self {
            Self::Live { step, .. } | Self::Captured { step, .. } => step.take(),
            Self::Surplus { .. } | Self::Ended { .. } => None,
        }
    }

    /// Time at which it ended, with or without money. `None` while it is open.
    pub const fn ended_at(&self) -> Option<Time> {
        match self {
            Self::Live { .. } => None,
            Self::Captured { at, .. } | Self::Surplus { at } | Self::Ended { at, .. } => Some(*at),
        }
    }

    /// Whether it was claimed for closing and not started again since.
    pub const fn is_closing(&self) -> bool {
        match self {
            Self::Live { closing, .. } | Self::Ended { closing, .. } => *closing,
            Self::Captured { .. } | Self::Surplus { .. } => false,
        }
    }

    /// Whether the outcome of a start was unknown and only the start has been reported since.
    pub const fn is_uncertain(&self) -> bool {
        matches!(
            self,
            Self::Live {
                state: Live::Unknown | Live::Open { uncertain: true },
                ..
            }
        )
    }

    /// Whether the start is unanswered, or its outcome unknown.
    pub const fn awaits_start(&self) -> bool {
        match self {
            Self::Live { state, step, .. } => match state {
                Live::Open { .. } => step.is_none(),
                Live::Unknown => true,
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether only its start has been reported.
    pub const fn is_starting(&self) -> bool {
        matches!(
            self,
            Self::Live {
                state: Live::Open { .. } | Live::Unknown,
                ..
            }
        )
    }
}
