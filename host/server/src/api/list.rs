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
use super::reseller::{limit_of, parameter};
use super::state::ApiState;
use super::{answer, formats, query};
use crate::web::error::ApiError;

/// Payments of a page where `limit` is absent.
const PAGE: usize = 50;
/// Most payments of a page.
const MAX_PAGE: usize = 100;
/// Requests that one page counts as: a filter that matches little looks at thousands of payments.
const COST: u32 = 10;

/// The query's parameters, for the document; [`asked`] reads them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let of = |name: &str, schema: RefOr<Schema>, description: &str| {
            parameter(name, Required::False, schema, description)
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
            of(
                "limit",
                formats::Limit::schema(),
                "Most payments of a page; 50 where it is absent.",
            ),
            of(
                "cursor",
                formats::Cursor::schema(),
                "`next_cursor` of the page before.",
            ),
        ]
    }
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
    MerchantRead { caller, arrived }: MerchantRead,
) -> Result<Response, ApiError> {
    let (mut filter, paging) = asked(arrived.parts.uri.query())?;
    let gateway = state.gateway();
    let own = caller.merchant.policy.rate_limit;
    let limit = own.unwrap_or_else(|| gateway.settings().rate_limit);
    // One was taken for the request.
    let keys = &state.limits().keys;
    keys.take_many(&caller.key.id, COST - 1, limit, state.now())?;
    filter.merchant = Some(caller.merchant.id);
    filter.environment = Some(caller.key.environment);
    match gateway.store().payments(filter, paging).await? {
        Listed::BadCursor => Err(ApiError::invalid(
            "cursor",
            "is none that this list gave out",
        )),
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
    let known = ["order_id", "status", "since", "until", "limit", "cursor"];
    let [order, status, since, until, limit, cursor] = query::read(query, known)?;
    let order = order.map(|text| OrderId::parse(&text)).transpose();
    let order = order.map_err(|why| ApiError::invalid("order_id", why))?;
    let status = status
        .map(|text| {
            let unknown = || ApiError::invalid("status", "is no status of a payment");
            Status::parse(&text).ok_or_else(unknown)
        })
        .transpose()?;
    let limit = match limit {
        None => PAGE,
        Some(text) => limit_of(&text, MAX_PAGE)
            .ok_or_else(|| ApiError::invalid("limit", "must be a number from 1 to 100"))?,
    };
    let filter = PaymentFilter {
        order_id: order.map(|order| order.as_str().to_owned()),
        status,
        since: since.map(|text| time("since", &text)).transpose()?,
        until: until.map(|text| time("until", &text)).transpose()?,
        ..PaymentFilter::default()
    };
    let cursor = cursor.map(Cow::into_owned);
    Ok((filter, Paging { limit, cursor }))
}

/// RFC 3339 with `Z`: of a sign before an offset a query makes a space.
fn time(field: &'static str, text: &str) -> Result<Time, ApiError> {
    let time = Time::parse_rfc3339(text).filter(|_| text.ends_with('Z'));
    let what = "must be an RFC 3339 time with Z such as 2030-01-31T12:00:00Z";
    time.ok_or_else(|| ApiError::invalid(field, what))
}
