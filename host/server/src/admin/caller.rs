//! The calling operator with its role, and the attribution of the request.

use axum::extract::FromRequestParts;
use http::header::AUTHORIZATION;
use http::request::Parts;
use kassette_domain::audit::Audited;
use kassette_domain::operator::{Operator, Role};
use kassette_domain::webhook::EndpointCreator;
use kassette_gateway::auth::AuthError;

use super::AdminState;
use super::body::Attribution;
use crate::web::ApiError;
use crate::web::budget::Reservation;
use crate::web::code::Code;
use crate::web::marks::Credential;

/// An authenticated operator, with the attribution from the request's headers.
pub(super) struct Caller {
    pub(super) operator: Operator,
    attribution: Attribution,
}

/// May read everything except links that let their holder pay, choose or cancel.
pub(super) struct Viewer(pub(super) Caller);
/// May change everything that does not require [`Admin`].
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

    /// Whether the operator has at least this role.
    pub(super) fn is(&self, role: Role) -> bool {
        self.operator.role >= role
    }

    /// Whether the operator may see links with which a payment can be paid, changed or cancelled.
    pub(super) fn follows_links(&self) -> bool {
        self.is(Role::Operator)
    }

    /// An audit entry. The body's attribution takes precedence over the headers'.
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

    /// The creator of an endpoint created by this operator.
    pub(super) const fn creates_endpoints_as(&self) -> EndpointCreator {
        EndpointCreator::Operator(self.operator.id)
    }

    /// Returns a function that builds audit entries with this attribution.
    pub(super) fn line(&self, attribution: Attribution) -> impl FnOnce(&str, String) -> Audited {
        move |action, object| self.audited(attribution, action, object)
    }

    /// [`Caller::line`] for a change whose actor and reason are required.
    pub(super) fn strict_line(
        &self,
        attribution: Attribution,
    ) -> Result<impl FnOnce(&str, String) -> Audited, ApiError> {
        self.require(&attribution)?;
        Ok(self.line(attribution))
    }

    /// [`Caller::audited`] for a change whose actor and reason are required.
    pub(super) fn audited_strictly(
        &self,
        attribution: Attribution,
        action: &str,
        object: String,
    ) -> Result<Audited, ApiError> {
        self.require(&attribution)?;
        Ok(self.audited(attribution, action, object))
    }

    /// Requires an actor and a reason in body or headers.
    pub(super) fn require(&self, attribution: &Attribution) -> Result<(), ApiError> {
        let missing = |field| Err(ApiError::invalid(field, "is required"));
        if attribution.actor.is_none() && self.attribution.actor.is_none() {
            return missing("actor");
        }
        if attribution.reason.is_none() && self.attribution.reason.is_none() {
            return missing("reason");
        }
        Ok(())
    }
}

/// The token of a request: exactly one `Authorization: Bearer …`. Otherwise `None`.
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
