//! Captures as PayPal tells them, in an order or by themselves.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Money, Particulars, Report, Settlement, Status};

use crate::money;
use crate::wire::{at, is_id, linked, word};

/// What a capture says of its money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// COMPLETED, PARTIALLY_REFUNDED, REFUNDED: credited to the merchant's PayPal account.
    Credited,
    /// PENDING, and it will go on by itself: an eCheck, a bank transfer.
    UnderWay,
    /// PENDING, and a person has to do something.
    Held,
    /// The payer disputes what was credited before.
    Contested,
    /// What was credited was taken away again after a chargeback.
    ChargedBack,
    /// DECLINED, FAILED.
    Refused,
}

impl Taken {
    /// Whether the money was credited once.
    pub(crate) const fn is_received(self) -> bool {
        matches!(self, Self::Credited | Self::Contested | Self::ChargedBack)
    }
}

/// A capture of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) id: String,
    pub(crate) taken: Taken,
    pub(crate) amount: Money,
    /// Whether all of it was given back.
    pub(crate) refunded: bool,
    /// Status and reason in PayPal's words.
    status: String,
    reason: Option<String>,
    /// What PayPal keeps of it.
    pub(crate) fee: Option<Money>,
    made: Option<u64>,
}

/// A capture told by itself, with what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lone {
    pub(crate) capture: Capture,
    pub(crate) attempt: Option<String>,
    pub(crate) order: Option<String>,
}

/// Reads a capture, in an order or by itself.
pub(crate) fn capture(value: &Json) -> Option<Capture> {
    let status = value.get("status")?.text()?;
    let reason = word(value.path(&["status_details", "reason"]));
    let taken = match (status, reason.as_deref()) {
        ("COMPLETED" | "PARTIALLY_REFUNDED" | "REFUNDED", _) => Taken::Credited,
        ("PENDING", Some("ECHECK" | "TRANSACTION_APPROVED_AWAITING_FUNDING")) => Taken::UnderWay,
        // Both are documented as what happens to a captured payment.
        ("PENDING" | "DECLINED", Some("CHARGEBACK")) => Taken::ChargedBack,
        ("PENDING", Some("BUYER_COMPLAINT")) => Taken::Contested,
        ("PENDING", _) => Taken::Held,
        ("DECLINED" | "FAILED", _) => Taken::Refused,
        _ => return None,
    };
    let fee = value.path(&["seller_receivable_breakdown", "paypal_fee"]);
    Some(Capture {
        id: value.get("id")?.text().filter(|id| is_id(id))?.to_owned(),
        taken,
        amount: money::read(value.get("amount")?)?,
        refunded: status == "REFUNDED",
        status: status.to_owned(),
        reason,
        fee: fee.and_then(money::read),
        made: at(value, "create_time"),
    })
}

/// Reads a capture that is told without its order.
pub(crate) fn lone(value: &Json) -> Option<Lone> {
    let text = |value: Option<&Json>| value.and_then(Json::text).map(str::to_owned);
    let order = text(value.path(&["supplementary_data", "related_ids", "order_id"]));
    Some(Lone {
        capture: capture(value)?,
        attempt: text(value.get("custom_id")).or_else(|| text(value.get("invoice_id"))),
        order: order.or_else(|| linked(value, "/v2/checkout/orders/")),
    })
}

impl Capture {
    /// What it says about the order's money; `received` is what counts as credited.
    pub(crate) fn report(&self, order: &str, received: u64, given_back: u64) -> Report {
        let (status, settlement) = match self.taken {
            Taken::Credited => (Status::Completed, Settlement::Confirmed),
            Taken::UnderWay => (Status::VerificationPending, Settlement::Pending),
            Taken::Held | Taken::Contested | Taken::ChargedBack => {
                (Status::Review, Settlement::Pending)
            }
            Taken::Refused => (Status::Declined, Settlement::Failed),
        };
        let detail = match &self.reason {
            Some(reason) => format!("capture {}, {reason}", self.status),
            None => format!("capture {}", self.status),
        };
        Report {
            reference: order.to_owned(),
            status,
            settlement,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            given_back,
            detail,
            particulars: Particulars {
                provider_status: Some(self.status.clone()),
                reason: self.reason.clone(),
                references: vec![self.id.clone()],
                fee: self.fee.clone(),
                captured_at: self.made.filter(|_| self.taken.is_received()),
                ..Particulars::default()
            },
        }
    }
}
