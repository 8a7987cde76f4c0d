//! Payments, and the work list.
#![expect(dead_code, reason = "only the schemas are used")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::call::{Call, joined};
use super::formats::*;
use crate::api::formats::{CheckoutMode, CheckoutUrl, ClaimUrl, IdempotencyKey, RefundId};
use crate::api::webhooks::schemas::Delivery;
use crate::api::{DisputeBody, MovementBody, PaymentBody, RefundBody};

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
            .query::<Instant>("since", "Created at this time or later.")
            .query::<Instant>("until", "Created before this time.")
            .list::<Payment>("payments"),
        Call::get("/payments/export", "exportPayments", "Tells what moved.")
            .about("Of the payments that were created in a period, a line for each capture, refund and dispute, as they stand now.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<Instant>("since", "Created at this time or later.")
            .query::<Instant>("until", "Created before this time.")
            .query::<Switch>("all", "`true`: a line for payments without any too.")
            .export(),
        Call::get("/payments/{id}", "readPayment", "Shows a payment with everything that happened to it.")
            .ok::<History>("The payment."),
        Call::post("/payments/{id}/review", "reviewPayment", "Decides a payment that is in review.")
            .about("`vouch` needs the role `admin`. An approval is a conflict while a refund of the money is pending or a dispute about it is open, unless `despite` lists the ids of all of them; the error has them in `despite_needed`. To complete with another amount or currency than the invoice's, `accept` names exactly what is there.")
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
        Call::post("/payments/redact", "redactAddress", "Erases the personal data of all payments with an e-mail address.")
            .about("Without regard to case. Payments with the same address and something behind `+` are named and left. One call erases at most 1,000 payments and says whether there are more.")
            .body::<NewErasure>()
            .ok::<Erased>("What was erased, or with `preview` what would be."),
        Call::post("/payments/{id}/refunds", "refundPayment", "Gives money of a payment back.")
            .about("Of the payment's own money, in `completed` and `review`, as far as it was not returned, is not being refunded and is not at risk of a dispute that a refund would not end. The provider is asked within the request; a refund stays `pending` until it has confirmed it. The same `idempotency_key` with the same data answers the same refund with 200.")
            .attributed()
            .body::<NewRefund>()
            .ok::<OperatorsRefund>("The same was asked for before: the refund as it stands now.")
            .created::<OperatorsRefund>("The refund.")
            .conflict("There is no money, the provider does not give it back, or the key was used with other data."),
        Call::get("/payments/{id}/refunds", "listPaymentRefunds", "Lists what was given back of a payment, the newest first.")
            .list::<OperatorsRefund>("refunds"),
        Call::get("/find", "find", "Finds anything by what is known of it.")
            .about("An order, an e-mail address without regard to case and to what stands behind `+`, an amount such as `80.00 EUR`, the last four digits of what paid, a reseller's `client_ref`, a provider's reference or dispute, an id, or its first characters, at least 6. The text stands in no log.")
            .required_query::<FoundText>("q", "The text.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<Instant>("since", "Of payments created at this time or later.")
            .query::<Instant>("until", "Of payments created before this time.")
            .ok::<AllFound>("The newest of each kind."),
        Call::post("/refunds/{id}/settle", "settleRefund", "Settles a refund whose outcome stayed unknown.")
            .about("From 24 hours after its order on. The provider is queried once more first, and its report takes precedence, then and later. For `not_made` the payer's claim is closed there first.")
            .role(kassette_domain::operator::Role::Admin)
            .attributed()
            .body::<NewSettlement>()
            .ok::<OperatorsRefund>("The refund as it stands now.")
            .conflict("It ended the other way, 24 hours have not passed, or the payer can still claim it."),
        Call::get("/movements", "listMovements", "Lists movements of money, the oldest first by booking time.")
            .about("Movements are recorded once and never change. Those that are booked at `complete_until` or later may get neighbors.")
            .query::<PaymentId>("payment_id", "Of this payment alone.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<ProviderId>("provider_id", "At this account alone.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<MovementKind>("kind", "Of this kind alone.")
            .query::<Instant>("since", "Booked at this time or later.")
            .query::<Instant>("until", "Booked before this time.")
            .list_beside::<Movement, BesideMovements>("movements"),
        Call::get("/finance/days", "listDays", "Sums movements by day, account, merchant and currency, the oldest day first.")
            .about("By booking day. A day that is closed never changes, in any zone. A row's `closing` is `opening` plus what came in less what went out.")
            .required_query::<Day>("from", "The first day.")
            .required_query::<Day>("to", "The last day, itself included.")
            .query::<Zone>("zone", "The zone in which days begin; UTC if it is absent.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<ProviderId>("provider_id", "At this account alone.")
            .list_beside::<DaySums, BesideDays>("days"),
        Call::get("/finance/export", "exportMovements", "Writes the movements that were booked on some days, the oldest first.")
            .required_query::<Day>("from", "The first day.")
            .required_query::<Day>("to", "The last day, itself included.")
            .query::<Zone>("zone", "The zone in which days begin; UTC if it is absent.")
            .query::<Environment>("environment", "Of test or live alone.")
            .query::<AnyMerchant>("merchant_id", "Of one merchant alone.")
            .query::<ProviderId>("provider_id", "At this account alone.")
            .export(),
        Call::post("/finance/confirm-clock", "confirmClock", "Confirms that the clock is right after it jumped forward.")
            .role(kassette_domain::operator::Role::Admin)
            .attributed()
            .ok::<BesideDays>("How far the ledger is closed.")
            .conflict("No jump waits."),
        Call::post("/corrections", "correctLedger", "Books what no provider reports.")
            .about("The same `idempotency_key` with the same data answers the same movement with 200.")
            .role(kassette_domain::operator::Role::Admin)
            .attributed()
            .body::<NewCorrection>()
            .ok::<Movement>("The same was booked before.")
            .created::<Movement>("The movement.")
            .conflict("The key was used with other data."),
        Call::get("/work", "listWork", "Lists money that a person has to look at, the newest first.")
            .about("An item closes itself when what it is about is settled. A page may end before it is full, with a cursor.")
            .query::<Switch>("done", "`true`: items that are done too.")
            .query::<Switch>("reviews", "`true`: payments in review are items of the first page too.")
            .query::<WorkKind>("kind", "Of this kind alone.")
            .query::<Environment>("environment", "Of test or live alone.")
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

/// Additional data of the work list's first page.
#[derive(ToSchema)]
struct BesideWork {
    /// Null while payments from before the start are being searched; absent if a cursor was sent.
    in_review: Option<InReview>,
}

/// Payments in review.
#[derive(ToSchema)]
struct InReview {
    /// The newest payments in review, at most the page's limit.
    payments: Vec<Payment>,
    /// Number of payments in review.
    count: u64,
}

/// A decision about a payment in review.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewReview {
    decision: Resolution,
    /// Only with `approve`.
    settlement: Option<SaidSettlement>,
    /// Only with `approve`: the operator vouches for money that the provider does not confirm.
    vouch: Option<bool>,
    /// Only with `approve`: the amount that completes the payment instead of the invoice's. Must equal the
    /// amount that is there.
    accept: Option<NamedAmount>,
    /// Only with `approve`: ids of pending refunds and of open disputes and inquiries about the money.
    despite: Option<Vec<String>>,
}

/// Request to erase personal data. `actor` and `reason` are required without `preview`.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewErasure {
    email: Address,
    /// If true, nothing is changed.
    preview: Option<bool>,
    actor: Option<AuditText>,
    reason: Option<AuditText>,
}

/// Payments with an address.
#[derive(ToSchema)]
struct Erased {
    payments: Vec<PaymentId>,
    /// Payments with variants of the address, which are not changed.
    variants: Vec<Variant>,
    /// Whether the call has to be repeated for the rest.
    more: bool,
}

/// Payments with an address that differs only in its `+…` part.
#[derive(ToSchema)]
struct Variant {
    email: Address,
    payments: Vec<PaymentId>,
}

/// A search result. An order, an address, an amount, four digits or a reseller's reference finds payments. Status,
/// amount and currency are the object's, or the payment's if the object has none.
#[derive(ToSchema)]
struct Found {
    kind: FoundKind,
    id: FoundText,
    /// Null for a delivery of `webhook.test`, like all fields about a payment.
    #[schema(required)]
    payment_id: Option<PaymentId>,
    /// The order. For an attempt or a dispute, the account; for an event or a delivery, the event's type.
    label: FoundText,
    found_by: FoundBy,
    #[schema(required)]
    environment: Option<Environment>,
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    status: FoundText,
    #[schema(required)]
    amount: Option<Amount>,
    #[schema(required)]
    currency: Option<AnyCurrency>,
}

/// Search results, newest first: at most 50 of each kind.
#[derive(ToSchema)]
struct AllFound {
    found: Vec<Found>,
}

/// An amount with its currency.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NamedAmount {
    amount: InvoiceAmount,
    currency: AnyCurrency,
}

/// Outcome of a refund, determined by an operator.
#[derive(ToSchema)]
#[schema(as = NewSettlement)]
#[serde(deny_unknown_fields)]
struct NewSettlement {
    outcome: SettledOutcome,
    /// Only with `made`: the refunded amount, if only a part was refunded.
    amount: Option<InvoiceAmount>,
}

/// A movement that no provider reports.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewCorrection {
    provider_id: ProviderId,
    /// The payment to which the money belongs, if any.
    payment_id: Option<PaymentId>,
    effect: CorrectionEffect,
    /// If absent, the payment's own money, or none without a payment.
    bucket: Option<Bucket>,
    amount: InvoiceAmount,
    currency: AnyCurrency,
    /// If absent, now.
    occurred_at: Option<Instant>,
    provider_references: Option<Vec<ProviderReference>>,
    /// Makes retries safe.
    idempotency_key: IdempotencyKey,
}

/// A movement for operators: the merchants' fields and more.
struct Movement;

impl PartialSchema for Movement {
    fn schema() -> RefOr<Schema> {
        joined::<MovementBody<'static>, MovementsOperatorsFields>()
    }
}

impl ToSchema for Movement {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Movement")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        MovementBody::schemas(schemas);
        MovementsOperatorsFields::schemas(schemas);
    }
}

/// The operators' additional fields of a movement.
#[derive(ToSchema)]
struct MovementsOperatorsFields {
    environment: Environment,
    /// Null for money of a payment that the store does not know.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    source: MovementSource,
}

/// Additional data of lists of movements.
#[derive(ToSchema)]
struct BesideMovements {
    /// Nothing will be booked before this time.
    complete_until: Instant,
    /// Time since which the ledger is continuous; null if the store was never restored.
    #[schema(required)]
    continuous_since: Option<Instant>,
}

/// How far the ledger is closed.
#[derive(ToSchema)]
#[schema(as = Ledger)]
struct BesideDays {
    /// Nothing will be booked before this time.
    closed_until: Instant,
    /// Time since which the ledger is continuous; null if the store was never restored.
    #[schema(required)]
    continuous_since: Option<Instant>,
}

/// Sums of a day.
#[derive(ToSchema)]
struct DaySums {
    day: Day,
    /// Whether the sums are final.
    closed: bool,
    environment: Environment,
    provider_id: ProviderId,
    /// Null for money of a payment that the store does not know.
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    currency: AnyCurrency,
    opening: SignedAmount,
    closing: SignedAmount,
    /// Sums by kind of movement; positive, except for corrections (in minus out). Kinds without a movement on
    /// that day are absent.
    sums: BTreeMap<String, SignedAmount>,
}

/// A refund ordered by an operator.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
struct NewRefund {
    /// If absent, all of the remaining money, or of the item's money.
    amount: Option<InvoiceAmount>,
    /// Makes retries safe.
    idempotency_key: Option<IdempotencyKey>,
}

/// A refund for operators: the merchants' fields and more.
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

/// The operators' additional fields of a refund.
#[derive(ToSchema)]
struct RefundsOperatorsFields {
    /// Null for viewers: it lets its holder collect the money.
    #[schema(required)]
    claim_url: Option<ClaimUrl>,
    /// The provider's id; null before the provider has sent one, and for a refund that it reports only as part
    /// of a sum.
    #[schema(required)]
    reference: Option<String>,
    /// The provider's last text about it.
    detail: String,
    /// Time at which its state started.
    at: Instant,
}

/// A payment for operators: the merchants' fields and more.
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

/// The operators' additional fields of a payment.
#[derive(ToSchema)]
struct OperatorsFields {
    /// Null for viewers: it lets its holder pay.
    #[schema(required)]
    checkout_url: Option<CheckoutUrl>,
    merchant_id: MerchantId,
    /// The reseller that created it, if any.
    #[schema(required)]
    reseller_id: Option<ResellerId>,
    environment: Environment,
    checkout_mode: CheckoutMode,
    /// Null except in review.
    #[schema(required)]
    review_cause: Option<ReviewCause>,
    /// Null while unknown.
    #[schema(required)]
    platform_fee_usd: Option<Amount>,
    fx_rate: Rate,
    /// Source of the rate; null if the payment is in US dollars.
    #[schema(required)]
    fx_source: Option<RateSource>,
    /// Date of the source's table; null for the merchant's own rate.
    #[schema(required)]
    fx_source_date: Option<Instant>,
    /// Whether an operator vouched for the money.
    vouched: bool,
    /// The amount that an operator accepted instead of the invoice's.
    #[schema(required)]
    short: Option<NamedAmount>,
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
    #[schema(required)]
    accept: Option<NamedAmount>,
    despite: Vec<String>,
    state: DecisionState,
    /// The amount that the operator saw: captured money that was not refunded, otherwise the authorized amount.
    received: Amount,
    currency: AnyCurrency,
    operator: String,
    actor: String,
    reason: String,
    at: Instant,
}

/// A payment with its complete history.
#[derive(ToSchema)]
struct History {
    payment: Payment,
    attempts: Vec<Attempt>,
    /// Newest first.
    refunds: Vec<OperatorsRefund>,
    disputes: Vec<PaymentDispute>,
    /// The newest 100, newest first.
    movements: Vec<Movement>,
    balance: Vec<Balance>,
    possible: Possible,
    /// Null except in review.
    #[schema(required)]
    review_reason: Option<ReviewReason>,
    /// When the provider is queried next.
    #[schema(required)]
    next_query_at: Option<Instant>,
    decisions: Vec<RoutingDecision>,
    transitions: Vec<Transition>,
    events: Vec<EventOf>,
    /// The newest 100, newest first.
    deliveries: Vec<Delivery>,
}

/// Balance of a bucket in one currency.
#[derive(ToSchema)]
struct Balance {
    bucket: Bucket,
    currency: AnyCurrency,
    received: Amount,
    /// Refunds, reversed captures and withdrawn funds, minus what came back.
    returned: Amount,
    /// The part of open disputes that is not withdrawn.
    at_risk: Amount,
    /// Pending refunds.
    committed: Amount,
    /// Received minus returned.
    net: SignedAmount,
}

/// Actions that are currently possible.
#[derive(ToSchema)]
struct Possible {
    /// Null if it cannot be approved.
    #[schema(required)]
    approve: Option<PossibleApproval>,
    #[schema(required)]
    decline: Option<PossibleDecline>,
    /// Refundable part of the payment's own money.
    #[schema(required)]
    refund: Option<NamedAmount>,
    cancel: bool,
    query: bool,
}

/// The amount with which an approval would complete the payment.
#[derive(ToSchema)]
struct PossibleApproval {
    amount: Amount,
    currency: AnyCurrency,
    /// Whether `accept` has to name that amount.
    needs_accept: bool,
    /// Ids that `despite` has to list.
    despite: Vec<String>,
    /// Null for a test payment, and without a usable exchange rate.
    #[schema(required)]
    platform_fee_usd: Option<Amount>,
}

/// Consequences of a decline.
#[derive(ToSchema)]
struct PossibleDecline {
    /// Amount that becomes surplus.
    surplus: Amount,
}

/// Why a payment is in review.
#[derive(ToSchema)]
struct ReviewReason {
    code: ReviewCause,
    message: String,
}

/// A dispute for operators: the merchants' fields and more.
struct PaymentDispute;

impl PartialSchema for PaymentDispute {
    fn schema() -> RefOr<Schema> {
        joined::<DisputeBody<'static>, DisputesOperatorsFields>()
    }
}

impl ToSchema for PaymentDispute {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("PaymentDispute")
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        DisputeBody::schemas(schemas);
        DisputesOperatorsFields::schemas(schemas);
    }
}

/// The operators' additional fields of a dispute.
#[derive(ToSchema)]
struct DisputesOperatorsFields {
    /// Whether it ended because everything was refunded.
    ended_by_refund: bool,
}

/// An attempt to pay with one account.
#[derive(ToSchema)]
struct Attempt {
    attempt_id: AttemptId,
    provider_id: ProviderId,
    slot: Slot,
    digest: Digest,
    payment_method: PaymentMethod,
    state: AttemptState,
    /// URL to which the payer was sent. Null for viewers, and if the payer is not sent by URL.
    #[schema(required)]
    redirect_url: Option<String>,
    /// The provider's newest id of the attempt.
    #[schema(required)]
    reference: Option<String>,
    /// All ids under which the provider's statements may show it.
    references: Vec<String>,
    /// The amount received, or the amount due if nothing was received.
    amount: Amount,
    /// Captured amount.
    received: Amount,
    /// Amount returned.
    returned: Amount,
    currency: AnyCurrency,
    /// The provider's own status.
    #[schema(required)]
    provider_status: Option<String>,
    /// The provider's own code for a refusal or a review.
    #[schema(required)]
    provider_reason: Option<String>,
    /// The provider's fee.
    #[schema(required)]
    provider_fee: Option<ProviderFee>,
    /// The payer's means of payment.
    #[schema(required, example = "visa 4242")]
    instrument: Option<String>,
    /// Page of the attempt in the provider's dashboard.
    #[schema(required)]
    provider_url: Option<String>,
    #[schema(required)]
    authorised_at: Option<Instant>,
    #[schema(required)]
    captured_at: Option<Instant>,
    /// Time until which an authorization can be captured.
    #[schema(required)]
    capture_before: Option<Instant>,
    refunds: Vec<AttemptRefund>,
    disputes: Vec<DisputeBody<'static>>,
    opened_at: Instant,
    #[schema(required)]
    ended_at: Option<Instant>,
    /// Why the attempt ended, or what is inconsistent about it.
    detail: String,
}

/// A provider's fee for a payment.
#[derive(ToSchema)]
struct ProviderFee {
    amount: Amount,
    currency: AnyCurrency,
}

/// A refund of an attempt's money.
#[derive(ToSchema)]
struct AttemptRefund {
    refund_id: RefundId,
    /// The provider's id; null for a refund that it reports only as part of a sum.
    #[schema(required)]
    id: Option<String>,
    amount: Amount,
    state: RefundState,
    at: Instant,
}

/// Why a payment was routed to an account.
#[derive(ToSchema)]
struct RoutingDecision {
    at: Instant,
    slot: Slot,
    digest: Digest,
    purpose: Purpose,
    /// The account; null if none was eligible.
    #[schema(required)]
    chosen: Option<ProviderId>,
    /// A sentence that contains the chosen account's id.
    explanation: String,
    verdicts: Vec<Verdict>,
}

/// A module's verdict about an account.
#[derive(ToSchema)]
struct Verdict {
    provider_id: ProviderId,
    eligible: bool,
    reason: String,
}

/// A row of a payment's timeline.
#[derive(ToSchema)]
struct Transition {
    at: Instant,
    from: PaymentStatus,
    /// Equal to `from` for a report that changed no status.
    to: PaymentStatus,
    settlement: SettlementStatus,
    #[schema(example = "callback: captured at sandbox-test")]
    cause: String,
    /// False for a step that was not allowed, and so changed nothing.
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

/// An item that requires a decision.
#[derive(ToSchema)]
struct WorkItem {
    /// For a review, the payment's id.
    id: WorkId,
    kind: WorkKind,
    /// The refund or dispute that it is about; null if it is about an attempt's money as a whole.
    #[schema(required)]
    subject_id: Option<String>,
    /// Null if the store does not know the attempt.
    #[schema(required)]
    payment_id: Option<PaymentId>,
    #[schema(required)]
    attempt_id: Option<AttemptId>,
    #[schema(required)]
    merchant_id: Option<MerchantId>,
    #[schema(required)]
    order_id: Option<String>,
    environment: Environment,
    #[schema(required)]
    provider_id: Option<ProviderId>,
    /// Amount owed or disputed.
    #[schema(required)]
    amount: Option<Amount>,
    #[schema(required)]
    currency: Option<AnyCurrency>,
    /// Amount that the attempt received.
    #[schema(required)]
    received: Option<Amount>,
    /// What happened.
    detail: String,
    /// Deadline for an action.
    #[schema(required)]
    deadline: Option<Instant>,
    actions: Vec<WorkAction>,
    opened_at: Instant,
    #[schema(required)]
    done_at: Option<Instant>,
    #[schema(required)]
    outcome: Option<String>,
}
