//! The stylesheet and the icon, served under a name made of their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use sha2::{Digest, Sha256};

/// A file that never changes under its name.
pub(crate) struct Asset {
    /// Its path on our origin.
    pub(crate) path: String,
    media_type: &'static str,
    pub(crate) body: &'static str,
}

/// The one stylesheet.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/pages.css"),
        "css",
        "text/css; charset=utf-8",
    )
});

/// What the page about the API has beside it.
pub(crate) static DOCS_STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/docs.css"),
        "css",
        "text/css; charset=utf-8",
    )
});

/// The icon beside the page's title in the browser.
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/icon.svg"),
        "svg",
        "image/svg+xml",
    )
});

impl Asset {
    fn new(body: &'static str, extension: &str, media_type: &'static str) -> Self {
        // Half a SHA-256 names a file of ours beyond doubt.
        let digest = Sha256::digest(body);
        let name = hex::encode(digest.get(..16).unwrap_or_default());
        Self {
            path: format!("/assets/{name}.{extension}"),
            media_type,
            body,
        }
    }
}

/// `GET /assets/{file}`
pub(crate) async fn serve(Path(file): Path<String>) -> Response {
    let wanted = |asset: &&Asset| asset.path.strip_prefix("/assets/") == Some(&file);
    let Some(asset) = [&*STYLE, &*DOCS_STYLE, &*ICON].into_iter().find(wanted) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, asset.media_type),
        header(CACHE_CONTROL, "public, max-age=31536000, immutable"),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // An icon opened by itself is a document: it may do nothing.
        header(
            http::header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, asset.body).into_response()
}
