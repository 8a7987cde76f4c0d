//! Resellers' endpoints: payments for merchants that have authorized it (spec, "Reseller endpoints";
//! decisions, "Reseller").
//!
//! | file | holds |
//! |---|---|
//! | `signed` | everything that is checked before a body is looked at |
//! | `invitations`, `merchants` | asking merchants, and where the reseller stands with them |
//! | `payments`, `details`, `list`, `start` | delegated payments |

mod details;
mod invitations;
mod list;
mod merchants;
mod payments;
pub(super) mod signed;
mod start;

use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::state::ApiState;

/// The endpoints that read or write.
pub(super) fn endpoints() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(invitations::invite))
        .routes(routes!(merchants::list))
        .routes(routes!(list::list, payments::create))
        .routes(routes!(payments::read))
        .routes(routes!(details::read))
}

/// The endpoint that starts a payment.
pub(super) fn starts() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new().routes(routes!(start::start))
}
