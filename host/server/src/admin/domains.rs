//! Verified shop domains.

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use kassette_domain::merchant::Merchant;
use kassette_domain::site::{VerifiedDomain, parse_domain};

use super::AdminState;
use super::body::{Attribution, JsonBody};
use super::caller::Changes;
use crate::web::ApiError;
use crate::web::json::text;
use crate::web::path::At;
use crate::web::text::switch;

/// `POST /merchants/{id}/domains`
pub(super) async fn create(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At(id): At<String>,
    JsonBody(mut fields): JsonBody,
) -> Result<Response, ApiError> {
    let now = state.gateway.clock().now();
    let merchant = super::merchants::find(&state, &id).await?;
    let attribution = Attribution::in_body(&mut fields)?;
    let loopback = state.gateway.settings().webhooks.allow_loopback;
    let domain = fields.required("domain", text(|name| parse_domain(name, loopback)))?;
    let include_subdomains = fields
        .optional("include_subdomains", switch)?
        .unwrap_or(false);
    fields.finish()?;
    let added = VerifiedDomain {
        domain,
        include_subdomains,
    };
    let line = caller.audited(
        attribution,
        "domain.create",
        format!("merchant/{}", merchant.id),
    );
    super::merchants::replace(&state, merchant, line, now, |merchant| {
        if merchant
            .domains
            .iter()
            .any(|known| known.domain == added.domain)
        {
            return Err(ApiError::conflict(
                "domain: is verified already; delete it first to change it",
            ));
        }
        if merchant.domains.len() >= Merchant::MAX_DOMAINS {
            let most = Merchant::MAX_DOMAINS;
            return Err(ApiError::invalid(
                "domain",
                format!("a merchant has at most {most}"),
            ));
        }
        merchant.domains.push(added.clone());
        Ok(())
    })
    .await?;
    Ok((StatusCode::CREATED, Json(added)).into_response())
}

/// `DELETE /merchants/{id}/domains/{domain}`
pub(super) async fn remove(
    Changes(caller): Changes,
    State(state): State<AdminState>,
    At((id, domain)): At<(String, String)>,
    JsonBody(fields): JsonBody,
) -> Result<StatusCode, ApiError> {
    let now = state.gateway.clock().now();
    let merchant = super::merchants::find(&state, &id).await?;
    let domain = parse_domain(&domain, true).map_err(|_| ApiError::NotFound("domain not found"))?;
    let line = caller.audited(
        Attribution::alone(fields)?,
        "domain.delete",
        format!("merchant/{}", merchant.id),
    );
    super::merchants::replace(&state, merchant, line, now, |merchant| {
        let before = merchant.domains.len();
        merchant.domains.retain(|known| known.domain != domain);
        if merchant.domains.len() == before {
            return Err(ApiError::NotFound("domain not found"));
        }
        Ok(())
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}
