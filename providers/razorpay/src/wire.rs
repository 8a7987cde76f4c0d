//! Razorpay's JSON. Reading is strict: an answer that is not as documented is no answer. What only
//! describes a payment is left out where it is not as documented.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Dispute, DisputeState, Money, Refund, RefundState};

use crate::query::is_id;

/// Where the attempt's id stands in the `notes` of a link, which its order and payments inherit.
pub(crate) const ATTEMPT: &str = "attempt";

/// Longest reason and longest name of what was paid with that a report takes, in bytes.
const MOST_WORDS: usize = 64;

/// `payment_link.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Created,
    PartiallyPaid,
    Paid,
    Cancelled,
    Expired,
}

/// `payment.status`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Created,
    Authorized,
    Captured,
    Refunded,
    Failed,
}

/// A Payment Link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) id: String,
    /// Our attempt; empty where the link is not one of ours.
    pub(crate) attempt: String,
    pub(crate) stage: Stage,
    /// What the payer is asked for.
    pub(crate) due: Money,
    pub(crate) url: String,
    /// Seconds since 1970; 0 where it has none.
    pub(crate) expires_at: u64,
    /// The order that collects the tries to pay it; none before a payer has opened the link.
    pub(crate) order: Option<String>,
    /// Ids of the payments that it shows itself: those that were captured.
    pub(crate) paid: Vec<String>,
}

/// A try to pay a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) phase: Phase,
    /// Whether money was taken, whatever became of it since.
    pub(crate) captured: bool,
    pub(crate) money: Money,
    /// Given back by refunds, in Razorpay's own sum.
    pub(crate) refunded: u64,
    /// Seconds since 1970.
    pub(crate) created_at: u64,
    /// Why it failed.
    pub(crate) reason: Option<String>,
    /// What Razorpay keeps of it, taxes included; none before it was captured.
    pub(crate) fee: Option<u64>,
    /// The bank's and the network's numbers for it.
    pub(crate) numbers: Vec<String>,
    /// With what the payer paid: "upi @okaxis", "Visa 0153".
    pub(crate) instrument: Option<String>,
}

/// A dispute, and whether the bank only suspects fraud or wants papers, so that the money stays so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) dispute: Dispute,
    pub(crate) is_inquiry: bool,
}

/// A refusal in the vendor's words.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    /// The field that it is about, empty where there is none.
    pub(crate) field: String,
    pub(crate) reason: String,
    pub(crate) description: String,
}

impl Problem {
    /// The account has nothing of that id, which is a 400 like any other to Razorpay.
    pub(crate) fn is_unknown_id(&self) -> bool {
        matches!(self.status, 400 | 404) && self.description.contains("does not exist")
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
    /// Razorpay's own word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Refunded => "refunded",
            Self::Failed => "failed",
        }
    }
}

impl Stage {
    /// Razorpay's own word.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::PartiallyPaid => "partially_paid",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
        }
    }
}

/// Reads a link; none where anything in it is not as documented.
pub(crate) fn link(body: &[u8]) -> Option<Link> {
    link_of(&Json::parse(body)?)
}

/// Reads a list of links.
pub(crate) fn links(body: &[u8]) -> Option<Vec<Link>> {
    let list = Json::parse(body)?;
    match list.get("payment_links")? {
        Json::List(links) => links.iter().map(link_of).collect(),
        _ => None,
    }
}

pub(crate) fn payment(body: &[u8]) -> Option<Payment> {
    payment_of(&Json::parse(body)?)
}

/// Reads the payments of an order.
pub(crate) fn payments(body: &[u8]) -> Option<Vec<Payment>> {
    let list = Json::parse(body)?;
    collection(&list)?.iter().map(payment_of).collect()
}

/// Reads the refunds of a payment.
pub(crate) fn refunds(body: &[u8]) -> Option<Vec<Refund>> {
    let list = Json::parse(body)?;
    collection(&list)?.iter().map(refund).collect()
}

/// Reads a page of disputes: those about one of these payments, and how many there were in all.
pub(crate) fn disputes(body: &[u8], payments: &[Payment]) -> Option<(Vec<Objection>, usize)> {
    let list = Json::parse(body)?;
    let items = collection(&list)?;
    let mut disputes = Vec::new();
    for item in items {
        let of = item.get("payment_id")?.text()?;
        if payments.iter().any(|payment| payment.id == of) {
            disputes.push(dispute(item)?);
        }
    }
    Some((disputes, items.len()))
}

/// The attempt that an order or a payment is about: in its notes, or as the order's receipt, which is
/// the link's reference.
pub(crate) fn attempt_of(value: &Json) -> Option<String> {
    let noted = value.path(&["notes", ATTEMPT]).and_then(Json::text);
    let receipt = || value.get("receipt").and_then(Json::text);
    noted.or_else(receipt).map(str::to_owned)
}

/// Reads a refusal; its words are empty where there are none.
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
    let paid = match value.get("payments") {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::List(shown)) => shown
            .iter()
            .map(|each| text(each, "payment_id"))
            .collect::<Option<_>>()?,
        _ => return None,
    };
    Some(Link {
        id: text(value, "id")?,
        attempt: text(value, "reference_id")?,
        stage: match value.get("status")?.text()? {
            "created" => Stage::Created,
            "partially_paid" => Stage::PartiallyPaid,
            "paid" => Stage::Paid,
            "cancelled" => Stage::Cancelled,
            "expired" => Stage::Expired,
            _ => return None,
        },
        due: money(value)?,
        url: text(value, "short_url")?,
        expires_at: value.get("expire_by")?.whole()?,
        order: text(value, "order_id").filter(|id| !id.is_empty()),
        paid,
    })
}

fn payment_of(value: &Json) -> Option<Payment> {
    is(value, "payment")?;
    let numbers = ["rrn", "upi_transaction_id"]
        .map(|name| value.path(&["acquirer_data", name]).and_then(Json::text));
    Some(Payment {
        id: text(value, "id").filter(|id| is_id(id))?,
        phase: match value.get("status")?.text()? {
            "created" => Phase::Created,
            "authorized" => Phase::Authorized,
            "captured" => Phase::Captured,
            "refunded" => Phase::Refunded,
            "failed" => Phase::Failed,
            _ => return None,
        },
        captured: value.get("captured")?.flag()?,
        money: money(value)?,
        refunded: value.get("amount_refunded")?.whole()?,
        created_at: value.get("created_at")?.whole()?,
        reason: code(value, "error_reason"),
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

/// Method and bank. Of a payer's UPI address only what stands behind the `@`: the rest is a name or a
/// phone number.
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

/// Reads a refund; its receipt is our own id for it, where it has one.
pub(crate) fn refund(value: &Json) -> Option<Refund> {
    is(value, "refund")?;
    Some(Refund {
        id: text(value, "id").filter(|id| is_id(id))?,
        order_id: text(value, "receipt"),
        amount: value.get("amount")?.whole()?,
        state: match value.get("status")?.text()? {
            "pending" => RefundState::Pending,
            "processed" => RefundState::Succeeded,
            "failed" => RefundState::Failed,
            _ => return None,
        },
    })
}

fn dispute(value: &Json) -> Option<Objection> {
    let phase = value.get("phase")?.text()?;
    let amount = value.get("amount")?.whole()?;
    let (state, amount) = match value.get("status")?.text()? {
        "open" | "under_review" => (DisputeState::Open, amount),
        // What was deducted is what is gone.
        "lost" => (DisputeState::Lost, value.get("amount_deducted")?.whole()?),
        "won" | "closed" => (DisputeState::Won, amount),
        _ => return None,
    };
    let respond_by = value.get("respond_by").and_then(Json::whole);
    Some(Objection {
        dispute: Dispute {
            id: text(value, "id").filter(|id| is_id(id))?,
            amount,
            state,
            reason: code(value, "reason_code"),
            respond_by: respond_by
                .filter(|seconds| *seconds > 0)
                .map(|seconds| seconds.saturating_mul(1_000)),
        },
        is_inquiry: matches!(phase, "fraud" | "retrieval"),
    })
}

/// Paise are our minor units.
fn money(value: &Json) -> Option<Money> {
    Some(Money {
        amount: value.get("amount")?.whole()?,
        currency: text(value, "currency")?,
    })
}

fn collection(value: &Json) -> Option<&[Json]> {
    is(value, "collection")?;
    match value.get("items")? {
        Json::List(items) => Some(items),
        _ => None,
    }
}

fn is(value: &Json, entity: &str) -> Option<()> {
    (value.get("entity")?.text()? == entity).then_some(())
}

/// A word of Razorpay's for a reason; none that is longer than a report takes.
fn code(value: &Json, name: &str) -> Option<String> {
    text(value, name).filter(|code| code.len() <= MOST_WORDS)
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests;
