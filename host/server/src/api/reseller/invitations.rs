//! Inviting merchants.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use kassette_domain::invitation::{BusinessName, InvitationRequest};
use kassette_domain::order::{ClientRef, Email};
use kassette_gateway::auth::ResellerCaller;
use kassette_gateway::reseller::InviteOutcome;
use serde::Serialize;
use utoipa::ToSchema;

use super::signed::{Invite, SignedReseller};
use crate::api::document::{Authenticated, WithBody};
use crate::api::formats;
use crate::api::payments::replayed;
use crate::api::state::ApiState;
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};

/// A request to invite a merchant.
#[derive(Clone, Debug, PartialEq, Eq, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = InvitationRequest, example = json!({
    "email": "owner@shop.example", "business_name": "Shop Seven", "client_ref": "shop-7"
}))]
pub(super) struct InviteBody {
    #[schema(value_type = formats::Email)]
    email: Email,
    #[schema(value_type = formats::BusinessName)]
    business_name: BusinessName,
    #[schema(value_type = formats::ClientRef)]
    client_ref: ClientRef,
}

impl InviteBody {
    fn read(mut fields: Fields) -> Result<Self, Invalid> {
        let body = Self {
            email: fields.required("email", text(Email::parse))?,
            business_name: fields.required("business_name", text(BusinessName::parse))?,
            client_ref: fields.required("client_ref", text(ClientRef::parse))?,
        };
        fields.finish()?;
        Ok(body)
    }

    fn into_request(self, caller: &ResellerCaller) -> InvitationRequest {
        InvitationRequest {
            reseller: caller.reseller.id,
            client_ref: self.client_ref,
            email: self.email,
            business_name: self.business_name,
        }
    }
}

/// An invitation. The reseller sends `invitation_url` to the merchant.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Invitation, example = json!({
    "invitation_id": "5b1e0c9a7d3f4e2b8a6c4d2e0f1b3a59", "email": "owner@shop.example",
    "business_name": "Shop Seven", "client_ref": "shop-7", "status": "invited",
    "invitation_url": "https://pay.example/invitation/Zk3v8yq0S1n5m7Qw2E4r6T8y0U1i3O5p7A9s1D3f5G7",
    "expires_at": "2026-03-31T09:30:00.000Z"
}))]
pub(super) struct InvitationBody {
    #[schema(value_type = formats::InvitationId)]
    invitation_id: String,
    #[schema(value_type = formats::Email)]
    email: String,
    #[schema(value_type = formats::BusinessName)]
    business_name: String,
    #[schema(value_type = formats::ClientRef)]
    client_ref: String,
    #[schema(value_type = formats::DelegationStatus)]
    status: &'static str,
    #[schema(value_type = formats::InvitationUrl)]
    invitation_url: String,
    /// Time after which it cannot be answered.
    #[schema(value_type = formats::Instant)]
    expires_at: String,
}

/// Invites a merchant to authorize the reseller.
///
/// The link itself authorizes nothing: the merchant accepts with its own code. Repeating a `client_ref` with
/// the same data returns the invitation in its current state.
#[utoipa::path(
    post, path = "/api/v1/reseller/invitations", tag = "Resellers", operation_id = "inviteMerchant",
    request_body(content = InviteBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The invitation.", body = InvitationBody,
            headers(("Idempotent-Replayed" = bool, description = "`true` where the same was asked for before."))),
        (status = 409, description = "The `client_ref` was used with other data, or the nonce was used before.",
            body = ErrorBody),
        Authenticated, WithBody,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn invite(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<Invite>,
) -> Result<Response, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let request = InviteBody::read(fields)?.into_request(&caller);
    let gateway = state.gateway();
    let (standing, again) = match gateway.invite(&caller, request).await? {
        InviteOutcome::Invited(standing) => (standing, false),
        InviteOutcome::Replayed(standing) => (standing, true),
    };
    let (invitation, status) = (standing.invitation, standing.status);
    let body = Json(InvitationBody {
        invitation_url: gateway.invitation_url(&invitation),
        invitation_id: invitation.id.to_string(),
        email: invitation.email.expose().to_owned(),
        business_name: invitation.business_name.as_str().to_owned(),
        client_ref: invitation.client_ref.as_str().to_owned(),
        status: status.as_str(),
        expires_at: invitation.expires_at.rfc3339(),
    });
    Ok(if again {
        replayed(body)
    } else {
        body.into_response()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::json::parse;

    #[test]
    fn an_invitation_has_three_fields_and_no_other() {
        let read = |body: &serde_json::Value| {
            let fields = Fields::read(parse(body.to_string().as_bytes()).unwrap()).unwrap();
            InviteBody::read(fields).map_err(|invalid| invalid.message)
        };
        let whole = serde_json::json!({
            "email": "owner@shop.example", "business_name": "Shop", "client_ref": "shop-7"
        });
        assert!(read(&whole).is_ok());
        for (field, wrong) in [
            ("email", "nobody"),
            ("business_name", " "),
            ("client_ref", "with space"),
        ] {
            for value in [
                serde_json::json!(wrong),
                serde_json::json!(null),
                serde_json::json!(7),
            ] {
                let mut body = whole.clone();
                body[field] = value;
                let refused = read(&body).unwrap_err();
                assert!(refused.starts_with(field), "{field}: {refused}");
            }
        }
        let mut more = whole;
        more["wallet"] = "x".into();
        assert_eq!(read(&more).unwrap_err(), "unknown field \"wallet\"");
    }
}
