//! The OpenAPI document: information that handlers and types do not contain, and how it is served.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use kassette_domain::policy::RateLimit;
use utoipa::openapi::response::Response as Described;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Info, InfoBuilder, OpenApi, OpenApiBuilder, RefOr, ServerBuilder};
use utoipa::{IntoResponses, PartialSchema as _, ToSchema as _};

use super::BODY_LIMIT;
use super::cached::Cached;
use super::events;
use super::query;
use super::state::ApiState;
use crate::web::document::{self, refusals, tags};
use crate::web::error::{ApiError, ErrorBody};

const DESCRIPTION: &str = "\
Merchants create payments, send the customer's browser to `checkout_url`, and learn the result from \
an authenticated read or a signed event. A browser that comes back is never proof of payment.

Every response has `X-Request-Id`: the caller's own where it is 1-128 visible ASCII characters, else \
a random one. Checks are made in one order: path (404, 405), size (413), credentials (401), rate \
(429), permission (403), Content-Type and JSON (400), shape (422). Fields and query parameters that \
are not named here are refused with 422, repeated JSON names with 400; `null` on an optional field \
is its absence. Error texts are for people and may change.";

/// Descriptions of the groups of operations.
const TAGS: [(&str, &str); 8] = [
    (
        "Payments",
        "Create payments, start them, and read what became of them.",
    ),
    ("Refunds", "Give money back, and read what was given back."),
    (
        "Methods",
        "Which payment methods can be used, and through whom.",
    ),
    (
        "Resellers",
        "Payments that a reseller makes for merchants, and the webhook endpoints that hear of them.",
    ),
    (
        "Account",
        "Manage the merchant's own webhook endpoints, and read what was delivered to them.",
    ),
    ("Shop plugin", "What a shop's plugin calls by itself."),
    ("Events", "List what the gateway has sent, or would have."),
    // A separate tag: generators that create a class per tag would otherwise overwrite a call of the same
    // class.
    (
        "Webhooks",
        "What the gateway sends to the server of a merchant or reseller.",
    ),
];

/// Description of the limits for callers.
fn limits() -> String {
    let RateLimit { per_second, burst } = RateLimit::default();
    format!(
        "A body has at most {} KiB. Each key has a rate of its own: {per_second} requests a second in the \
         long run and {burst} at once, unless the operator has said otherwise for the gateway or for the \
         merchant. Requests without a usable key share such a rate by address, IPv6 addresses by their /64. \
         429 says in `Retry-After` when the next request is taken, and in `RateLimit-Policy` which rate it was.",
        BODY_LIMIT >> 10
    )
}

/// A reseller's key, and the additional requirements of live requests. The headers are described in prose: test
/// requests have none of them, and the format cannot express that for an endpoint.
const RESELLER_KEY: &str = "\
A reseller's key: `kr_test_…` for test, `kr_live_…` for real payments, which need the reseller's \
rollout. Inviting needs its scope `reseller:invite`, creating and starting `reseller:payments:create`, \
reading `reseller:payments:read`, refunding `reseller:refund`, its webhook endpoints `account:manage`; a key has the last two only if they were requested. Every request with a live key is signed by three headers, each once: \
`X-Service-Timestamp`, Unix seconds within 5 minutes of the server's time; `X-Service-Nonce`, 16-80 of \
`A-Z a-z 0-9 . _ : -`, good for one request (409 where it was used within 10 minutes); \
`X-Service-Signature`, lower-case hex HMAC-SHA256, keyed with the whole key, over five lines joined by \
a line feed: method, path with query exactly as sent, timestamp, nonce, lower-case hex SHA-256 of the \
body. The target is sent as a path. A signature that is missing or wrong is answered with 401. After a \
network failure send a new nonce and keep the `client_ref`.";

/// Responses of every endpoint.
pub(super) struct Anyone;

/// Additional responses of every endpoint with a key.
pub(super) struct Authenticated;

/// Additional responses of every endpoint with a body.
pub(super) struct WithBody;

impl IntoResponses for Anyone {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        refusals([
            (
                "400",
                "Invalid JSON, a wrong Content-Type, or a body that did not arrive whole.",
            ),
            ("413", "The body is larger than 16 KiB."),
            (
                "422",
                "A field or query parameter is missing, unknown, repeated, of a wrong form, or not acceptable now.",
            ),
            (
                "429",
                "Too many requests with this key or from this address.",
            ),
            (
                "500",
                "An unexpected error; it does not prove that nothing happened.",
            ),
            (
                "503",
                "More requests than can be carried, or a disk that is full or fails. Repeating the request is safe; `Retry-After` says when to.",
            ),
        ])
    }
}

impl IntoResponses for Authenticated {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        let mut responses = Anyone::responses();
        responses.extend(refusals([
            ("401", "The key is missing, invalid, revoked or expired."),
            (
                "403",
                "The key's scope or the merchant's live policy does not allow it.",
            ),
        ]));
        responses
    }
}

impl IntoResponses for WithBody {
    fn responses() -> BTreeMap<String, RefOr<Described>> {
        refusals([("408", "The body did not arrive in time.")])
    }
}

/// The document without endpoints.
pub(super) fn frame() -> OpenApi {
    OpenApiBuilder::new().info(info()).build()
}

fn info() -> Info {
    InfoBuilder::new()
        .title("Payment Checkout Service API")
        .version("1.0")
        .description(Some(format!("{DESCRIPTION}\n\n{}", limits())))
        .license(Some(document::licence()))
        .build()
}

/// Adds everything that all endpoints have in common: the key, and headers of responses.
pub(super) fn complete(mut api: OpenApi) -> OpenApi {
    let components = api.components.get_or_insert_default();
    let error = (ErrorBody::name().into_owned(), ErrorBody::schema());
    components.schemas.extend([error]);
    components.schemas.extend(events::schemas());
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "A merchant's key: `kp_test_…` for test, `kp_live_…` for real payments. Creating and starting need its scope `payments:create`, reading `payments:read`, the account `account:manage`, which no key has unless it was asked for.",
        ))
        .build();
    components.add_security_scheme("merchant_key", SecurityScheme::Http(key));
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(RESELLER_KEY))
        .build();
    components.add_security_scheme("reseller_key", SecurityScheme::Http(key));
    api.webhooks = Some(events::webhooks());
    api.tags = Some(tags(TAGS));
    for operation in document::operations(&mut api.paths) {
        // Without an explicit value, the document might have forgotten the key.
        operation.security.get_or_insert_default();
        document::name_headers(operation);
    }
    api
}

/// The serialized document.
#[derive(Clone)]
pub(super) struct Served {
    document: Cached,
    /// The document without `webhooks`, for generators that cannot read them.
    without_webhooks: Cached,
    state: Arc<ApiState>,
}

impl Served {
    /// Serializes the document for the server's own origin.
    pub(super) fn new(mut api: OpenApi, state: &ApiState) -> Self {
        let origin = state.gateway().settings().public_url.clone();
        api.servers = Some(vec![ServerBuilder::new().url(origin).build()]);
        // Strings, numbers and maps with string keys always serialize.
        let document = Cached::new(api.to_json().unwrap_or_default());
        api.webhooks = None;
        Self {
            document,
            without_webhooks: Cached::new(api.to_json().unwrap_or_default()),
            state: Arc::new(state.clone()),
        }
    }

    /// Handles `GET /openapi.json`, and `GET /openapi.json?webhooks=none` without the webhooks.
    ///
    /// # Errors
    /// 422 for any other query.
    pub(super) async fn serve(self, request: Request) -> Result<Response, ApiError> {
        let (parts, _) = request.into_parts();
        self.state.count_address(&parts)?;
        let [webhooks] = query::read(parts.uri.query(), ["webhooks"])?;
        let document = match webhooks.as_deref() {
            None => self.document,
            Some("none") => self.without_webhooks,
            Some(_) => return Err(ApiError::invalid("webhooks", "must be \"none\"")),
        };
        Ok(document.answer(&parts.headers))
    }
}
