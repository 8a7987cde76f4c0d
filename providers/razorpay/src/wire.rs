//! Parsing of Razorpay's JSON. Parsing is lenient: an undocumented value, a missing or null field, or a malformed
//! list entry does not hide the rest.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Dispute, DisputeKind, DisputeState, Money, Refund, RefundState};

use crate::query::is_id;

/// Key of the attempt's id in the `notes` of a link, which its order and payments inherit.
pub(crate) const ATTEMPT: &str = "attempt";

/// Maximum length of a reason and of the means of payment in a report, in bytes.
const MOST_WORDS: usize = 64;

/// `payment_link.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    PartiallyPaid,
    Paid,
    Cancelled,
    Expired,
    /// An undocumented status.
    Unknown,
}

/// `payment.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Created,
    Authorized,
    Captured,
    Refunded,
    Failed,
    /// An undocumented status.
    Unknown,
}

/// A Payment Link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: String,
    /// Attempt id (`reference_id`); empty if missing.
    pub(crate) attempt: String,
    pub(crate) stage: Stage,
    /// Amount due.
    pub(crate) due: Money,
    /// Razorpay's page; empty if the answer omits it.
    pub(crate) url: String,
    /// Seconds since 1970; 0 if missing.
    pub(crate) expires_at: u64,
    /// The order that contains the tries. `None` before a payer has opened the link.
    pub(crate) order: Option<String>,
    /// Ids of the captured payments that the link lists.
    pub(crate) paid: Vec<String>,
}

/// A try to pay a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) phase: Phase,
    /// Whether money was captured, even if it was refunded later.
    pub(crate) captured: bool,
    /// Amount paid by the payer, including the fee if the payer bears it.
    pub(crate) money: Money,
    /// Whether the account's payers bear Razorpay's fee in addition to the order's amount.
    pub(crate) payer_bears_fee: bool,
    /// Refunded amount according to Razorpay, in minor units.
    pub(crate) refunded: u64,
    /// Seconds since 1970. `None` if missing.
    pub(crate) created_at: Option<u64>,
    /// Reason of the failure.
    pub(crate) reason: Option<String>,
    /// Razorpay's fee including taxes, in minor units. `None` before the capture.
    pub(crate) fee: Option<u64>,
    /// Reference numbers of the bank and the network.
    pub(crate) numbers: Vec<String>,
    /// The payer's means of payment: "upi @okaxis", "Visa 0153".
    pub(crate) instrument: Option<String>,
}

/// A refusal, in Razorpay's terms.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    /// The field that it is about; empty if missing.
    pub(crate) field: String,
    pub(crate) reason: String,
    pub(crate) description: String,
}

impl Problem {
    /// Whether the account does not have this id, for which Razorpay uses a general 400.
    pub(crate) fn is_unknown_id(&self) -> bool {
        matches!(self.status, 400 | 404) && self.description.contains("does not exist")
    }

    /// Whether Razorpay refuses the description. Some answers do not contain the field.
    pub(crate) fn is_about_description(&self) -> bool {
        let words = self.description.to_ascii_lowercase();
        self.field == "description" || (self.field.is_empty() && words.contains("description"))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {}", self.status)?;
        for word in [&self.code, &self.reason, &self.field] {
            if !word.is_empty() {
                write!(f, " {word}")?;
            }
        }
        Ok(())
    }
}

impl Phase {
    /// Razorpay's name of the status.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Refunded => "refunded",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl Stage {
    /// Razorpay's name of the status.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::PartiallyPaid => "partially_paid",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Unknown => "unknown",
        }
    }
}

/// The parsed items of a list, and a sentence about each malformed item.
pub(crate) type Partly<T> = (Vec<T>, Vec<String>);

/// Parses a link. `None` without an id or an amount.
pub(crate) fn link(body: &[u8]) -> Option<Link> {
    link_of(&Json::parse(body)?)
}

/// The link of an attempt in a list of links. The error means that a malformed entry could be this link.
pub(crate) fn link_in(body: &[u8], attempt: &str) -> Result<Option<Link>, ()> {
    let list = Json::parse(body).ok_or(())?;
    let Some(Json::List(links)) = list.get("payment_links") else {
        return Err(());
    };
    let named = |link: &&Json| match text(link, "reference_id") {
        Some(reference) if !reference.is_empty() => reference == attempt,
        _ => true,
    };
    let mut named = links.iter().filter(named).map(link_of);
    match named.next() {
        Some(link) => link.map(Some).ok_or(()),
        None => Ok(None),
    }
}

pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    payment_of(&Json::parse(body)?)
}

/// Parses the payments of an order.
pub(crate) fn payments(body: &[u8]) -> Option<Partly<Payment>> {
    let list = Json::parse(body)?;
    Some(partly(items(&list)?, "payment", payment_of))
}

/// A page of a payment's refunds.
pub(crate) struct Refunds {
    pub(crate) read: Vec<Refund>,
    /// A sentence about each part that cannot be parsed.
    pub(crate) unreadable: Vec<String>,
    /// Whether these are all refunds: there are no further pages or omitted entries.
    pub(crate) complete: bool,
}

/// Parses a page of a payment's refunds. `page` is the number of items per page.
pub(crate) fn refunds(body: &[u8], page: usize) -> Option<Refunds> {
    let list = Json::parse(body)?;
    let items = items(&list)?;
    let (read, mut unreadable) = partly(items, "refund", refund);
    let readable = items.iter().filter(|item| refund(item).is_some());
    unreadable.extend(readable.filter_map(unknown_refund_status));
    Some(Refunds {
        complete: items.len() < page && read.len() == items.len(),
        read,
        unreadable,
    })
}

/// Parses a page of disputes. Returns the disputes about these payments, and the number of all disputes on the
/// page.
pub(crate) fn disputes(body: &[u8], payments: &[Payment]) -> Option<(Partly<Dispute>, usize)> {
    let list = Json::parse(body)?;
    let items = items(&list)?;
    let about_ours = |item: &&Json| {
        let of = item.get("payment_id").and_then(Json::text);
        payments.iter().any(|payment| of == Some(&payment.id))
    };
    let ours: Vec<&Json> = items.iter().filter(about_ours).collect();
    let (disputes, mut unreadable) = partly(ours.iter().copied(), "dispute", dispute);
    unreadable.extend(ours.into_iter().filter_map(unknown_dispute_status));
    Some(((disputes, unreadable), items.len()))
}

/// Parses the items that can be parsed. An item without an id or an amount is omitted and results in a sentence.
fn partly<'a, T>(
    items: impl IntoIterator<Item = &'a Json>,
    what: &str,
    read: impl Fn(&Json) -> Option<T>,
) -> Partly<T> {
    let (mut found, mut unreadable) = (Vec::new(), Vec::new());
    for item in items {
        match read(item) {
            Some(item) => found.push(item),
            None => unreadable.push(format!("{what} {} cannot be read", id_of(item))),
        }
    }
    (found, unreadable)
}

/// The id of an entry, for a sentence about it.
fn id_of(item: &Json) -> String {
    let id = text(item, "id").filter(|id| is_id(id) && id.len() <= MOST_WORDS);
    id.unwrap_or_else(|| "without id".to_owned())
}

/// The attempt of an order or a payment: from the notes, or from the order's receipt, which is the link's
/// reference.
pub(crate) fn attempt_of(value: &Json) -> Option<String> {
    let noted = value.path(&["notes", ATTEMPT]).and_then(Json::text);
    let receipt = || value.get("receipt").and_then(Json::text);
    noted.or_else(receipt).map(str::to_owned)
}

/// Parses a refusal. Missing fields are empty.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let error = body.get("error").unwrap_or(&Json::Null);
    let word = |name| code(error, name).unwrap_or_default();
    Problem {
        status: answer.status,
        code: word("code"),
        field: word("field"),
        reason: word("reason"),
        description: text(error, "description").unwrap_or_default(),
    }
}

fn link_of(value: &Json) -> Option<Link> {
    let shown = value.get("payments").map_or(&[][..], Json::items);
    Some(Link {
        id: text(value, "id")?,
        attempt: text(value, "reference_id").unwrap_or_default(),
        stage: match value.get("status").and_then(Json::text) {
            Some("created") => Stage::Created,
            Some("partially_paid") => Stage::PartiallyPaid,
            Some("paid") => Stage::Paid,
            Some("cancelled") => Stage::Cancelled,
            Some("expired") => Stage::Expired,
            _ => Stage::Unknown,
        },
        due: money(value)?,
        url: text(value, "short_url").unwrap_or_default(),
        expires_at: value.get("expire_by").and_then(Json::whole).unwrap_or(0),
        order: text(value, "order_id").filter(|id| !id.is_empty()),
        paid: shown
            .iter()
            .filter_map(|each| text(each, "payment_id"))
            .collect(),
    })
}

fn payment_of(value: &Json) -> Option<Payment> {
    let numbers = ["rrn", "upi_transaction_id"]
        .map(|name| value.path(&["acquirer_data", name]).and_then(Json::text));
    let phase = match value.get("status").and_then(Json::text) {
        Some("created") => Phase::Created,
        Some("authorized") => Phase::Authorized,
        Some("captured") => Phase::Captured,
        Some("refunded") => Phase::Refunded,
        Some("failed") => Phase::Failed,
        _ => Phase::Unknown,
    };
    let captured = value.get("captured").and_then(Json::flag);
    Some(Payment {
        id: text(value, "id").filter(|id| is_id(id))?,
        phase,
        captured: captured.unwrap_or(phase == Phase::Captured),
        money: money(value)?,
        payer_bears_fee: text(value, "fee_bearer").as_deref() == Some("customer"),
        refunded: value
            .get("amount_refunded")
            .and_then(Json::whole)
            .unwrap_or(0),
        created_at: value.get("created_at").and_then(Json::whole),
        reason: code(value, "error_reason").or_else(|| code(value, "error_code")),
        fee: value.get("fee").and_then(Json::whole),
        numbers: numbers
            .into_iter()
            .flatten()
            .filter(|number| is_id(number))
            .map(str::to_owned)
            .collect(),
        instrument: instrument(value),
    })
}

/// Method and bank. Only the part of the payer's UPI address after the `@` is used, because the first part is a
/// name or a phone number.
fn instrument(payment: &Json) -> Option<String> {
    let method = text(payment, "method")?;
    let handle = text(payment, "vpa").and_then(|vpa| {
        let (_, handle) = vpa.rsplit_once('@')?;
        Some(handle.to_owned())
    });
    let card = ["network", "last4"].map(|name| payment.path(&["card", name]).and_then(Json::text));
    let told = match (handle, card, text(payment, "bank")) {
        (Some(handle), ..) => format!("{method} @{handle}"),
        (_, [Some(network), Some(last)], _) => format!("{network} {last}"),
        (.., Some(bank)) => format!("{method} {bank}"),
        _ => method,
    };
    (told.len() <= MOST_WORDS).then_some(told)
}

/// Reads a refund; its receipt is the refund order's id, if any. A missing or undocumented status counts as
/// pending.
fn refund(value: &Json) -> Option<Refund> {
    refund_of(value, None)
}

/// Reads a refund; `amount` is used if it contains none.
pub(crate) fn refund_of(value: &Json, amount: Option<u64>) -> Option<Refund> {
    Some(Refund {
        id: text(value, "id").filter(|id| is_id(id))?,
        order_id: text(value, "receipt"),
        amount: value.get("amount").and_then(Json::whole).or(amount)?,
        paid_out: None,
        at: value
            .get("created_at")
            .and_then(Json::whole)
            .map(milliseconds),
        state: refund_state(value).unwrap_or(RefundState::Pending),
    })
}

fn refund_state(value: &Json) -> Option<RefundState> {
    match value.get("status")?.text()? {
        "created" | "initiated" | "pending" => Some(RefundState::Pending),
        "processed" => Some(RefundState::Succeeded),
        "failed" => Some(RefundState::Failed),
        _ => None,
    }
}

/// A sentence about a refund with an undocumented status.
fn unknown_refund_status(value: &Json) -> Option<String> {
    let unknown = refund_state(value).is_none();
    unknown.then(|| unknown_status("refund", value))
}

/// A sentence about a dispute with an undocumented status.
fn unknown_dispute_status(value: &Json) -> Option<String> {
    let unknown = dispute_state(value).is_none();
    unknown.then(|| unknown_status("dispute", value))
}

fn unknown_status(what: &str, value: &Json) -> String {
    let status = code(value, "status").unwrap_or_default();
    format!("{what} {} has the unknown status {status}", id_of(value))
}

fn dispute_state(value: &Json) -> Option<DisputeState> {
    match value.get("status")?.text()? {
        "open" | "under_review" => Some(DisputeState::Open),
        "lost" => Some(DisputeState::Lost),
        "won" | "closed" => Some(DisputeState::Won),
        _ => None,
    }
}

fn dispute(value: &Json) -> Option<Dispute> {
    let phase = text(value, "phase").unwrap_or_default();
    let claimed = value.get("amount").and_then(Json::whole);
    let deducted = value.get("amount_deducted").and_then(Json::whole);
    let state = dispute_state(value).unwrap_or(DisputeState::Open);
    // For a lost dispute, the deducted amount counts.
    let (amount, withdrawn) = match state {
        DisputeState::Lost => {
            let gone = deducted.or(claimed)?;
            (gone, gone)
        }
        DisputeState::Open => (claimed.or(deducted)?, deducted.unwrap_or(0)),
        DisputeState::Won => (claimed.or(deducted)?, 0),
    };
    let respond_by = value.get("respond_by").and_then(Json::whole);
    // The bank suspects fraud, or requests documents.
    let kind = match phase.as_str() {
        "fraud" | "retrieval" => DisputeKind::Inquiry,
        _ => DisputeKind::Dispute,
    };
    Some(Dispute {
        id: text(value, "id").filter(|id| is_id(id))?,
        kind,
        amount,
        withdrawn,
        // Razorpay's documents do not state that a refund ends a dispute.
        ends_by_refund: false,
        listed_as_refund: false,
        at: value
            .get("created_at")
            .and_then(Json::whole)
            .map(milliseconds),
        state,
        reason: code(value, "reason_code"),
        respond_by: respond_by.filter(|seconds| *seconds > 0).map(milliseconds),
    })
}

const fn milliseconds(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000)
}

/// Reads an amount; paise are the minor units.
fn money(value: &Json) -> Option<Money> {
    let currency = text(value, "currency")?.to_ascii_uppercase();
    let plain = currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_uppercase());
    Some(Money {
        amount: value.get("amount")?.whole()?,
        currency: plain.then_some(currency)?,
    })
}

fn items(collection: &Json) -> Option<&[Json]> {
    match collection.get("items")? {
        Json::List(items) => Some(items),
        _ => None,
    }
}

/// A code of Razorpay. `None` if it is empty or longer than `MOST_WORDS`.
fn code(value: &Json, name: &str) -> Option<String> {
    text(value, name).filter(|code| !code.is_empty() && code.len() <= MOST_WORDS)
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests;
