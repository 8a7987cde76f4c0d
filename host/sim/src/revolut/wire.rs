//! Revolut's JSON: requests and answers.
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::{
    account::Account,
    afterwards::{DisputeState, Part},
    money::Amount,
    refund::{Asked, Refund, RefundState},
    revolut::problem::Problem,
    rfc3339,
    session::{Phase, Session, State},
};

/// The simulated version of the API.
pub(crate) const VERSION: &str = "2026-04-20";

/// Keys in a session's `extra`: time of the capture, and result of a dispute.
pub(crate) const CAPTURE_MODE: &str = "capture_mode";
pub(crate) const DISPUTE: &str = "dispute";

/// Supported currencies.
const CURRENCIES: [&str; 22] = [
    "AED", "AUD", "BGN", "CAD", "CHF", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "JPY",
    "NOK", "NZD", "PLN", "RON", "SEK", "SGD", "THB", "USD", "ZAR",
];

/// Range of the time that an order may wait for its payer, in seconds: a minute to 30 days.
const WAITS: std::ops::RangeInclusive<u64> = 60..=720 * 3_600;

/// Default of that time, in seconds.
const WAITS_USUALLY: u64 = 720 * 3_600;

/// Time in which an authorization can be captured, in milliseconds.
const HOLDS_MS: u64 = 7 * 86_400_000;

/// Maximum length of an address.
const ADDRESS: usize = 2_000;

/// Body of `POST /api/orders`. Fields that the gateway does not use are not simulated.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Create {
    pub(crate) amount: u64,
    pub(crate) currency: String,
    #[serde(default)]
    pub(crate) description: String,
    pub(crate) capture_mode: Option<String>,
    expire_pending_after: Option<String>,
    #[serde(default)]
    pub(crate) merchant_order_data: MerchantOrder,
    #[serde(default = "stays")]
    pub(crate) redirect_url: String,
}

/// Destination of a payer whose order contains no address.
fn stays() -> String {
    "https://checkout.revolut.example/".to_owned()
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct MerchantOrder {
    pub(crate) reference: String,
}

/// Body of `POST /api/orders/{id}/refund`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GiveBack {
    amount: u64,
    currency: String,
    merchant_order_data: Option<MerchantOrder>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    description: Option<String>,
}

/// Key of the gateway's refund id in a refund's metadata.
const REFUND: &str = "refund";

/// Validates a refund of the order like the provider.
pub(crate) fn refund_of(asked: GiveBack, session: &Session) -> Result<Asked, Problem> {
    let received = session.received.as_ref().unwrap_or(&session.due);
    if asked.amount == 0 || asked.currency != received.currency {
        return Err(Problem::validation(
            "amount and currency: those of the order",
        ));
    }
    let note = json!({
        "merchant_order_data": asked.merchant_order_data.map(|data| json!({ "reference": data.reference })),
        "metadata": asked.metadata,
        "description": asked.description,
    });
    Ok(Asked {
        amount: Amount(asked.amount),
        order: asked.metadata.get(REFUND).cloned(),
        note: Some(note.to_string()),
        ..Asked::default()
    })
}

/// Body of `POST /api/orders/{id}/capture`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Capture {
    pub(crate) amount: Option<u64>,
}

/// Validates a creation like the provider. Returns the time that the order waits, in milliseconds.
pub(crate) fn check(create: &Create) -> Result<u64, Problem> {
    if !CURRENCIES.contains(&create.currency.as_str()) {
        return Err(Problem::validation("currency is not supported"));
    }
    if create.amount == 0 {
        return Err(Problem::validation("amount is too small"));
    }
    let mode = create.capture_mode.as_deref();
    if !matches!(mode, None | Some("automatic" | "manual")) {
        return Err(Problem::validation("capture_mode: automatic or manual"));
    }
    let good =
        Url::parse(&create.redirect_url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !good || create.redirect_url.len() > ADDRESS {
        return Err(Problem::validation("redirect_url is not an address"));
    }
    let waits = match &create.expire_pending_after {
        None => WAITS_USUALLY,
        Some(period) => duration(period)
            .filter(|seconds| WAITS.contains(seconds))
            .ok_or_else(|| Problem::validation("expire_pending_after: PT1M to PT720H"))?,
    };
    Ok(waits.saturating_mul(1_000))
}

/// Seconds of `PT90S`, `PT15M` or `PT2H`.
fn duration(text: &str) -> Option<u64> {
    let text = text.strip_prefix("PT")?;
    let (unit, factor) = [('S', 1), ('M', 60), ('H', 3_600)]
        .into_iter()
        .find(|(unit, _)| text.ends_with(*unit))?;
    let number = text.strip_suffix(unit)?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = number.parse().ok().filter(|_| digits)?;
    number.checked_mul(factor)
}

/// Objects of an order whose ids are the order's id with another first digit.
#[derive(Clone, Copy)]
pub(crate) enum Kin {
    Payment,
    /// The immediate dispute that stands for a review; other disputes have separate ids.
    Dispute,
}

const ORDER_DIGIT: char = '0';
const REFUND_DIGIT: char = '3';

impl Kin {
    const fn digit(self) -> char {
        match self {
            Self::Payment => '1',
            Self::Dispute => '2',
        }
    }
}

/// An order's id, a UUID, from 32 random hexadecimal digits.
pub(crate) fn order_id(random: &str) -> String {
    uuid(ORDER_DIGIT, random)
}

/// The id of a refund or a dispute.
pub(crate) fn part_id(part: Part, random: &str) -> String {
    let digit = match part {
        Part::Refund => REFUND_DIGIT,
        Part::Dispute => '4',
    };
    uuid(digit, random)
}

fn uuid(first: char, random: &str) -> String {
    let mut id = String::with_capacity(36);
    for (at, digit) in random.chars().enumerate() {
        if matches!(at, 8 | 12 | 16 | 20) {
            id.push('-');
        }
        id.push(if at == 0 { first } else { digit });
    }
    id
}

/// The id of an order's object of this kind.
pub(crate) fn kin(order: &str, kin: Kin) -> String {
    order.replacen(ORDER_DIGIT, &kin.digit().to_string(), 1)
}

/// The order that an id belongs to. `None` if the id has another kind.
pub(crate) fn order_of(id: &str, kin: Kin) -> Option<String> {
    let rest = id.strip_prefix(kin.digit())?;
    Some(format!("{ORDER_DIGIT}{rest}"))
}

/// Whether the merchant requests the capture.
pub(crate) fn is_manual(session: &Session) -> bool {
    session.extra.get(CAPTURE_MODE).map(String::as_str) == Some("manual")
}

fn state(session: &Session, now: u64) -> &'static str {
    match session.phase(now) {
        Phase::Open => "pending",
        // The payer may try again until the merchant cancels.
        Phase::Declined if session.payable => "pending",
        Phase::Declined | Phase::Closed => "cancelled",
        Phase::Authorised if session.capturing().is_some() => "processing",
        Phase::Authorised => "authorised",
        Phase::InReview | Phase::Captured | Phase::Disputed | Phase::Refunded => "completed",
        Phase::Expired => "failed",
    }
}

/// An order as a list contains it.
pub(crate) fn simplified(account: &Account, session: &Session, now: u64) -> Value {
    let mut order = order(account, session, now);
    if let Some(fields) = order.as_object_mut() {
        for name in [
            "payments",
            "checkout_url",
            "redirect_url",
            "refunded_amount",
        ] {
            fields.remove(name);
        }
    }
    order
}

/// An order as the API returns it.
pub(crate) fn order(account: &Account, session: &Session, now: u64) -> Value {
    let outstanding = match session.received {
        Some(_) => 0,
        None => session.due.value.0,
    };
    let mut told = json!({
        "id": session.reference,
        "token": session.token,
        "type": "payment",
        "state": state(session, now),
        "created_at": rfc3339::utc(session.created_at),
        "updated_at": rfc3339::utc(session.updated_at),
        "description": session.order,
        "capture_mode": session.extra.get(CAPTURE_MODE),
        "authorisation_type": "final",
        "amount": session.due.value.0,
        "outstanding_amount": outstanding,
        "currency": session.due.currency,
        "merchant_order_data": { "reference": session.attempt_id },
        "checkout_url": account.page_url(session),
        "redirect_url": session.return_url,
        "enforce_challenge": "automatic",
    });
    if let Some(payment) = payment(session) {
        told["payments"] = json!([payment]);
    }
    if session.returned.0 > 0 {
        told["refunded_amount"] = session.returned.0.into();
    }
    told
}

/// Revolut's fee: 1 % and 0.20.
pub(crate) fn fee(received: Amount) -> Amount {
    Amount(received.0 / 100 + 20)
}

/// The payer's try. `None` if there is none.
fn payment(session: &Session) -> Option<Value> {
    let state = match session.state {
        State::Closed if session.voided => "cancelled",
        State::Open | State::Closed => return None,
        State::Declined => "declined",
        State::Authorised if session.capturing().is_some() => "capture_started",
        State::Authorised => "authorised",
        State::Captured | State::Refunded => "completed",
    };
    let money = session.received.as_ref().unwrap_or(&session.due);
    let created = session.authorised_at.unwrap_or(session.updated_at);
    let mut told = json!({
        "id": kin(&session.reference, Kin::Payment),
        "state": state,
        "created_at": rfc3339::utc(created),
        "updated_at": rfc3339::utc(session.updated_at),
        "amount": money.value.0,
        "currency": money.currency,
        "payment_method": {
            "type": "revolut_pay_card",
            "card_brand": "visa",
            "card_bin": "529999",
            "card_last_four": "0368",
        },
        "fees": [],
    });
    if session.captured_at.is_some() {
        let fee = fee(money.value).0;
        told["fees"] = json!([{ "type": "acquiring", "amount": fee, "currency": money.currency }]);
    }
    if let Some(at) = session.authorised_at.filter(|_| state == "authorised") {
        let deadline = rfc3339::utc(at.saturating_add(HOLDS_MS));
        told["payment_method"]["capture_deadline"] = deadline.into();
    }
    if session.state == State::Declined {
        told["decline_reason"] = "insufficient_funds".into();
    }
    Some(told)
}

/// The order of a refund.
pub(crate) fn refund(session: &Session, refund: &Refund) -> Value {
    let received = session.received.as_ref().unwrap_or(&session.due);
    let (state, paid) = match refund.state {
        RefundState::Pending => ("processing", "refund_validated"),
        RefundState::Succeeded => ("completed", "completed"),
        RefundState::Failed | RefundState::Cancelled => ("failed", "declined"),
    };
    let (created, updated) = (
        rfc3339::utc(refund.created_at),
        rfc3339::utc(refund.updated_at),
    );
    let mut told = json!({
        "id": refund.id,
        "type": "refund",
        "state": state,
        "created_at": created,
        "updated_at": updated,
        "amount": refund.amount.0,
        "currency": received.currency,
        "outstanding_amount": 0,
        "capture_mode": "automatic",
        "enforce_challenge": "automatic",
        "related_order_id": session.reference,
        "payments": [{
            "id": refund.id.replacen(REFUND_DIGIT, "5", 1),
            "state": paid,
            "created_at": created,
            "updated_at": updated,
            "amount": refund.amount.0,
            "currency": received.currency,
            "payment_method": { "type": "revolut_pay_card" },
            "fees": [],
        }],
    });
    let words = refund
        .asked
        .as_ref()
        .and_then(|asked| asked.note.as_deref());
    let words = words.and_then(|words| serde_json::from_str::<Value>(words).ok());
    for (name, value) in words
        .as_ref()
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        if !value.is_null() {
            told[name] = value.clone();
        }
    }
    told
}

/// An order's refunds as a list contains them, newest first.
pub(crate) fn refunds(session: &Session) -> impl Iterator<Item = Value> {
    session.refunds.iter().rev().map(|made| {
        let mut told = refund(session, made);
        told.as_object_mut().map(|fields| fields.remove("payments"));
        told
    })
}

/// The payer's disputes, oldest first.
pub(crate) fn disputes(session: &Session) -> Vec<Value> {
    let Some(received) = &session.received else {
        return Vec::new();
    };
    let told = |id: &str, amount: Amount, states: (&str, &str), at: (u64, u64)| {
        json!({
            "id": id,
            "state": states.0,
            "substate": states.1,
            "created_at": rfc3339::utc(at.0),
            "updated_at": rfc3339::utc(at.1),
            "amount": amount.0,
            "currency": received.currency,
            "payment": {
                "id": kin(&session.reference, Kin::Payment),
                "order_id": session.reference,
                "amount": received.value.0,
                "currency": received.currency,
            },
        })
    };
    let won = ("won", "won_reversal");
    let mut all = Vec::new();
    let inquiry = kin(&session.reference, Kin::Dispute);
    let at = (session.updated_at, session.updated_at);
    if session.extra.contains_key(DISPUTE) || (session.held && session.state == State::Refunded) {
        all.push(told(&inquiry, received.value, won, at));
    } else if session.held {
        let states = ("under_review", "representment");
        all.push(told(&inquiry, received.value, states, at));
    }
    let disputed = session.disputes.iter().map(|dispute| {
        let states = match dispute.state {
            // Ended by the merchant's full refund.
            DisputeState::Open if session.state == State::Refunded => won,
            DisputeState::Open => ("needs_response", "new"),
            DisputeState::Won => ("won", "won_representment"),
            DisputeState::Lost => ("lost", "lost_expired"),
        };
        let mut told = told(
            &dispute.id,
            dispute.amount,
            states,
            (dispute.opened_at, dispute.updated_at),
        );
        told["response_due_date"] = rfc3339::utc(dispute.respond_by).into();
        told["reason_code"] = "10.4".into();
        told["reason_description"] = dispute.reason.as_str().into();
        told
    });
    all.extend(disputed);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_an_order_leads_back_to_it() {
        let order = order_id(&"a".repeat(32));
        assert_eq!(order, "0aaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa");
        for relative in [Kin::Payment, Kin::Dispute] {
            let id = kin(&order, relative);
            assert_eq!(order_of(&id, relative), Some(order.clone()));
        }
        assert_eq!(order_of(&order, Kin::Payment), None);
    }

    #[test]
    fn periods_are_read_in_one_unit() {
        for (text, seconds) in [("PT90S", 90), ("PT15M", 900), ("PT2H", 7_200)] {
            assert_eq!(duration(text), Some(seconds));
        }
        for wrong in ["", "PT", "PTS", "PT-1S", "PT1", "P1D", "90S", "PT+1S"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }
}
