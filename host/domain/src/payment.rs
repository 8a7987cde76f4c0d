//! A payment: the request and its current state.

use serde::{Deserialize, Serialize};

use crate::extras::{Extras, Locale, NotesKept};
use crate::id::{MerchantId, PaymentId, ResellerId};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Minor, Money, Rate};
use crate::movement::Booked;
use crate::order::{ClientRef, Email, IdempotencyKey, OrderId};
use crate::rates::TableRef;
use crate::secret::Secret;
use crate::site::ReturnUrl;
use crate::time::Time;

/// Status of a payment (spec, "States and transitions"; decisions, "More statuses").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No attempt is open.
    Created,
    /// An attempt is open.
    Pending,
    /// Authorized or paid, not yet captured.
    Processing,
    /// An operator must decide.
    Review,
    /// Paid, waiting for proof such as chain confirmations.
    VerificationPending,
    /// The money is captured. Final.
    Completed,
    /// Ended without money.
    Failed,
    /// Cancelled by an operator, the merchant or the reseller.
    Cancelled,
    Expired,
}

impl Status {
    pub const ALL: [Self; 9] = [
        Self::Created,
        Self::Pending,
        Self::Processing,
        Self::Review,
        Self::VerificationPending,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Expired,
    ];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::Review => "review",
            Self::VerificationPending => "verification_pending",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }

    /// Parses a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the payment has ended. Late money can still move it to review.
    pub const fn is_final(self) -> bool {
        matches!(
            self,
            Self::Completed | Self::Failed | Self::Cancelled | Self::Expired
        )
    }
}

/// Whether the money is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settlement {
    /// Not known yet.
    Pending,
    /// Captured and credited, as far as the provider's payment-level API reports. Final.
    Confirmed,
    /// The money will not arrive.
    Failed,
}

impl Settlement {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
            Self::Failed => "failed",
        }
    }
}

/// Who chooses the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckoutMode {
    /// The customer, on the hosted page.
    Hosted,
    /// The merchant, at creation.
    Direct,
}

impl CheckoutMode {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hosted => "hosted",
            Self::Direct => "direct",
        }
    }
}

/// Originator of a payment, with the reference that makes the request idempotent.
///
/// A merchant's keys are unique per merchant, across both environments; a reseller's references are unique per
/// reseller, across environments and merchants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// The merchant itself.
    Merchant {
        /// The merchant's key.
        idempotency_key: IdempotencyKey,
    },
    /// A reseller on behalf of the merchant.
    Reseller {
        reseller: ResellerId,
        /// The reseller's reference.
        client_ref: ClientRef,
    },
}

/// Contents of a create request; an idempotent replay must repeat them exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub merchant: MerchantId,
    /// Originator and idempotency reference.
    pub origin: Origin,
    pub environment: Environment,
    pub order_id: OrderId,
    /// Invoice amount.
    pub due: Money,
    pub mode: CheckoutMode,
    /// The fixed (direct) or preselected (hosted) method.
    pub method: Option<MethodId>,
    /// The payer's address.
    pub email: Option<Email>,
    /// URL to which the payer is sent at the end.
    pub return_url: Option<ReturnUrl>,
    pub extras: Extras,
}

/// A request that has passed every check, ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayment {
    /// Drawn by the caller.
    pub id: PaymentId,
    pub request: Request,
    /// The amount in US cents at the merchant's current rate.
    pub usd: Minor,
    /// The rate used for `usd`.
    pub rate: Rate,
    /// The source's table from which the rate was computed. `None` for a rate that the merchant set itself.
    pub rate_table: Option<TableRef>,
    /// Secret of the hosted page's URL: 43 characters of base64url.
    pub token: Secret,
    pub expires_at: Time,
    /// Whether the risk policy requires an operator's review before the capture.
    pub risk_review: bool,
    /// Whether the platform credits its fee in proportion to refunds.
    pub fee_refundable: bool,
    /// The routing decision of a direct payment.
    pub decision: Option<RoutingDecision>,
}

/// Reason for a review; determines who can end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewCause {
    /// The provider reported `review`: its final status ends it.
    Vendor,
    /// The provider gave no final answer to the scheduled queries: its final status ends it.
    Silence,
    /// The merchant's risk policy.
    Risk,
    /// Amount or currency differs from the invoice.
    Mismatch,
    /// Money on an ended attempt, or on an expired, failed or cancelled payment.
    LateMoney,
    /// Money was refunded before completion.
    Refund,
    /// A dispute was opened before completion.
    Dispute,
    /// An operator moved the payment to review.
    Operator,
    /// The provider refused to capture after an operator's approval, or had voided the authorization.
    Refused,
}

impl ReviewCause {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Vendor => "vendor",
            Self::Silence => "silence",
            Self::Risk => "risk",
            Self::Mismatch => "mismatch",
            Self::LateMoney => "late_money",
            Self::Refund => "refund",
            Self::Dispute => "dispute",
            Self::Operator => "operator",
            Self::Refused => "refused",
        }
    }

    pub const ALL: [Self; 9] = [
        Self::Vendor,
        Self::Silence,
        Self::Risk,
        Self::Mismatch,
        Self::LateMoney,
        Self::Refund,
        Self::Dispute,
        Self::Operator,
        Self::Refused,
    ];

    /// English sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Vendor => "The provider has a person look at it.",
            Self::Silence => "The provider gave no answer for long.",
            Self::Risk => "The amount is over the limit of the merchant's risk policy.",
            Self::Mismatch => "Amount or currency differs from the invoice.",
            Self::LateMoney => "Money arrived after the payment or its attempt was over.",
            Self::Refund => "Money was refunded before the payment was completed.",
            Self::Dispute => "A dispute was opened before the payment was completed.",
            Self::Operator => "An operator sent it here.",
            Self::Refused => "The provider refused to capture what was approved.",
        }
    }

    /// Whether the vendor's final word ends the review; otherwise only an operator does.
    pub const fn ends_by_vendor(self) -> bool {
        matches!(self, Self::Vendor | Self::Silence)
    }
}

/// An operator's decision about a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// Complete the payment.
    Approve,
    /// Fail the payment; captured money is to be refunded.
    Decline,
}

/// Progress of an operator's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionState {
    /// The provider must capture or close first.
    Waiting,
    Done,
    /// It could not be carried out; the payment is still in review.
    Lapsed,
}

/// An amount that an operator accepts instead of the invoice amount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Minor units of `currency`.
    pub amount: Minor,
    /// Currency code, as the provider reports it.
    pub currency: String,
    /// The amount in US cents at the merchant's rate, if the currency is not the invoice's.
    pub usd: Option<Minor>,
}

/// Stored form of an operator's decision about a review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewDecision {
    pub resolution: Resolution,
    /// Settlement that the operator named; only with an approval.
    pub settlement: Option<Settlement>,
    /// Whether the operator vouches for money that the provider does not confirm.
    pub vouch: bool,
    /// Amount that the operator accepts instead of the invoice amount.
    pub accept: Option<Accepted>,
    /// Ids of pending refunds and open disputes despite which the operator approves.
    pub despite: Vec<String>,
    pub state: DecisionState,
    /// Amount shown to the operator: captured money that was not returned, else the authorized amount.
    pub received: Minor,
    pub currency: String,
    /// The authenticated operator.
    pub operator: String,
    /// The person on whose behalf the operator acted.
    pub actor: String,
    pub reason: String,
    pub at: Time,
    /// Consecutive queries that the provider left unanswered while the decision waited.
    pub silences: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub id: PaymentId,
    pub merchant: MerchantId,
    pub origin: Origin,
    pub environment: Environment,
    pub order_id: OrderId,
    /// Invoice amount.
    pub due: Money,
    /// The amount in US cents, fixed at creation.
    pub usd: Minor,
    /// The rate used for `usd`.
    pub rate: Rate,
    /// The source's table from which the rate was computed. `None` for a rate that the merchant set itself.
    pub rate_table: Option<TableRef>,
    pub mode: CheckoutMode,
    /// Method in the request.
    pub requested_method: Option<MethodId>,
    /// The chosen method; for `direct` fixed at creation.
    pub method: Option<MethodId>,
    /// The payer's address. `None` if the request had none or it was redacted.
    pub email: Option<Email>,
    /// Keyed hash of the address, for comparing idempotent requests; survives redaction.
    pub email_mark: Option<[u8; 32]>,
    /// URL to which the payer is sent at the end.
    pub return_url: Option<ReturnUrl>,
    /// Language of the payer's page, unless the payer chooses another.
    pub locale: Option<Locale>,
    /// Whether the request set the lifetime.
    pub is_lifetime_asked: bool,
    /// Data about the merchant's notes. `None` if the request had none.
    pub notes: Option<NotesKept>,
    /// Opens the hosted page.
    pub token: Secret,
    pub status: Status,
    /// Whether the money is safe.
    pub settlement: Settlement,
    /// Whether known settlement facts are ignored until the next report.
    pub settlement_held: bool,
    /// Reason for the review. `None` outside of a review.
    pub review: Option<ReviewCause>,
    /// Whether the risk policy requires a review that no operator has decided yet.
    pub risk_review: bool,
    /// The latest decision of an operator about a review.
    pub decision: Option<Box<ReviewDecision>>,
    /// Whether an operator has ever vouched for the money.
    pub vouched: bool,
    /// Number of declined attempts.
    pub declines: u8,
    /// The platform's fee in US cents, recorded on completion of a live payment.
    pub fee: Option<Minor>,
    /// Part of `fee` credited because of refunds, in US cents.
    pub fee_credited: Minor,
    /// Whether the platform credits its fee in proportion to refunds; the merchant's policy at creation.
    pub fee_refundable: bool,
    /// Booked movements of the fee, by kind.
    pub fee_booked: Booked,
    /// Amount and currency that an operator accepted instead of the invoice's; never cleared.
    pub short: Option<(Minor, String)>,
    /// Refunds of its own money, without reversed ones, in minor units of the currency received.
    pub refunded: Minor,
    /// Whether it ended although no provider confirmed that no money was taken.
    pub uncertain_end: bool,
    /// Booking time of the newest movement; later movements are not booked before it.
    pub last_booked: Time,
    pub created_at: Time,
    pub completed_at: Option<Time>,
    pub expires_at: Time,
    /// End of the claim of a worker. `None` if unclaimed.
    pub claimed_until: Option<Time>,
}

impl Payment {
    /// The payment's part of the paid rule (spec, "Paid rule"): it is completed and its settlement confirmed. A
    /// merchant also checks that the payment is live and matches its own order.
    pub fn is_paid(&self) -> bool {
        self.status == Status::Completed && self.settlement == Settlement::Confirmed
    }

    /// A new payment. The store sets `notes`, because it has the key for their hashes.
    pub fn new(new: NewPayment, email_mark: Option<[u8; 32]>, now: Time) -> Self {
        let request = new.request;
        let fixed = request
            .method
            .filter(|_| request.mode == CheckoutMode::Direct);
        Self {
            id: new.id,
            merchant: request.merchant,
            origin: request.origin,
            environment: request.environment,
            order_id: request.order_id,
            due: request.due,
            usd: new.usd,
            rate: new.rate,
            rate_table: new.rate_table,
            mode: request.mode,
            requested_method: request.method,
            method: fixed,
            email: request.email,
            email_mark,
            return_url: request.return_url,
            locale: request.extras.locale,
            is_lifetime_asked: request.extras.lifetime.is_asked,
            notes: None,
            token: new.token,
            status: Status::Created,
            settlement: Settlement::Pending,
            settlement_held: false,
            review: None,
            risk_review: new.risk_review,
            decision: None,
            vouched: false,
            declines: 0,
            fee: None,
            fee_credited: Minor::ZERO,
            fee_refundable: new.fee_refundable,
            fee_booked: Booked::default(),
            short: None,
            refunded: Minor::ZERO,
            uncertain_end: false,
            last_booked: Time::default(),
            created_at: now,
            completed_at: None,
            expires_at: new.expires_at,
            claimed_until: None,
        }
    }

    /// The first field in which a request with the same idempotency reference differs from this
    /// payment. `None` if it is a replay. `email_mark` is the keyed hash of the request's address, `notes` contains the
    /// hashes of its notes.
    pub fn differs(
        &self,
        request: &Request,
        email_mark: Option<[u8; 32]>,
        notes: Option<NotesKept>,
    ) -> Option<&'static str> {
        let metadata = |notes: Option<NotesKept>| notes.and_then(|notes| notes.metadata_mark);
        let description = |notes: Option<NotesKept>| notes.and_then(|notes| notes.description_mark);
        let lifetime = request.extras.lifetime;
        let expires_at = self.created_at.after(lifetime.duration());
        let other_lifetime =
            (self.is_lifetime_asked || lifetime.is_asked) && self.expires_at != expires_at;
        [
            (self.merchant != request.merchant, "merchant_id"),
            (self.environment != request.environment, "environment"),
            (self.order_id != request.order_id, "order_id"),
            (self.due.amount != request.due.amount, "amount"),
            (self.due.currency != request.due.currency, "currency"),
            (self.mode != request.mode, "checkout_mode"),
            (self.requested_method != request.method, "payment_method"),
            (self.email_mark != email_mark, "customer_email"),
            (self.return_url != request.return_url, "return_url"),
            (self.locale != request.extras.locale, "locale"),
            (other_lifetime, "expires_in"),
            (metadata(self.notes) != metadata(notes), "metadata"),
            (description(self.notes) != description(notes), "description"),
        ]
        .into_iter()
        .find_map(|(differs, field)| differs.then_some(field))
    }
}

/// Choice of an account, stored with its outcome for as long as the operator configures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingDecision {
    pub at: Time,
    pub slot: crate::id::Slot,
    /// Version of the slot's module.
    pub digest: crate::id::Digest,
    pub purpose: Purpose,
    /// The chosen account. `None` if no candidate was eligible.
    pub chosen: Option<crate::id::AccountId>,
    /// A sentence that names the chosen account's id.
    pub explanation: String,
    /// Verdict about each candidate.
    pub verdicts: Vec<Judgement>,
}

/// Occasion of a routing decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Creation of a direct payment.
    Create,
    Start,
    /// Another account, because the previous one could not be reached.
    Fallback,
    /// The list of methods that a payer or a merchant sees.
    Listing,
}

/// Stored verdict about a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub account: crate::id::AccountId,
    pub eligible: bool,
    /// The module's reason.
    pub reason: String,
}
