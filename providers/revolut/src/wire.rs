//! Revolut's JSON. Reading is strict: an answer that is not as documented is no answer.
use std::fmt;

use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Answer;
use kassette_plugin::provider::{Money, Refund, RefundState};
use kassette_plugin::time;

use crate::particulars::{self, Facts};

/// Where a refund's own id for the host stands in its `metadata`.
pub(crate) const REFUND: &str = "refund";

/// Where an order stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stands {
    Pending,
    Processing,
    Authorised,
    Completed,
    Cancelled,
    Failed,
}

/// What has become of one of an order's payments, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tried {
    /// Under way, or not paid yet: nothing comes of it without the payer.
    Underway,
    /// The payer has done what he must: money comes of it by itself, or is reserved already.
    Moving,
    Captured,
    /// Over without money.
    Ended,
}

/// One try of the payer to pay an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    pub(crate) id: String,
    pub(crate) tried: Tried,
    /// The payer's bank has approved it.
    pub(crate) approved: bool,
    pub(crate) amount: Money,
    /// Why it was declined, in Revolut's words.
    pub(crate) decline: Option<String>,
    /// What it tells beside.
    pub(crate) facts: Facts,
}

/// An order as Revolut tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    pub(crate) id: String,
    /// Our attempt; none where we did not make the order.
    pub(crate) attempt: Option<String>,
    /// In Revolut's words.
    pub(crate) state: String,
    pub(crate) stands: Stands,
    /// Whether the merchant takes the money himself.
    pub(crate) manual: bool,
    pub(crate) amount: Money,
    /// Of the amount, what has not been paid.
    pub(crate) outstanding: u64,
    pub(crate) refunded: u64,
    pub(crate) payments: Vec<Payment>,
    /// Where the payer pays.
    pub(crate) checkout: Option<String>,
    /// Of a refund: the order that it is about.
    pub(crate) related: Option<String>,
}

/// How a dispute stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not decided.
    Open,
    Won,
    Lost,
}

/// A payer's objection at his bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dispute {
    pub(crate) id: String,
    pub(crate) verdict: Verdict,
    pub(crate) amount: Money,
    pub(crate) order: String,
    /// The card scheme's code.
    pub(crate) reason: Option<String>,
    /// Until when it can be answered, in milliseconds.
    pub(crate) respond_by: Option<u64>,
    /// The acquirer's reference of what is disputed.
    pub(crate) arn: Option<String>,
}

/// A refusal: Revolut's code and its words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} {} {}", self.status, self.code, self.message)
    }
}

/// Reads an order; none where anything in it is not as documented.
pub(crate) fn order(body: &[u8]) -> Option<Order> {
    let value = Json::parse(body)?;
    let currency = text(&value, "currency")?;
    let optional = |name| match value.get(name) {
        None | Some(Json::Null) => Some(None),
        Some(number) => number.whole().map(Some),
    };
    let payments = value.get("payments").map_or(&[][..], Json::items);
    let payments = payments
        .iter()
        .map(|payment| read_payment(payment, &currency));
    let attempt = value.path(&["merchant_order_data", "reference"]);
    let state = text(&value, "state")?;
    Some(Order {
        id: text(&value, "id").filter(|id| is_id(id))?,
        attempt: attempt.and_then(Json::text).map(str::to_owned),
        stands: stands(&state)?,
        state,
        manual: value.get("capture_mode").and_then(Json::text) == Some("manual"),
        amount: Money {
            amount: value.get("amount")?.whole()?,
            currency: currency.clone(),
        },
        outstanding: optional("outstanding_amount")?.unwrap_or_default(),
        refunded: optional("refunded_amount")?.unwrap_or_default(),
        payments: payments.collect::<Option<_>>()?,
        checkout: text(&value, "checkout_url"),
        related: text(&value, "related_order_id").filter(|id| is_id(id)),
    })
}

fn read_payment(value: &Json, currency: &str) -> Option<Payment> {
    let state = value.get("state")?.text()?;
    Some(Payment {
        id: text(value, "id").filter(|id| is_id(id))?,
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
            // Only what was taken is given back.
            "captured" | "completing" | "completed" | "refund_validated" | "refund_started" => {
                Tried::Captured
            }
            "authentication_verified"
            | "authorisation_started"
            | "authorisation_passed"
            | "authorised"
            | "capture_started" => Tried::Moving,
            "declined" | "cancelled" | "failed" => Tried::Ended,
            // Waits for the payer, or is on its way to an end; a soft decline is followed by the bank's
            // question to the payer.
            _ => Tried::Underway,
        },
        amount: Money {
            amount: value.get("amount")?.whole()?,
            currency: text(value, "currency").unwrap_or_else(|| currency.to_owned()),
        },
        decline: text(value, "decline_reason").filter(|reason| is_code(reason)),
        facts: particulars::facts(value),
    })
}

/// Reads the ids of listed orders, newest first as Revolut lists them.
pub(crate) fn listed(body: &[u8]) -> Option<Vec<String>> {
    let value = Json::parse(body)?;
    let Json::List(orders) = value.get("orders")? else {
        return None;
    };
    let payments = orders.iter().filter(|order| {
        // Refunds and chargebacks may carry the same reference.
        order.get("type").and_then(Json::text) == Some("payment")
    });
    payments
        .map(|order| text(order, "id").filter(|id| is_id(id)))
        .collect()
}

/// Reads the refunds of an order among listed ones, newest first as Revolut lists them.
pub(crate) fn refunds(body: &[u8], of: &str) -> Option<Vec<Refund>> {
    let value = Json::parse(body)?;
    let Json::List(orders) = value.get("orders")? else {
        return None;
    };
    let is = |order: &Json, name, what| order.get(name).and_then(Json::text) == Some(what);
    let refunds = orders
        .iter()
        .filter(|order| is(order, "type", "refund") && is(order, "related_order_id", of));
    refunds
        .map(|order| {
            let ours = order.path(&["metadata", REFUND]).and_then(Json::text);
            Some(Refund {
                id: text(order, "id").filter(|id| is_id(id))?,
                order_id: ours.map(str::to_owned),
                amount: order.get("amount")?.whole()?,
                state: refunded(stands(order.get("state")?.text()?)?),
            })
        })
        .collect()
}

/// What it says of a refund that its order stands so.
pub(crate) const fn refunded(stands: Stands) -> RefundState {
    match stands {
        Stands::Completed => RefundState::Succeeded,
        Stands::Cancelled | Stands::Failed => RefundState::Failed,
        Stands::Pending | Stands::Processing | Stands::Authorised => RefundState::Pending,
    }
}

pub(crate) fn dispute(body: &[u8]) -> Option<Dispute> {
    read_dispute(&Json::parse(body)?)
}

/// Reads a list of disputes.
pub(crate) fn disputes(body: &[u8]) -> Option<Vec<Dispute>> {
    match Json::parse(body)? {
        Json::List(disputes) => disputes.iter().map(read_dispute).collect(),
        _ => None,
    }
}

fn read_dispute(value: &Json) -> Option<Dispute> {
    let of_payment = |name| value.path(&["payment", name]).and_then(Json::text);
    let order = of_payment("order_id")?;
    let due = value.get("response_due_date").and_then(Json::text);
    Some(Dispute {
        id: text(value, "id").filter(|id| is_id(id))?,
        verdict: match value.get("state")?.text()? {
            "needs_response" | "under_review" => Verdict::Open,
            "won" => Verdict::Won,
            "lost" => Verdict::Lost,
            _ => return None,
        },
        amount: Money {
            amount: value.get("amount")?.whole()?,
            currency: text(value, "currency")?,
        },
        order: Some(order).filter(|id| is_id(id))?.to_owned(),
        reason: text(value, "reason_code").filter(|code| is_code(code)),
        respond_by: due.and_then(time::parse_rfc3339),
        arn: of_payment("arn")
            .filter(|arn| is_code(arn))
            .map(str::to_owned),
    })
}

/// Reads a refusal; its texts are empty where there are none.
pub(crate) fn problem(answer: &Answer) -> Problem {
    let body = answer.json().unwrap_or(Json::Null);
    let code = body.get("code");
    let code = code.and_then(|code| code.text().or_else(|| code.number()));
    Problem {
        status: answer.status,
        code: code.unwrap_or_default().to_owned(),
        message: text(&body, "message").unwrap_or_default(),
    }
}

/// Whether this is an id as Revolut makes them, a UUID, and nothing that could change a path.
pub(crate) fn is_id(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

/// Whether this has the form of a code: it goes to the operator.
fn is_code(code: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=64).contains(&code.len()) && code.bytes().all(plain)
}

fn stands(state: &str) -> Option<Stands> {
    Some(match state {
        "pending" => Stands::Pending,
        "processing" => Stands::Processing,
        "authorised" => Stands::Authorised,
        "completed" => Stands::Completed,
        "cancelled" => Stands::Cancelled,
        "failed" => Stands::Failed,
        _ => return None,
    })
}

fn text(value: &Json, name: &str) -> Option<String> {
    value.get(name)?.text().map(str::to_owned)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    pub(crate) const ID: &str = "6516e61c-d279-a454-a837-bc52ce55ed49";
    pub(crate) const PAYMENT: &str = "6516f38a-a12b-aca3-83f2-6ed16d6ed246";

    /// An order as Revolut would tell it.
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
    fn an_answer_that_lacks_anything_is_no_answer() {
        assert_eq!(order(b"{"), None);
        for field in ["id", "state", "amount", "currency"] {
            let mut told = told("pending");
            told.as_object_mut().unwrap().remove(field);
            assert_eq!(read(&told), None, "{field}");
        }
        for (field, value) in [
            ("state", json!("captured_maybe")),
            ("id", json!("../orders")),
            ("amount", json!("49.90")),
            ("amount", json!(49.9)),
            ("refunded_amount", json!("all")),
            ("payments", json!([{ "id": PAYMENT, "state": "completed" }])),
        ] {
            let mut told = told("completed");
            told[field] = value.clone();
            assert_eq!(read(&told), None, "{field} {value}");
        }
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
        assert_eq!(listed(b"[]"), None);
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
        let refunds = refunds(list.to_string().as_bytes(), ID).unwrap();
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
}
