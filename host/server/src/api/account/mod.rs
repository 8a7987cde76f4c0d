//! Management of webhook endpoints by merchants and resellers themselves, with a key that has the scope
//! `account:manage`.

mod access;
mod deliveries;
mod endpoints;

use axum::Extension;
use utoipa::openapi::RefOr;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::SecurityRequirement;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter};
use utoipa_axum::routes;

use self::access::ForResellers;
use super::state::ApiState;
use crate::web::document::{operations, refused};

/// The endpoints below `/api/v1/account`, and the same for resellers below `/api/v1/reseller`.
pub(super) fn routes() -> OpenApiRouter<ApiState> {
    let merchants = all().into_iter();
    let resellers = all().into_iter().map(for_resellers);
    merchants
        .chain(resellers)
        .fold(OpenApiRouter::new(), OpenApiRouter::routes)
}

fn all() -> [UtoipaMethodRouter<ApiState>; 8] {
    [
        routes!(endpoints::list, endpoints::create),
        routes!(endpoints::show, endpoints::change, endpoints::remove),
        routes!(endpoints::test),
        routes!(endpoints::rotate),
        routes!(endpoints::recover),
        routes!(deliveries::list),
        routes!(deliveries::show),
        routes!(deliveries::redeliver),
    ]
}

/// Converts calls to a reseller's path, with the description and checks of resellers' calls.
fn for_resellers(
    (schemas, mut paths, methods): UtoipaMethodRouter<ApiState>,
) -> UtoipaMethodRouter<ApiState> {
    paths.paths = std::mem::take(&mut paths.paths)
        .into_iter()
        .map(|(path, item)| (path.replace("/v1/account/", "/v1/reseller/"), item))
        .collect();
    operations(&mut paths).for_each(tell_resellers);
    (schemas, paths, methods.layer(Extension(ForResellers)))
}

fn tell_resellers(operation: &mut Operation) {
    operation.tags = Some(vec!["Resellers".into()]);
    let id = operation.operation_id.take();
    operation.operation_id = id.map(|id| id.replace("Own", "ResellerOwn"));
    let key = SecurityRequirement::new::<_, _, String>("reseller_key", []);
    operation.security = Some(vec![key]);
    let nonce = "The nonce was used before";
    match operation.responses.responses.get_mut("409") {
        Some(RefOr::T(conflict)) => {
            conflict.description = format!("{nonce}. Or: {}", conflict.description);
        }
        _ => {
            let conflict = refused(&format!("{nonce}."));
            operation.responses.responses.insert("409".into(), conflict);
        }
    }
}
