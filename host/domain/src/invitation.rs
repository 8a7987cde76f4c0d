//! A reseller's invitation of a merchant: from `invited` to accepted, declined or expired.
//!
//! The reseller has the invitation's URL, so the URL proves nothing: it suffices to decline, but accepting
//! requires a consent code.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq as _;

use crate::consent::ConsentCode;
use crate::delegation::{Delegation, DelegationStatus};
use crate::id::{InvitationId, MerchantId, ResellerId};
use crate::key::TokenHash;
use crate::order::{BadText, ClientRef, Email, is_name};
use crate::secret::Secret;
use crate::time::Time;

/// A reseller's name for the merchant that it invites: 1-100 characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BusinessName(String);

impl BusinessName {
    /// Maximum number of characters.
    pub const MAX: usize = 100;

    /// Parses a name.
    ///
    /// # Errors
    /// See [`is_name`].
    pub fn parse(text: &str) -> Result<Self, BadText> {
        is_name(text, Self::MAX)?;
        Ok(Self(text.to_owned()))
    }

    /// The name as sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BusinessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Contents of an invitation request; a replay must repeat them exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvitationRequest {
    pub reseller: ResellerId,
    /// Its reference: one invitation for each, in both environments.
    pub client_ref: ClientRef,
    pub email: Email,
    /// Its name for the merchant.
    pub business_name: BusinessName,
}

/// An invitation, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewInvitation {
    /// Drawn by the caller.
    pub id: InvitationId,
    pub request: InvitationRequest,
    /// Secret of its page's URL: 43 characters of base64url.
    pub token: Secret,
}

/// Reply to an invitation. Its expiry is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// None yet.
    Open,
    Accepted {
        /// The merchant of the consent code.
        merchant: MerchantId,
        at: Time,
    },
    Declined {
        at: Time,
    },
}

impl Reply {
    /// The reseller's state that results from an invitation which expires at `expires_at`. `delegation` is that
    /// between the reseller and the accepting merchant.
    pub fn status(
        self,
        expires_at: Time,
        delegation: Option<&Delegation>,
        now: Time,
    ) -> DelegationStatus {
        match self {
            Self::Open if now < expires_at => DelegationStatus::Invited,
            Self::Open => DelegationStatus::Expired,
            Self::Declined { .. } => DelegationStatus::Declined,
            // An accepted invitation and its delegation are written together.
            Self::Accepted { .. } => {
                delegation.map_or(DelegationStatus::Revoked, Delegation::status)
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    pub id: InvitationId,
    pub reseller: ResellerId,
    /// The reseller's reference.
    pub client_ref: ClientRef,
    pub email: Email,
    /// The reseller's name for the merchant.
    pub business_name: BusinessName,
    /// Secret of its page's URL.
    pub token: Secret,
    pub created_at: Time,
    /// Time at which it expires.
    pub expires_at: Time,
    pub reply: Reply,
    /// Number of wrong codes since `burnt_at`.
    pub wrong_codes: u8,
    /// Codes issued up to this time are rejected here, because too many wrong ones were tried.
    pub burnt_at: Option<Time>,
}

/// Reason why an invitation was not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnswered {
    /// It has been answered, or has expired.
    #[error("the invitation cannot be answered any more")]
    Over,
    /// No usable code: unknown, used, expired or burnt.
    #[error("the consent code is wrong, used or expired")]
    WrongCode,
}

impl Invitation {
    /// Time from creation to expiry.
    pub const LIFE: Duration = Duration::from_secs(30 * 24 * 3600);

    /// A new invitation.
    pub fn new(new: NewInvitation, now: Time) -> Self {
        let request = new.request;
        Self {
            id: new.id,
            reseller: request.reseller,
            client_ref: request.client_ref,
            email: request.email,
            business_name: request.business_name,
            token: new.token,
            created_at: now,
            expires_at: now.after(Self::LIFE),
            reply: Reply::Open,
            wrong_codes: 0,
            burnt_at: None,
        }
    }

    /// The first field in which another invitation with the same reference differs. `None` if it is a replay.
    pub fn differs(&self, other: &Self) -> Option<&'static str> {
        if self.email != other.email {
            Some("email")
        } else if self.business_name != other.business_name {
            Some("business_name")
        } else {
            None
        }
    }

    /// Whether it can still be answered.
    pub fn is_open(&self, now: Time) -> bool {
        self.reply == Reply::Open && now < self.expires_at
    }

    /// The reseller's state that results from this invitation: see [`Reply::status`].
    pub fn status(&self, delegation: Option<&Delegation>, now: Time) -> DelegationStatus {
        self.reply.status(self.expires_at, delegation, now)
    }

    /// Declines it; its URL suffices for this.
    ///
    /// # Errors
    /// [`NotAnswered::Over`].
    pub fn decline(&mut self, now: Time) -> Result<(), NotAnswered> {
        if !self.is_open(now) {
            return Err(NotAnswered::Over);
        }
        self.reply = Reply::Declined { at: now };
        Ok(())
    }

    /// Accepts it for the code's merchant. `code` was found by the presented text's handle. A wrong try is counted
    /// in both, so both must be saved regardless of the result: the fifth makes the identified code unusable, and
    /// here every code issued until then.
    ///
    /// # Errors
    /// [`NotAnswered::Over`], which is not counted; [`NotAnswered::WrongCode`].
    pub fn accept(
        &mut self,
        presented: TokenHash,
        code: Option<&mut ConsentCode>,
        now: Time,
    ) -> Result<MerchantId, NotAnswered> {
        if !self.is_open(now) {
            return Err(NotAnswered::Over);
        }
        if let Some(code) = code {
            let right: bool = code.hash.0.ct_eq(&presented.0).into();
            let burnt_here = self.burnt_at.is_some_and(|at| code.created_at <= at);
            if right && !burnt_here && code.usable(now) {
                code.used_at = Some(now);
                self.reply = Reply::Accepted {
                    merchant: code.merchant,
                    at: now,
                };
                return Ok(code.merchant);
            }
            if !right {
                code.wrong_tries = code.wrong_tries.saturating_add(1);
            } else if burnt_here {
                // The wrong tries were about this code.
                code.wrong_tries = ConsentCode::TRIES;
            }
        }
        self.wrong_codes = self.wrong_codes.saturating_add(1);
        if self.wrong_codes >= ConsentCode::TRIES {
            self.wrong_codes = 0;
            self.burnt_at = Some(now);
        }
        Err(NotAnswered::WrongCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "km_0123456789abcdefghijABCDEFGHIJ0123456789";

    fn invitation(now: Time) -> Invitation {
        let new = NewInvitation {
            id: InvitationId::from_bytes([1; 16]),
            request: InvitationRequest {
                reseller: ResellerId(1),
                client_ref: ClientRef::parse("shop-7").unwrap(),
                email: Email::parse("owner@shop.example").unwrap(),
                business_name: BusinessName::parse("Shop Seven").unwrap(),
            },
            token: Secret::new("t"),
        };
        Invitation::new(new, now)
    }

    fn code(now: Time) -> ConsentCode {
        ConsentCode::new(&Secret::new(CODE), MerchantId(3), now)
    }

    fn try_with(
        invitation: &mut Invitation,
        code: &mut ConsentCode,
        presented: &str,
        now: Time,
    ) -> Result<MerchantId, NotAnswered> {
        let found = ConsentCode::handle(presented) == code.handle;
        invitation.accept(TokenHash::hash(presented), found.then_some(code), now)
    }

    #[test]
    fn only_the_code_accepts_and_only_once() {
        let now = Time::from_secs(9);
        let (mut first, mut code) = (invitation(now), code(now));
        let accepted = try_with(&mut first, &mut code, CODE, now);
        assert_eq!(accepted, Ok(MerchantId(3)));
        let again = try_with(&mut first, &mut code, CODE, now);
        assert_eq!(again, Err(NotAnswered::Over));
        assert_eq!(first.decline(now), Err(NotAnswered::Over));
        // Elsewhere, a used code is a wrong one.
        let mut second = invitation(now);
        let other = try_with(&mut second, &mut code, CODE, now);
        assert_eq!(other, Err(NotAnswered::WrongCode));
        assert_eq!(second.status(None, now), DelegationStatus::Invited);
    }

    #[test]
    fn the_fifth_wrong_end_burns_the_code_everywhere() {
        let now = Time::from_secs(9);
        let mut code = code(now);
        for _ in 0..ConsentCode::TRIES {
            let wrong = format!("{}X", &CODE[..CODE.len() - 1]);
            let tried = try_with(&mut invitation(now), &mut code, &wrong, now);
            assert_eq!(tried, Err(NotAnswered::WrongCode));
        }
        let tried = try_with(&mut invitation(now), &mut code, CODE, now);
        assert_eq!(tried, Err(NotAnswered::WrongCode));
    }

    #[test]
    fn five_wrong_codes_burn_here_what_was_issued_and_four_do_not() {
        let now = Time::from_secs(9);
        for wrong in [ConsentCode::TRIES - 1, ConsentCode::TRIES] {
            let (mut invitation, mut code) = (invitation(now), code(now));
            for _ in 0..wrong {
                let tried = try_with(&mut invitation, &mut code, "km_no", now);
                assert_eq!(tried, Err(NotAnswered::WrongCode));
            }
            let burnt = wrong == ConsentCode::TRIES;
            let tried = try_with(&mut invitation, &mut code, CODE, now);
            assert_eq!(tried.is_err(), burnt);
            if burnt {
                let later = Time::from_secs(10);
                let mut newer = tests::code(later);
                let tried = try_with(&mut invitation, &mut newer, CODE, later);
                assert_eq!(tried, Ok(MerchantId(3)));
            }
        }
    }

    #[test]
    fn a_code_ends_after_a_day_and_an_invitation_after_thirty() {
        let made = Time::from_secs(9);
        let last = made.after(ConsentCode::LIFE);
        let tried = try_with(&mut invitation(made), &mut code(made), CODE, last);
        assert_eq!(tried, Err(NotAnswered::WrongCode));
        let just = Time::from_millis(last.as_millis() - 1);
        assert!(try_with(&mut invitation(made), &mut code(made), CODE, just).is_ok());

        let mut late = invitation(made);
        let end = made.after(Duration::from_secs(30 * 86_400));
        assert!(late.is_open(Time::from_millis(end.as_millis() - 1)));
        assert_eq!(late.status(None, end), DelegationStatus::Expired);
        assert_eq!(late.decline(end), Err(NotAnswered::Over));
        let tried = try_with(&mut late, &mut code(end), CODE, end);
        assert_eq!(tried, Err(NotAnswered::Over));
        assert_eq!(late.wrong_codes, 0);
    }

    #[test]
    fn an_accepted_invitation_says_what_its_delegation_says() {
        let now = Time::from_secs(9);
        let (mut invitation, mut code) = (invitation(now), code(now));
        try_with(&mut invitation, &mut code, CODE, now).unwrap();
        let mut delegation = Delegation::authorized(ResellerId(1), MerchantId(3), None, now);
        let status = invitation.status(Some(&delegation), now);
        assert_eq!(status, DelegationStatus::Authorized);
        delegation.revoke(now);
        let status = invitation.status(Some(&delegation), now);
        assert_eq!(status, DelegationStatus::Revoked);
    }

    #[test]
    fn a_business_name_is_a_plain_line() {
        assert!(BusinessName::parse("Bäckerei Müller & Söhne").is_ok());
        for text in ["", "  ", "a\nb", "a\u{202E}b", &"x".repeat(101)] {
            assert!(BusinessName::parse(text).is_err(), "{text:?}");
        }
    }
}
