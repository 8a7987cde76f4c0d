//! Pages for payers (hosted checkout and return page) and for invited merchants.
//!
//! | Address | Does |
//! |---|---|
//! | `GET /checkout/{token}` | shows the payment's state and the available methods |
//! | `POST /checkout/{token}/choose` | starts the payment with the chosen method |
//! | `POST /checkout/{token}/answer` | answers the module's questions |
//! | `POST /checkout/{token}/abandon` | closes the open attempt, so that another method can be chosen |
//! | `GET /checkout/{token}/go` | redirects to the provider |
//! | `GET /checkout/{token}/status` | version of the payment's state, for the page's script |
//! | `GET /logos/{merchant}/{file}` | a merchant's logo |
//! | `GET /return/{token}` | page to which providers send payers back; `POST` redirects to it |
//! | `GET /invitation/{token}` | shows a reseller's invitation to the merchant |
//! | `POST /invitation/{token}` | accepts it with a consent code, or declines it |
//! | `GET /assets/{file}` | stylesheets, script and icon |
//!
//! Every page except the redirect to a provider has a language menu: `?language=pl` stores the choice in a
//! cookie and redirects to the same URL without it.
//!
//! Responses to forms never redirect to another origin. GET requests change nothing, except that the return
//! page applies a report. No page needs a script. E-mail address, payment id and USD amount are never shown.

mod amount;
mod assets;
mod backend;
mod checkout;
mod checkout_state;
mod ended;
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

/// State of the pages; cheap to clone.
#[derive(Clone)]
pub(crate) struct PagesState {
    backend: Arc<dyn Backend>,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    trusted_proxies: Proxies,
    /// Rate limiter shared with the API. `None` in tests of the pages.
    limiter: Option<ApiState>,
}

impl PagesState {
    /// Pages of a gateway. Public URL and development permissions are read from its settings for each request.
    pub(crate) fn new(gateway: Gateway, trusted_proxies: Proxies) -> Self {
        Self {
            backend: Arc::new(gateway),
            trusted_proxies,
            limiter: None,
        }
    }

    /// The same, with rate limits per client address.
    pub(crate) fn limited_by(mut self, limiter: ApiState) -> Self {
        self.limiter = Some(limiter);
        self
    }
}

/// The pages of the public listener.
pub(crate) fn router(state: PagesState) -> Router {
    // A payer who opens a form's URL from the address bar gets the payment's page.
    let form = || get(checkout::look_again);
    // Some providers send payers back with a form, and some URLs get a trailing slash on the way.
    let returned = || get(returned::show).post(returned::look);
    let by_method = Router::new()
        .route(
            "/invitation/{token}",
            get(invitation::show).post(invitation::answer),
        )
        .route("/logos/{merchant}/{file}", get(checkout::logo))
        .route("/assets/{file}", get(assets::serve));
    let modules = Router::new()
        .route("/checkout/{token}", get(checkout::show))
        .route("/checkout/{token}/status", get(checkout::version))
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
        .route("/return/{token}", returned())
        .route("/return/{token}/", returned());
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

/// Middleware of all pages; includes the public listener's admission, if there is one.
fn edge(state: &PagesState) -> Edge {
    match &state.limiter {
        None => Edge::new("public", after_panic),
        Some(limiter) => {
            let admission = Arc::clone(limiter.admission());
            Edge::with_admission(admission, busy, "public", after_panic)
        }
    }
}

/// Text for payers in a response created without access to their request.
#[derive(Clone, Copy)]
struct Words(fn(Texts) -> String);

/// Writes such texts in the payer's language.
async fn say(request: Request, next: Next) -> Response {
    let texts = Texts::negotiate(request.headers());
    let mut response = next.run(request).await;
    if let Some(Words(words)) = response.extensions_mut().remove() {
        response.headers_mut().remove(CONTENT_LENGTH);
        *response.body_mut() = words(texts).into();
    }
    response
}

/// Response if too many requests are in flight: the API's status and headers, with a text for payers.
fn busy() -> Response {
    let mut response = plain(ApiError::Busy, String::new());
    response.extensions_mut().insert(Words(Texts::busy));
    response
}

/// An API error as a line of plain text.
fn plain(error: ApiError, text: String) -> Response {
    let (mut head, _) = error.into_response().into_parts();
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    head.headers.insert(CONTENT_TYPE, media_type);
    head.headers.remove(CONTENT_LENGTH);
    Response::from_parts(head, Body::from(text))
}

/// Limits clients that guess tokens or reload endlessly. Payers have no key, so requests are counted per
/// address. Also handles choices of a language, which need no page.
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

/// Response after a handler panicked; the layer logs the panic.
fn after_panic() -> Response {
    let words = |t: Texts| format!("{}. {}", t.failure_title(), t.failure_text());
    let mut response = (StatusCode::INTERNAL_SERVER_ERROR, "").into_response();
    response.extensions_mut().insert(Words(words));
    response
}
