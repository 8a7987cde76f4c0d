//! Why an attempt ended without money, in words that mean the same at every vendor.

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, AttemptState};
use crate::provider::VendorStatus;

/// Why. Stored by number: new ones come at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeclineCode {
    /// The vendor or the payer's bank said no, without a reason that has a word of its own here.
    Declined,
    /// The payer has too little money.
    InsufficientFunds,
    /// The card's time is over.
    CardExpired,
    /// The payer did not prove to be who pays.
    AuthenticationFailed,
    /// The payer's own limit is lower.
    LimitExceeded,
    /// The payer called it off.
    Cancelled,
    /// The vendor could not be used; surely nothing was created there.
    Unavailable,
    /// The vendor ended it for good.
    Failed,
}

impl DeclineCode {
    pub const ALL: [Self; 8] = [
        Self::Declined,
        Self::InsufficientFunds,
        Self::CardExpired,
        Self::AuthenticationFailed,
        Self::LimitExceeded,
        Self::Cancelled,
        Self::Unavailable,
        Self::Failed,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Declined => "declined",
            Self::InsufficientFunds => "insufficient_funds",
            Self::CardExpired => "card_expired",
            Self::AuthenticationFailed => "authentication_failed",
            Self::LimitExceeded => "limit_exceeded",
            Self::Cancelled => "cancelled",
            Self::Unavailable => "unavailable",
            Self::Failed => "failed",
        }
    }

    /// A sentence for the merchant.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Declined => "The provider or the payer's bank declined.",
            Self::InsufficientFunds => "The payer has not enough money for it.",
            Self::CardExpired => "The payer's card has expired.",
            Self::AuthenticationFailed => "The payer was not authenticated.",
            Self::LimitExceeded => "The amount is over a limit of the payer's.",
            Self::Cancelled => "The payer called it off.",
            Self::Unavailable => "The provider could not be used; nothing was created there.",
            Self::Failed => "The provider ended it for good.",
        }
    }

    /// Why an attempt ended; none where it is open, holds money, was closed or has expired.
    pub fn of(attempt: &Attempt) -> Option<Self> {
        let reason = attempt.particulars.reason.as_deref().and_then(of_reason);
        match attempt.state {
            AttemptState::Unavailable => Some(Self::Unavailable),
            AttemptState::Failed => Some(reason.unwrap_or(Self::Failed)),
            AttemptState::Declined => Some(reason.unwrap_or_else(|| {
                let said = attempt.vendor.as_ref().map(|facts| facts.status);
                match said {
                    Some(VendorStatus::Cancelled) => Self::Cancelled,
                    _ => Self::Declined,
                }
            })),
            _ => None,
        }
    }
}

/// What a vendor's own word says, whichever way it spells it: `insufficient_funds`, `Not enough balance`.
fn of_reason(reason: &str) -> Option<DeclineCode> {
    let letters = reason.chars().filter(char::is_ascii_alphanumeric);
    let word = letters.collect::<String>().to_ascii_lowercase();
    [
        ("insufficientfund", DeclineCode::InsufficientFunds),
        ("insufficientbalance", DeclineCode::InsufficientFunds),
        ("notenoughbalance", DeclineCode::InsufficientFunds),
        ("expiredcard", DeclineCode::CardExpired),
        ("cardexpired", DeclineCode::CardExpired),
        ("3dnotauthenticated", DeclineCode::AuthenticationFailed),
        ("authenticationfail", DeclineCode::AuthenticationFailed),
        ("authenticationrequired", DeclineCode::AuthenticationFailed),
        ("limitexceeded", DeclineCode::LimitExceeded),
        ("amountexceeded", DeclineCode::LimitExceeded),
    ]
    .into_iter()
    .find_map(|(part, code)| word.contains(part).then_some(code))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn providers_words_for_the_same_reason_have_one_code() {
        for (reason, code) in [
            ("insufficient_funds", Some("insufficient_funds")),
            ("INSUFFICIENT_FUNDS", Some("insufficient_funds")),
            ("Not enough balance", Some("insufficient_funds")),
            ("Expired Card", Some("card_expired")),
            ("expired_card", Some("card_expired")),
            ("3D Not Authenticated", Some("authentication_failed")),
            (
                "payment_authentication_failed",
                Some("authentication_failed"),
            ),
            ("Withdrawal amount exceeded", Some("limit_exceeded")),
            ("card_declined", None),
            ("stolen_card", None),
            ("session_expired", None),
            ("", None),
        ] {
            assert_eq!(of_reason(reason).map(DeclineCode::as_str), code, "{reason}");
        }
    }

    #[test]
    fn a_code_keeps_its_number_in_rows() {
        for (number, code) in DeclineCode::ALL.into_iter().enumerate() {
            assert_eq!(code as usize, number, "{code:?}");
        }
    }
}
