//! A merchant's payments, in pages.

use std::borrow::Cow;

use axum::extract::State;
use axum::response::Response;
use kassette_domain::order::OrderId;
use kassette_domain::payment::Status;
use kassette_domain::time::Time;
use kassette_store::{Listed, Paging, PaymentFilter};
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema as _, ToSchema};

use super::access::MerchantRead;
use super::document::Authenticated;
use super::payments::PaymentBody;
use super::state::ApiState;
use super::{answer, formats, query};
use crate::web::error::ApiError;
use crate::web::time::{UTC, utc};

/// Requests that one page counts as: a filter that matches little looks at thousands of payments.
pub(super) const COST: u32 = 10;

/// The query's parameters, for the document; [`asked`] reads them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        list_parameters()
    }
}

/// The parameters of a list of payments that [`list_asked`] reads, for the document.
pub(super) fn list_parameters() -> Vec<Parameter> {
    let of = |name: &str, schema: RefOr<Schema>, description: &str| {
        query::parameter(name, Required::False, schema, description)
    };
    vec![
        of(
            "order_id",
            formats::OrderId::schema(),
            "Payments of this order alone.",
        ),
        of(
            "status",
            formats::PaymentStatus::schema(),
            "Payments in this status alone.",
        ),
        of(
            "since",
            formats::Instant::schema(),
            "Payments that were made then or later; with `Z`.",
        ),
        of(
            "until",
            formats::Instant::schema(),
            "Payments that were made before; with `Z`.",
        ),
        query::limit_parameter(),
        query::cursor_parameter(),
    ]
}

/// A page of payments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Payments)]
pub(super) struct ListBody<'a> {
    /// The newest first.
    payments: Vec<PaymentBody<'a>>,
    /// `cursor` of the next page; null on the last. Stays good while payments are made.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the payments of the merchant in the key's environment.
///
/// The newest first, those that resellers made for the merchant among them. A page may be shorter than
/// its limit, or empty, while `next_cursor` is not null: go on until it is. One page counts as ten requests.
#[utoipa::path(
    get, path = "/api/v1/payments", tag = "Payments", operation_id = "listPayments",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of payments.", body = ListBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    MerchantRead { caller, arrived }: MerchantRead<COST>,
) -> Result<Response, ApiError> {
    let (mut filter, paging) = asked(arrived.parts.uri.query())?;
    let gateway = state.gateway();
    filter.merchant = Some(caller.merchant.id);
    filter.environment = Some(caller.key.environment);
    match gateway.store().payments(filter, paging).await? {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let payments = page.items.iter();
            let body = ListBody {
                payments: payments
                    .map(|payment| PaymentBody::of(payment, gateway))
                    .collect(),
                next_cursor: page.next,
            };
            answer::json(&body, 512 * page.items.len() + 64)
        }
    }
}

/// Which payments a query asks for, and which page of them.
fn asked(query: Option<&str>) -> Result<(PaymentFilter, Paging), ApiError> {
    list_asked(query::read(query, LIST)?)
}

/// The names of a list's parameters, in the order in which [`list_asked`] takes their values.
pub(super) const LIST: [&str; 6] = ["order_id", "status", "since", "until", "limit", "cursor"];

/// Which payments such values ask for, and which page of them.
pub(super) fn list_asked(
    [order, status, since, until, limit, cursor]: [Option<Cow<'_, str>>; LIST.len()],
) -> Result<(PaymentFilter, Paging), ApiError> {
    let order = order.map(|text| OrderId::parse(&text)).transpose();
    let order = order.map_err(|why| ApiError::invalid("order_id", why))?;
    let status = status
        .map(|text| {
            let unknown = || ApiError::invalid("status", "is no status of a payment");
            Status::parse(&text).ok_or_else(unknown)
        })
        .transpose()?;
    let filter = PaymentFilter {
        order_id: order.map(|order| order.as_str().to_owned()),
        status,
        since: since.map(|text| time("since", &text)).transpose()?,
        until: until.map(|text| time("until", &text)).transpose()?,
        ..PaymentFilter::default()
    };
    Ok((filter, query::paging(limit, cursor)?))
}

/// A point in time in a query.
pub(super) fn time(field: &'static str, text: &str) -> Result<Time, ApiError> {
    utc(text).ok_or_else(|| ApiError::invalid(field, UTC))
}
