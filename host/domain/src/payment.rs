//! A payment: what was asked for, and where it stands.

use serde::{Deserialize, Serialize};

use crate::id::{MerchantId, PaymentId, ResellerId};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Minor, Money, Rate};
use crate::order::{ClientRef, Email, IdempotencyKey, OrderId};
use crate::rates::TableRef;
use crate::secret::Secret;
use crate::site::ReturnUrl;
use crate::time::Time;

/// Where a payment stands (spec, "States and transitions"; decisions, "More statuses").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No attempt is open.
    Created,
    /// An attempt is open.
    Pending,
    /// Authorised or paid, not yet captured.
    Processing,
    /// A person has to look.
    Review,
    /// Paid, waiting for proof such as chain confirmations.
    VerificationPending,
    /// The money is taken. Final.
    Completed,
    /// Over without money.
    Failed,
    /// Called off by an operator.
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

    /// Reads a wire name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == text)
    }

    /// Whether the payment is over, but for late money.
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
    /// Not known to be.
    Pending,
    /// Captured and credited as far as the vendor's payment-level API tells. Final.
    Confirmed,
    /// It will not come.
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

/// Who picks the method.
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

/// Who asked for a payment, with the reference that makes the request idempotent.
///
/// Keys of merchants are one space per merchant, across both environments; references of resellers
/// are one per reseller, across environments and merchants.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Origin {
    /// The merchant itself.
    Merchant {
        /// Its key.
        idempotency_key: IdempotencyKey,
    },
    /// A reseller for the merchant.
    Reseller {
        reseller: ResellerId,
        /// Its reference.
        client_ref: ClientRef,
    },
}

/// Everything that the caller said; what an idempotent replay must repeat exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub merchant: MerchantId,
    /// By whom, with the idempotency reference.
    pub origin: Origin,
    pub environment: Environment,
    pub order_id: OrderId,
    /// What is to be paid.
    pub due: Money,
    pub mode: CheckoutMode,
    /// The method fixed (direct) or preselected (hosted).
    pub method: Option<MethodId>,
    /// The payer's address.
    pub email: Option<Email>,
    /// Where the payer goes at the end.
    pub return_url: Option<ReturnUrl>,
}

/// A request that has passed every check, ready to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPayment {
    /// Its id, drawn by the caller.
    pub id: PaymentId,
    pub request: Request,
    /// The amount at the merchant's rate of now.
    pub usd: Minor,
    /// That rate.
    pub rate: Rate,
    /// The source's table that it was made from; none where it is the merchant's own.
    pub rate_table: Option<TableRef>,
    /// Opens the hosted page: 43 characters of base64url.
    pub token: Secret,
    pub expires_at: Time,
    /// Whether the risk policy wants a person to look before the money is taken.
    pub risk_review: bool,
    /// The routing decision of a direct payment.
    pub decision: Option<RoutingDecision>,
}

/// Why a payment is in review: what may take it out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReviewCause {
    /// The vendor itself reported `review`: its final word ends it.
    Vendor,
    /// The vendor stayed silent to the last question: its final word ends it.
    Silence,
    /// The merchant's risk policy.
    Risk,
    /// Amount or currency differs from the invoice.
    Mismatch,
    /// Money on an ended attempt, or on an expired, failed or cancelled payment.
    LateMoney,
    /// Money was given back before completion.
    Refund,
    /// An operator sent it here.
    Operator,
    /// The vendor refused to capture what an operator had approved, or had voided it.
    Refused,
}

impl ReviewCause {
    /// Whether the vendor's final word ends the review; otherwise only an operator does.
    pub const fn ends_by_vendor(self) -> bool {
        matches!(self, Self::Vendor | Self::Silence)
    }
}

/// What an operator decides about a review.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Resolution {
    /// The payment is to be completed.
    Approve,
    /// The payment is to fail; money that was taken is to be refunded.
    Decline,
}

/// Where an operator's decision stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DecisionState {
    /// The vendor has to capture or close first.
    Waiting,
    Done,
    /// It could not be carried out; the payment is still in review.
    Lapsed,
}

/// An operator's decision about a review, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReviewDecision {
    pub resolution: Resolution,
    /// The settlement that the operator named; with an approval alone.
    pub settlement: Option<Settlement>,
    /// Whether the operator vouches for money that the vendor does not confirm.
    pub vouch: bool,
    pub state: DecisionState,
    /// What the operator saw: captured money that was not given back, else what was authorised.
    pub received: Minor,
    pub currency: String,
    /// The authenticated operator.
    pub operator: String,
    /// The person that the operator acted for.
    pub actor: String,
    pub reason: String,
    pub at: Time,
    /// Questions in a row that the vendor left without an answer while it waited.
    pub silences: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payment {
    pub id: PaymentId,
    pub merchant: MerchantId,
    pub origin: Origin,
    pub environment: Environment,
    pub order_id: OrderId,
    /// What is to be paid.
    pub due: Money,
    /// The amount in US cents, fixed at creation.
    pub usd: Minor,
    /// The rate that it was converted with.
    pub rate: Rate,
    /// The source's table that the rate was made from; none where it was the merchant's own.
    pub rate_table: Option<TableRef>,
    pub mode: CheckoutMode,
    /// What the request said of the method.
    pub requested_method: Option<MethodId>,
    /// The chosen method; for `direct` fixed at creation.
    pub method: Option<MethodId>,
    /// The payer's address; none where none was told or it was redacted.
    pub email: Option<Email>,
    /// Keyed hash of the address, for the idempotency comparison; survives redaction.
    pub email_mark: Option<[u8; 32]>,
    /// Where the payer goes at the end.
    pub return_url: Option<ReturnUrl>,
    /// Opens the hosted page.
    pub token: Secret,
    pub status: Status,
    /// Whether the money is safe.
    pub settlement: Settlement,
    /// Why it is in review, while it is.
    pub review: Option<ReviewCause>,
    /// Whether the risk policy wants a person to look, and no operator has yet.
    pub risk_review: bool,
    /// The last decision of an operator about a review of it.
    pub decision: Option<Box<ReviewDecision>>,
    /// Whether an operator vouched for its money; for good.
    pub vouched: bool,
    /// How often payers were declined.
    pub declines: u8,
    /// What the platform charges, US cents; recorded on completion of a live payment.
    pub fee: Option<Minor>,
    pub created_at: Time,
    pub completed_at: Option<Time>,
    pub expires_at: Time,
    /// Held for a worker until then.
    pub claimed_until: Option<Time>,
}

impl Payment {
    /// The paid rule (spec, "Paid rule"), as far as the payment tells: it is completed, and its settlement
    /// is confirmed. A merchant requires a live payment too, and compares it with its own order.
    pub fn is_paid(&self) -> bool {
        self.status == Status::Completed && self.settlement == Settlement::Confirmed
    }

    /// A payment as it is on creation.
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
            token: new.token,
            status: Status::Created,
            settlement: Settlement::Pending,
            review: None,
            risk_review: new.risk_review,
            decision: None,
            vouched: false,
            declines: 0,
            fee: None,
            created_at: now,
            completed_at: None,
            expires_at: new.expires_at,
            claimed_until: None,
        }
    }

    /// The first field in which a request with the same idempotency reference differs from this
    /// payment; none makes it a replay. `email_mark` is the keyed hash of the request's address.
    pub fn differs(&self, request: &Request, email_mark: Option<[u8; 32]>) -> Option<&'static str> {
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
        ]
        .into_iter()
        .find_map(|(differs, field)| differs.then_some(field))
    }
}

/// Why an account was chosen: kept beside what came of it for as long as the operator says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutingDecision {
    pub at: Time,
    pub slot: crate::id::Slot,
    /// Which version of it.
    pub digest: crate::id::Digest,
    pub purpose: Purpose,
    /// The account; none where no candidate was eligible.
    pub chosen: Option<crate::id::AccountId>,
    /// A sentence that names the chosen account's id.
    pub explanation: String,
    /// What was said of each candidate.
    pub verdicts: Vec<Judgement>,
}

/// What a decision was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A direct payment's creation.
    Create,
    Start,
    /// Another account, since the one before could not be reached.
    Fallback,
    /// The list of methods, as a payer or a merchant sees it.
    Listing,
}

/// A verdict as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub account: crate::id::AccountId,
    pub eligible: bool,
    /// The module's reason.
    pub reason: String,
}
