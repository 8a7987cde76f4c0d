//! Pages of the payments created by a reseller.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::id::MerchantId;
use kassette_domain::key::Scope;
use kassette_store::{Paging, PaymentFilter};
use serde::Serialize;
use utoipa::openapi::Required;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{PartialSchema as _, ToSchema};

use super::payments::DelegatedBody;
use super::signed::{Permission, Read, SignedReseller};
use crate::api::document::Authenticated;
use crate::api::list::{COST, LIST, SummaryBody, list_asked, list_parameters, notes_of};
use crate::api::state::ApiState;
use crate::api::{answer, formats, query};
use crate::web::error::{ApiError, ErrorBody};

/// Permission to read payments. A filtered page costs as much as a merchant's.
#[derive(Debug)]
pub(super) struct ReadPayments;

impl Permission for ReadPayments {
    const SCOPE: Scope = Read::SCOPE;

    fn cost(query: Option<&str>) -> u32 {
        // An invalid query is refused later, which costs little.
        match asked(query) {
            Ok((_, filter, _)) if filter != PaymentFilter::default() => COST,
            _ => 1,
        }
    }
}

/// The query's parameters for the document; [`asked`] parses them.
pub(super) struct ListQuery;

impl utoipa::IntoParams for ListQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let merchant = query::parameter(
            "merchant_id",
            Required::True,
            formats::MerchantId::schema(),
            "A merchant that has authorized the reseller.",
        );
        let mut parameters = vec![merchant];
        parameters.extend(list_parameters());
        parameters
    }
}

/// A payment in a list.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ListedResellerPayment)]
pub(super) struct ListedBody<'a> {
    #[serde(flatten)]
    payment: DelegatedBody<'a>,
    #[serde(flatten)]
    summary: SummaryBody<'a>,
}

/// A page of payments.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ResellerPayments)]
pub(super) struct ListBody<'a> {
    /// The newest first.
    payments: Vec<ListedBody<'a>>,
    /// `cursor` of the next page; null on the last. Stays good while payments are made.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the payments that the reseller created for one merchant in the key's environment.
///
/// Newest first, without payments created by the merchant or by other resellers. With a filter by order, status
/// or time, a page may be shorter than its limit, or empty, while `next_cursor` is not null: continue until it
/// is. Such a page counts as ten requests.
#[utoipa::path(
    get, path = "/api/v1/reseller/payments", tag = "Resellers", operation_id = "listResellerPayments",
    params(ListQuery),
    responses(
        (status = 200, description = "A page of payments.", body = ListBody),
        (status = 409, description = "The nonce was used before.", body = ErrorBody),
        Authenticated,
    ),
    security(("reseller_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    SignedReseller {
        caller, arrived, ..
    }: SignedReseller<ReadPayments>,
) -> Result<Response, ApiError> {
    let (merchant, filter, paging) = asked(arrived.parts.uri.query())?;
    let gateway = state.gateway();
    let page = gateway.reseller_payments(&caller, merchant, &filter, paging);
    let page = page.await?;
    let mut notes = notes_of(gateway, &page.items).await?;
    let payments = page.items.iter().map(|payment| {
        let summary = SummaryBody::new(payment, &mut notes);
        let payment = DelegatedBody::new(payment, gateway)?;
        Ok(ListedBody { payment, summary })
    });
    let payments: Result<_, ApiError> = payments.collect();
    let body = ListBody {
        payments: payments?,
        next_cursor: page.next,
    };
    answer::json(&body, 512 * page.items.len() + 64)
}

/// Parses a query: merchant, filter and page.
fn asked(query: Option<&str>) -> Result<(MerchantId, PaymentFilter, Paging), ApiError> {
    let [order, status, since, until, limit, cursor] = LIST;
    let known = ["merchant_id", order, status, since, until, limit, cursor];
    let [merchant, order, status, since, until, limit, cursor] = query::read(query, known)?;
    let of = |what| ApiError::invalid("merchant_id", what);
    let merchant = merchant.ok_or_else(|| of("is required"))?;
    let merchant = merchant_text(&merchant)
        .ok_or_else(|| of("must be a merchant's number, a positive integer"))?;
    let (filter, paging) = list_asked([order, status, since, until, limit, cursor])?;
    Ok((merchant, filter, paging))
}

/// Parses a merchant's number in a query.
fn merchant_text(text: &str) -> Option<MerchantId> {
    let is_canonical = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    let number = text.parse().ok().filter(|_| is_canonical);
    number
        .filter(|number| (1..=formats::MOST_MERCHANT).contains(number))
        .map(MerchantId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_chosen_payments_costs_as_much_as_a_merchant_s() {
        for (query, cost) in [
            ("merchant_id=1", 1),
            ("merchant_id=1&limit=100&cursor=x", 1),
            ("merchant_id=1&order_id=a", COST),
            ("merchant_id=1&status=completed", COST),
            ("merchant_id=1&since=2026-03-01T00:00:00Z", COST),
            ("merchant_id=1&until=2026-03-01T00:00:00Z", COST),
            ("merchant_id=1&status=paid", 1),
            ("status=completed", 1),
        ] {
            assert_eq!(ReadPayments::cost(Some(query)), cost, "{query}");
        }
        assert_eq!(ReadPayments::cost(None), 1);
    }

    #[test]
    fn numbers_of_a_query_have_one_form() {
        assert_eq!(merchant_text("7"), Some(MerchantId(7)));
        for wrong in [
            "",
            "0",
            "07",
            "+7",
            "-7",
            "7.0",
            " 7",
            "x",
            "99999999999999999999",
        ] {
            assert_eq!(merchant_text(wrong), None, "{wrong:?}");
        }
    }
}
