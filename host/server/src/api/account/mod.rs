//! What a merchant's backend manages itself, with a key that has the scope `account:manage`.

mod deliveries;
mod endpoints;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::state::ApiState;

/// The endpoints below `/api/v1/account`.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(endpoints::list, endpoints::create))
        .routes(routes!(
            endpoints::show,
            endpoints::change,
            endpoints::remove
        ))
        .routes(routes!(endpoints::test))
        .routes(routes!(endpoints::rotate))
        .routes(routes!(endpoints::recover))
        .routes(routes!(deliveries::list))
        .routes(routes!(deliveries::show))
        .routes(routes!(deliveries::redeliver))
}
