//! Payments, and the list of what a person has to look at.
#![expect(dead_code, reason = "only the schemas are used")]

use std::borrow::Cow;

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::call::{Call, joined};
use super::formats::*;
use crate::api::formats::{CheckoutMode, CheckoutUrl, ClaimUrl, IdempotencyKey, RefundId};
use crate::api::{PaymentBody, RefundBody};

pub(super) fn calls() -> Vec<Call> {
    vec![
        Call::get("/payments", "listPayments", "Lists payments, the newest first.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<PaymentStatus>("status", "In one status alone.")
            .query::<AnyOrder>("order_id", "With this order reference alone.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<ProviderId>("provider_id", "With an attempt at this account alone.")
            .query::<AttemptId>("attempt_id", "The one with this attempt.")
            .query::<Reference>("reference", "With this reference of a provider's alone.")
            .query::<Instant>("since", "Created at this time or later; with `Z`.")
            .query::<Instant>("until", "Created before this time; with `Z`.")
            .list::<Payment>("payments"),
        Call::get("/payments/export", "exportPayments", "Tells what moved.")
            .about("Of the payments that were created in a period, a line for each capture, refund and dispute, as they stand now.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<Instant>("since", "Created at this time or later; with `Z`.")
            .query::<Instant>("until", "Created before this time; with `Z`.")
            .export(),
        Call::get("/payments/{id}", "readPayment", "Shows a payment with everything that happened to it.")
            .ok::<History>("The payment."),
        Call::post("/payments/{id}/review", "reviewPayment", "Decides a payment that is in review.")
            .about("`vouch` needs the role `admin`.")
            .attributed()
            .body::<NewReview>()
            .ok::<History>("It is decided and carried out.")
            .accepted::<History>("It is decided, and waits for the provider.")
            .conflict("It is not in review, or the decision cannot be carried out."),
        Call::post("/payments/{id}/cancel", "cancelPayment", "Calls a payment off.")
            .attributed()
            .ok::<History>("It is cancelled.")
            .conflict("Money may have moved, or it is over."),
        Call::post("/payments/{id}/query", "queryPayment", "Asks the provider about a payment now.")
            .ok::<History>("What is known now.")
            .conflict("No provider knows of it, or it is being worked on."),
        Call::post("/payments/{id}/to-review", "sendToReview", "Sends a payment that hangs to review.")
            .about("From `processing` or `verification_pending`.")
            .attributed()
            .ok::<History>("It is in review.")
            .conflict("It is in another status."),
        Call::post("/payments/{id}/redact", "redactPayment", "Erases a payment's personal data.")
            .about("Money and timeline stay.")
            .attributed()
            .ok::<History>("They are erased.")
            .conflict("It is not over yet."),
        Call::post("/payments/{id}/refunds", "refundPayment", "Gives money of a payment back.")
            .about("Whatever the payment's state, of what was received and not given back or disputed. The provider is asked within the request; a refund stays `pending` until it has confirmed it. The same `idempotency_key` with the same data answers the same refund with 200.")
            .attributed()
            .body::<NewRefund>()
            .ok::<OperatorsRefund>("The same was asked for before: the refund as it stands now.")
            .created::<OperatorsRefund>("The refund.")
            .conflict("There is no money, the provider does not give it back, or the key was used with other data."),
        Call::get("/payments/{id}/refunds", "listPaymentRefunds", "Lists what was given back of a payment, the newest first.")
            .list::<OperatorsRefund>("refunds"),
        Call::get("/work", "listWork", "Lists money that a person has to look at, the newest first.")
            .query::<Switch>("done", "`true`: lines that are done too.")
            .list_beside::<WorkItem, BesideWork>("work"),
        Call::post("/work/{id}/done", "finishWork", "Takes a line off the work list.")
            .attributed()
            .ok::<WorkItem>("The line."),
        Call::post("/work/{id}/refund", "refundWork", "Gives back what a line of the work list is about.")
            .about("A `surplus`, `excess` or `late` line, which is done once that has succeeded. The same `idempotency_key` with the same data answers the same refund with 200.")
            .attributed()
            .body::<NewRefund>()
            .ok::<OperatorsRefund>("The same was asked for before: the refund as it stands now.")
            .created::<OperatorsRefund>("The refund.")
            .conflict("The line is done or of another kind, the provider does not give the money back, or the key was used with other data."),
    ]
}

/// What stands beside the first page of the work list.
#[derive(ToSchema)]
struct BesideWork {
    /// Null while payments of before the start are looked for; absent where a cursor was sent.
    in_review: Option<InReview>,
}

/// Payments in review.
#[derive(ToSchema)]
struct InReview {
    /// The newest of them, as many as the page may have.
    payments: Vec<Payment>,
    /// How many there are.
    count: u64,
}

/// What is decided about a payment in review.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewReview {
    decision: Resolution,
    /// With `approve` alone.
    settlement: Option<SaidSettlement>,
    /// With `approve` alone: the operator vouches for money that the provider does not confirm.
    vouch: Option<bool>,
}

/// How much an operator gives back.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRefund {
    /// All that is left, or that the line is about, where it is absent.
    amount: Option<InvoiceAmount>,
    /// Makes retries safe.
    idempotency_key: Option<IdempotencyKey>,
}

/// A refund as operators see it: what merchants see, and more.
struct OperatorsRefund;

impl PartialSchema for OperatorsRefund {
    fn schema() -> RefOr<Schema> {
        joined::<RefundBody<'static>, RefundsOperatorsFields>()
    }
}

impl ToSchema for OperatorsRefund {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Refund")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        RefundBody::schemas(schemas);
        RefundsOperatorsFields::schemas(schemas);
    }
}

/// What merchants do not see of a refund.
#[derive(ToSchema)]
struct RefundsOperatorsFields {
    /// Null for viewers: it lets its holder take the money.
    #[schema(required)]
    claim_url: Option<ClaimUrl>,
    /// The provider's id; null before it has told one, and for what it tells as part of a sum alone.
    #[schema(required)]
    reference: Option<String>,
    /// The provider's last words about it.
    detail: String,
    /// Since when it is in its state.
    at: Instant,
}

/// A payment as operators see it: what merchants see, and more.
struct Payment;

impl PartialSchema for Payment {
    fn schema() -> RefOr<Schema> {
        joined::<PaymentBody<'static>, OperatorsFields>()
    }
}

impl ToSchema for Payment {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Payment")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        PaymentBody::schemas(schemas);
        OperatorsFields::schemas(schemas);
    }
}

/// What merchants do not see.
#[derive(ToSchema)]
struct OperatorsFields {
    /// Null for viewers: it lets its holder pay.
    #[schema(required)]
    checkout_url: Option<CheckoutUrl>,
    merchant_id: MerchantId,
    /// The reseller that made it, where one did.
    #[schema(required)]
    reseller_id: Option<ResellerId>,
    environment: Environment,
    checkout_mode: CheckoutMode,
    /// Null but in review.
    #[schema(required)]
    review_cause: Option<ReviewCause>,
    /// Null while it is not known.
    #[schema(required)]
    platform_fee_usd: Option<Amount>,
    fx_rate: Rate,
    /// Whose rate it is; null where the payment is in US dollars.
    #[schema(required)]
    fx_source: Option<RateSource>,
    /// Of when the source's table is; null where the rate is the merchant's own.
    #[schema(required)]
    fx_source_date: Option<Instant>,
    /// Whether an operator vouched for the money.
    vouched: bool,
    /// The last decision about a review.
    #[schema(required)]
    decision: Option<ReviewDecision>,
    created_at: Instant,
    #[schema(required)]
    completed_at: Option<Instant>,
    expires_at: Instant,
}

/// An operator's decision about a payment in review.
#[derive(ToSchema)]
struct ReviewDecision {
    decision: Resolution,
    #[schema(required)]
    settlement: Option<SettlementStatus>,
    vouch: bool,
    state: DecisionState,
    /// What the operator saw: captured money that was not given back, else what was authorised.
    received: Amount,
    currency: AnyCurrency,
    operator: String,
    actor: String,
    reason: String,
    at: Instant,
}

/// A payment with everything that happened to it.
#[derive(ToSchema)]
struct History {
    payment: Payment,
    attempts: Vec<Attempt>,
    /// The newest first.
    refunds: Vec<OperatorsRefund>,
    decisions: Vec<RoutingDecision>,
    transitions: Vec<Transition>,
    events: Vec<EventOf>,
}

/// One try to be paid, at one account.
#[derive(ToSchema)]
struct Attempt {
    attempt_id: AttemptId,
    provider_id: ProviderId,
    slot: Slot,
    digest: Digest,
    payment_method: PaymentMethod,
    state: AttemptState,
    /// Where the payer was sent. Null for viewers, and where the payer is not sent by an address.
    #[schema(required)]
    redirect_url: Option<String>,
    /// The provider's newest id for it.
    #[schema(required)]
    reference: Option<String>,
    /// All ids under which the provider's statements may show it.
    references: Vec<String>,
    /// What was received, or what is due where nothing was.
    amount: Amount,
    /// What was taken.
    received: Amount,
    /// What went back of that.
    returned: Amount,
    currency: AnyCurrency,
    /// The provider's own word.
    #[schema(required)]
    provider_status: Option<String>,
    /// The provider's own code for a refusal or a review.
    #[schema(required)]
    provider_reason: Option<String>,
    /// What the provider keeps.
    #[schema(required)]
    provider_fee: Option<ProviderFee>,
    /// With what the payer paid.
    #[schema(required, example = "visa 4242")]
    instrument: Option<String>,
    #[schema(required)]
    authorised_at: Option<Instant>,
    #[schema(required)]
    captured_at: Option<Instant>,
    /// Until when an approval can be captured.
    #[schema(required)]
    capture_before: Option<Instant>,
    refunds: Vec<AttemptRefund>,
    disputes: Vec<Dispute>,
    opened_at: Instant,
    #[schema(required)]
    ended_at: Option<Instant>,
    /// Why it ended, or what is odd about it.
    detail: String,
}

/// What a provider keeps of a payment.
#[derive(ToSchema)]
struct ProviderFee {
    amount: Amount,
    currency: AnyCurrency,
}

/// A refund of an attempt's money.
#[derive(ToSchema)]
struct AttemptRefund {
    refund_id: RefundId,
    /// The provider's id; null for what it tells as part of a sum alone.
    #[schema(required)]
    id: Option<String>,
    amount: Amount,
    state: RefundState,
    at: Instant,
}

/// A dispute, inquiry or chargeback.
#[derive(ToSchema)]
struct Dispute {
    /// The provider's id.
    id: String,
    amount: Amount,
    state: DisputeState,
    /// The provider's own code.
    #[schema(required)]
    reason: Option<String>,
    /// Until when it can be answered.
    #[schema(required)]
    respond_by: Option<Instant>,
    at: Instant,
}

/// Why a payment went to an account.
#[derive(ToSchema)]
struct RoutingDecision {
    at: Instant,
    slot: Slot,
    digest: Digest,
    purpose: Purpose,
    /// The account; null where none was eligible.
    #[schema(required)]
    chosen: Option<ProviderId>,
    /// A sentence that names the chosen account's id.
    explanation: String,
    verdicts: Vec<Verdict>,
}

/// What the module said of one account.
#[derive(ToSchema)]
struct Verdict {
    provider_id: ProviderId,
    eligible: bool,
    reason: String,
}

/// A line of a payment's timeline.
#[derive(ToSchema)]
struct Transition {
    at: Instant,
    from: PaymentStatus,
    /// The same as `from` for a report that changed no status.
    to: PaymentStatus,
    settlement: SettlementStatus,
    #[schema(example = "callback: captured at sandbox-test")]
    cause: String,
    /// False for what was not allowed, and so changed nothing.
    applied: bool,
}

/// An event about a payment.
#[derive(ToSchema)]
#[schema(as = PaymentEvent)]
struct EventOf {
    id: EventId,
    r#type: EventType,
    created_at: Instant,
}

/// Money that a person has to look at.
#[derive(ToSchema)]
struct WorkItem {
    id: WorkId,
    kind: WorkKind,
    /// Null where the store does not know the attempt.
    #[schema(required)]
    payment_id: Option<PaymentId>,
    attempt_id: AttemptId,
    provider_id: ProviderId,
    amount: Amount,
    currency: AnyCurrency,
    /// What happened.
    detail: String,
    opened_at: Instant,
    #[schema(required)]
    done_at: Option<Instant>,
}
