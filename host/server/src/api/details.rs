//! A payment with everything that happened to it.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use kassette_domain::attempt::{Attempt, AttemptState};
use kassette_domain::decline::DeclineCode;
use kassette_domain::event::{Event, EventType};
use kassette_domain::id::{AttemptId, EventId};
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::Minor;
use kassette_domain::returns::Disputed;
use kassette_domain::time::Time;
use kassette_gateway::refunds::{GivenRefund, given_refunds};
use kassette_store::History;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::MerchantRead;
use super::document::Authenticated;
use super::payments::{NO_PAYMENT, PaymentBody, payment_id};
use super::refunds::RefundBody;
use super::state::ApiState;
use super::{answer, formats};
use crate::web::error::{ApiError, ErrorBody};

/// Bytes that the details of a payment usually have.
pub(super) const USUAL: usize = 2048;

/// What happened to a payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentHistory)]
pub(super) struct HistoryBody<'a> {
    #[schema(value_type = formats::Instant)]
    created_at: String,
    /// When a payment that no payer is paying expires.
    #[schema(value_type = formats::Instant)]
    expires_at: String,
    #[schema(value_type = Option<formats::Instant>, required)]
    completed_at: Option<String>,
    /// Since when it is paid as far as `payment` tells: `completed` and `confirmed`; the time of `payment.completed`.
    #[schema(value_type = Option<formats::Instant>, required)]
    paid_at: Option<String>,
    /// The oldest first, at most 20.
    attempts: Vec<AttemptBody<'a>>,
    /// The newest first.
    refunds: Vec<RefundBody<'a>>,
    /// What refunds gave back of the money that the payment was paid with, in the currency that was received.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    refunded_amount: Minor,
    /// Of the money that the payment was paid with.
    disputes: Vec<DisputeBody<'a>>,
    /// The oldest first; those too that no endpoint wanted.
    events: Vec<EventLine>,
}

/// One try to be paid.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
struct AttemptBody<'a> {
    #[schema(value_type = formats::AttemptId)]
    #[serde(serialize_with = "answer::shown")]
    attempt_id: AttemptId,
    #[schema(value_type = formats::PaymentMethod)]
    payment_method: &'a str,
    #[schema(value_type = formats::ProviderId)]
    provider_id: &'a str,
    #[schema(value_type = formats::AttemptState)]
    state: &'static str,
    /// Why it ended without money; null where it did not, was closed or has expired.
    #[schema(required)]
    decline: Option<DeclineBody>,
    /// The provider's ids for it, those first that it goes by.
    references: Vec<&'a str>,
    #[schema(value_type = formats::Instant)]
    opened_at: String,
    #[schema(value_type = Option<formats::Instant>, required)]
    ended_at: Option<String>,
}

/// Why an attempt ended without money.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Decline)]
struct DeclineBody {
    #[schema(value_type = formats::DeclineCode)]
    code: &'static str,
    /// For people, in English, with the provider's own code where it told one.
    #[schema(
        example = "The payer has not enough money for it. The provider says: insufficient_funds"
    )]
    message: String,
}

/// The payer, or the payer's bank, wants the money back.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Dispute)]
struct DisputeBody<'a> {
    #[schema(value_type = formats::DisputeState)]
    state: &'static str,
    /// The provider's own code.
    #[schema(required)]
    reason: Option<&'a str>,
    /// Until when the provider takes an answer.
    #[schema(value_type = Option<formats::Instant>, required)]
    respond_by: Option<String>,
    /// Since when it is in this state, as far as the gateway was told.
    #[schema(value_type = formats::Instant)]
    at: String,
}

/// An event of the payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentEvent)]
struct EventLine {
    #[schema(value_type = formats::EventId)]
    #[serde(serialize_with = "answer::shown")]
    id: EventId,
    #[schema(value_type = formats::EventType)]
    r#type: &'static str,
    #[schema(value_type = formats::CreatedAt)]
    created_at: String,
}

/// A payment with what happened to it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentDetails)]
pub(super) struct DetailsBody<'a> {
    payment: PaymentBody<'a>,
    #[serde(flatten)]
    history: HistoryBody<'a>,
}

impl<'a> HistoryBody<'a> {
    /// What is told of a history; `refunds` are those of its payment.
    pub(super) fn of(history: &'a History, refunds: &'a [GivenRefund]) -> Self {
        let PaymentAggregate { payment, attempts } = &history.aggregate;
        let paid = attempts
            .iter()
            .find(|attempt| attempt.state == AttemptState::Captured);
        let disputes = paid.iter().flat_map(|paid| &paid.returns.disputes);
        Self {
            created_at: payment.created_at.rfc3339(),
            expires_at: payment.expires_at.rfc3339(),
            completed_at: payment.completed_at.map(Time::rfc3339),
            paid_at: paid_at(history).map(Time::rfc3339),
            attempts: attempts.iter().map(AttemptBody::of).collect(),
            refunds: refunds.iter().map(RefundBody::of).collect(),
            refunded_amount: paid.map_or(Minor(0), |paid| paid.returns.refunded()),
            disputes: disputes.map(DisputeBody::of).collect(),
            events: history.events.iter().map(EventLine::of).collect(),
        }
    }
}

/// When the paid rule came to hold: the event that tells of it is one for good.
fn paid_at(history: &History) -> Option<Time> {
    let mut events = history.events.iter();
    let paid = events.find(|event| event.kind == EventType::PaymentCompleted);
    paid.map(|event| event.created_at)
}

impl<'a> AttemptBody<'a> {
    fn of(attempt: &'a Attempt) -> Self {
        let told = &attempt.particulars;
        let references = attempt.references.iter().chain(&told.references);
        Self {
            attempt_id: attempt.id,
            payment_method: attempt.method.as_str(),
            provider_id: attempt.account.as_str(),
            state: attempt.state.as_str(),
            decline: DeclineCode::of(attempt).map(|code| DeclineBody::of(code, attempt)),
            references: references.map(String::as_str).collect(),
            opened_at: attempt.opened_at.rfc3339(),
            ended_at: attempt.ended_at.map(Time::rfc3339),
        }
    }
}

impl DeclineBody {
    fn of(code: DeclineCode, attempt: &Attempt) -> Self {
        let reason = attempt.particulars.reason.as_ref();
        let reason = reason.filter(|_| code != DeclineCode::Unavailable);
        let said = reason.map(|reason| format!(" The provider says: {reason}"));
        Self {
            code: code.as_str(),
            message: format!("{}{}", code.sentence(), said.unwrap_or_default()),
        }
    }
}

impl<'a> DisputeBody<'a> {
    fn of(disputed: &'a Disputed) -> Self {
        let dispute = &disputed.dispute;
        Self {
            state: dispute.state.as_str(),
            reason: dispute.reason.as_deref(),
            respond_by: dispute.respond_by.map(Time::rfc3339),
            at: disputed.at.rfc3339(),
        }
    }
}

impl EventLine {
    fn of(event: &Event) -> Self {
        Self {
            id: event.id,
            r#type: event.kind.as_str(),
            created_at: event.created_at.rfc3339(),
        }
    }
}

/// Reads a payment with everything that happened to it.
///
/// Its attempts, with the reason of a decline and the provider's references; its refunds and disputes; the
/// ids of its events. Whether it is paid its `payment` alone says.
#[utoipa::path(
    get, path = "/api/v1/payments/{payment_id}/details", tag = "Payments",
    operation_id = "readPaymentDetails",
    params(("payment_id" = inline(formats::PaymentId), Path, description = "The payment's id.")),
    responses(
        (status = 200, description = "The payment, and what happened to it.", body = DetailsBody),
        (status = 404, description = "No such payment of this merchant in this environment.",
            body = ErrorBody),
        Authenticated,
    ),
    security(("merchant_key" = []))
)]
pub(super) async fn read(
    State(state): State<ApiState>,
    id: Result<Path<String>, PathRejection>,
    MerchantRead { caller, arrived }: MerchantRead,
) -> Result<Response, ApiError> {
    arrived.no_query()?;
    let id = payment_id(id)?;
    let gateway = state.gateway();
    let found = gateway.history_of(caller.merchant.id, caller.key.environment, id);
    let history = found.await?.ok_or(NO_PAYMENT)?;
    let refunds = given_refunds(&history.aggregate);
    let body = DetailsBody {
        payment: PaymentBody::of(&history.aggregate.payment, gateway),
        history: HistoryBody::of(&history, &refunds),
    };
    answer::json(&body, USUAL)
}
