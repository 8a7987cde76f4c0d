//! The connect exchange: a shop's plugin exchanges a one-time code for its own key.

use axum::Json;
use axum::extract::State;
use kassette_domain::connect::{Challenge, Proof, WebhookPath};
use kassette_domain::key::Scope;
use kassette_domain::secret::Secret;
use kassette_gateway::Gateway;
use kassette_gateway::connect::{ConnectClaim, Connected};
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Anonymous;
use super::document::{Anyone, WithBody};
use super::formats;
use super::state::ApiState;
use crate::web::error::{ApiError, ErrorBody};
use crate::web::json::{Fields, Invalid, text};

/// Maximum length of a code; the gateway verifies it.
const MAX_CODE: usize = 128;

/// A shop plugin's request.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ConnectExchangeRequest, example = json!({
    "code": "kc_0123456789abcdefghijklmnopqrstuvwxyzABCD",
    "site_url": "https://shop.example/store",
    "challenge": "4bc9e1d2f3a4051627384950a1b2c3d4",
    "proof": "dc3a3b256ff3b23d0badcf7131254d46ce0725c9049b69b9d56037f2bf3c6576"
}))]
#[expect(dead_code, reason = "describes the body; a claim is what is read")]
pub(super) struct ExchangeBody {
    #[schema(value_type = formats::ConnectCode)]
    code: String,
    #[schema(value_type = formats::SiteUrl)]
    site_url: String,
    /// `/wp-json/kassette/v1/webhook` if absent.
    #[schema(value_type = Option<formats::WebhookPath>)]
    webhook_path: Option<String>,
    #[schema(value_type = formats::Challenge)]
    challenge: String,
    #[schema(value_type = formats::Proof)]
    proof: String,
}

fn read(mut fields: Fields, gateway: &Gateway) -> Result<ConnectClaim, Invalid> {
    let webhook_path = fields.optional("webhook_path", text(WebhookPath::parse))?;
    let webhook_path = webhook_path.unwrap_or_default();
    let claim = ConnectClaim {
        code: fields.required("code", text(code))?,
        site: fields.required(
            "site_url",
            text(|url| gateway.shop_site(url, &webhook_path)),
        )?,
        webhook_path,
        challenge: fields.required("challenge", text(Challenge::parse))?,
        proof: fields.required("proof", text(Proof::parse))?,
    };
    fields.finish()?;
    Ok(claim)
}

fn code(text: &str) -> Result<Secret, String> {
    if (1..=MAX_CODE).contains(&text.chars().count()) {
        Ok(Secret::new(text))
    } else {
        Err(format!("must be 1-{MAX_CODE} characters"))
    }
}

/// A connected shop. Key and secret are shown only this time.
#[derive(Serialize, ToSchema)]
#[schema(as = ConnectExchangeResponse)]
pub(super) struct ConnectedBody {
    #[schema(minimum = 1, example = 1)]
    merchant_id: u64,
    #[schema(value_type = formats::Environment)]
    environment: &'static str,
    /// The shop's key.
    #[schema(example = "kp_test_…")]
    api_key: String,
    #[schema(value_type = Vec<formats::MerchantScope>)]
    scopes: Vec<&'static str>,
    webhook_endpoint: ConnectedEndpoint,
    /// The host for return URLs.
    #[schema(example = "shop.example")]
    verified_domain: String,
}

/// The endpoint for the shop's events.
#[derive(Serialize, ToSchema)]
struct ConnectedEndpoint {
    #[schema(value_type = formats::EndpointId)]
    id: String,
    #[schema(value_type = formats::WebhookUrl)]
    url: String,
    /// Secret that signs the shop's events.
    #[schema(example = "whsec_…")]
    secret: String,
}

impl From<Connected> for ConnectedBody {
    fn from(connected: Connected) -> Self {
        let connection = connected.connection;
        Self {
            merchant_id: connection.merchant.0,
            environment: connection.environment.as_str(),
            api_key: connected.api_key.expose().to_owned(),
            scopes: connected.scopes.into_iter().map(Scope::as_str).collect(),
            webhook_endpoint: ConnectedEndpoint {
                id: connection.endpoint.to_string(),
                url: connected.webhook_url,
                secret: connected.webhook_secret.expose().to_owned(),
            },
            verified_domain: connected.domain,
        }
    }
}

/// Exchanges a one-time code for a key, a webhook endpoint and a verified shop domain.
///
/// An operator issues the code for one merchant, one environment and one site; it is valid for five minutes and
/// can be used once. `proof` is the lower-case hex HMAC-SHA256, keyed with the code, over `challenge`, a
/// newline and the site's origin. The site responds to `GET {origin}/.well-known/kassette-connect/{challenge}`
/// with exactly the proof, over https, with 200 and without a redirect. Events go to `webhook_path` below
/// `site_url`, whose path is kept. Five wrong sites or proofs invalidate the code. Connecting the same site
/// again replaces the result of the previous exchange: that endpoint is deleted, that key revoked.
#[utoipa::path(
    post, path = "/api/v1/connect/exchange", tag = "Shop plugin", operation_id = "exchangeConnectCode",
    request_body(content = ExchangeBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The shop is connected.", body = ConnectedBody),
        (status = 401, description = "The code is unknown, used, expired, or burned by wrong proofs; or, with Retry-After, another exchange of it is under way.",
            body = ErrorBody),
        (status = 403, description = "Another site, a wrong proof, a site that does not answer with the proof, one that was asked too often, or a merchant that is not approved for live any more.",
            body = ErrorBody),
        (status = 409, description = "The merchant has as many webhook endpoints or domains as it can, or another endpoint with the webhook's URL.",
            body = ErrorBody),
        Anyone, WithBody,
    )
)]
pub(super) async fn exchange(
    State(state): State<ApiState>,
    Anonymous(arrived): Anonymous,
) -> Result<Json<ConnectedBody>, ApiError> {
    let fields = arrived.fields()?;
    arrived.no_query()?;
    let gateway = state.gateway();
    let claim = read(fields, gateway)?;
    Ok(Json(gateway.connect(claim).await?.into()))
}
