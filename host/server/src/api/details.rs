//! A payment with its complete history.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use kassette_domain::attempt::Attempt;
use kassette_domain::decline::DeclineCode;
use kassette_domain::event::{Event, EventType};
use kassette_domain::extras::Metadata;
use kassette_domain::funds::Disputed;
use kassette_domain::id::{AttemptId, EventId};
use kassette_domain::key::Scope;
use kassette_domain::lifecycle::PaymentAggregate;
use kassette_domain::money::Minor;
use kassette_domain::movement::Movement;
use kassette_domain::order::Email;
use kassette_domain::site::ReturnUrl;
use kassette_domain::time::Time;
use kassette_gateway::refunds::{GivenRefund, given_refunds};
use kassette_store::History;
use serde::Serialize;
use utoipa::ToSchema;

use super::access::MerchantRead;
use super::document::Authenticated;
use super::movements::{MovementBody, is_shown};
use super::payments::{NO_PAYMENT, PaymentBody, payment_id};
use super::refunds::RefundBody;
use super::state::ApiState;
use super::{answer, formats};
use crate::last_try;
use crate::web::error::{ApiError, ErrorBody};

/// Usual size of a payment's details, in bytes.
pub(super) const USUAL: usize = 4096;
/// Maximum number of movements in the response.
const MOVEMENTS: usize = 100;

/// History of a payment.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentHistory)]
pub(super) struct HistoryBody<'a> {
    #[schema(value_type = formats::Instant)]
    created_at: String,
    /// Time at which the payment expires unless a payer is paying it.
    #[schema(value_type = formats::Instant)]
    expires_at: String,
    #[schema(value_type = Option<formats::Instant>, required)]
    completed_at: Option<String>,
    /// Time since which the payment counts as paid: `completed` and `confirmed`; equals the time of
    /// `payment.completed`.
    #[schema(value_type = Option<formats::Instant>, required)]
    paid_at: Option<String>,
    #[schema(value_type = formats::CheckoutMode)]
    checkout_mode: &'static str,
    /// Null if there is none, or if it was erased.
    #[schema(value_type = Option<formats::Email>, required)]
    customer_email: Option<&'a str>,
    #[schema(value_type = Option<formats::ReturnUrl>, required)]
    return_url: Option<&'a str>,
    #[schema(value_type = formats::Metadata)]
    metadata: &'a Metadata,
    /// Reason of the review. Null if the payment is not in review.
    #[schema(required)]
    review: Option<ReviewBody>,
    /// The oldest first, at most 20.
    attempts: Vec<AttemptBody<'a>>,
    /// Newest first.
    refunds: Vec<RefundBody<'a>>,
    /// Refunded part of the money with which the payment was paid, in the currency that was received.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    refunded_amount: Minor,
    /// The amount that an operator accepted instead of the invoice's; null if the payment is not short.
    #[schema(required)]
    short: Option<ShortBody<'a>>,
    /// Disputes of all money that was received for the payment.
    disputes: Vec<DisputeBody<'a>>,
    /// The newest 100, newest first.
    movements: Vec<MovementBody<'a>>,
    /// Oldest first; includes events without a subscribed endpoint.
    events: Vec<EventLine>,
}

/// Why a payment is in review.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Review)]
struct ReviewBody {
    #[schema(value_type = formats::ReviewCode)]
    code: &'static str,
    /// English text for people.
    #[schema(example = "The amount is over the limit of the merchant's risk policy.")]
    message: &'static str,
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
    /// Why the attempt ended without money; null if it did not, was closed or has expired.
    #[schema(required)]
    decline: Option<DeclineBody>,
    /// The provider's code for the decline of the last try at its page, while the customer may try again there. Null
    /// without a decline, and after the attempt has ended.
    #[schema(required, example = "insufficient_funds")]
    last_decline: Option<&'a str>,
    /// The captured amount, including reversed captures.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    received: Minor,
    /// The provider's ids of the attempt, the main ones first.
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
    /// An English text for people, with the provider's own code if it sent one.
    #[schema(
        example = "The payer has not enough money for it. The provider says: insufficient_funds"
    )]
    message: String,
}

/// A demand of the payer, or of the payer's bank, to return the money.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Dispute)]
pub(crate) struct DisputeBody<'a> {
    /// The provider's id.
    dispute_id: &'a str,
    #[schema(value_type = formats::DisputeKind)]
    kind: &'static str,
    /// The disputed amount.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    amount: Minor,
    /// Part of it that the provider currently withholds.
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    withdrawn: Minor,
    #[schema(value_type = formats::ReceivedCurrency)]
    currency: &'a str,
    #[schema(value_type = formats::DisputeState)]
    state: &'static str,
    /// The provider's own code.
    #[schema(required)]
    reason: Option<&'a str>,
    /// Time until which the provider accepts a response.
    #[schema(value_type = Option<formats::Instant>, required)]
    respond_by: Option<String>,
    /// Time since which it is in this state, as far as reported to the gateway.
    #[schema(value_type = formats::Instant)]
    at: String,
}

/// The amount that an operator accepted instead of the invoice's.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Short)]
struct ShortBody<'a> {
    #[schema(value_type = formats::Amount)]
    #[serde(serialize_with = "answer::shown")]
    amount: Minor,
    #[schema(value_type = formats::ReceivedCurrency)]
    currency: &'a str,
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

/// A payment with its history.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = PaymentDetails)]
pub(super) struct DetailsBody<'a> {
    payment: PaymentBody<'a>,
    #[serde(flatten)]
    history: HistoryBody<'a>,
}

impl<'a> HistoryBody<'a> {
    /// The visible part of a history. `refunds` are those of the payment; their links depend on whether the
    /// reader may refund.
    pub(super) fn new(
        history: &'a History,
        refunds: &'a [GivenRefund],
        movements: &'a [Movement],
        may_refund: bool,
    ) -> Self {
        let PaymentAggregate { payment, attempts } = &history.aggregate;
        let disputes = attempts.iter().flat_map(DisputeBody::of_attempt);
        let short = payment.short.as_ref();
        let shown = movements.iter().rev().filter(|each| is_shown(each));
        Self {
            created_at: payment.created_at.rfc3339(),
            expires_at: payment.expires_at.rfc3339(),
            completed_at: payment.completed_at.map(Time::rfc3339),
            paid_at: paid_at(history).map(Time::rfc3339),
            checkout_mode: payment.mode.as_str(),
            customer_email: payment.email.as_ref().map(Email::expose),
            return_url: payment.return_url.as_ref().map(ReturnUrl::as_str),
            metadata: &history.notes.metadata,
            review: payment.review.map(|cause| ReviewBody {
                code: cause.as_str(),
                message: cause.sentence(),
            }),
            attempts: attempts.iter().map(AttemptBody::new).collect(),
            refunds: refunds
                .iter()
                .map(|given| RefundBody::new(given, may_refund))
                .collect(),
            refunded_amount: history.aggregate.refunded_amount(),
            short: short.map(|(amount, currency)| ShortBody {
                amount: *amount,
                currency,
            }),
            disputes: disputes.collect(),
            movements: shown.take(MOVEMENTS).map(MovementBody::new).collect(),
            events: history.events.iter().map(EventLine::new).collect(),
        }
    }
}

/// Time at which the payment was first paid. The event that reports this occurs at most once.
fn paid_at(history: &History) -> Option<Time> {
    let mut events = history.events.iter();
    let paid = events.find(|event| event.kind == EventType::PaymentCompleted);
    paid.map(|event| event.created_at)
}

impl<'a> AttemptBody<'a> {
    fn new(attempt: &'a Attempt) -> Self {
        let told = &attempt.particulars;
        let references = attempt.references.iter().chain(&told.references);
        Self {
            attempt_id: attempt.id,
            payment_method: attempt.method.as_str(),
            provider_id: attempt.account.as_str(),
            state: attempt.state().as_str(),
            decline: DeclineCode::of_attempt(attempt).map(|code| DeclineBody::new(code, attempt)),
            last_decline: last_try::declined(attempt),
            received: attempt.funds.balance.total().received,
            references: references.map(String::as_str).collect(),
            opened_at: attempt.opened_at.rfc3339(),
            ended_at: attempt.stage.ended_at().map(Time::rfc3339),
        }
    }
}

impl DeclineBody {
    fn new(code: DeclineCode, attempt: &Attempt) -> Self {
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
    /// Disputes of one attempt.
    pub(crate) fn of_attempt(attempt: &'a Attempt) -> impl Iterator<Item = Self> {
        let currency = attempt.received_currency();
        let disputes = attempt.funds.disputes.iter();
        disputes.map(move |disputed| Self::new(disputed, currency))
    }

    fn new(disputed: &'a Disputed, currency: &'a str) -> Self {
        let dispute = &disputed.dispute;
        Self {
            dispute_id: &dispute.id,
            kind: dispute.kind.as_str(),
            amount: dispute.amount,
            withdrawn: dispute.withdrawn,
            currency,
            state: dispute.state.as_str(),
            reason: dispute.reason.as_deref(),
            respond_by: dispute.respond_by.map(Time::rfc3339),
            at: disputed.at.rfc3339(),
        }
    }
}

impl EventLine {
    fn new(event: &Event) -> Self {
        Self {
            id: event.id,
            r#type: event.kind.as_str(),
            created_at: event.created_at.rfc3339(),
        }
    }
}

/// Reads a payment with its complete history.
///
/// Its attempts, with the reason of a decline and the provider's references; its refunds, disputes and
/// movements of money; the ids of its events. Only its `payment` determines whether it is paid.
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
    let movements = gateway.store().movements_of(id).await?;
    let body = DetailsBody {
        payment: PaymentBody::new(&history.aggregate.payment, gateway),
        history: HistoryBody::new(
            &history,
            &refunds,
            &movements,
            caller.key.allows(Scope::PaymentsRefund),
        ),
    };
    answer::json(&body, USUAL)
}
