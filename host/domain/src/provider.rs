//! What is said between the host and a provider's module, in terms of the domain.
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

/// What a provider's module says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderDescription {
    /// The module's name, the second half of its slot.
    pub id: String,
    /// Shown to the payer, plain text, at most 40 bytes.
    pub label: String,
    /// The module's own version, for people.
    pub version: String,
    /// Methods that it can take, each with its currencies; an empty list means any.
    pub services: Vec<Service>,
    /// Settings it knows.
    pub settings: Vec<SettingSpec>,
    /// Secrets it uses.
    pub secrets: Vec<SecretSpec>,
    /// Names of tokens that it obtains at run time.
    pub tokens: Vec<String>,
}

/// A payment method that a module can take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    pub method: MethodId,
    /// Currencies it takes it in; empty means any.
    pub currencies: Vec<Currency>,
}

/// A secret that an operator provides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretSpec {
    /// Kebab-case name.
    pub name: String,
    /// What it is and where it is found.
    pub help: String,
    /// Whether an account without it is refused.
    pub required: bool,
    /// How the vendor writes the key for signatures.
    pub encoding: Encoding,
}

/// Vendors write keys with and without padding, and some with loose last bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// How a key is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// The bytes of the text itself.
    Text,
    Hex,
    /// Either alphabet, padded or not; a leading `whsec_` is skipped.
    Base64,
}

impl Encoding {
    /// The key that a secret stands for; none where it is empty or not written like this: every stranger
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

    /// What a secret has to be, for operators.
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
    /// Where the vendor sends its notices.
    pub callback_url: String,
    /// Everything under `[settings]`.
    pub settings: Vec<(String, String)>,
}

/// One try to be paid, as a module sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptFacts {
    /// Idempotency key and merchant's reference at the vendor.
    pub id: AttemptId,
    pub method: MethodId,
    /// What is to be paid, exactly.
    pub due: Money,
    /// The merchant's order reference.
    pub order: String,
    /// The merchant's name.
    pub merchant: String,
    /// Where the payer's browser goes after paying.
    pub return_url: String,
    /// Where it goes after giving up.
    pub cancel_url: String,
    /// The payer need not be able to pay after this.
    pub expires: Time,
    /// What is known of the payer.
    pub payer: Payer,
    /// Answers to earlier questions, by name.
    pub answers: Vec<(String, Secret)>,
}

/// What is known of the payer.
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

/// How a start went on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Started {
    /// The vendor has the payment.
    Open(Open),
    /// Nothing was created; ask the payer and start again.
    Ask(Vec<Question>),
}

/// A payment that waits for the payer at the vendor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// The vendor's id for it, unique in the account, at most 255 bytes.
    pub reference: String,
    /// What the payer does next.
    pub action: PayerAction,
    /// When the vendor stops accepting payment.
    pub until: Option<Time>,
}

/// What the payer does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PayerAction {
    /// Go to this address.
    Redirect(String),
    /// The same by a posted form.
    Post {
        /// Where the form goes.
        url: String,
        /// Names and values.
        fields: Vec<(String, String)>,
    },
    /// Stay: our page shows this and waits for a report.
    Show(Instructions),
    /// Our page asks this, then starts again.
    Ask(Vec<Question>),
}

/// Shown to the payer; plain text but for `link`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instructions {
    /// What to do, in a sentence.
    pub text: String,
    /// Labels and values to copy.
    pub details: Vec<(String, String)>,
    /// What the QR code holds.
    pub qr: Option<String>,
    /// What opens an app.
    pub link: Option<String>,
}

/// One thing to ask the payer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Key of the answer, kebab-case.
    pub name: String,
    /// Shown to the payer.
    pub label: String,
    pub kind: QuestionKind,
    /// Whether an answer is needed.
    pub required: bool,
    /// Value and label of each choice.
    pub choices: Vec<(String, String)>,
}

/// The kind of input; decides keyboard, check and autofill.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QuestionKind {
    Text,
    Email,
    Phone,
    GivenName,
    FamilyName,
    Choice,
}

/// Why there is no payment. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StartFailure {
    /// Surely nothing was created: go on to the next account.
    Unavailable(String),
    /// The vendor will not take this payment; surely nothing was created.
    Declined(String),
    /// It may exist.
    Uncertain(String),
}

/// Where a payment stands at the vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VendorStatus {
    /// Waiting for the payer.
    Pending,
    /// Paid or authorised, not yet captured.
    Processing,
    /// Paid, waiting for proof.
    VerificationPending,
    /// A person has to look.
    Review,
    /// The money is taken.
    Completed,
    /// Over, nothing taken and nothing that still could be.
    Declined,
    /// Over for good, with no new try.
    Failed,
    /// Called off at the vendor; treated as declined.
    Cancelled,
    /// The vendor closed it for lack of payment.
    Expired,
    /// The money is taken, more than was due, as the scheme allows; kept as completed.
    Overpaid,
}

impl VendorStatus {
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

/// Whether the money is safe, as the vendor's payment-level API tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VendorSettlement {
    /// Not known to be.
    Pending,
    /// The vendor vouches for the funds.
    Confirmed,
    /// It will not come.
    Failed,
}

/// Where a payment stands, read from the vendor and never from our memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The vendor's id; a new one is remembered beside the old.
    pub reference: String,
    pub status: VendorStatus,
    /// Whether the money is safe.
    pub settlement: VendorSettlement,
    /// Received so far: zero while nothing was.
    pub received: Minor,
    /// Of which currency; the vendor may report one that no invoice can have, kept as its code.
    pub currency: String,
    /// Given back so far, of the same currency; zero where the vendor tells each refund and dispute
    /// alone.
    pub returned: Minor,
    /// For the operator, at most 200 bytes.
    pub detail: String,
    /// What else the vendor tells.
    pub particulars: Particulars,
}

/// What a vendor tells beside where the money is. Whatever it did not tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Particulars {
    /// The vendor's own word for where it stands.
    pub provider_status: Option<String>,
    /// The vendor's own code for a refusal or a review.
    pub reason: Option<String>,
    /// Other ids under which the vendor's statements show the payment.
    pub references: Vec<String>,
    /// What the vendor keeps, with its currency's code.
    pub fee: Option<(Minor, String)>,
    /// When the payer's approval was given.
    pub authorised_at: Option<Time>,
    /// When the money was taken.
    pub captured_at: Option<Time>,
    /// Until when an approval can be captured.
    pub capture_before: Option<Time>,
    /// With what the payer paid: `visa 4242`.
    pub instrument: Option<String>,
    /// Refunds that are told one by one.
    pub refunds: Vec<VendorRefund>,
    pub disputes: Vec<Dispute>,
}

impl Particulars {
    /// Other references kept of one attempt, those of its captures and refunds included.
    const REFERENCES: usize = 32;

    /// Takes over what a newer report tells, refunds and disputes apart; answers the references that
    /// were not known.
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

/// One sum that was given back, as the vendor tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VendorRefund {
    /// The vendor's id for it.
    pub id: String,
    /// Which refund of ours it is, where the vendor tells that; none for one made in its dashboard.
    pub order: Option<RefundId>,
    /// Minor units of the currency received.
    pub amount: Minor,
    pub state: RefundState,
}

/// What became of a refund.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundState {
    /// Under way: it does not count as given back yet.
    Pending,
    /// Given back.
    Succeeded,
    /// It came back, or never went out.
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

/// What a vendor lets be given back of payments by one method.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundTerms {
    pub method: MethodId,
    /// Whether a part can be given back; else only all that was received.
    pub parts: bool,
    /// How many refunds of one payment it takes; none where it tells no limit.
    pub at_most: Option<u32>,
    /// Days after the capture in which it takes a refund; none where it tells no limit.
    pub days: Option<u32>,
}

/// The payment whose money is given back, as a module is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaidFacts {
    /// The attempt that took the money.
    pub attempt: AttemptId,
    pub method: MethodId,
    /// The vendor's newest id for it.
    pub reference: String,
    /// Its other ids, the newest first.
    pub references: Vec<String>,
    /// Minor units received.
    pub received: Minor,
    /// Of which currency; the vendor's code.
    pub currency: String,
    /// When the money was taken, as far as the vendor told.
    pub captured_at: Option<Time>,
    /// The merchant's order reference.
    pub merchant_order: String,
    /// The merchant's name.
    pub merchant: String,
}

/// A refund that the host wants, as a module is told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefundOrder {
    /// The idempotency key and the merchant's reference at the vendor.
    pub id: RefundId,
    /// Minor units of the currency received.
    pub amount: Minor,
    /// The merchant's reason.
    pub reason: Option<String>,
    /// When it was first asked for.
    pub asked_at: Time,
    /// The vendor's id for it, once one is known.
    pub reference: Option<String>,
}

/// A refund that the vendor has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The vendor's id for it.
    pub reference: String,
    /// Whether the payer has it.
    pub state: RefundState,
    /// Where the payer must claim it.
    pub claim_url: Option<String>,
    /// For the operator, at most 200 bytes.
    pub detail: String,
}

/// Why a vendor gave nothing back. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefundFailure {
    /// Surely nothing was created: ask again later.
    Unavailable(String),
    /// The vendor will not give it back; surely nothing was created.
    Refused(String),
    /// It may exist.
    Uncertain(String),
}

/// One dispute, inquiry or chargeback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dispute {
    /// The vendor's id for it.
    pub id: String,
    /// Minor units of the currency received.
    pub amount: Minor,
    pub state: DisputeState,
    /// The vendor's own code.
    pub reason: Option<String>,
    /// Until when it can be answered.
    pub respond_by: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DisputeState {
    /// Not decided.
    Open,
    /// The money stays.
    Won,
    /// The money is gone.
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

/// Which payment a notice is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Subject {
    /// Our attempt's id.
    Attempt(AttemptId),
    /// The vendor's id.
    Reference(String),
}

/// One of the notices of a callback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Which payment.
    pub about: Subject,
    /// The vendor's reference, where it was told beside the attempt.
    pub reference: Option<String>,
    /// None: the notice proves nothing by itself, so the host asks.
    pub report: Option<Report>,
}

/// A request to the account's callback address, unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackRequest {
    /// HTTP method, upper case.
    pub verb: Verb,
    /// What follows the account's id in the path.
    pub path: String,
    /// The raw query.
    pub query: String,
    /// Names in lower case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// The exact bytes, at most 256 KiB.
    pub body: Vec<u8>,
}

/// What HTTP calls the method.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// What to do about a callback and what to answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallbackReply {
    /// The host saw a proof in the same call: a signature that is right under a secret of the account, or
    /// a vendor's certificate.
    pub proved: bool,
    /// Empty for events that do not matter.
    pub notices: Vec<Notice>,
    /// HTTP status of the answer.
    pub status: u16,
    pub media_type: String,
    /// Its short text.
    pub body: String,
}

/// Nothing of a callback is believed. The texts are for the operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallbackFailure {
    /// Answered 401.
    Forged(String),
    /// Answered 400.
    Malformed(String),
    /// Answered 503, so that the vendor repeats it.
    Later(String),
}

/// For what the host asks a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryPurpose {
    /// Tell where the payment stands; neither capture nor void.
    Sync,
    /// Capture what the payer has approved, then tell.
    Capture,
    /// Make sure that it cannot be paid any more, then tell.
    Cancel,
}

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum QueryFailure {
    /// No certain answer now.
    Unavailable(String),
    /// The vendor knows no such payment.
    Absent,
}

/// Whether the vendor can be reached with an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Operational,
    Degraded(String),
    Down(String),
}
