//! Parsing of orders. Parsing is lenient: an undocumented value, a missing or null field, or a malformed list
//! entry does not hide the rest.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{
    Money, Particulars, Refund, RefundState, Report, Settlement, Status,
};
use kassette_plugin::time;

use crate::capture::{Capture, Taken, capture};
use crate::money;
use crate::query::CALLED_OFF;

/// Suffix of the attempt id in `custom_id` after the host has closed the order.
///
/// An order with the intent CAPTURE cannot be cancelled at PayPal: its payer can approve it as long as it exists.
/// With the mark, every later reading of the order shows that it is closed, and this module never captures it.
pub(crate) const CLOSED: &str = "-closed";

/// Minimum time after the order's creation in which an approval can be captured, in milliseconds. PayPal documents
/// three hours for opening the page and three more for the capture; an account manager can extend them.
const CAPTURABLE: u64 = 3 * 3_600_000;

/// Maximum number of sentences about unreadable parts in a report.
const SENTENCES: usize = 8;

/// Status of an order at PayPal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Waits for the payer, or for PayPal's decision: CREATED, SAVED, PAYER_ACTION_REQUIRED, PENDING_APPROVAL.
    Waiting,
    /// The payer has approved; nothing is reserved or captured.
    Approved,
    /// Cancelled.
    Voided,
    /// Captured, or the capture was refused; the captures show which.
    Completed,
    /// An undocumented status.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// Attempt id from the order's `custom_id`. `None` in a minimal answer.
    pub(crate) attempt: Option<String>,
    /// Whether the order has the mark [`CLOSED`].
    pub(crate) closed: bool,
    pub(crate) phase: Phase,
    /// Amount to be paid. `None` in a minimal answer.
    pub(crate) amount: Option<Money>,
    /// Currency of all amounts; in a minimal answer the currency of the request.
    pub(crate) currency: String,
    pub(crate) captures: Vec<Capture>,
    /// Refunds in the captured currency.
    pub(crate) refunds: Vec<Refund>,
    /// A sentence about each unreadable part.
    pub(crate) unreadable: Vec<String>,
    /// Address where the payer approves. `None` after the approval.
    pub(crate) approve: Option<String>,
    /// Other details.
    pub(crate) beside: Beside,
}

/// Details of an order that decide nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Status in PayPal's terms.
    status: String,
    /// The payer's means of payment.
    instrument: Option<String>,
    made: Option<u64>,
    changed: Option<u64>,
}

/// Reads an order. `None` without an id, with several purchase units, or if neither the order nor `currency`, the
/// request's currency, determines a currency.
pub(crate) fn order(value: &Json, currency: Option<&str>) -> Option<Order> {
    let units = value.get("purchase_units").map_or(&[][..], Json::items);
    // This module's orders have one unit; entries without amount, payments and `custom_id` are ignored.
    let tells = |unit: &&Json| {
        let mut fields = ["amount", "payments", "custom_id"].into_iter();
        fields.any(|name| unit.get(name).is_some())
    };
    let mut units = units.iter().filter(tells);
    let unit = units.next().unwrap_or(&Json::Null);
    if units.next().is_some() {
        return None;
    }
    let custom = unit.get("custom_id").and_then(Json::text);
    let attempt = custom.map(|custom| custom.strip_suffix(CLOSED).unwrap_or(custom));
    let listed = |name| match unit.path(&["payments", name]) {
        Some(list) => list.items(),
        None => &[],
    };
    let amount = unit.get("amount").and_then(money::read);
    let by_transfer = value.get("payment_source").is_some_and(is_bank_transfer);
    let mut unreadable = Vec::new();
    let mut captures = Vec::new();
    for item in listed("captures") {
        match capture(item, amount.as_ref()) {
            Some(mut capture) => {
                if !capture.known {
                    unreadable.push(unknown_status("capture", item));
                }
                // A wallet's pending capture needs an operator; a bank transfer just takes some days.
                if by_transfer && capture.taken == Taken::Held && capture.is_for_other_reason() {
                    capture.taken = Taken::UnderWay;
                }
                captures.push(capture);
            }
            None => unreadable.push(format!("capture {} cannot be read", id_of(item))),
        }
    }
    // Refunds use the captured currency, which may differ from the order's.
    let taken = captures.first().map(|capture| &capture.amount);
    let told = taken
        .or(amount.as_ref())
        .map(|money| money.currency.as_str());
    let currency = told.or(currency)?.to_owned();
    let mut refunds = Vec::new();
    for item in listed("refunds") {
        match refund(item, &currency, attempt.unwrap_or_default(), None) {
            Some(refund) => refunds.push(refund),
            None => unreadable.push(format!("refund {} cannot be read", id_of(item))),
        }
        if refund_state(item).is_none() {
            unreadable.push(unknown_status("refund", item));
        }
    }
    let phase = value.get("status").and_then(Json::text).and_then(phase);
    Some(Order {
        id: value.get("id")?.text().filter(|id| is_id(id))?.to_owned(),
        attempt: attempt.map(str::to_owned),
        closed: custom.is_some_and(|custom| custom.ends_with(CLOSED)),
        phase: phase.unwrap_or(Phase::Unknown),
        refunds,
        approve: link(value, "payer-action").or_else(|| link(value, "approve")),
        beside: Beside {
            status: word(value.get("status")).unwrap_or_default(),
            instrument: value.get("payment_source").and_then(instrument),
            made: at(value, "create_time"),
            changed: at(value, "update_time"),
        },
        captures,
        amount,
        currency,
        unreadable,
    })
}

/// The id of an entry, for a sentence about it.
fn id_of(value: &Json) -> String {
    word(value.get("id")).unwrap_or_else(|| "without id".to_owned())
}

/// A sentence about an object with an undocumented status.
fn unknown_status(what: &str, value: &Json) -> String {
    let status = word(value.get("status")).unwrap_or_default();
    format!("{what} {} has the unknown status {status}", id_of(value))
}

/// Whether the order is paid by a means other than a wallet or a card.
fn is_bank_transfer(source: &Json) -> bool {
    let at_once = ["paypal", "venmo", "card"];
    matches!(source, Json::Object(fields) if !fields.is_empty())
        && at_once.into_iter().all(|name| source.get(name).is_none())
}

/// Time in a field, in milliseconds since 1970. `None` if it cannot be parsed; times decide nothing.
pub(crate) fn at(value: &Json, name: &str) -> Option<u64> {
    time::parse_rfc3339(value.get(name)?.text()?)
}

/// A code for display: an id, a status, a brand. `None` unless it consists of 1 to 64 letters, digits, `_` or `-`.
pub(crate) fn word(value: Option<&Json>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let text = value?.text()?;
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    fits.then(|| text.to_owned())
}

/// The payer's means of payment: the wallet, or the card's brand and last four digits. Never the payer's identity.
fn instrument(source: &Json) -> Option<String> {
    for wallet in ["paypal", "venmo"] {
        if source.get(wallet).is_some() {
            return Some(wallet.to_owned());
        }
    }
    let card = source.get("card")?;
    let brand = word(card.get("brand"))?.to_ascii_lowercase();
    let digits = word(card.get("last_digits")).filter(|digits| digits.len() == 4)?;
    Some(format!("{brand} {digits}"))
}

fn phase(status: &str) -> Option<Phase> {
    Some(match status {
        "CREATED" | "SAVED" | "PAYER_ACTION_REQUIRED" | "PENDING_APPROVAL" => Phase::Waiting,
        "APPROVED" => Phase::Approved,
        "VOIDED" => Phase::Voided,
        "COMPLETED" => Phase::Completed,
        _ => return None,
    })
}

/// Reads a refund in this currency; `amount` is used if it has no amount itself. `None` without an id, or in
/// another currency. An undocumented status counts as pending.
pub(crate) fn refund(
    value: &Json,
    currency: &str,
    attempt: &str,
    amount: Option<u64>,
) -> Option<Refund> {
    let given = match value.get("amount").and_then(money::read) {
        Some(given) => (given.currency == currency).then_some(given.amount)?,
        None => amount?,
    };
    Some(Refund {
        id: value.get("id")?.text().filter(|id| is_id(id))?.to_owned(),
        // A refund made in PayPal's dashboard may contain the capture's `invoice_id`.
        order_id: value
            .get("invoice_id")
            .and_then(Json::text)
            .filter(|id| *id != attempt)
            .map(str::to_owned),
        amount: given,
        paid_out: None,
        at: at(value, "update_time").or_else(|| at(value, "create_time")),
        state: refund_state(value).unwrap_or(RefundState::Pending),
    })
}

fn refund_state(value: &Json) -> Option<RefundState> {
    match value.get("status")?.text()? {
        "COMPLETED" => Some(RefundState::Succeeded),
        "PENDING" => Some(RefundState::Pending),
        "FAILED" | "CANCELLED" => Some(RefundState::Failed),
        _ => None,
    }
}

/// The address of a link.
fn link(value: &Json, rel: &str) -> Option<String> {
    let links = value.get("links").map_or(&[][..], Json::items);
    let named = |link: &&Json| link.get("rel").and_then(Json::text) == Some(rel);
    let link = links.iter().find(named)?;
    Some(link.get("href")?.text()?.to_owned())
}

/// The id at the end of a link, if the link contains that path.
pub(crate) fn linked(value: &Json, rel: &str, path: &str) -> Option<String> {
    let href = link(value, rel)?;
    let (_, id) = href.split_once(path)?;
    is_id(id).then(|| id.to_owned())
}

/// Whether a text has the form of PayPal's ids of orders and captures, which need no escaping in a path: 1 to 36
/// letters or digits.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=36).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Order {
    /// The capture that determines the status: credited captures first, then pending ones, then refused ones.
    fn best(&self) -> Option<&Capture> {
        self.captures
            .iter()
            .min_by_key(|capture| match capture.taken {
                Taken::Credited => 0,
                Taken::ChargedBack => 1,
                Taken::Contested => 2,
                Taken::Held => 3,
                Taken::UnderWay => 4,
                Taken::Refused => 5,
            })
    }

    /// Whether it belongs to this attempt. True for an answer that omits the attempt.
    pub(crate) fn is_of(&self, attempt: &str) -> bool {
        self.attempt.as_deref().is_none_or(|of| of == attempt)
    }

    /// Removes one succeeded refund of that amount that was not ordered here.
    pub(crate) fn leave_out_refund_of(&mut self, amount: u64) {
        let theirs = |refund: &Refund| {
            let made = refund.state == RefundState::Succeeded;
            made && refund.order_id.is_none() && refund.amount == amount
        };
        if let Some(at) = self.refunds.iter().position(theirs) {
            self.refunds.remove(at);
        }
    }

    /// Whether the answer is complete; a minimal answer has no purchase unit.
    pub(crate) fn is_told_whole(&self) -> bool {
        self.amount.is_some() || !self.captures.is_empty()
    }

    /// The capture that can be refunded.
    pub(crate) fn credited(&self) -> Option<&Capture> {
        self.best().filter(|capture| capture.taken.is_received())
    }

    /// Whether a capture brought money, or may still do so.
    pub(crate) fn is_captured(&self) -> bool {
        self.best()
            .is_some_and(|capture| capture.taken != Taken::Refused)
    }

    /// Whether the payer cannot continue with it: the capture was refused, or the order is closed or voided.
    pub(crate) fn is_over(&self) -> bool {
        let refused = self.best().is_some() && !self.is_captured();
        refused || !self.is_captured() && (self.closed || self.phase == Phase::Voided)
    }

    /// Report about this order. `None` if its status is completed but it contains no capture.
    pub(crate) fn report(&self) -> Option<Report> {
        if let Some(capture) = self.best() {
            // Captures in different currencies cannot be added; only those in the first one's currency count.
            let same = |each: &&Capture| each.amount.currency == capture.amount.currency;
            let sum = |counts: fn(&Capture) -> bool| {
                let captures = self.captures.iter().filter(same);
                let counted = captures.filter(|each| counts(each));
                counted.fold(0_u64, |sum, each| sum.saturating_add(each.amount.amount))
            };
            let received = sum(|each| each.taken.is_received());
            let mut report = capture.report(&self.id, received, self.given_back(sum));
            let particulars = &mut report.particulars;
            particulars.captures = self.taken();
            particulars.unreadable = self.unreadable.iter().take(SENTENCES).cloned().collect();
            particulars.references = self.captures.iter().map(|each| each.id.clone()).collect();
            particulars.fee = self.fee();
            particulars.instrument = self.beside.instrument.clone();
            particulars.refunds = self.refunds.clone();
            return Some(report);
        }
        let (status, detail) = match self.phase {
            _ if self.closed => (Status::Declined, CALLED_OFF),
            Phase::Waiting => (Status::Pending, "waits for the payer"),
            Phase::Approved => (Status::Processing, "approved by the payer"),
            Phase::Voided => (Status::Declined, "voided"),
            Phase::Unknown => (Status::Pending, "of an unknown status"),
            Phase::Completed => return None,
        };
        Some(Report {
            status,
            detail: detail.into(),
            ..self.quiet()
        })
    }

    /// The captures that brought money.
    fn taken(&self) -> Vec<kassette_plugin::provider::Capture> {
        let taken = self.captures.iter();
        let taken =
            taken.filter(|each| each.taken.is_received() && each.amount.currency == self.currency);
        taken.map(Capture::taken_of).collect()
    }

    /// Refunded amount in minor units: the sum of the succeeded refunds, including reversals. If no refund is
    /// pending, at least the amount of the captures that are marked as refunded in full or charged back. At most
    /// the amount received.
    fn given_back(&self, sum: impl Fn(fn(&Capture) -> bool) -> u64) -> u64 {
        let given = |state| {
            let refunds = self
                .refunds
                .iter()
                .filter(move |refund| refund.state == state);
            refunds.fold(0_u64, |sum, refund| sum.saturating_add(refund.amount))
        };
        let back = given(RefundState::Succeeded);
        let whole = sum(|each| each.refunded || each.taken == Taken::ChargedBack);
        let back = if given(RefundState::Pending) > 0 {
            back
        } else {
            back.max(whole)
        };
        back.min(sum(|each| each.taken.is_received()))
    }

    /// PayPal's fee. `None` unless all credited captures have one in the same currency.
    fn fee(&self) -> Option<Money> {
        let credited = self.captures.iter().filter(|each| each.taken.is_received());
        credited
            .map(|each| each.fee.clone())
            .reduce(|sum, fee| {
                let (sum, fee) = (sum?, fee?);
                (sum.currency == fee.currency).then_some(())?;
                Some(Money {
                    amount: sum.amount.checked_add(fee.amount)?,
                    ..sum
                })
            })
            .flatten()
    }

    /// Report of a pending order without money.
    pub(crate) fn quiet(&self) -> Report {
        let approved = self.phase == Phase::Approved && !self.closed;
        let beside = self.beside.clone();
        Report {
            reference: self.id.clone(),
            status: Status::Pending,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: self.currency.clone(),
            },
            given_back: 0,
            detail: String::new(),
            particulars: Particulars {
                provider_status: Some(beside.status),
                instrument: beside.instrument,
                authorised_at: beside.changed.filter(|_| approved),
                capture_before: beside
                    .made
                    .filter(|_| approved)
                    .map(|made| made.saturating_add(CAPTURABLE)),
                ..Particulars::default()
            },
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
