//! Reasons why an attempt ended without money, the same for every provider.

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, End, Stage};

/// Decline reason. Stored by number: new ones are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeclineCode {
    /// The provider or the payer's bank declined, without a reason or with one not listed here.
    Declined,
    /// The payer does not have enough money.
    InsufficientFunds,
    /// The card has expired.
    CardExpired,
    /// The payer was not authenticated.
    AuthenticationFailed,
    /// The amount exceeds a limit of the payer's.
    LimitExceeded,
    /// The payer cancelled.
    Cancelled,
    /// The provider could not be used; nothing was created there.
    Unavailable,
    /// The provider ended the payment permanently.
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

    /// Reason why an attempt ended. `None` if it is open, holds money, was closed or has expired.
    pub fn of_attempt(attempt: &Attempt) -> Option<Self> {
        let reason = attempt.particulars.reason.as_deref().and_then(of_reason);
        let Stage::Ended { how, .. } = attempt.stage else {
            return None;
        };
        match how {
            End::Unavailable => Some(Self::Unavailable),
            End::Failed => Some(reason.unwrap_or(Self::Failed)),
            End::Cancelled => Some(Self::Cancelled),
            End::Declined => Some(reason.unwrap_or(Self::Declined)),
            End::Closed | End::Expired => None,
        }
    }
}

/// Code for a provider's own reason, regardless of its spelling: `insufficient_funds`, `Not enough balance`.
/// `None` if it is not recognized.
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
