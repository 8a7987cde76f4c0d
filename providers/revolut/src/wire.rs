//! Parsing of Revolut's JSON. Parsing is lenient: an unknown, null or missing state, field or entry does not hide
//! the rest.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::read::{self, Unreadable};
use kassette_plugin::provider::{Money, Refund, RefundState};

use crate::particulars::{self, Facts};

/// Key of the refund order's id in a refund's `metadata`.
pub(crate) const REFUND: &str = "refund";

/// State of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Pending,
    Processing,
    Authorised,
    Completed,
    Cancelled,
    Failed,
    /// An undocumented state.
    Unknown,
}

/// State of a payment of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// In progress or not paid yet; the payer has to act.
    Underway,
    /// The payer has finished: the money is reserved, or will arrive without further action.
    Moving,
    Captured,
    /// Ended without money.
    Ended,
}

/// A try of the payer to pay an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) tried: Tried,
    /// Whether the payer's bank has approved it.
    pub(crate) approved: bool,
    pub(crate) amount: Money,
    /// Reason of a decline, in Revolut's terms.
    pub(crate) decline: Option<String>,
    /// Details.
    pub(crate) facts: Facts,
}

/// An order, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// Attempt id. `None` if the order contains no merchant reference.
    pub(crate) attempt: Option<String>,
    /// State in Revolut's terms, in lower case.
    pub(crate) state: String,
    pub(crate) stands: Stands,
    /// Whether the merchant has to request the capture.
    pub(crate) manual: bool,
    pub(crate) amount: Money,
    /// The part of the amount that is not paid, in minor units.
    pub(crate) outstanding: u64,
    pub(crate) refunded: u64,
    pub(crate) payments: Vec<Payment>,
    /// Address of the payment page.
    pub(crate) checkout: Option<String>,
    /// Id of the refunded order, if this is a refund.
    pub(crate) related: Option<String>,
    /// Creation time in milliseconds since 1970.
    pub(crate) created: Option<u64>,
    /// Time of the last change in milliseconds since 1970.
    pub(crate) updated: Option<u64>,
    /// Values that could not be parsed.
    pub(crate) unreadable: Unreadable,
}

/// State of a dispute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Open, or of an unknown state.
    Open,
    Won,
    Lost,
}

/// A payer's dispute at the bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispute {
    pub(crate) id: String,
    pub(crate) verdict: Verdict,
    pub(crate) amount: Money,
    pub(crate) order: Option<String>,
    /// Time of the dispute in milliseconds since 1970.
    pub(crate) opened: Option<u64>,
    /// The card scheme's reason code.
    pub(crate) reason: Option<String>,
    /// Deadline for a response, in milliseconds since 1970.
    pub(crate) respond_by: Option<u64>,
    /// The acquirer's reference number of the disputed payment.
    pub(crate) arn: Option<String>,
}

/// A refusal: Revolut's code and message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl Problem {
    /// Whether the message contains a word, such as a field's name: refusals contain only messages.
    pub(crate) fn is_about(&self, word: &str) -> bool {
        self.message.to_ascii_lowercase().contains(word)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {} {}", self.status, self.code, self.message)
    }
}

/// Parses an order. `None` without an id, a state, an amount or a currency.
pub(crate) fn order(body: &[u8]) -> Option<Order> {
    let value = Json::parse(body)?;
    let id = text(&value, "id").filter(|id| is_id(id))?;
    let currency = value.get("currency").and_then(read::currency)?;
    let mut unreadable = Unreadable::default();
    let mut payments = Vec::new();
    for payment in read::items(&value, &["payments"]) {
        match read_payment(payment, &currency) {
            Some(payment) => payments.push(payment),
            None => unreadable.note(&format!("a payment of the order {id} cannot be read")),
        }
    }
    let attempt = value.path(&["merchant_order_data", "reference"]);
    let state = text(&value, "state")?.to_ascii_lowercase();
    let stands = stands(&state);
    if stands == Stands::Unknown {
        unreadable.unknown_status("order", &id, &state);
    }
    let sum = |name| value.get(name).and_then(read::minor);
    let time = |name| value.get(name).and_then(read::time);
    Some(Order {
        attempt: attempt.and_then(Json::text).map(str::to_owned),
        stands,
        state,
        manual: read::field(&value, "capture_mode") == Some("manual"),
        amount: Money {
            amount: sum("amount")?,
            currency,
        },
        outstanding: sum("outstanding_amount").unwrap_or_default(),
        refunded: sum("refunded_amount").unwrap_or_default(),
        payments,
        checkout: text(&value, "checkout_url"),
        related: text(&value, "related_order_id").filter(|id| is_id(id)),
        created: time("created_at"),
        updated: time("updated_at"),
        unreadable,
        id,
    })
}

/// Reads a payment of an order. `None` without a state or an amount.
fn read_payment(value: &Json, currency: &str) -> Option<Payment> {
    let state = text(value, "state")?.to_ascii_lowercase();
    let state = state.as_str();
    Some(Payment {
        id: text(value, "id").filter(|id| is_id(id)).unwrap_or_default(),
        approved: matches!(
            state,
            "authorisation_passed"
                | "authorised"
                | "capture_started"
                | "captured"
                | "completing"
                | "completed"
        ),
        tried: match state {
            // A refund implies a capture.
            "captured" | "completing" | "completed" | "refund_validated" | "refund_started" => {
                Tried::Captured
            }
            "authentication_verified"
            | "authorisation_started"
            | "authorisation_passed"
            | "authorised"
            | "capture_started" => Tried::Moving,
            "declined" | "cancelled" | "failed" => Tried::Ended,
            // Waits for the payer, or is about to end. After a soft decline the bank asks the payer for
            // authentication.
            _ => Tried::Underway,
        },
        amount: Money {
            amount: value.get("amount").and_then(read::minor)?,
            currency: value
                .get("currency")
                .and_then(read::currency)
                .unwrap_or_else(|| currency.to_owned()),
        },
        decline: text(value, "decline_reason").filter(|reason| is_code(reason)),
        facts: particulars::facts(value),
    })
}

/// The listed orders, newest first as Revolut lists them.
fn orders(body: &[u8]) -> Option<Vec<Json>> {
    match Json::parse(body)? {
        // Some versions answer with a bare list.
        Json::List(orders) => Some(orders),
        answer => match answer.get("orders")? {
            Json::List(orders) => Some(orders.clone()),
            _ => None,
        },
    }
}

/// Whether a listed order has this type.
fn is_of_type(order: &Json, kind: &str) -> bool {
    read::field(order, "type").is_some_and(|told| told.eq_ignore_ascii_case(kind))
}

/// Parses the ids of listed payment orders, newest first as Revolut lists them.
pub(crate) fn listed(body: &[u8]) -> Option<Vec<String>> {
    let orders = orders(body)?;
    // Refunds and chargebacks may have the same reference.
    let payments = orders.iter().filter(|order| is_of_type(order, "payment"));
    let ids = payments.filter_map(|order| text(order, "id").filter(|id| is_id(id)));
    Some(ids.collect())
}

/// Parses the refunds of an order in a list of orders, newest first as Revolut lists them.
pub(crate) fn refunds(body: &[u8], of: &str, unreadable: &mut Unreadable) -> Option<Vec<Refund>> {
    let orders = orders(body)?;
    let ours = |order: &&Json| {
        is_of_type(order, "refund") && read::field(order, "related_order_id") == Some(of)
    };
    let mut refunds = Vec::new();
    for order in orders.iter().filter(ours) {
        match read_refund(order, unreadable) {
            Some(refund) => refunds.push(refund),
            None => unreadable.note(&format!("a refund of the order {of} cannot be read")),
        }
    }
    Some(refunds)
}

/// Reads a listed refund. `None` without an id, a state or an amount.
fn read_refund(order: &Json, unreadable: &mut Unreadable) -> Option<Refund> {
    let id = text(order, "id").filter(|id| is_id(id))?;
    let state = text(order, "state")?.to_ascii_lowercase();
    if stands(&state) == Stands::Unknown {
        unreadable.unknown_status("refund", &id, &state);
    }
    let ours = order.path(&["metadata", REFUND]).and_then(Json::text);
    let at = order.get("updated_at").and_then(read::time);
    Some(Refund {
        id,
        order_id: ours.map(str::to_owned),
        amount: order.get("amount").and_then(read::minor)?,
        paid_out: None,
        at: at.or_else(|| order.get("created_at").and_then(read::time)),
        state: refunded(stands(&state)),
    })
}

/// State of a refund whose order has this state.
pub(crate) const fn refunded(stands: Stands) -> RefundState {
    match stands {
        Stands::Completed => RefundState::Succeeded,
        Stands::Cancelled | Stands::Failed => RefundState::Failed,
        Stands::Pending | Stands::Processing | Stands::Authorised | Stands::Unknown => {
            RefundState::Pending
        }
    }
}

pub(crate) fn dispute(body: &[u8]) -> Option<Dispute> {
    read_dispute(&Json::parse(body)?, &mut Unreadable::default())
}

/// Parses a list of disputes.
pub(crate) fn disputes(body: &[u8], unreadable: &mut Unreadable) -> Option<Vec<Dispute>> {
    let Json::List(list) = Json::parse(body)? else {
        return None;
    };
    let mut disputes = Vec::new();
    for value in &list {
        match read_dispute(value, unreadable) {
            Some(dispute) => disputes.push(dispute),
            None => unreadable.note("a dispute has no id or no amount"),
        }
    }
    Some(disputes)
}

/// Reads a dispute. `None` without an id, an amount or a currency.
fn read_dispute(value: &Json, unreadable: &mut Unreadable) -> Option<Dispute> {
    let of_payment = |name| {
        let payment = value.get("payment")?;
        read::field(payment, name)
    };
    let id = text(value, "id").filter(|id| is_id(id))?;
    let state = read::field(value, "state").unwrap_or_default();
    Some(Dispute {
        verdict: match state.to_ascii_lowercase().as_str() {
            "needs_response" | "under_review" => Verdict::Open,
            "won" => Verdict::Won,
            "lost" => Verdict::Lost,
            _ => {
                unreadable.unknown_status("dispute", &id, state);
                Verdict::Open
            }
        },
        amount: Money {
            amount: value.get("amount").and_then(read::minor)?,
            currency: value.get("currency").and_then(read::currency)?,
        },
        order: of_payment("order_id")
            .filter(|id| is_id(id))
            .map(str::to_owned),
        opened: value.get("created_at").and_then(read::time),
        reason: text(value, "reason_code").filter(|code| is_code(code)),
        respond_by: value.get("response_due_date").and_then(read::time),
        arn: of_payment("arn")
            .filter(|arn| is_code(arn))
            .map(str::to_owned),
        id,
    })
}

/// Parses a refusal. Missing fields are empty.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let code = body.get("code");
    let code = code.and_then(read::word);
    Problem {
        status: answer.status,
        code: code.unwrap_or_default().to_owned(),
        message: text(&body, "message").unwrap_or_default(),
    }
}

/// Whether this has the form of Revolut's ids, a UUID, which needs no escaping in a path.
pub(crate) fn is_id(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether this has the form of a code and can be displayed to operators.
fn is_code(code: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&code.len()) && code.bytes().all(plain)
}

fn stands(state: &str) -> Stands {
    match state {
        "pending" => Stands::Pending,
        "processing" => Stands::Processing,
        "authorised" => Stands::Authorised,
        "completed" => Stands::Completed,
        "cancelled" => Stands::Cancelled,
        "failed" => Stands::Failed,
        _ => Stands::Unknown,
    }
}

fn text(value: &Json, name: &str) -> Option<String> {
    read::field(value, name).map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) const ID: &str = "6516e61c-d279-a454-a837-bc52ce55ed49";
    pub(crate) const PAYMENT: &str = "6516f38a-a12b-aca3-83f2-6ed16d6ed246";

    /// An order as Revolut would return it.
    pub(crate) fn told(state: &str) -> Value {
        json!({
            "id": ID, "token": "0adc0e3c-ab44-4f33-bcc0-534ded7354ce", "type": "payment", "state": state,
            "created_at": "2027-01-15T08:00:00Z", "updated_at": "2027-01-15T08:00:00Z",
            "amount": 4990, "currency": "EUR", "outstanding_amount": 4990, "capture_mode": "automatic",
            "merchant_order_data": { "reference": "attempt-1" },
            "checkout_url": "https://checkout.revolut.com/payment-link/0adc0e3c",
        })
    }

    /// The same with a payment.
    pub(crate) fn tried(state: &str, payment: &str, amount: u64) -> Value {
        let mut told = told(state);
        told["payments"] = json!([{
            "id": PAYMENT, "state": payment, "amount": amount, "currency": "EUR",
            "created_at": "2027-01-15T08:00:00Z", "updated_at": "2027-01-15T08:00:00Z",
        }]);
        told
    }

    pub(crate) fn read(value: &Value) -> Option<Order> {
        order(value.to_string().as_bytes())
    }

    #[test]
    fn what_is_missing_or_odd_hides_nothing_else() {
        assert_eq!(order(b"{"), None);
        for field in ["id", "state", "amount", "currency"] {
            let mut told = told("pending");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        for (field, value) in [
            ("refunded_amount", json!("all")),
            (
                "payments",
                json!([{ "id": PAYMENT, "state": "completed" }, null]),
            ),
            ("payments", json!(null)),
            ("merchant_order_data", json!(null)),
            ("amount", json!("4990")),
            ("state", json!("COMPLETED")),
            ("currency", json!("eur")),
        ] {
            let mut told = told("completed");
            told[field] = value.clone();
            let read = read(&told).unwrap();
            assert_eq!(
                (read.stands, read.amount.amount),
                (Stands::Completed, 4990),
                "{field}"
            );
        }
        let odd = read(&told("captured_maybe")).unwrap();
        assert_eq!(odd.stands, Stands::Unknown);
        assert_eq!(odd.unreadable.into_sentences().len(), 1);
    }

    #[test]
    fn a_try_is_over_only_where_revolut_says_so() {
        for (state, expected) in [
            ("completed", Tried::Captured),
            ("captured", Tried::Captured),
            ("declined", Tried::Ended),
            ("failed", Tried::Ended),
            ("soft_declined", Tried::Underway),
            ("authentication_challenge", Tried::Underway),
            ("declining", Tried::Underway),
            ("authorised", Tried::Moving),
            ("authorisation_started", Tried::Moving),
            ("refund_started", Tried::Captured),
        ] {
            let order = read(&tried("pending", state, 4990)).unwrap();
            assert_eq!(order.payments[0].tried, expected, "{state}");
        }
    }

    #[test]
    fn of_what_is_listed_only_payments_count() {
        let other = "a1b2c3d4-0003-0000-0000-000000000003";
        let list = json!({ "orders": [
            { "id": other, "type": "refund", "state": "completed" },
            { "id": ID, "type": "payment", "state": "completed" },
        ] });
        assert_eq!(
            listed(list.to_string().as_bytes()),
            Some(vec![ID.to_owned()])
        );
        assert_eq!(listed(b"{\"orders\":[]}"), Some(Vec::new()));
        assert_eq!(listed(b"{}"), None);
    }

    #[test]
    fn of_what_is_listed_the_refunds_of_the_order_are_told_with_our_ids() {
        let other = "a1b2c3d4-0003-0000-0000-000000000003";
        let refund = |id: &str, of: &str, state: &str| {
            json!({ "id": id, "type": "refund", "state": state, "amount": 1000, "related_order_id": of,
                "metadata": { "refund": "refund-1" } })
        };
        let mut dashboard = refund(PAYMENT, ID, "processing");
        dashboard["metadata"] = json!(null);
        let list = json!({ "orders": [
            refund(other, ID, "failed"), dashboard, refund(other, other, "completed"), told("completed"),
        ] });
        let mut unreadable = Unreadable::default();
        let refunds = refunds(list.to_string().as_bytes(), ID, &mut unreadable).unwrap();
        let told: Vec<_> = refunds
            .iter()
            .map(|refund| (refund.id.as_str(), refund.order_id.as_deref(), refund.state))
            .collect();
        let expected = [
            (other, Some("refund-1"), RefundState::Failed),
            (PAYMENT, None, RefundState::Pending),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn codes_of_refusals_are_words_or_numbers() {
        for (body, code) in [
            (
                r#"{"code":"bad_state","message":"no","timestamp":1}"#,
                "bad_state",
            ),
            (r#"{"code":1005,"timestamp":1}"#, "1005"),
            ("<html>", ""),
        ] {
            let answer = Answer {
                status: 422,
                headers: Vec::new(),
                body: body.into(),
            };
            assert_eq!(problem(&answer).code, code);
        }
    }

    #[test]
    fn only_uuids_are_used_in_paths() {
        assert!(is_id(ID));
        for odd in [
            "",
            "a/b",
            "6516e61c-d279-a454-a837-bc52ce55ed4",
            "6516e61c/d279/a454/a837/bc52ce55ed49",
        ] {
            assert!(!is_id(odd), "{odd}");
        }
    }

    #[test]
    fn one_odd_dispute_or_refund_hides_no_other() {
        let dispute = |state: &str| json!({ "id": PAYMENT, "state": state, "amount": 50, "currency": "EUR", "payment": null });
        let list = json!([null, {}, dispute("frozen"), dispute("lost")]).to_string();
        let mut unreadable = Unreadable::default();
        let read = disputes(list.as_bytes(), &mut unreadable).unwrap();
        let verdicts: Vec<_> = read.iter().map(|dispute| dispute.verdict).collect();
        assert_eq!(verdicts, [Verdict::Open, Verdict::Lost]);
        let refund = |state: &str| json!({ "id": PAYMENT, "type": "REFUND", "related_order_id": ID, "state": state, "amount": 7 });
        let mut unpriced = refund("completed");
        unpriced["amount"] = json!(null);
        let list = json!({ "orders": [unpriced, refund("frozen"), refund("completed")] });
        let refunds = refunds(list.to_string().as_bytes(), ID, &mut unreadable).unwrap();
        let states: Vec<_> = refunds.iter().map(|refund| refund.state).collect();
        assert_eq!(states, [RefundState::Pending, RefundState::Succeeded]);
        assert_eq!(unreadable.into_sentences().len(), 4);
    }
}
