//! Orders as PayPal tells them. Reading is strict: an answer that is not as documented is no answer.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{
    Money, Particulars, Refund, RefundState, Report, Settlement, Status,
};
use kassette_plugin::time;

use crate::capture::{Capture, Taken, capture};
use crate::money;
use crate::query::CALLED_OFF;

/// What stands behind the attempt's id in `custom_id` once the host wants the order no more.
///
/// An order of the intent CAPTURE cannot be called off at PayPal: its payer may approve it as long as
/// it lives. The mark makes every later reading of it say so, and this module never captures it.
pub(crate) const CLOSED: &str = "-closed";

/// How long an approval can be captured at least, in milliseconds after the order was made: PayPal's
/// document gives three hours to send the payer there and three from then on to capture, which an account
/// manager can make longer.
const CAPTURABLE: u64 = 3 * 3_600_000;

/// Most refunds of a report (the contract's limit); the sum counts every one.
const REFUNDS: usize = 64;

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
    /// Its refunds, in the currency that was captured.
    pub(crate) refunds: Vec<Refund>,
    /// Where the payer approves; there is none once he has.
    pub(crate) approve: Option<String>,
    /// What is told of it beside.
    pub(crate) beside: Beside,
}

/// What an order tells that decides nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beside {
    /// Status in PayPal's word.
    status: String,
    /// With what the payer pays.
    instrument: Option<String>,
    made: Option<u64>,
    changed: Option<u64>,
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
    let attempt = custom.strip_suffix(CLOSED).unwrap_or(custom);
    Some(Order {
        id: value.get("id")?.text()?.to_owned(),
        attempt: attempt.to_owned(),
        closed: custom.ends_with(CLOSED),
        phase: phase(value.get("status")?.text()?)?,
        refunds: listed("refunds")
            .iter()
            .map(|value| refund(value, captured, attempt))
            .collect::<Option<_>>()?,
        approve: link(value, "payer-action").or_else(|| link(value, "approve")),
        beside: Beside {
            status: value.get("status")?.text()?.to_owned(),
            instrument: value.get("payment_source").and_then(instrument),
            made: at(value, "create_time"),
            changed: at(value, "update_time"),
        },
        captures,
        amount,
    })
}

/// A time; none where it cannot be read, for it decides nothing.
pub(crate) fn at(value: &Json, name: &str) -> Option<u64> {
    time::parse_rfc3339(value.get(name)?.text()?)
}

/// A word of PayPal's for people: an id, a code, a brand.
pub(crate) fn word(value: Option<&Json>) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let text = value?.text()?;
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    fits.then(|| text.to_owned())
}

/// With what the payer pays: the wallet, or the card without it. Never who he is.
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
        "CREATED" | "SAVED" | "PAYER_ACTION_REQUIRED" => Phase::Waiting,
        "APPROVED" => Phase::Approved,
        "VOIDED" => Phase::Voided,
        "COMPLETED" => Phase::Completed,
        _ => return None,
    })
}

/// A refund of this attempt's money in this currency. Another is no answer.
pub(crate) fn refund(value: &Json, currency: &str, attempt: &str) -> Option<Refund> {
    let given = money::read(value.get("amount")?)?;
    (given.currency == currency).then_some(())?;
    Some(Refund {
        id: value.get("id")?.text().filter(|id| is_id(id))?.to_owned(),
        // One that was made in PayPal's dashboard may show the capture's own.
        order_id: value
            .get("invoice_id")
            .and_then(Json::text)
            .filter(|id| *id != attempt)
            .map(str::to_owned),
        amount: given.amount,
        state: match value.get("status")?.text()? {
            "COMPLETED" => RefundState::Succeeded,
            "PENDING" => RefundState::Pending,
            "FAILED" | "CANCELLED" => RefundState::Failed,
            _ => return None,
        },
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
                Taken::ChargedBack => 1,
                Taken::Contested => 2,
                Taken::Held => 3,
                Taken::UnderWay => 4,
                Taken::Refused => 5,
            })
    }

    /// The capture whose money can be given back.
    pub(crate) fn credited(&self) -> Option<&Capture> {
        self.best().filter(|capture| capture.taken.is_received())
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
            // Two captures in two currencies are no sum; then the first one alone is told.
            let same = |each: &&Capture| each.amount.currency == capture.amount.currency;
            let sum = |counts: fn(&Capture) -> bool| {
                let captures = self.captures.iter().filter(same);
                let counted = captures.filter(|each| counts(each));
                counted.fold(0_u64, |sum, each| sum.saturating_add(each.amount.amount))
            };
            let received = sum(|each| each.taken.is_received());
            let mut report = capture.report(&self.id, received, self.given_back(sum));
            let particulars = &mut report.particulars;
            particulars.references = self.captures.iter().map(|each| each.id.clone()).collect();
            particulars.fee = self.fee();
            particulars.instrument = self.beside.instrument.clone();
            particulars.refunds = self.refunds.iter().take(REFUNDS).cloned().collect();
            return Some(report);
        }
        let (status, detail) = match self.phase {
            _ if self.closed => (Status::Declined, CALLED_OFF),
            Phase::Waiting => (Status::Pending, "waits for the payer"),
            Phase::Approved => (Status::Processing, "approved by the payer"),
            Phase::Voided => (Status::Declined, "voided"),
            Phase::Completed => return None,
        };
        Some(Report {
            status,
            detail: detail.into(),
            ..self.quiet()
        })
    }

    /// What was given back: the refunds that PayPal lists, reversals among them. Of a capture that calls
    /// itself given back as a whole, or charged back, its own word, where the list does not bear it out.
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
        if given(RefundState::Pending) > 0 {
            back
        } else {
            back.max(whole)
        }
    }

    /// What PayPal keeps; none unless it tells it for all that was credited, in one currency.
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

    /// A report of which nothing was taken.
    pub(crate) fn quiet(&self) -> Report {
        let approved = self.phase == Phase::Approved && !self.closed;
        let beside = self.beside.clone();
        Report {
            reference: self.id.clone(),
            status: Status::Pending,
            settlement: Settlement::Pending,
            received: Money {
                amount: 0,
                currency: self.amount.currency.clone(),
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
