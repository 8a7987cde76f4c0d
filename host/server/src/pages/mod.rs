//! What payers see, the hosted checkout and the return page, and what an invited merchant does.
//!
//! | Address | Does |
//! |---|---|
//! | `GET /checkout/{token}` | shows where the payment stands, and what can be chosen |
//! | `POST /checkout/{token}/choose` | starts by the chosen method |
//! | `POST /checkout/{token}/answer` | answers the module's questions |
//! | `POST /checkout/{token}/abandon` | closes the open attempt, so that another way can be chosen |
//! | `GET /checkout/{token}/go` | leads to the vendor |
//! | `GET /checkout/{token}/logo/{file}` | the merchant's logo |
//! | `GET /return/{token}` | where vendors send payers back to |
//! | `GET /invitation/{token}` | where a merchant reads a reseller's invitation |
//! | `POST /invitation/{token}` | accepts it with a consent code, or declines it |
//! | `GET /assets/{file}` | stylesheet and icon |
//!
//! Every page but the one that leads away has a menu of languages: `?language=pl` keeps the choice in a
//! cookie and leads back to the same address without it.
//!
//! A form's answer never redirects off our origin, a GET changes nothing but for the report that the
//! return page applies, and nothing needs a script. E-mail, payment id and USD amount are never shown.

mod amount;
mod assets;
mod backend;
mod checkout;
mod checkout_state;
mod forms;
mod icons;
mod invitation;
mod links;
mod money;
mod problems;
mod qr;
mod questions;
mod reply;
mod returned;
mod status;
mod templates;
mod texts;
mod visit;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use kassette_gateway::Gateway;

pub(crate) use self::assets::{DOCS_STYLE, ICON, STYLE};
use self::backend::Backend;
use self::texts::Texts;
use crate::admission::AdmissionClass;
use crate::api::ApiState;
use crate::proxies::Proxies;
use crate::telemetry::Edge;
use crate::web::ApiError;

/// What the pages stand on; cheap to clone.
#[derive(Clone)]
pub(crate) struct PagesState {
    backend: Arc<dyn Backend>,
    /// Addresses whose `X-Forwarded-For` counts.
    trusted_proxies: Proxies,
    /// Counts requests per address, together with the API's; none in tests of the pages alone.
    limiter: Option<ApiState>,
}

impl PagesState {
    /// Pages over a gateway. Public address and what is allowed in development are read from its
    /// settings at each request.
    pub(crate) fn new(gateway: Gateway, trusted_proxies: Proxies) -> Self {
        Self {
            backend: Arc::new(gateway),
            trusted_proxies,
            limiter: None,
        }
    }

    /// The same, with requests counted against their addresses.
    pub(crate) fn limited_by(mut self, limiter: ApiState) -> Self {
        self.limiter = Some(limiter);
        self
    }
}

/// The payers' pages, for the public listener.
pub(crate) fn router(state: PagesState) -> Router {
    // A payer who reloads the answer to a form from the address bar sees where the payment stands.
    let form = || get(checkout::look_again);
    let by_method = Router::new()
        .route(
            "/invitation/{token}",
            get(invitation::show).post(invitation::answer),
        )
        .route("/checkout/{token}/logo/{file}", get(checkout::logo))
        .route("/assets/{file}", get(assets::serve));
    let modules = Router::new()
        .route("/checkout/{token}", get(checkout::show))
        .route("/checkout/{token}/go", get(checkout::go));
    let starts = Router::new()
        .route(
            "/checkout/{token}/choose",
            form().merge(post(checkout::choose)),
        )
        .route(
            "/checkout/{token}/answer",
            form().merge(post(checkout::answer)),
        )
        .route(
            "/checkout/{token}/abandon",
            form().merge(post(checkout::abandon)),
        )
        .route("/return/{token}", get(returned::show));
    let edge = edge(&state);
    let mut router = Router::new();
    for (class, routes) in [
        (AdmissionClass::Starts, starts),
        (AdmissionClass::Modules, modules),
        (AdmissionClass::ByMethod, by_method),
    ] {
        let routes = routes
            .method_not_allowed_fallback(|| async { ApiError::MethodNotAllowed })
            .layer(middleware::from_fn_with_state(state.clone(), prepare))
            .layer(edge.of_class(class))
            .layer(middleware::from_fn(say));
        router = router.merge(routes);
    }
    router.with_state(state)
}

/// What all pages have in common; with the public listener's admission, where there is one.
fn edge(state: &PagesState) -> Edge {
    match &state.limiter {
        None => Edge::new("public", after_panic),
        Some(limiter) => {
            let admission = Arc::clone(limiter.admission());
            Edge::with_admission(admission, busy, "public", after_panic)
        }
    }
}

/// Words for payers in an answer that is made where their request is not known.
#[derive(Clone, Copy)]
struct Words(fn(Texts) -> String);

/// Writes such words in the payer's language.
async fn say(request: Request, next: Next) -> Response {
    let texts = Texts::negotiate(request.headers());
    let mut response = next.run(request).await;
    if let Some(Words(words)) = response.extensions_mut().remove() {
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = words(texts).into();
    }
    response
}

/// The answer where too many requests are in flight: the head of the API's, with words for payers.
fn busy() -> Response {
    let mut response = plain(ApiError::Busy, String::new());
    response.extensions_mut().insert(Words(Texts::busy));
    response
}

/// An error of the API as a line of text.
fn plain(error: ApiError, text: String) -> Response {
    let (mut head, _) = error.into_response().into_parts();
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    head.headers.insert(CONTENT_TYPE, media_type);
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(text))
}

/// A client that guesses tokens or reloads without end waits: payers bring no key, so addresses count. A choice from
/// the menu of languages needs no page.
async fn prepare(State(state): State<PagesState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let counted = state
        .limiter
        .as_ref()
        .map(|limiter| limiter.count_address(&parts));
    if let Some(Err(error)) = counted {
        return plain(error, Texts::negotiate(&parts.headers).too_many_requests());
    }
    let tag = Texts::asked(parts.uri.query()).filter(|_| parts.method == Method::GET);
    let Some(tag) = tag else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let secure = reply::is_secure(&state.backend.public_url());
    reply::in_language(parts.uri.path(), tag, secure)
}

/// The answer where a handler panicked; the layer tells the log.
fn after_panic() -> Response {
    let words = |t: Texts| format!("{}. {}", t.failure_title(), t.failure_text());
    let mut response = (StatusCode::INTERNAL_SERVER_ERROR, "").into_response();
    response.extensions_mut().insert(Words(words));
    response
}
