//! The operator that calls, its role, and the attribution of its request.

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use kassette_domain::audit::Audited;
use kassette_domain::operator::{Operator, Role};
use kassette_gateway::auth::AuthError;

use super::AdminState;
use super::body::Attribution;
use crate::web::ApiError;
use crate::web::budget::Reservation;
use crate::web::code::Code;
use crate::web::marks::Credential;

/// An authenticated operator, with the attribution of the request's headers.
pub(super) struct Caller {
    pub(super) operator: Operator,
    attribution: Attribution,
}

/// May read everything but the links that let their holder pay, choose and give up.
pub(super) struct Viewer(pub(super) Caller);
/// May change all but what [`Admin`] is needed for.
pub(super) struct Changes(pub(super) Caller);
/// May do everything.
pub(super) struct Admin(pub(super) Caller);

impl Caller {
    async fn read(parts: &Parts, state: &AdminState, least: Role) -> Result<Self, ApiError> {
        let operator = match token(parts) {
            Some(presented) => state.gateway.operator(presented).await,
            None => Err(AuthError::Refused),
        };
        let operator = operator.map_err(ApiError::from)?;
        let shown = Credential::Operator(operator.id);
        Reservation::note_credential(&parts.extensions, shown);
        if operator.role < least {
            let word = match least {
                Role::Viewer => "viewer",
                Role::Operator => "operator",
                Role::Admin => "admin",
            };
            return Err(ApiError::forbidden(
                Code::RoleTooLow,
                format!("this needs the role {word}"),
            ));
        }
        Ok(Self {
            operator,
            attribution: Attribution::in_headers(&parts.headers)?,
        })
    }

    /// Whether the operator has a role.
    pub(super) fn is(&self, role: Role) -> bool {
        self.operator.role >= role
    }

    /// Whether the operator may hold links by which a payment is paid, changed or given up.
    pub(super) fn follows_links(&self) -> bool {
        self.is(Role::Operator)
    }

    /// A line for the audit log; what the body tells goes before what the headers tell.
    pub(super) fn audited(
        &self,
        attribution: Attribution,
        action: &str,
        object: String,
    ) -> Audited {
        Audited {
            operator: self.operator.name.clone(),
            operator_id: Some(self.operator.id),
            actor: attribution
                .actor
                .or_else(|| self.attribution.actor.clone())
                .unwrap_or_else(|| self.operator.name.clone()),
            reason: attribution
                .reason
                .or_else(|| self.attribution.reason.clone()),
            action: action.to_owned(),
            object,
            before: None,
            after: None,
        }
    }

    /// How the audit log is told what the request does.
    pub(super) fn line(&self, attribution: Attribution) -> impl FnOnce(&str, String) -> Audited {
        move |action, object| self.audited(attribution, action, object)
    }

    /// The same where actor and reason must be told.
    pub(super) fn audited_strictly(
        &self,
        attribution: Attribution,
        action: &str,
        object: String,
    ) -> Result<Audited, ApiError> {
        let missing = |field| ApiError::invalid(field, "is required");
        if attribution.actor.is_none() && self.attribution.actor.is_none() {
            return Err(missing("actor"));
        }
        if attribution.reason.is_none() && self.attribution.reason.is_none() {
            return Err(missing("reason"));
        }
        Ok(self.audited(attribution, action, object))
    }
}

/// The credential of a request: exactly one `Authorization: Bearer …`.
fn token(parts: &Parts) -> Option<&str> {
    let mut values = parts.headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

impl FromRequestParts<AdminState> for Viewer {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        Caller::read(parts, state, Role::Viewer).await.map(Self)
    }
}

impl FromRequestParts<AdminState> for Changes {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        Caller::read(parts, state, Role::Operator).await.map(Self)
    }
}

impl FromRequestParts<AdminState> for Admin {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AdminState) -> Result<Self, ApiError> {
        Caller::read(parts, state, Role::Admin).await.map(Self)
    }
}
