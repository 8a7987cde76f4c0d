//! Where providers send payers back to: the true state, whatever the address bar claims.

use axum::extract::RawQuery;
use axum::response::Response;

use super::problems::Problem;
use super::stage::Stage;
use super::visit::{Manner, Visit};
use super::ways::{self, Place};

/// `GET /return/{token}`
pub(crate) async fn show(visit: Visit, RawQuery(query): RawQuery) -> Response {
    let Some(token) = visit.token.as_deref() else {
        return visit.problem(Problem::NotFound);
    };
    let query = query.unwrap_or_default();
    match visit.till.returned(token, &query).await {
        Ok(Some(view)) => {
            let stage = Stage::of(&view.checkout, visit.till.now());
            let place = Place::Return(&view.attempt);
            ways::state(&visit, &view.checkout, stage, place, Manner::default())
        }
        Ok(None) => visit.problem(Problem::NotFound),
        Err(fault) => visit.problem(fault.into()),
    }
}
