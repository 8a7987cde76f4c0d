//! The documentation at `/docs`: guides from config/, and a page for each call, made from the OpenAPI document.
//! HTML without script, rendered at the first request.
//!
//! | File | Content |
//! |---|---|
//! | `site` | the list of pages, the navigation, all pages rendered |
//! | `markdown` | Markdown as HTML |
//! | `call` | the page of a call, read from the OpenAPI document |
//! | `schema` | fields of objects, types, limits |
//! | `example` | the example request and answer of a call |
//! | `codes` | the list of error codes |

mod call;
mod codes;
mod example;
mod markdown;
mod schema;
mod site;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::extract::Path;
use axum::response::Response;
use axum::routing::get;
use http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use http::{HeaderMap, HeaderValue};

use crate::api::{self, ApiState, Cached};
use crate::web::ApiError;

/// Allows only the server's own stylesheets and icon.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";

/// Pages by path below `/docs`.
type Pages = LazyLock<HashMap<String, Cached>, Box<dyn FnOnce() -> HashMap<String, Cached> + Send>>;

/// `GET /docs` and the pages below it, for the public listener.
pub(crate) fn router(state: &ApiState) -> Router {
    let origin = state.gateway().settings().public_url.clone();
    let pages: Arc<Pages> = Arc::new(LazyLock::new(Box::new(move || render(&origin))));
    let overview = Arc::clone(&pages);
    let overview = async move |headers: HeaderMap| answer(&overview, "", &headers);
    let page =
        async move |Path(path): Path<String>, headers: HeaderMap| answer(&pages, &path, &headers);
    let routes = Router::new()
        .route("/docs", get(overview))
        .route("/docs/{*path}", get(page));
    api::limited(routes, state)
}

fn answer(pages: &Pages, path: &str, headers: &HeaderMap) -> Result<Response, ApiError> {
    match pages.get(path) {
        Some(page) => Ok(guarded(page.clone().answer(headers))),
        None => Err(ApiError::NotFound("there is no such page")),
    }
}

/// Renders all pages. A page that fails is missing, which is logged.
fn render(origin: &str) -> HashMap<String, Cached> {
    let mut pages = HashMap::new();
    for (path, html) in site::pages(&document(), origin) {
        match html {
            Ok(html) => {
                pages.insert(path, Cached::html(html));
            }
            Err(error) => {
                tracing::error!(docs.path = %path, %error, "a page of the documentation could not be rendered");
            }
        }
    }
    pages
}

fn document() -> serde_json::Value {
    // Strings, numbers and maps with string keys always serialize.
    serde_json::to_value(api::openapi()).unwrap_or_default()
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
    use std::collections::BTreeMap;

    use kassette_domain::attempt::AttemptState;
    use kassette_domain::decline::DeclineCode;
    use kassette_domain::event::EventType;
    use kassette_domain::payment::{Settlement, Status};

    use super::*;
    use crate::pages::DOCS_STYLE;

    /// Maximum size of a page and its stylesheet, in bytes before compression.
    const MAX_BYTES: usize = 60_000;

    fn pages() -> BTreeMap<String, String> {
        let pages = site::pages(&document(), "https://pay.example");
        let pages = pages.into_iter().map(|(path, html)| (path, html.unwrap()));
        pages.collect()
    }

    /// Values of an attribute on a page.
    fn values<'p>(html: &'p str, attribute: &str) -> impl Iterator<Item = &'p str> {
        let begin = format!(" {attribute}=\"");
        let parts: Vec<&str> = html.split(&begin).skip(1).collect();
        parts.into_iter().filter_map(|part| part.split('"').next())
    }

    #[test]
    fn every_link_leads_to_a_page_and_to_a_place_on_it() {
        let pages = pages();
        for (path, html) in &pages {
            let ids: Vec<_> = values(html, "id").collect();
            for (at, id) in ids.iter().enumerate() {
                assert!(!ids[..at].contains(id), "{path}: {id} is there twice");
            }
            for link in values(html, "href") {
                if link.starts_with("https://") || link.starts_with("/assets/") {
                    continue;
                }
                let (target, place) = link.split_once('#').unwrap_or((link, ""));
                let target = match target {
                    "" => path,
                    "/docs" => "",
                    "/openapi.json" => continue,
                    other => other.strip_prefix("/docs/").unwrap_or(other),
                };
                let there = pages.get(target);
                let there = there.unwrap_or_else(|| panic!("{path}: {link} leads nowhere"));
                let is_there = place.is_empty() || values(there, "id").any(|id| id == place);
                assert!(is_there, "{path}: {link} names no place");
            }
        }
    }

    #[test]
    fn every_operation_has_a_page_with_its_fields_and_statuses() {
        let (document, pages) = (document(), pages());
        for (path, item) in document["paths"].as_object().unwrap() {
            for (verb, operation) in item.as_object().unwrap() {
                let id = operation["operationId"].as_str().unwrap();
                let page = &pages[&site::call_path(id)];
                assert!(page.contains(&format!("<code>{path}</code>")), "{id}");
                assert!(page.contains(&format!(">{}<", verb.to_uppercase())), "{id}");
                for status in operation["responses"].as_object().unwrap().keys() {
                    assert!(page.contains(&format!(">{status}<")), "{id}: {status}");
                }
                for parameter in operation["parameters"].as_array().into_iter().flatten() {
                    let name = parameter["name"].as_str().unwrap();
                    assert!(
                        page.contains(&format!("<code>{name}</code>")),
                        "{id}: {name}"
                    );
                }
                let is_curl = page.contains("<code>curl -s");
                assert!(is_curl && page.matches("<figure").count() >= 1, "{id}");
            }
        }
        let create = &pages["reference/create-payment"];
        for field in ["metadata", "expires_in", "checkout_url"] {
            assert!(create.contains(&format!("<code>{field}</code>")), "{field}");
        }
        assert!(pages["reference/receive-event"].contains("payment.completed"));
    }

    #[test]
    fn every_status_event_code_and_decline_is_in_the_table_about_it() {
        let pages = pages();
        let has = |path: &str, word: &str| {
            let row = format!("<th scope=\"row\" role=\"rowheader\"><code>{word}</code>");
            let listed =
                pages[path].contains(&row) || pages[path].contains(&format!("id=\"{word}\""));
            assert!(listed, "{path}: {word}");
        };
        for status in Status::ALL {
            has("statuses", status.as_str());
        }
        for settlement in [
            Settlement::Pending,
            Settlement::Confirmed,
            Settlement::Failed,
        ] {
            has("statuses", settlement.as_str());
        }
        for state in AttemptState::ALL {
            assert!(pages["statuses"].contains(&format!("<code>{}</code>", state.as_str())));
        }
        for event in EventType::ALL {
            assert!(pages["events"].contains(&format!("<code>{}</code>", event.as_str())));
        }
        for decline in DeclineCode::ALL {
            has("events", decline.as_str());
            assert!(pages["test-amounts"].contains(&format!("<code>{}</code>", decline.as_str())));
        }
        for (code, ..) in crate::web::code::Code::list() {
            has("errors", &code);
        }
    }

    #[test]
    fn pages_are_small_and_have_neither_script_nor_style_of_their_own() {
        for (path, html) in pages() {
            let bytes = html.len() + DOCS_STYLE.body.len();
            assert!(bytes <= MAX_BYTES, "{path}: {bytes} bytes");
            for part in ["<script", "style=\"", "<style", "javascript:"] {
                assert!(!html.contains(part), "{path}: {part}");
            }
        }
    }

    #[test]
    fn commands_name_the_address_of_this_gateway() {
        let page = &pages()["first-payment"];
        assert!(page.contains("export KASSETTE_URL=https://pay.example"));
        assert!(!page.contains("localhost:8080"));
    }
}
