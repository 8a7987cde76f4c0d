//! Orders and captures as PayPal tells them. Reading is strict: an answer that is not as documented
//! is no answer.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Money, Report, Settlement, Status};

use crate::money;

/// What stands behind the attempt's id in `custom_id` once the host wants the order no more.
///
/// An order of the intent CAPTURE cannot be called off at PayPal: its payer may approve it as long as
/// it lives. The mark makes every later reading of it say so, and this module never captures it.
pub(crate) const CLOSED: &str = "-closed";

/// Where an order stands at PayPal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for the payer: CREATED, SAVED, PAYER_ACTION_REQUIRED.
    Waiting,
    /// The payer has approved; nothing is reserved and nothing is taken.
    Approved,
    /// Called off.
    Voided,
    /// Captured, or the capture was refused: the captures tell.
    Completed,
}

/// What a capture says of its money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// COMPLETED, PARTIALLY_REFUNDED, REFUNDED: credited to the merchant's PayPal account.
    Credited,
    /// PENDING, and it will go on by itself: an eCheck, a bank transfer.
    UnderWay,
    /// PENDING, and a person has to do something.
    Held,
    /// DECLINED, FAILED.
    Refused,
}

/// A capture of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) taken: Taken,
    pub(crate) amount: Money,
    /// Whether all of it was given back.
    refunded: bool,
    /// Status and reason in PayPal's words.
    detail: String,
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// Our attempt, as the order's `custom_id` names it.
    pub(crate) attempt: String,
    /// Whether the order carries the mark.
    pub(crate) closed: bool,
    pub(crate) phase: Phase,
    pub(crate) amount: Money,
    pub(crate) captures: Vec<Capture>,
    /// Sum of its refunds, in the currency that was captured.
    pub(crate) refunds: u64,
    /// Where the payer approves; there is none once he has.
    pub(crate) approve: Option<String>,
}

/// A capture told by itself, with what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lone {
    pub(crate) capture: Capture,
    pub(crate) attempt: Option<String>,
    pub(crate) order: Option<String>,
}

/// Reads an order; none where anything in it that counts is not as documented.
pub(crate) fn order(value: &Json) -> Option<Order> {
    let [unit] = value.get("purchase_units")?.items() else {
        return None;
    };
    let custom = unit.get("custom_id")?.text()?;
    let listed = |name| match unit.path(&["payments", name]) {
        Some(list) => list.items(),
        None => &[],
    };
    let amount = money::read(unit.get("amount")?)?;
    let captures: Vec<Capture> = listed("captures")
        .iter()
        .map(capture)
        .collect::<Option<_>>()?;
    // Given back in what was taken, which an odd capture makes another currency than the order's.
    let captured = captures.first().map_or(&amount, |capture| &capture.amount);
    let captured = captured.currency.as_str();
    Some(Order {
        id: value.get("id")?.text()?.to_owned(),
        attempt: custom.strip_suffix(CLOSED).unwrap_or(custom).to_owned(),
        closed: custom.ends_with(CLOSED),
        phase: phase(value.get("status")?.text()?)?,
        refunds: refunds(listed("refunds"), captured)?,
        approve: link(value, "payer-action").or_else(|| link(value, "approve")),
        captures,
        amount,
    })
}

fn phase(status: &str) -> Option<Phase> {
    Some(match status {
        "CREATED" | "SAVED" | "PAYER_ACTION_REQUIRED" => Phase::Waiting,
        "APPROVED" => Phase::Approved,
        "VOIDED" => Phase::Voided,
        "COMPLETED" => Phase::Completed,
        _ => return None,
    })
}

/// Reads a capture, in an order or by itself.
fn capture(value: &Json) -> Option<Capture> {
    let status = value.get("status")?.text()?;
    let reason = value
        .path(&["status_details", "reason"])
        .and_then(Json::text);
    let taken = match (status, reason) {
        ("COMPLETED" | "PARTIALLY_REFUNDED" | "REFUNDED", _) => Taken::Credited,
        ("PENDING", Some("ECHECK" | "TRANSACTION_APPROVED_AWAITING_FUNDING")) => Taken::UnderWay,
        ("PENDING", _) => Taken::Held,
        ("DECLINED" | "FAILED", _) => Taken::Refused,
        _ => return None,
    };
    let plain = |reason: &&str| reason.len() <= 64 && reason.is_ascii();
    let detail = match reason.filter(plain) {
        Some(reason) => format!("capture {status}, {reason}"),
        None => format!("capture {status}"),
    };
    Some(Capture {
        taken,
        amount: money::read(value.get("amount")?)?,
        refunded: status == "REFUNDED",
        detail,
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

/// What was given back: refunds that are done or on their way, in this currency. Another is no answer.
fn refunds(list: &[Json], currency: &str) -> Option<u64> {
    list.iter()
        .try_fold(0_u64, |sum, refund| match refund.get("status")?.text()? {
            "COMPLETED" | "PENDING" => {
                let given = money::read(refund.get("amount")?)?;
                (given.currency == currency).then_some(())?;
                sum.checked_add(given.amount)
            }
            _ => Some(sum),
        })
}

/// The address of a link.
fn link(value: &Json, rel: &str) -> Option<String> {
    let links = value.get("links").map_or(&[][..], Json::items);
    let named = |link: &&Json| link.get("rel").and_then(Json::text) == Some(rel);
    let link = links.iter().find(named)?;
    Some(link.get("href")?.text()?.to_owned())
}

/// The id at the end of the link that leads up, where it leads below that path.
pub(crate) fn linked(value: &Json, path: &str) -> Option<String> {
    let href = link(value, "up")?;
    let (_, id) = href.split_once(path)?;
    is_id(id).then(|| id.to_owned())
}

/// PayPal's ids of orders and captures need no escaping in a path; anything else is not one.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=36).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Order {
    /// The capture that counts: one that brought money before one that may, before one that did not.
    fn best(&self) -> Option<&Capture> {
        self.captures
            .iter()
            .min_by_key(|capture| match capture.taken {
                Taken::Credited => 0,
                Taken::Held => 1,
                Taken::UnderWay => 2,
                Taken::Refused => 3,
            })
    }

    /// Whether money was taken, or may still arrive, by a capture.
    pub(crate) fn is_captured(&self) -> bool {
        self.best()
            .is_some_and(|capture| capture.taken != Taken::Refused)
    }

    /// Whether the payer cannot go on with it: it may not be started again.
    pub(crate) fn is_over(&self) -> bool {
        let refused = self.best().is_some() && !self.is_captured();
        refused || !self.is_captured() && (self.closed || self.phase == Phase::Voided)
    }

    /// What this order says. None where it calls itself completed and shows no capture.
    pub(crate) fn report(&self) -> Option<Report> {
        if let Some(capture) = self.best() {
            let credited = |capture: &&Capture| capture.taken == Taken::Credited;
            // Two captures in two currencies are no sum; then the first one alone is told.
            let sum = self
                .captures
                .iter()
                .filter(credited)
                .fold(0_u64, |sum, each| {
                    let same = each.amount.currency == capture.amount.currency;
                    sum.saturating_add(if same { each.amount.amount } else { 0 })
                });
            let whole = if capture.refunded { sum } else { 0 };
            let returned = self.refunds.max(whole);
            return Some(capture.report(&self.id, sum, returned));
        }
        let (status, detail) = match self.phase {
            _ if self.closed => (Status::Declined, "called off by the merchant"),
            Phase::Waiting => (Status::Pending, "waits for the payer"),
            Phase::Approved => (Status::Processing, "approved by the payer"),
            Phase::Voided => (Status::Declined, "voided"),
            Phase::Completed => return None,
        };
        Some(Report {
            reference: self.id.clone(),
            status,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: self.amount.currency.clone(),
            },
            returned: 0,
            detail: detail.into(),
        })
    }
}

impl Capture {
    /// What it says about the order's money; `received` is what counts as credited.
    pub(crate) fn report(&self, order: &str, received: u64, returned: u64) -> Report {
        let (status, settlement) = match self.taken {
            Taken::Credited => (Status::Completed, Settlement::Confirmed),
            Taken::UnderWay => (Status::VerificationPending, Settlement::Pending),
            Taken::Held => (Status::Review, Settlement::Pending),
            Taken::Refused => (Status::Declined, Settlement::Failed),
        };
        Report {
            reference: order.to_owned(),
            status,
            settlement,
            received: Money {
                amount: received,
                currency: self.amount.currency.clone(),
            },
            returned,
            detail: self.detail.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
