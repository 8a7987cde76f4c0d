//! Pages of a merchant's payments.

use std::borrow::Cow;
use std::collections::HashMap;

use axum::extract::State;
use axum::response::Response;
use kassette_domain::extras::{Metadata, Notes};
use kassette_domain::id::PaymentId;
use kassette_domain::money::Minor;
use kassette_domain::order::Email;
use kassette_domain::payment::{Payment, Status};
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
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
use crate::web::time::{INSTANT, instant};

/// Number of requests that one page counts as: a filter with few matches reads thousands of payments.
pub(super) const COST: u32 = 10;

/// The query's parameters for the document; [`asked`] parses them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        list_parameters()
    }
}

/// The parameters parsed by [`list_asked`], for the document.
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
            "Payments that were made then or later.",
        ),
        of(
            "until",
            formats::Instant::schema(),
            "Payments that were made before.",
        ),
        query::limit_parameter(),
        query::cursor_parameter(),
    ]
}

/// Additional fields of a payment in lists.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentSummary)]
pub(super) struct SummaryBody<'a> {
    #[schema(value_type = formats::Instant)]
    created_at: String,
    #[schema(value_type = Option<formats::Instant>, required)]
    completed_at: Option<String>,
    /// Amount refunded of the money that paid the payment, in the currency received.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    refunded_amount: Minor,
    /// Null if there is none, or if it was erased.
    #[schema(value_type = Option<formats::Email>, required)]
    customer_email: Option<&'a str>,
    #[schema(value_type = formats::Metadata)]
    metadata: Metadata,
}

impl<'a> SummaryBody<'a> {
    /// Removes the payment's notes from those of the page.
    pub(super) fn new(payment: &'a Payment, notes: &mut HashMap<PaymentId, Notes>) -> Self {
        let notes = notes.remove(&payment.id).unwrap_or_default();
        Self {
            created_at: payment.created_at.rfc3339(),
            completed_at: payment.completed_at.map(Time::rfc3339),
            refunded_amount: payment.refunded,
            customer_email: payment.email.as_ref().map(Email::expose),
            metadata: notes.metadata,
        }
    }
}

/// The notes of the payments of a page.
pub(super) async fn notes_of(
    gateway: &Gateway,
    payments: &[Payment],
) -> Result<HashMap<PaymentId, Notes>, ApiError> {
    let noted = payments.iter().filter(|payment| payment.notes.is_some());
    let noted: Vec<_> = noted.map(|payment| payment.id).collect();
    match noted.is_empty() {
        true => Ok(HashMap::new()),
        false => Ok(gateway.store().notes(noted).await?),
    }
}

/// A payment in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedPayment)]
pub(super) struct ListedBody<'a> {
    #[serde(flatten)]
    payment: PaymentBody<'a>,
    #[serde(flatten)]
    summary: SummaryBody<'a>,
}

/// A page of payments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Payments)]
pub(super) struct ListBody<'a> {
    /// The newest first.
    payments: Vec<ListedBody<'a>>,
    /// `cursor` of the next page; null on the last. Stays good while payments are made.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the payments of the merchant in the key's environment.
///
/// Newest first, including payments created by resellers for the merchant. A page may be shorter than its
/// limit, or empty, while `next_cursor` is not null: continue until it is. One page counts as ten requests.
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
            let mut notes = notes_of(gateway, &page.items).await?;
            let payments = page.items.iter().map(|payment| ListedBody {
                payment: PaymentBody::new(payment, gateway),
                summary: SummaryBody::new(payment, &mut notes),
            });
            let body = ListBody {
                payments: payments.collect(),
                next_cursor: page.next,
            };
            answer::json(&body, 512 * page.items.len() + 64)
        }
    }
}

/// Parses a query: filter and page.
fn asked(query: Option<&str>) -> Result<(PaymentFilter, Paging), ApiError> {
    list_asked(query::read(query, LIST)?)
}

/// Names of a list's parameters, in the order of values in [`list_asked`].
pub(super) const LIST: [&str; 6] = ["order_id", "status", "since", "until", "limit", "cursor"];

/// Parses such values: filter and page.
pub(super) fn list_asked(
    [order, status, since, until, limit, cursor]: [Option<Cow<'_, str>>; LIST.len()],
) -> Result<(PaymentFilter, Paging), ApiError> {
    let status = status
        .map(|text| {
            let unknown = || ApiError::invalid("status", "is no status of a payment");
            Status::parse(&text).ok_or_else(unknown)
        })
        .transpose()?;
    let filter = PaymentFilter {
        order_id: query::order(order)?.map(|order| order.as_str().to_owned()),
        status,
        since: since.map(|text| time("since", &text)).transpose()?,
        until: until.map(|text| time("until", &text)).transpose()?,
        ..PaymentFilter::default()
    };
    Ok((filter, query::paging(limit, cursor)?))
}

/// Parses a time in a query.
pub(super) fn time(field: &'static str, text: &str) -> Result<Time, ApiError> {
    instant(text).ok_or_else(|| ApiError::invalid(field, INSTANT))
}
