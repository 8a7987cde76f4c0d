//! Where vendors send payers back to: the true state, whatever the address bar claims.

use axum::extract::RawQuery;
use axum::response::Response;

use super::checkout_state::CheckoutState;
use super::problems::Problem;
use super::status::{self, PageKind};
use super::visit::{PageOptions, Visit};

/// `GET /return/{token}`
pub(crate) async fn show(visit: Visit, RawQuery(query): RawQuery) -> Response {
    let Some(token) = visit.token.as_deref() else {
        return visit.problem(Problem::NotFound);
    };
    let query = query.unwrap_or_default();
    match visit.backend.returned(token, &query).await {
        Ok(Some(view)) => {
            let state = CheckoutState::of(&view.checkout, visit.backend.now());
            let kind = PageKind::Return(&view.attempt);
            status::page(&visit, &view.checkout, state, kind, PageOptions::default())
        }
        Ok(None) => visit.problem(Problem::NotFound),
        Err(fault) => visit.problem(fault.into()),
    }
}
