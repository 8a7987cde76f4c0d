//! The shop plugin's latest release: public, read-only, the same for all clients.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::release::Release;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::Anonymous;
use super::cached::Cached;
use super::document::Anyone;
use super::formats;
use super::state::ApiState;
use crate::web::error::{ApiError, ErrorBody};

/// A published version of the shop plugin.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Release)]
struct ReleaseBody {
    #[schema(value_type = formats::Version)]
    version: String,
    #[schema(value_type = formats::DownloadUrl)]
    download_url: String,
    #[schema(value_type = formats::Sha256)]
    sha256: String,
    /// Size of the file in bytes.
    #[schema(minimum = 1, example = 412_345)]
    size_bytes: u64,
    #[schema(value_type = formats::ReleasedAt)]
    released_at: String,
    /// Minimum version of WordPress.
    #[schema(example = "6.4")]
    requires_wordpress: String,
    /// Latest version of WordPress with which it was tested.
    #[schema(example = "6.8")]
    tested_wordpress: String,
    /// Minimum version of WooCommerce.
    #[schema(example = "8.2")]
    requires_woocommerce: String,
    /// Minimum version of PHP.
    #[schema(example = "8.1")]
    requires_php: String,
    #[schema(value_type = formats::ChangelogUrl)]
    changelog_url: String,
}

impl From<&Release> for ReleaseBody {
    fn from(release: &Release) -> Self {
        Self {
            version: release.version.to_string(),
            download_url: release.download_url.clone(),
            sha256: release.sha256.to_string(),
            size_bytes: release.size_bytes,
            released_at: release.released_at.rfc3339(),
            requires_wordpress: release.requires_wordpress.clone(),
            tested_wordpress: release.tested_wordpress.clone(),
            requires_woocommerce: release.requires_woocommerce.clone(),
            requires_php: release.requires_php.clone(),
            changelog_url: release.changelog_url.clone(),
        }
    }
}

/// Returns the shop plugin's latest release.
///
/// Needs no key. Send `If-None-Match` with the `ETag` of the previous response: 304 means that nothing has
/// changed.
#[utoipa::path(
    get, path = "/api/v1/woocommerce/releases/latest", tag = "Shop plugin",
    operation_id = "latestRelease",
    responses(
        (status = 200, description = "The latest release.", body = ReleaseBody,
            headers(
                ("ETag" = String, description = "The answer's tag."),
                ("Cache-Control" = String, description = "`public, max-age=300`"),
            )),
        (status = 304, description = "It is the one that the caller knows.",
            headers(
                ("ETag" = String, description = "The answer's tag."),
                ("Cache-Control" = String, description = "`public, max-age=300`"),
            )),
        (status = 404, description = "None is published.", body = ErrorBody),
        Anyone,
    )
)]
pub(super) async fn latest(
    State(state): State<ApiState>,
    Anonymous(arrived): Anonymous,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let settings = state.gateway().settings();
    let release = settings.release.as_ref();
    let release = release.ok_or(ApiError::NotFound("no release is published yet"))?;
    let text = serde_json::to_vec(&ReleaseBody::from(release)).map_err(ApiError::internal)?;
    Ok(Cached::new(text).answer(&arrived.parts.headers))
}
