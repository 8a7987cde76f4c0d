//! Sessions and their cookie.

use http::request::Parts;
use kassette_domain::operator::Operator;
use kassette_domain::time::Time;

use super::Console;
use super::reply::ConsoleError;

/// The session of a request.
pub(super) struct Session {
    pub(super) operator: Operator,
    pub(super) signed_in_at: Time,
    pub(super) csrf: String,
}

/// Returns the session of a request.
///
/// # Errors
/// A redirect to the sign-in page if there is none.
pub(super) async fn of_request(parts: &Parts, console: &Console) -> Result<Session, ConsoleError> {
    let _ = (parts, console);
    Err(ConsoleError::SeeOther("/console/sign-in".into()))
}
