//! The page on which a merchant reads and answers a reseller's invitation.
//!
//! The reseller knows the URL too. The page therefore shows nothing new to the reseller, and the URL is not
//! sufficient to accept.

use axum::body::Body;
use axum::response::Response;
use http::{Request, StatusCode};
use kassette_domain::delegation::DelegationStatus;
use kassette_domain::invitation::NotAnswered;
use kassette_domain::secret::Secret;
use kassette_domain::time::Time;
use kassette_gateway::reseller::InvitationView;
use kassette_store::Answered;

use super::forms;
use super::problems::Problem;
use super::templates::{Invitation, InvitationOver, Tone};
use super::visit::{PageOptions, Visit};

/// Error in an answer.
enum Wrong {
    /// No button was pressed.
    Undecided,
    /// No code was entered.
    NoCode,
    /// The code is invalid.
    Code,
}

/// `GET /invitation/{token}`
pub(crate) async fn show(visit: Visit) -> Response {
    match visit.invitation().await {
        Ok(view) => current(&visit, &view, StatusCode::OK),
        Err(problem) => visit.problem(problem),
    }
}

/// `POST /invitation/{token}`
pub(crate) async fn answer(visit: Visit, request: Request<Body>) -> Response {
    let form = match forms::read(request, &visit.public_url).await {
        Ok(form) => form,
        Err(bad) => return visit.problem(Problem::Invitation(bad)),
    };
    let Some(token) = &visit.token else {
        return visit.problem(Problem::NoInvitation);
    };
    let code = form.get("consent_code").unwrap_or_default().trim();
    let answered = match form.get("decision") {
        Some("accept") if code.is_empty() => return again(&visit, Wrong::NoCode).await,
        Some("accept") => {
            visit
                .backend
                .accept_invitation(token, Secret::new(code))
                .await
        }
        Some("decline") => visit.backend.decline_invitation(token).await,
        _ => return again(&visit, Wrong::Undecided).await,
    };
    match answered {
        Ok(Answered::Accepted(_) | Answered::Declined) => {
            visit.see_other(&format!("/invitation/{token}"))
        }
        Ok(Answered::Not(NotAnswered::WrongCode)) => again(&visit, Wrong::Code).await,
        Ok(Answered::Not(NotAnswered::Over)) => match visit.invitation().await {
            Ok(view) => current(&visit, &view, StatusCode::CONFLICT),
            Err(problem) => visit.problem(problem),
        },
        Ok(Answered::Unknown) => visit.problem(Problem::NoInvitation),
        Err(fault) => visit.problem(fault.into()),
    }
}

impl Visit {
    /// Loads the invitation of the token.
    async fn invitation(&self) -> Result<InvitationView, Problem> {
        let token = self.token.as_deref().ok_or(Problem::NoInvitation)?;
        let view = self.backend.invitation(token).await?;
        view.ok_or(Problem::NoInvitation)
    }
}

/// The page again, with the error.
async fn again(visit: &Visit, wrong: Wrong) -> Response {
    let view = match visit.invitation().await {
        Ok(view) => view,
        Err(problem) => return visit.problem(problem),
    };
    if view.standing.status != DelegationStatus::Invited {
        return current(visit, &view, StatusCode::CONFLICT);
    }
    let (notice, error) = match wrong {
        Wrong::Undecided => (Some(visit.t.invitation_notice_decide().into()), None),
        Wrong::NoCode => (None, Some(visit.t.invitation_error_missing())),
        Wrong::Code => (None, Some(visit.t.invitation_error_wrong())),
    };
    let options = PageOptions {
        status: Some(StatusCode::UNPROCESSABLE_ENTITY),
        notice,
        ..PageOptions::default()
    };
    open(visit, &view, options, error)
}

/// The page for the invitation's current status.
fn current(visit: &Visit, view: &InvitationView, status: StatusCode) -> Response {
    let (t, reseller) = (visit.t, &view.reseller.name);
    let business = view.standing.invitation.business_name.as_str();
    let options = PageOptions {
        status: Some(status),
        ..PageOptions::default()
    };
    let (tone, heading, text) = match view.standing.status {
        DelegationStatus::Invited => return open(visit, view, options, None),
        DelegationStatus::Authorized => (
            Tone::Good,
            t.invitation_authorized_title(),
            t.invitation_authorized_text(reseller, business),
        ),
        DelegationStatus::Declined => (
            Tone::Calm,
            t.invitation_declined_title(),
            t.invitation_declined_text(reseller),
        ),
        DelegationStatus::Expired => (
            Tone::Bad,
            t.invitation_expired_title(),
            t.invitation_expired_text(reseller),
        ),
        DelegationStatus::Revoked => (
            Tone::Bad,
            t.invitation_revoked_title(),
            t.invitation_revoked_text(reseller),
        ),
    };
    visit.framed(heading.clone(), None, options, |frame| InvitationOver {
        frame,
        tone,
        heading,
        text,
    })
}

fn open(
    visit: &Visit,
    view: &InvitationView,
    options: PageOptions,
    error: Option<String>,
) -> Response {
    let invitation = &view.standing.invitation;
    let reseller = view.reseller.name.clone();
    let title = visit.t.invitation_title(&reseller);
    visit.framed(title, None, options, |frame| Invitation {
        frame,
        action: format!("/invitation/{}", invitation.token.expose()),
        reseller,
        business: invitation.business_name.as_str().to_owned(),
        until: day(invitation.expires_at),
        error,
    })
}

/// `2026-12-21`
fn day(at: Time) -> String {
    let text = at.rfc3339();
    text.get(..10).unwrap_or(&text).to_owned()
}
