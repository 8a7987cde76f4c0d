//! Requests and results exchanged with provider modules, in terms of the domain.
//!
//! The types mirror the interface `payments` of the plugin contract; the runtime converts.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use crate::id::{AccountId, AttemptId, RefundId};
use crate::key::Environment;
use crate::method::MethodId;
use crate::money::{Currency, Minor, Money};
use crate::secret::Secret;
use crate::setting::SettingSpec;
use crate::time::Time;

/// A provider module's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDescription {
    /// The module's name, the second half of its slot.
    pub id: String,
    /// Shown to the payer, plain text, at most 40 bytes.
    pub label: String,
    /// The module's own version, for people.
    pub version: String,
    /// Supported methods, each with its currencies.
    pub services: Vec<Service>,
    /// Known settings.
    pub settings: Vec<SettingSpec>,
    /// Secrets that the module uses.
    pub secrets: Vec<SecretSpec>,
    /// Names of tokens that it obtains at run time.
    pub tokens: Vec<String>,
}

/// A payment method that a module supports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub method: MethodId,
    /// Supported currencies; empty means any.
    pub currencies: Vec<Currency>,
    /// Minimum amounts that the provider documents.
    pub minimums: Vec<(Currency, Minor)>,
}

/// A secret that an operator provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpec {
    /// Kebab-case name.
    pub name: String,
    /// Purpose, and where the operator finds it.
    pub help: String,
    /// Whether an account without it is rejected.
    pub required: bool,
    /// Encoding of the key, for signatures.
    pub encoding: Encoding,
}

/// Providers write keys with and without padding, and some with non-zero trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Text encoding of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes of the text itself.
    Text,
    Hex,
    /// Either alphabet, padded or not; a leading `whsec_` is skipped.
    Base64,
}

impl Encoding {
    /// Decodes a secret into its key. `None` if the encoding is wrong, or if the key is empty, because anyone
    /// could sign with an empty key.
    pub fn key(self, secret: &Secret) -> Option<Zeroizing<Vec<u8>>> {
        let text = secret.expose();
        let bytes = match self {
            Self::Text => text.as_bytes().to_vec(),
            Self::Hex => hex::decode(text).ok()?,
            Self::Base64 => {
                let text = text.strip_prefix("whsec_").unwrap_or(text);
                let standard = Zeroizing::new(text.replace('-', "+").replace('_', "/"));
                LENIENT.decode(&*standard).ok()?
            }
        };
        (!bytes.is_empty()).then(|| Zeroizing::new(bytes))
    }

    /// Required form of a secret, for operators.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Text => "a text that is not empty",
            Self::Hex => "hexadecimal digits, two a byte",
            Self::Base64 => "base64",
        }
    }
}

/// The configured account that a call is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountFacts {
    pub id: AccountId,
    pub environment: Environment,
    /// The time of the call.
    pub now: Time,
    /// URL to which the provider sends callbacks.
    pub callback_url: String,
    /// Everything under `[settings]`.
    pub settings: Vec<(String, String)>,
}

/// An attempt, as passed to a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFacts {
    /// Idempotency key and merchant's reference at the provider.
    pub id: AttemptId,
    pub method: MethodId,
    /// The exact amount to be paid.
    pub due: Money,
    /// The merchant's order reference.
    pub order: String,
    /// The merchant's name.
    pub merchant: String,
    /// URL to which the payer returns after paying.
    pub return_url: String,
    /// URL to which the payer returns after giving up.
    pub cancel_url: String,
    /// The payer need not be able to pay after this.
    pub expires: Time,
    /// Known data of the payer.
    pub payer: Payer,
    /// Answers to earlier questions, by name.
    pub answers: Vec<(String, Secret)>,
}

/// Known data of the payer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payer {
    pub email: Option<Secret>,
    /// Textual IPv4 or IPv6.
    pub ip: Option<String>,
    /// BCP 47.
    pub language: Option<String>,
    /// ISO 3166-1 alpha-2.
    pub country: Option<String>,
}

/// Result of a successful start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Started {
    /// The provider has the payment.
    Open(Open),
    /// Nothing was created; ask the payer and start again.
    Ask(Vec<Question>),
}

/// A payment that waits for the payer at the provider.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The provider's id for the payment, unique in the account, at most 255 bytes.
    pub reference: String,
    /// The payer's next action.
    pub action: PayerAction,
    /// Time at which the provider stops accepting payment.
    pub until: Option<Time>,
}

/// The payer's next action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayerAction {
    /// Go to this address.
    Redirect(String),
    /// Go to this address by a posted form.
    Post {
        /// URL that the form is posted to.
        url: String,
        /// Names and values.
        fields: Vec<(String, String)>,
    },
    /// Stay: our page shows this and waits for a report.
    Show(Instructions),
    /// Our page asks these questions, then starts again.
    Ask(Vec<Question>),
}

/// Instructions shown to the payer; plain text except `link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// The instruction, in one sentence.
    pub text: String,
    /// Labels and values to copy.
    pub details: Vec<(String, String)>,
    /// Contents of the QR code.
    pub qr: Option<String>,
    /// Link that opens an app.
    pub link: Option<String>,
}

/// A question to the payer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Key of the answer, kebab-case.
    pub name: String,
    /// Shown to the payer.
    pub label: String,
    pub kind: QuestionKind,
    /// Whether an answer is required.
    pub required: bool,
    /// Value and label of each choice.
    pub choices: Vec<(String, String)>,
}

/// The kind of input; determines keyboard, validation and autofill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuestionKind {
    Text,
    Email,
    Phone,
    GivenName,
    FamilyName,
    Choice,
}

/// Failure of a start. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartFailure {
    /// Nothing was created: try the next account.
    Unavailable(String),
    /// The method or the currency is not activated at the account; nothing was created.
    NotActivated(String),
    /// The provider has the payment, but the account does not send payers to the page's host: close the payment.
    PageRefused {
        /// The provider's id for the payment.
        reference: String,
        /// The page's host, or the error in its address.
        page: String,
    },
    /// The payer's bank or the provider's risk check declined; nothing was created.
    Declined(String),
    /// The payment may exist.
    Uncertain(String),
}

/// Status of a payment at the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderStatus {
    /// Waiting for the payer.
    Pending,
    /// Paid or authorized, not yet captured.
    Processing,
    /// Paid, waiting for proof.
    VerificationPending,
    /// A person must decide.
    Review,
    /// The money is captured.
    Completed,
    /// Ended: nothing was captured, and nothing can be any longer.
    Declined,
    /// Ended permanently, with no further attempt.
    Failed,
    /// Cancelled by the payer at the provider.
    Cancelled,
    /// The provider closed it for lack of payment.
    Expired,
    /// More than the due amount is captured, as the scheme allows; treated as completed.
    Overpaid,
}

impl ProviderStatus {
    /// The name in timelines.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Processing => "processing",
            Self::VerificationPending => "verification_pending",
            Self::Review => "review",
            Self::Completed => "completed",
            Self::Declined => "declined",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Overpaid => "overpaid",
        }
    }
}

/// Whether the money is safe, according to the provider's payment-level API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderSettlement {
    /// Not known yet.
    Pending,
    /// The provider vouches for the funds.
    Confirmed,
    /// The money will not arrive.
    Failed,
}

/// State of a payment, read from the provider and never from our memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The provider's id; a new one is stored in addition to the old.
    pub reference: String,
    pub status: ProviderStatus,
    /// Whether the money is safe.
    pub settlement: ProviderSettlement,
    /// Amount received so far, in minor units.
    pub received: Minor,
    /// Code of the currency; the provider may report one that no invoice can have.
    pub currency: String,
    /// Amount returned so far, in the same currency; zero if the provider lists refunds and disputes individually.
    pub returned: Minor,
    /// For the operator, at most 200 bytes.
    pub detail: String,
    /// Further facts that the provider reports.
    pub particulars: Particulars,
}

/// Facts that a provider reports in addition to status and amounts. Unreported ones are absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Particulars {
    /// The provider's own status text.
    pub provider_status: Option<String>,
    /// The provider's own code for a refusal or a review.
    pub reason: Option<String>,
    /// Other ids under which the provider's statements list the payment.
    pub references: Vec<String>,
    /// The provider's fee, with its currency's code.
    pub fee: Option<(Minor, String)>,
    /// Time at which the payer's approval was given.
    pub authorised_at: Option<Time>,
    /// Time at which the money was captured.
    pub captured_at: Option<Time>,
    /// Time until which an authorization can be captured.
    pub capture_before: Option<Time>,
    /// Means of payment, such as `visa 4242`.
    pub instrument: Option<String>,
    /// The payment's page in the provider's dashboard.
    pub provider_url: Option<String>,
    /// Captures that the provider lists individually.
    pub captures: Vec<ProviderCapture>,
    /// Refunds that the provider lists individually.
    pub refunds: Vec<ProviderRefund>,
    pub disputes: Vec<Dispute>,
    /// The provider's early fraud warning, in its own text.
    pub fraud_warning: Option<String>,
    /// Parts of the provider's response that the module could not read, a sentence each.
    pub unreadable: Vec<String>,
}

impl Particulars {
    /// The last four digits of the payer's card or account, if the provider reported them.
    pub fn last_four(&self) -> Option<&str> {
        let instrument = self.instrument.as_deref()?;
        let digits = instrument.rsplit(|c: char| !c.is_ascii_digit()).next()?;
        digits.get(digits.len().checked_sub(4)?..)
    }

    /// Other references kept of one attempt, those of its captures and refunds included.
    const REFERENCES: usize = 32;

    /// Merges the facts of a newer report, except captures, refunds, disputes and unreadable parts. Returns the
    /// references that are new.
    pub fn learn(&mut self, newer: &Self) -> Vec<String> {
        fn take<T: Clone>(known: &mut Option<T>, newer: &Option<T>) {
            if newer.is_some() {
                known.clone_from(newer);
            }
        }
        take(&mut self.provider_status, &newer.provider_status);
        take(&mut self.reason, &newer.reason);
        take(&mut self.fee, &newer.fee);
        take(&mut self.authorised_at, &newer.authorised_at);
        take(&mut self.captured_at, &newer.captured_at);
        take(&mut self.capture_before, &newer.capture_before);
        take(&mut self.instrument, &newer.instrument);
        take(&mut self.provider_url, &newer.provider_url);
        take(&mut self.fraud_warning, &newer.fraud_warning);
        let room = Self::REFERENCES.saturating_sub(self.references.len());
        let mut new: Vec<String> = Vec::new();
        for reference in &newer.references {
            if !self.references.contains(reference) && !new.contains(reference) && new.len() < room
            {
                new.push(reference.clone());
            }
        }
        self.references.extend(new.iter().cloned());
        new
    }
}

/// A capture, as the provider lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderCapture {
    /// The provider's id for it, as its statements print it.
    pub id: String,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// Time of the capture, by the provider's clock.
    pub at: Option<Time>,
    /// Whether the provider reversed the capture.
    pub reversed: bool,
}

/// A refund, as the provider lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderRefund {
    /// The provider's id for it.
    pub id: String,
    /// Our refund's id, if the provider repeats it. `None` for a refund made in the provider's dashboard.
    pub order: Option<RefundId>,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// Part that is paid out and did not come back. `None` means all of it if the refund succeeded, otherwise
    /// nothing.
    pub paid_out: Option<Minor>,
    /// Time at which it entered its state, by the provider's clock.
    pub at: Option<Time>,
    pub state: RefundState,
}

/// State of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundState {
    /// In progress: does not count as refunded yet.
    Pending,
    /// Refunded.
    Succeeded,
    /// The money came back, or never went out.
    Failed,
}

impl RefundState {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

/// A provider's limits on refunds of payments by one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundTerms {
    pub method: MethodId,
    /// Whether partial refunds are possible; otherwise only the whole amount received.
    pub parts: bool,
    /// Maximum number of refunds of a payment. `None` if the provider documents no limit.
    pub at_most: Option<u32>,
    /// Days after the capture in which a refund is possible. `None` if the provider documents no limit.
    pub days: Option<u32>,
    /// Currencies that the provider refunds in whole units only.
    pub whole_units: Vec<String>,
}

impl RefundTerms {
    /// Whether the provider can refund this amount of the currency.
    pub fn allows_amount(&self, amount: Minor, currency: &str) -> bool {
        amount.0.is_multiple_of(100) || !self.whole_units.iter().any(|code| code == currency)
    }
}

/// The payment whose money is refunded, as passed to a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaidFacts {
    /// The attempt that captured the money.
    pub attempt: AttemptId,
    pub method: MethodId,
    /// The provider's newest id for it.
    pub reference: String,
    /// Its other ids, newest first.
    pub references: Vec<String>,
    /// Minor units received.
    pub received: Minor,
    /// The provider's code of the currency.
    pub currency: String,
    /// Time of the capture, if the provider reported it.
    pub captured_at: Option<Time>,
    /// The merchant's order reference.
    pub merchant_order: String,
    /// The merchant's name.
    pub merchant: String,
}

/// A refund request, as passed to a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundOrder {
    /// The idempotency key and the merchant's reference at the provider.
    pub id: RefundId,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// The merchant's reason.
    pub reason: Option<String>,
    /// Time at which it was first requested.
    pub asked_at: Time,
    /// The provider's id for it. `None` until it is known.
    pub reference: Option<String>,
}

/// A refund that the provider has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The vendor's id for it.
    pub reference: String,
    /// Whether the payer has it.
    pub state: RefundState,
    /// URL at which the payer must claim it.
    pub claim_url: Option<String>,
    /// Part that is paid out and did not come back. `None` means all of it if the refund succeeded, otherwise
    /// nothing.
    pub paid_out: Option<Minor>,
    /// For the operator, at most 200 bytes.
    pub detail: String,
}

/// Purpose of a query about a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefundQuery {
    /// Report its state.
    Sync,
    /// Make sure that the payer can no longer claim it, then report.
    Cancel,
}

/// Failure of a refund. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundFailure {
    /// Nothing was created: try again later.
    Unavailable(String),
    /// The provider refuses the refund; nothing was created.
    Refused(String),
    /// The refund may exist.
    Uncertain(String),
}

/// Whether money is claimed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DisputeKind {
    /// A question of the payer's bank: no money is at risk yet.
    Inquiry,
    /// A dispute or chargeback.
    Dispute,
}

impl DisputeKind {
    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Inquiry => "inquiry",
            Self::Dispute => "dispute",
        }
    }
}

/// A dispute, inquiry or chargeback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// The provider's id for it.
    pub id: String,
    pub kind: DisputeKind,
    /// The disputed amount, in minor units of the currency received.
    pub amount: Minor,
    /// Part of it that the provider currently withholds, in minor units.
    pub withdrawn: Minor,
    /// Whether a refund of the whole payment ends it, according to the provider's documents.
    pub ends_by_refund: bool,
    /// Whether the provider also lists the withdrawal as a refund of the payment, under another id.
    pub listed_as_refund: bool,
    /// Time at which it was opened, by the provider's clock.
    pub at: Option<Time>,
    pub state: DisputeState,
    /// The provider's own code.
    pub reason: Option<String>,
    /// Deadline for a response.
    pub respond_by: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeState {
    /// Undecided.
    Open,
    /// The money stays with the merchant.
    Won,
    /// The money is lost.
    Lost,
}

impl DisputeState {
    pub const ALL: [Self; 3] = [Self::Open, Self::Won, Self::Lost];

    /// The wire name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Won => "won",
            Self::Lost => "lost",
        }
    }
}

/// The payment that a notice is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// Our attempt's id.
    Attempt(AttemptId),
    /// The provider's id.
    Reference(String),
}

/// A notice in a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The payment.
    pub about: Subject,
    /// The provider's reference, if the callback names it in addition to the attempt.
    pub reference: Option<String>,
    /// `None` if the notice proves nothing, so that the host queries the provider.
    pub report: Option<Report>,
}

/// A request to the account's callback address, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackRequest {
    /// HTTP method, upper case.
    pub verb: Verb,
    /// The path after the account's id.
    pub path: String,
    /// The raw query.
    pub query: String,
    /// Names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The exact bytes, at most 256 KiB.
    pub body: Vec<u8>,
}

/// HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// A module's evaluation of a callback, and the HTTP response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackReply {
    /// Whether the host verified a proof during this call: a signature with one of the account's secrets, or a
    /// provider's certificate.
    pub proved: bool,
    /// Empty for irrelevant events.
    pub notices: Vec<Notice>,
    /// HTTP status of the response.
    pub status: u16,
    pub media_type: String,
    /// Short text of the response.
    pub body: String,
}

/// Rejection of a whole callback. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackFailure {
    /// Responds 401.
    Forged(String),
    /// Responds 400.
    Malformed(String),
    /// Responds 503, so that the provider repeats it.
    Later(String),
}

/// Purpose of a query to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryPurpose {
    /// Report the status; neither capture nor void.
    Sync,
    /// Capture the payer's authorization, then report.
    Capture,
    /// Make sure that it can no longer be paid, then report.
    Cancel,
}

/// Failure of a query.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryFailure {
    /// No certain result now.
    Unavailable(String),
    /// The provider knows no such payment.
    Absent,
}

/// Whether the provider can be reached with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Operational,
    Degraded(String),
    Down(String),
}
