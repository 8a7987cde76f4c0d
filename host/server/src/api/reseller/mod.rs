//! Resellers' endpoints: payments for merchants that have authorized it (spec, "Reseller endpoints";
//! decisions, "Reseller").
//!
//! | file | holds |
//! |---|---|
//! | `signed` | all checks before a body is parsed |
//! | `invitations`, `merchants` | inviting merchants, and their current authorizations |
//! | `payments`, `details`, `list`, `start` | delegated payments |
//! | `refunds` | refunds of them |

mod details;
mod invitations;
mod list;
mod merchants;
mod payments;
mod refunds;
pub(super) mod signed;
mod start;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::state::ApiState;

/// Endpoints that read or create.
pub(super) fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(invitations::invite))
        .routes(routes!(merchants::list))
        .routes(routes!(list::list, payments::create))
        .routes(routes!(payments::read))
        .routes(routes!(details::read))
}

/// Endpoints that start or cancel a payment.
pub(super) fn starts() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(start::start))
        .routes(routes!(payments::cancel))
}

/// Endpoints that refund.
pub(super) fn refunds() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(refunds::list, refunds::create))
}
