//! The stylesheets, the script and the icon, served under names derived from their contents.

use std::sync::LazyLock;

use axum::body::Body;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, StatusCode};
use kassette_domain::brand::Colour;
use sha2::{Digest, Sha256};

/// A file whose content never changes.
pub(crate) struct Asset {
    /// The file's path.
    pub(crate) path: String,
    media_type: &'static str,
    pub(crate) body: &'static str,
}

/// The stylesheet of all pages.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/pages.css"),
        "css",
        "text/css; charset=utf-8",
    )
});

/// The script of all pages, which also work without it.
pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/pages.js"),
        "js",
        "text/javascript; charset=utf-8",
    )
});

/// The additional stylesheet of the API documentation page.
pub(crate) static DOCS_STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/docs.css"),
        "css",
        "text/css; charset=utf-8",
    )
});

/// The icon that the browser shows next to the page's title.
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        include_str!("../../static/icon.svg"),
        "svg",
        "image/svg+xml",
    )
});

/// Path of the stylesheet for a merchant's color, which is the background of name and amount.
pub(crate) fn colours_path(colour: Colour) -> String {
    format!("/assets/{}.css", colour.to_string().replace('#', "colour-"))
}

/// Content of that stylesheet, with the rules for light and dark. `None` if the file name contains no valid
/// color.
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
        // Half of a SHA-256 identifies a file reliably.
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
    let (media_type, body) = match [&*STYLE, &*SCRIPT, &*DOCS_STYLE, &*ICON]
        .into_iter()
        .find(wanted)
    {
        Some(asset) => (asset.media_type, Body::from(asset.body)),
        None => match colours(&file) {
            Some(sheet) => (STYLE.media_type, Body::from(sheet)),
            None => return StatusCode::NOT_FOUND.into_response(),
        },
    };
    unchanging(media_type, Keeper::Anyone, body)
}

/// Caches that may store a file.
#[derive(Clone, Copy)]
pub(crate) enum Keeper {
    /// All caches, including shared ones.
    Anyone,
    /// Only the browser, because a merchant can withdraw the file.
    Browser,
}

/// Response with a file that never changes under its path.
pub(crate) fn unchanging(media_type: &'static str, keeper: Keeper, body: Body) -> Response {
    let control = match keeper {
        Keeper::Anyone => "public, max-age=31536000, immutable",
        Keeper::Browser => "private, max-age=86400, immutable",
    };
    let header = |name: HeaderName, value| (name, HeaderValue::from_static(value));
    let headers = [
        header(CONTENT_TYPE, media_type),
        header(CACHE_CONTROL, control),
        header(X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // An icon opened directly is a document, which must not load or run anything.
        header(
            http::header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
    ];
    (headers, body).into_response()
}
