//! Operators' sessions in the console.
//!
//! The cookie is the operator's id and 43 random characters, which are 256 bits. The store has its SHA-256 in the
//! operator's record and is read for every request, so that a sign-out, a removed operator and a changed role
//! take effect on every node at once.

use kassette_domain::id::OperatorId;
use kassette_domain::key::{TokenHash, base62};
use kassette_domain::operator::Operator;
use kassette_domain::operator::{OperatorChange, Session};
use kassette_domain::secret::Secret;
use kassette_store::Fault;

use crate::Gateway;
use crate::auth::AuthError;

/// Hexadecimal digits of an operator's id.
const ID_DIGITS: usize = 32;
/// Random characters of a cookie.
const RANDOM: usize = 43;

/// A request's session.
#[derive(Clone, Debug)]
pub struct SignedInOperator {
    pub operator: Operator,
    pub session: Session,
}

/// Reason why nobody is signed in.
#[derive(Debug, thiserror::Error)]
pub enum SignInError {
    /// The token or the link is not valid.
    #[error("the token is wrong, expired or removed")]
    Refused,
    #[error(transparent)]
    Store(#[from] Fault),
    #[error("no randomness from the operating system: {0}")]
    Random(#[from] getrandom::Error),
}

/// Generates a cookie, or the secret of a link.
fn draw(operator: OperatorId) -> Result<Secret, getrandom::Error> {
    let random = base62(RANDOM, getrandom::fill)?;
    Ok(Secret::new(format!("{operator}{random}")))
}

/// Generates a link for [`Gateway::sign_in_by_link`], and the change of the operator that makes it valid.
///
/// # Errors
/// If the operating system provides no random bytes.
pub fn draw_link(operator: OperatorId) -> Result<(Secret, OperatorChange), getrandom::Error> {
    let link = draw(operator)?;
    let change = OperatorChange::OfferLink {
        link: TokenHash::hash(link.expose()),
    };
    Ok((link, change))
}

/// The operator's id in a cookie or a link. `None` if it has another form.
fn operator_in(text: &str) -> Option<OperatorId> {
    let is_alphanumeric = text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let has_form = is_alphanumeric && text.len() == ID_DIGITS + RANDOM;
    let id = text.get(..ID_DIGITS).filter(|_| has_form)?;
    OperatorId::parse(id).ok()
}

impl Gateway {
    /// Begins a session for the operator that a token belongs to. Returns its cookie.
    ///
    /// # Errors
    /// [`SignInError::Refused`] for anything but a usable operator token.
    pub async fn sign_in(&self, token: &str) -> Result<Secret, SignInError> {
        let operator = self.operator(token).await.map_err(|error| match error {
            AuthError::Refused => SignInError::Refused,
            AuthError::Store(fault) => SignInError::Store(fault),
        })?;
        let cookie = draw(operator.id)?;
        let session = TokenHash::hash(cookie.expose());
        let begun = OperatorChange::SignIn { session };
        self.change_operator(operator.id, begun).await?;
        Ok(cookie)
    }

    /// Begins a session with a link, which is not valid afterwards. Returns its cookie.
    ///
    /// # Errors
    /// [`SignInError::Refused`] for anything but the operator's unused link.
    pub async fn sign_in_by_link(&self, link: &str) -> Result<Secret, SignInError> {
        let id = operator_in(link).ok_or(SignInError::Refused)?;
        let operator = self.store().operator_by_id(id).await?;
        let is_usable = operator.is_some_and(|operator| operator.usable(self.now()));
        if !is_usable {
            return Err(SignInError::Refused);
        }
        let cookie = draw(id)?;
        let change = OperatorChange::UseLink {
            link: TokenHash::hash(link),
            session: TokenHash::hash(cookie.expose()),
        };
        self.change_operator(id, change).await?;
        Ok(cookie)
    }

    /// Returns the open session of a cookie, and notes the request.
    ///
    /// # Errors
    /// If the store cannot be read.
    pub async fn console_session(&self, cookie: &str) -> Result<Option<SignedInOperator>, Fault> {
        let Some(id) = operator_in(cookie) else {
            return Ok(None);
        };
        let operator = match self.store().operator_by_id(id).await {
            // An operator whose row is damaged or not authentic is nobody. The log names the row.
            Err(Fault::Corrupt(_)) => None,
            read => read?,
        };
        let (hash, now) = (TokenHash::hash(cookie), self.now());
        let Some(operator) = operator else {
            return Ok(None);
        };
        let Some(session) = operator.session(hash, now).cloned() else {
            return Ok(None);
        };
        if session.is_worth_a_write(now) {
            let seen = OperatorChange::Seen { session: hash };
            match self.change_operator(id, seen).await {
                Ok(()) => {}
                Err(SignInError::Refused) => return Ok(None),
                // Pages can be read while the store cannot write.
                Err(error) => tracing::warn!("the time of a session was not written: {error}"),
            }
        }
        Ok(Some(SignedInOperator { operator, session }))
    }

    /// Changes the record of an operator without an entry in the audit log.
    ///
    /// # Errors
    /// [`SignInError::Refused`] if the change is not possible.
    pub async fn change_operator(
        &self,
        id: OperatorId,
        change: OperatorChange,
    ) -> Result<(), SignInError> {
        let changed = self.store().change_operator(id, change, None, self.now());
        match changed.await? {
            Some(_) => Ok(()),
            None => Err(SignInError::Refused),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_names_its_operator_and_nothing_else_has_its_form() {
        let id = OperatorId::from_bytes([7; 16]);
        let cookie = draw(id).unwrap();
        assert_eq!(operator_in(cookie.expose()), Some(id));
        assert_ne!(cookie, draw(id).unwrap());
        for other in ["", "ko_x", &cookie.expose()[1..], &"é".repeat(37)] {
            assert_eq!(operator_in(other), None, "{other}");
        }
    }
}
