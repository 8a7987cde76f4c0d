//! The page to which providers send payers back. It shows the actual state, regardless of the query.

use axum::extract::RawQuery;
use axum::response::Response;
use http::Uri;
use http::uri::PathAndQuery;

use super::checkout_state::CheckoutState;
use super::problems::Problem;
use super::status::{self, PageKind, STAY};
use super::visit::{PageOptions, Visit};

/// `GET /return/{token}`
pub(crate) async fn show(mut visit: Visit, RawQuery(query): RawQuery) -> Response {
    let Some(token) = visit.token.as_deref() else {
        return visit.problem(Problem::NotFound);
    };
    let query = query.unwrap_or_default();
    let stays = query == STAY;
    let query = if stays { "" } else { &query };
    match visit.backend.returned(token, query).await {
        Ok(Some(view)) => {
            let locale = view.checkout.aggregate.payment.locale.as_ref();
            visit.t = visit.t.preferring(locale);
            let state = CheckoutState::from_view(&view.checkout, visit.backend.now());
            let kind = PageKind::Return(&view.attempt);
            let options = PageOptions {
                stays,
                ..PageOptions::default()
            };
            status::page(&visit, &view.checkout, state, kind, options)
        }
        Ok(None) => visit.problem(Problem::NotFound),
        Err(fault) => visit.problem(fault.into()),
    }
}

/// `POST /return/{token}`: redirects to the same URL. The form is not read, because anyone can forge it.
pub(crate) async fn look(visit: Visit, uri: Uri) -> Response {
    let target = uri
        .path_and_query()
        .map_or(uri.path(), PathAndQuery::as_str);
    visit.see_other(target)
}
