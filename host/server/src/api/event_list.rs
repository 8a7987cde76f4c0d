//! Pages of a merchant's events, for receivers that were down or that do not exist.

use std::collections::{BTreeSet, HashMap};

use axum::extract::State;
use axum::response::Response;
use kassette_domain::event::EventType;
use kassette_domain::id::PaymentId;
use kassette_domain::order::OrderId;
use kassette_domain::webhook::{Additions, Message};
use kassette_gateway::auth::MerchantCaller;
use kassette_store::{EventsAsked, Listed, Paging, PaymentFilter, Store};
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema as _, ToSchema};

use super::access::MerchantRead;
use super::document::Authenticated;
use super::events::EventBody;
use super::list::{COST, time};
use super::state::ApiState;
use super::{answer, formats, query};
use crate::web::error::ApiError;

/// The query's parameters for the document; [`asked`] parses them.
pub(super) struct EventsQuery;

impl utoipa::IntoParams for EventsQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let of = |name: &str, schema: RefOr<Schema>, description: &str| {
            query::parameter(name, Required::False, schema, description)
        };
        vec![
            of(
                "type",
                formats::EventType::schema(),
                "Events of this type alone.",
            ),
            of(
                "payment_id",
                formats::PaymentId::schema(),
                "Events of this payment alone.",
            ),
            of(
                "order_id",
                formats::OrderId::schema(),
                "Events of this order's payments alone.",
            ),
            of(
                "since",
                formats::Instant::schema(),
                "Events that were made at this time or later.",
            ),
            of(
                "until",
                formats::Instant::schema(),
                "Events that were made before this time.",
            ),
            query::limit_parameter(),
            query::cursor_parameter(),
        ]
    }
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Events)]
pub(super) struct EventsBody<'a> {
    /// Newest first, each in the form that endpoints receive.
    #[schema(value_type = Vec<EventBody>)]
    events: Vec<Message<'a>>,
    /// `cursor` of the next page; null on the last. Remains valid while events are created.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the events of the merchant's payments in the key's environment.
///
/// Newest first, including events without a subscribed endpoint; without `webhook.test`. A page may be shorter
/// than its limit, or empty, while `next_cursor` is not null: continue until it is. One page counts as ten
/// requests.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "Events", operation_id = "listEvents",
    params(EventsQuery),
    responses(
        (status = 200, description = "A page of events.", body = EventsBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    MerchantRead { caller, arrived }: MerchantRead<COST>,
) -> Result<Response, ApiError> {
    let (mut asked, order, paging) = asked(&caller, arrived.parts.uri.query())?;
    let store = state.gateway().store();
    if let Some(order) = order {
        let mut payments = payments_of(store.as_ref(), &asked, order).await?;
        if let Some(named) = &asked.payments {
            payments.retain(|payment| named.contains(payment));
        }
        asked.payments = Some(payments);
    }
    match store.events(asked, paging).await? {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let noted = page.items.iter().map(|(_, payment)| payment);
            let noted = noted.filter(|payment| payment.notes.is_some());
            let noted: BTreeSet<_> = noted.map(|payment| payment.id).collect();
            let notes = match noted.is_empty() {
                true => HashMap::new(),
                false => store.notes(noted.into_iter().collect()).await?,
            };
            let events = page.items.iter().map(|(event, payment)| {
                let metadata = notes.get(&payment.id).map(|notes| &notes.metadata);
                let additions = Additions {
                    metadata: metadata.filter(|metadata| !metadata.is_empty()),
                    ..Additions::default()
                };
                Message {
                    additions,
                    ..Message::about(event, payment)
                }
            });
            let body = EventsBody {
                events: events.collect(),
                next_cursor: page.next,
            };
            answer::json(&body, 512 * page.items.len() + 64)
        }
    }
}

/// Maximum number of payments of one order whose events are listed; older payments are omitted.
const MAX_PAYMENTS: usize = 1_000;

/// The payments of an order, newest first.
async fn payments_of(
    store: &dyn Store,
    asked: &EventsAsked,
    order: OrderId,
) -> Result<Vec<PaymentId>, ApiError> {
    let filter = PaymentFilter {
        merchant: Some(asked.merchant),
        environment: Some(asked.environment),
        order_id: Some(order.as_str().to_owned()),
        ..PaymentFilter::default()
    };
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let paging = Paging { limit: 100, cursor };
        let Listed::Page(page) = store.payments(filter.clone(), paging).await? else {
            return Err(ApiError::bad_cursor());
        };
        found.extend(page.items.iter().map(|payment| payment.id));
        cursor = page.next;
        if cursor.is_none() || found.len() >= MAX_PAYMENTS {
            return Ok(found);
        }
    }
}

/// Parses a query: the events, their order, and the page.
fn asked(
    caller: &MerchantCaller,
    query: Option<&str>,
) -> Result<(EventsAsked, Option<OrderId>, Paging), ApiError> {
    let names = [
        "type",
        "payment_id",
        "order_id",
        "since",
        "until",
        "limit",
        "cursor",
    ];
    let [kind, payment, order, since, until, limit, cursor] = query::read(query, names)?;
    let unknown = || ApiError::invalid("type", "is no type of event");
    let kind = kind
        .map(|text| EventType::parse(&text).ok_or_else(unknown))
        .transpose()?;
    let asked = EventsAsked {
        merchant: caller.merchant.id,
        environment: caller.key.environment,
        kind,
        since: since.map(|text| time("since", &text)).transpose()?,
        until: until.map(|text| time("until", &text)).transpose()?,
        payments: query::payment(payment)?.map(|payment| vec![payment]),
    };
    Ok((asked, query::order(order)?, query::paging(limit, cursor)?))
}
