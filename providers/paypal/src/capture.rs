//! Captures, inside an order or separate.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{self, Money, Particulars, Report, Settlement, Status};

use crate::money;
use crate::wire::{at, is_id, linked, word};

/// State of a capture's money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// COMPLETED, PARTIALLY_REFUNDED, REFUNDED: credited to the merchant's PayPal account.
    Credited,
    /// PENDING, and will complete without intervention: an eCheck or a bank transfer.
    UnderWay,
    /// PENDING until the merchant or PayPal intervenes.
    Held,
    /// Credited, and disputed by the payer.
    Contested,
    /// Credited, and withdrawn again by a chargeback.
    ChargedBack,
    /// DECLINED, DENIED, FAILED.
    Refused,
}

impl Taken {
    /// Whether the money was credited at some time.
    pub(crate) const fn is_received(self) -> bool {
        matches!(self, Self::Credited | Self::Contested | Self::ChargedBack)
    }
}

/// A capture of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) id: String,
    pub(crate) taken: Taken,
    /// Whether the status is documented.
    pub(crate) known: bool,
    pub(crate) amount: Money,
    /// Whether it was refunded in full.
    pub(crate) refunded: bool,
    /// Status and reason in PayPal's terms.
    status: String,
    reason: Option<String>,
    /// PayPal's fee.
    pub(crate) fee: Option<Money>,
    made: Option<u64>,
}

/// A separate capture, with the attempt and order that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lone {
    pub(crate) capture: Capture,
    pub(crate) attempt: Option<String>,
    pub(crate) order: Option<String>,
}

/// Reads a capture. `None` without an id, or if neither the capture nor its order has an amount. An undocumented
/// status counts as held, so that an operator checks it.
pub(crate) fn capture(value: &Json, order: Option<&Money>) -> Option<Capture> {
    let status = value.get("status").and_then(Json::text).unwrap_or_default();
    let reason = word(value.path(&["status_details", "reason"]));
    let taken = taken(status, reason.as_deref());
    let fee = value.path(&["seller_receivable_breakdown", "paypal_fee"]);
    Some(Capture {
        id: value.get("id")?.text().filter(|id| is_id(id))?.to_owned(),
        taken: taken.unwrap_or(Taken::Held),
        known: taken.is_some(),
        amount: value
            .get("amount")
            .and_then(money::read)
            .or_else(|| order.cloned())?,
        refunded: status == "REFUNDED",
        status: word(value.get("status")).unwrap_or_default(),
        reason,
        fee: fee.and_then(money::read),
        made: at(value, "create_time"),
    })
}

fn taken(status: &str, reason: Option<&str>) -> Option<Taken> {
    Some(match (status, reason) {
        ("COMPLETED" | "PARTIALLY_REFUNDED" | "REFUNDED", _) => Taken::Credited,
        ("PENDING", Some("ECHECK" | "TRANSACTION_APPROVED_AWAITING_FUNDING")) => Taken::UnderWay,
        // Both are documented as events after the capture.
        ("PENDING" | "DECLINED", Some("CHARGEBACK")) => Taken::ChargedBack,
        ("PENDING", Some("BUYER_COMPLAINT")) => Taken::Contested,
        ("PENDING", _) => Taken::Held,
        ("DECLINED" | "DENIED" | "FAILED", _) => Taken::Refused,
        _ => return None,
    })
}

/// Reads a capture outside its order.
pub(crate) fn lone(value: &Json) -> Option<Lone> {
    let text = |value: Option<&Json>| value.and_then(Json::text).map(str::to_owned);
    let order = text(value.path(&["supplementary_data", "related_ids", "order_id"]));
    Some(Lone {
        capture: capture(value, None)?,
        attempt: text(value.get("custom_id")).or_else(|| text(value.get("invoice_id"))),
        order: order.or_else(|| linked(value, "up", "/v2/checkout/orders/")),
    })
}

impl Capture {
    /// The capture for a report. Never marked as reversed: a chargeback is reported as a dispute.
    pub(crate) fn taken_of(&self) -> provider::Capture {
        provider::Capture {
            id: self.id.clone(),
            amount: self.amount.amount,
            at: self.made,
            reversed: false,
        }
    }

    /// Whether the only reason of a pending capture is `OTHER`.
    pub(crate) fn is_for_other_reason(&self) -> bool {
        self.reason.as_deref() == Some("OTHER")
    }

    /// Report about the order; `received` is the credited amount and `given_back` the refunded amount, in minor
    /// units.
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
