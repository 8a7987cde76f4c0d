//! A merchant's events, in pages: for a receiver that was down, or for none.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::event::EventType;
use kassette_domain::webhook::Message;
use kassette_gateway::auth::MerchantCaller;
use kassette_store::{EventsAsked, Listed, Paging};
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

/// The query's parameters, for the document; [`asked`] reads them.
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
                "since",
                formats::Instant::schema(),
                "Events that were made then or later; with `Z`.",
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
    /// The newest first, each as endpoints get it.
    #[schema(value_type = Vec<EventBody>)]
    events: Vec<Message<'a>>,
    /// `cursor` of the next page; null on the last. Stays good while events are made.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists the events of the merchant's payments in the key's environment.
///
/// The newest first, those too that no endpoint wanted; `webhook.test` is not among them. A page may be
/// shorter than its limit, or empty, while `next_cursor` is not null: go on until it is. One page counts as ten
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
    let (asked, paging) = asked(&caller, arrived.parts.uri.query())?;
    match state.gateway().store().events(asked, paging).await? {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let events = page.items.iter();
            let body = EventsBody {
                events: events
                    .map(|(event, payment)| Message::of(event, payment))
                    .collect(),
                next_cursor: page.next,
            };
            answer::json(&body, 512 * page.items.len() + 64)
        }
    }
}

/// Which events a query asks for, and which page of them.
fn asked(caller: &MerchantCaller, query: Option<&str>) -> Result<(EventsAsked, Paging), ApiError> {
    let [kind, since, limit, cursor] = query::read(query, ["type", "since", "limit", "cursor"])?;
    let unknown = || ApiError::invalid("type", "is no type of event");
    let kind = kind
        .map(|text| EventType::parse(&text).ok_or_else(unknown))
        .transpose()?;
    let asked = EventsAsked {
        merchant: caller.merchant.id,
        environment: caller.key.environment,
        kind,
        since: since.map(|text| time("since", &text)).transpose()?,
    };
    Ok((asked, query::paging(limit, cursor)?))
}
