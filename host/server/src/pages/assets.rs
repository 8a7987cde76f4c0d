//! The stylesheet and the icon, served under a name made of their content.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use kassette_domain::brand::Colour;
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

/// The path of a stylesheet that lays a merchant's colour under name and amount.
pub(crate) fn colours_path(colour: Colour) -> String {
    format!("/assets/{}.css", colour.to_string().replace('#', "colour-"))
}

/// That stylesheet: what the one of all pages says of light and of dark, said once more.
fn colours(file: &str) -> Option<String> {
    let digits = file.strip_prefix("colour-")?.strip_suffix(".css")?;
    let colour: Colour = format!("#{digits}").parse().ok()?;
    let text = colour.text();
    Some(format!(
        ":root {{\n  --panel: {colour};\n  --on-panel: {text};\n  --on-panel-soft: {text};\n  --panel-line: {text}40;\n}}\n"
    ))
}

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
    let (media_type, body) = match [&*STYLE, &*DOCS_STYLE, &*ICON].into_iter().find(wanted) {
        Some(asset) => (asset.media_type, Body::from(asset.body)),
        None => match colours(&file) {
            Some(sheet) => (STYLE.media_type, Body::from(sheet)),
            None => return StatusCode::NOT_FOUND.into_response(),
        },
    };
    unchanging(media_type, body)
}

/// A file that never changes under its address.
pub(crate) fn unchanging(media_type: &'static str, body: Body) -> Response {
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, media_type),
        header(CACHE_CONTROL, "public, max-age=31536000, immutable"),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // An icon opened by itself is a document: it may do nothing.
        header(
            http::header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, body).into_response()
}
