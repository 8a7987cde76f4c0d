//! Pages of the movements of a merchant's money, for bookkeeping.

use axum::extract::State;
use axum::response::Response;
use kassette_domain::id::{AttemptId, MovementId, PaymentId};
use kassette_domain::money::Minor;
use kassette_domain::movement::{Bucket, Movement, MovementKind};
use kassette_domain::time::Time;
use kassette_gateway::auth::MerchantCaller;
use kassette_store::{Listed, MovementFilter, Paging};
use serde::Serialize;
use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::openapi::{RefOr, Required, Schema};
use utoipa::{PartialSchema as _, ToSchema};

use super::access::MerchantRead;
use super::document::Authenticated;
use super::list::{COST, time};
use super::state::ApiState;
use super::{answer, formats, query};
use crate::web::error::ApiError;

/// Whether merchants see a movement: only operators see provider fees and payouts.
pub(super) const fn is_shown(movement: &Movement) -> bool {
    !matches!(
        movement.kind,
        MovementKind::ProviderFee | MovementKind::ProviderFeeReversed | MovementKind::Payout
    )
}

/// The query's parameters for the document; [`asked`] parses them.
pub(super) struct MovementsQuery;

impl utoipa::IntoParams for MovementsQuery {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let of = |name: &str, schema: RefOr<Schema>, description: &str| {
            query::parameter(name, Required::False, schema, description)
        };
        vec![
            of(
                "payment_id",
                formats::PaymentId::schema(),
                "Movements of this payment alone, those too that are not final yet.",
            ),
            of(
                "since",
                formats::Instant::schema(),
                "Movements that were booked then or later.",
            ),
            of(
                "until",
                formats::Instant::schema(),
                "Movements that were booked before.",
            ),
            query::limit_parameter(),
            query::cursor_parameter(),
        ]
    }
}

/// A movement of money: it is recorded once and never changes.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Movement, example = json!({
    "movement_id": "5b1e0c9a7d3f4e2b8a6c4d2e0f1b3a59", "payment_id": "9f0c2b7e4d1a4f6e8b3c5d7e9f0a1b2c",
    "attempt_id": "1f7d2c9b8e4a4d6f9b3c5d7e9f0a1b2c", "kind": "captured", "effect": "in", "bucket": "own",
    "from_bucket": null, "amount": "49.90", "currency": "EUR", "provider_id": "mollie-live",
    "provider_references": ["tr_7UhSN1zuXS"], "occurred_at": "2026-03-01T09:29:58.000Z",
    "booked_at": "2026-03-01T09:30:00.000Z"
}))]
pub(crate) struct MovementBody<'a> {
    #[schema(value_type = formats::MovementId)]
    #[serde(serialize_with = "answer::shown")]
    movement_id: MovementId,
    /// Null for money of a payment that the gateway does not know.
    #[schema(value_type = Option<formats::PaymentId>, required)]
    payment_id: Option<String>,
    #[schema(value_type = Option<formats::AttemptId>, required)]
    attempt_id: Option<String>,
    #[schema(value_type = formats::MovementKind)]
    kind: &'static str,
    #[schema(value_type = formats::MovementEffect)]
    effect: &'static str,
    /// Null for fees and payouts.
    #[schema(value_type = Option<formats::Bucket>, required)]
    bucket: Option<&'static str>,
    /// Null except for `reassigned`.
    #[schema(value_type = Option<formats::Bucket>, required)]
    from_bucket: Option<&'static str>,
    /// Always positive.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    amount: Minor,
    #[schema(value_type = formats::ReceivedCurrency)]
    currency: &'a str,
    #[schema(value_type = formats::ProviderId)]
    provider_id: &'a str,
    /// The provider's ids as printed on its statements.
    provider_references: &'a [String],
    /// Time by the provider's clock.
    #[schema(value_type = formats::Instant)]
    occurred_at: String,
    /// Time at which the gateway recorded it.
    #[schema(value_type = formats::Instant)]
    booked_at: String,
}

impl<'a> MovementBody<'a> {
    pub(crate) fn new(movement: &'a Movement) -> Self {
        Self {
            movement_id: movement.id,
            payment_id: movement.payment.as_ref().map(PaymentId::to_string),
            attempt_id: movement.attempt.as_ref().map(AttemptId::to_string),
            kind: movement.kind.as_str(),
            effect: movement.effect.as_str(),
            bucket: movement.bucket.map(Bucket::as_str),
            from_bucket: movement.from_bucket.map(Bucket::as_str),
            amount: movement.amount,
            currency: &movement.currency,
            provider_id: movement.account.as_str(),
            provider_references: &movement.provider_references,
            occurred_at: movement.occurred_at.rfc3339(),
            booked_at: movement.booked_at.rfc3339(),
        }
    }
}

/// A page of movements.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Movements)]
pub(super) struct MovementsBody<'a> {
    /// Oldest first, by `booked_at`.
    movements: Vec<MovementBody<'a>>,
    /// Nothing will be booked before this time.
    #[schema(value_type = formats::Instant)]
    complete_until: String,
    /// Time since which the ledger is continuous; null if it was never restored from a backup.
    #[schema(value_type = Option<formats::Instant>, required)]
    continuous_since: Option<String>,
    /// `cursor` of the next page; null on the last.
    #[schema(value_type = Option<String>, required)]
    next_cursor: Option<String>,
}

/// Lists movements of money of the merchant's payments in the key's environment.
///
/// Oldest first, by booking time. Without `payment_id`, nothing from `complete_until` on is listed, so a caller
/// who continues with that time as `since` misses nothing. Includes platform fees, but not the provider's fees
/// and payouts. A page may be shorter than its limit, or empty, while `next_cursor` is not null: continue until
/// it is. One page counts as ten requests.
#[utoipa::path(
    get, path = "/api/v1/movements", tag = "Payments", operation_id = "listMovements",
    params(MovementsQuery),
    responses(
        (status = 200, description = "A page of movements.", body = MovementsBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn list(
    State(state): State<ApiState>,
    MerchantRead { caller, arrived }: MerchantRead<COST>,
) -> Result<Response, ApiError> {
    let (mut filter, paging) = asked(&caller, arrived.parts.uri.query())?;
    let store = state.gateway().store();
    let ledger = store.ledger().await?;
    if filter.payment.is_none() {
        let closed = ledger.closed_until;
        filter.until = Some(filter.until.map_or(closed, |until| until.min(closed)));
    }
    match store.movements(filter, paging).await? {
        Listed::BadCursor => Err(ApiError::bad_cursor()),
        Listed::Page(page) => {
            let shown = page.items.iter().filter(|each| is_shown(each));
            let body = MovementsBody {
                movements: shown.map(MovementBody::new).collect(),
                complete_until: ledger.closed_until.rfc3339(),
                continuous_since: ledger.continuous_since.map(Time::rfc3339),
                next_cursor: page.next,
            };
            answer::json(&body, 512 * page.items.len() + 128)
        }
    }
}

/// Parses a query: filter and page.
fn asked(
    caller: &MerchantCaller,
    query: Option<&str>,
) -> Result<(MovementFilter, Paging), ApiError> {
    let names = ["payment_id", "since", "until", "limit", "cursor"];
    let [payment, since, until, limit, cursor] = query::read(query, names)?;
    let filter = MovementFilter {
        merchant: Some(caller.merchant.id),
        environment: Some(caller.key.environment),
        payment: query::payment(payment)?,
        since: since.map(|text| time("since", &text)).transpose()?,
        until: until.map(|text| time("until", &text)).transpose()?,
        ..MovementFilter::default()
    };
    Ok((filter, query::paging(limit, cursor)?))
}
