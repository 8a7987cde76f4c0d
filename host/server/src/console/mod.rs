//! The operators' console: server-rendered pages on the admin listener.
//!
//! | file | contains |
//! |---|---|
//! | `context` | what every page gets: the signed-in operator, environment, CSRF token, status line |
//! | `reply` | pages and refusals as responses; the headers of every response |
//! | `session` | sessions and their cookie |
//! | `sign_in` | signing in and out |
//! | `form`, `multipart`, `sent`, `forms` | forms, which become calls of the admin API |
//! | `confirm` | the second question before a dangerous change |
//! | `several` | one decision about several items of the inbox |
//! | `pages` | the pages; they only read |
//!
//! The console is a client of the admin API within the process: pages read and forms change through the
//! handlers of [`crate::admin`], so there is no second set of rules. The operator of a call is the one who is
//! signed in.

mod confirm;
mod context;
mod form;
mod forms;
mod multipart;
mod pages;
mod reply;
mod sent;
mod session;
mod several;
mod sign_in;

use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use http::StatusCode;
use kassette_gateway::Gateway;

use crate::admin::AdminState;
use crate::pages::{Asset, Keeper, unchanging};
use crate::proxies::Proxies;
use crate::status::Report;

use self::reply::ConsoleError;
use self::sign_in::WrongTokens;

/// Stylesheet of the console.
static STYLE: std::sync::LazyLock<Asset> = std::sync::LazyLock::new(|| {
    Asset::below(
        "/console/assets",
        include_str!("../../static/console.css"),
        "css",
        "text/css; charset=utf-8",
    )
});

/// Script of the console, which also works without it.
static SCRIPT: std::sync::LazyLock<Asset> = std::sync::LazyLock::new(|| {
    Asset::below(
        "/console/assets",
        include_str!("../../static/console.js"),
        "js",
        "text/javascript; charset=utf-8",
    )
});

/// The icon next to the pages' titles.
static ICON: std::sync::LazyLock<Asset> = std::sync::LazyLock::new(|| {
    Asset::below(
        "/console/assets",
        crate::pages::ICON.body,
        "svg",
        "image/svg+xml",
    )
});

/// State of the console; cheap to clone.
#[derive(Clone)]
pub(crate) struct Console {
    inner: Arc<Inner>,
}

struct Inner {
    gateway: Gateway,
    admin: AdminState,
    /// The calls of the admin API, without the layers of its listener.
    calls: Router,
    /// Whether the listener speaks TLS itself.
    is_tls: bool,
    /// Proxies whose `X-Forwarded-For` is trusted.
    proxies: Proxies,
    wrong_tokens: WrongTokens,
    /// The last report of the gateway's status, with its time.
    report: tokio::sync::Mutex<Option<(Instant, Arc<Report>)>>,
}

impl Console {
    /// The console of an admin listener.
    pub(crate) fn new(admin: AdminState, is_tls: bool, proxies: Proxies) -> Self {
        let inner = Inner {
            gateway: admin.gateway().clone(),
            calls: crate::admin::calls(admin.clone()),
            admin,
            is_tls,
            proxies,
            wrong_tokens: WrongTokens::default(),
            report: tokio::sync::Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    fn gateway(&self) -> &Gateway {
        &self.inner.gateway
    }
}

/// Routes under `/console`.
pub(crate) fn router(console: Console) -> Router {
    let pages = pages::routes().with_state(console.clone());
    let forms = forms::Forms {
        console: console.clone(),
        pages: pages.clone(),
    };
    Router::new()
        .route(
            "/console/sign-in",
            get(sign_in::show).post(sign_in::sign_in),
        )
        .route("/console/sign-out", post(sign_in::sign_out))
        .route("/console/assets/{file}", get(asset))
        .route(
            "/console",
            any(async || ConsoleError::SeeOther("/console/".into())),
        )
        .route("/console/{*rest}", any(async || ConsoleError::not_found()))
        .with_state(console)
        .merge(pages)
        .layer(middleware::from_fn_with_state(forms, forms::handle))
        .layer(middleware::map_response(reply::with_headers))
}

async fn asset(Path(file): Path<String>) -> Response {
    let is_wanted = |asset: &&Asset| asset.path.rsplit('/').next() == Some(&file);
    match [&*STYLE, &*SCRIPT, &*ICON].into_iter().find(is_wanted) {
        Some(asset) => unchanging(asset.media_type, Keeper::Anyone, Body::from(asset.body)),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}
