//! The documentation of the public API at `/docs`: an HTML page rendered from the OpenAPI document, without script.
//!
//! | File | Content |
//! |---|---|
//! | `view` | content of the page, read from the document |
//! | `text` | the document's texts as HTML |

mod text;
mod view;

use askama::Template as _;
use axum::Router;
use axum::response::Response;
use axum::routing::get;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderValue};

use self::view::Docs;
use crate::api::{self, ApiState, Cached};
use crate::web::ApiError;

/// Allows only the server's own stylesheets and icon.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// `GET /docs` for the public listener.
pub(crate) fn router(state: &ApiState) -> Router {
    let page = page();
    let answer = move |headers: HeaderMap| {
        let page = page.clone();
        async move {
            page.map(|page| guarded(page.answer(&headers)))
                .ok_or_else(missing)
        }
    };
    api::limited(Router::new().route("/docs", get(answer)), state)
}

fn missing() -> ApiError {
    ApiError::internal("the document could not be rendered")
}

/// Renders the page once. `None` if that fails, which is logged.
fn page() -> Option<Cached> {
    // Strings, numbers and maps with string keys always serialize.
    let document = serde_json::to_value(api::openapi()).unwrap_or_default();
    match Docs::read(&document).render() {
        Ok(html) => Some(Cached::html(html)),
        Err(error) => {
            tracing::error!(%error, "the page about the API could not be rendered");
            None
        }
    }
}

fn guarded(mut response: Response) -> Response {
    let mut set = |name: HeaderName, value| {
        let value = HeaderValue::from_static(value);
        response.headers_mut().insert(name, value);
    };
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(REFERRER_POLICY, "same-origin");
    set(X_FRAME_OPTIONS, "DENY");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html() -> String {
        let document = serde_json::to_value(api::openapi()).unwrap();
        Docs::read(&document).render().unwrap()
    }

    #[test]
    fn every_operation_and_schema_of_the_document_stands_on_the_page_once() {
        let document = serde_json::to_value(api::openapi()).unwrap();
        let html = html();
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                let id = operation["operationId"].as_str().unwrap();
                assert_eq!(html.matches(&format!("id=\"{id}\"")).count(), 1, "{path}");
            }
        }
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for name in schemas.keys() {
            assert_eq!(html.matches(&format!("id=\"{name}\"")).count(), 1, "{name}");
        }
        for link in html.split("href=\"#").skip(1) {
            let target = link.split('"').next().unwrap();
            assert!(html.contains(&format!("id=\"{target}\"")), "{target}");
        }
        assert!(html.contains("id=\"receiveEvent\""));
    }

    #[test]
    fn the_page_is_small_and_has_neither_script_nor_style_of_its_own() {
        let document = serde_json::to_value(api::openapi()).unwrap();
        let html = html();
        let items = ["paths", "webhooks"].map(|of| document[of].as_object().unwrap().values());
        let items = items.into_iter().flatten();
        let operations: usize = items.map(|item| item.as_object().unwrap().len()).sum();
        let each = html.len() / operations;
        assert!(each <= 2_750, "{each} bytes per operation");
        for part in ["<script", "style=", "<style", "javascript:"] {
            assert!(!html.contains(part), "{part}");
        }
    }
}
