//! The pages of the console. They only read; forms are in [`super`].

mod overview;

use axum::Router;
use axum::routing::get;

use super::Console;

/// The addresses of the pages.
pub(super) fn routes() -> Router<Console> {
    Router::new().route("/console/", get(overview::show))
}
