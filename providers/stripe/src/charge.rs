//! The charge of a payment: what was taken and given back, what Stripe keeps of it, and what the payer
//! paid with. Money is read strictly; what only describes is left out where it is not as documented.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Dispute, DisputeState, Money, Refund, RefundState};

use crate::query::is_id;
use crate::wire::{code, currency, is, is_ours, list_of, seconds, text};

/// Where our order's id stands in a refund's `metadata`.
pub(crate) const ORDER: &str = "refund";

/// Most refunds that a report tells one by one.
const MOST_REFUNDS: usize = 64;

/// Most bytes of what the payer paid with.
const MOST_INSTRUMENT: usize = 64;

/// A charge with its refunds and its balance transaction expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) id: String,
    /// When the payer's approval was given.
    pub(crate) created_at: Option<u64>,
    /// Refunded, and of a charge that was captured in part or not at all also what was never taken.
    refunded: u64,
    /// What was authorised and never taken.
    untaken: u64,
    /// The payer went to the bank about it, once at least.
    pub(crate) disputed: bool,
    /// Refunds, newest first.
    pub(crate) refunds: Vec<Refund>,
    /// Whether those are all of them.
    pub(crate) all_refunds: bool,
    /// What the charge did to the merchant's balance; none before it has.
    pub(crate) booking: Option<Booking>,
    /// Until when an authorisation can be captured.
    pub(crate) capture_before: Option<u64>,
    /// With what the payer paid: "visa 4242", "ing".
    pub(crate) instrument: Option<String>,
}

/// A balance transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) id: String,
    /// What Stripe keeps, in the balance's currency.
    pub(crate) fee: Money,
    pub(crate) created_at: Option<u64>,
}

impl Charge {
    /// Given back by refunds: those that Stripe has not given up, which may still be under way. Where
    /// not all of them are told it is Stripe's own sum, which holds what was never captured as well.
    pub(crate) fn given_back(&self) -> u64 {
        if !self.all_refunds {
            return self.refunded.saturating_sub(self.untaken);
        }
        let alive = self.refunds.iter();
        let alive = alive.filter(|refund| refund.state != RefundState::Failed);
        alive.fold(0, |sum, refund| sum.saturating_add(refund.amount))
    }
}

/// Reads a charge; none where its money is not as documented, or it is not expanded.
pub(crate) fn charge(value: &Json) -> Option<Charge> {
    is(value, "charge")?;
    let amount = value.get("amount")?.whole()?;
    let taken = value.get("amount_captured")?.whole()?;
    let (refunds, all_refunds) = match value.get("refunds") {
        Some(list @ Json::Object(_)) => refunds(list)?,
        _ => (Vec::new(), false),
    };
    let details = value.get("payment_method_details");
    Some(Charge {
        id: text(value, "id").filter(|id| is_id(id))?,
        created_at: seconds(value, "created"),
        refunded: value.get("amount_refunded")?.whole()?,
        untaken: amount.saturating_sub(taken),
        disputed: value.get("disputed")?.flag()?,
        refunds,
        all_refunds,
        booking: value.get("balance_transaction").and_then(booking),
        capture_before: details
            .and_then(|details| details.get("card"))
            .and_then(|card| seconds(card, "capture_before")),
        instrument: details.and_then(instrument),
    })
}

/// Reads the refunds of a charge, and whether there are no more. What was released because it was not
/// captured in time is none: that money was never taken.
pub(crate) fn refunds(list: &Json) -> Option<(Vec<Refund>, bool)> {
    let (items, more) = list_of(list)?;
    let mut refunds = Vec::new();
    for item in items {
        if text(item, "reason").as_deref() != Some("expired_uncaptured_charge") {
            refunds.push(refund(item)?);
        }
    }
    let all = !more && refunds.len() <= MOST_REFUNDS;
    refunds.truncate(MOST_REFUNDS);
    Some((refunds, all))
}

/// Reads a refund, with our order where it names one.
pub(crate) fn refund(value: &Json) -> Option<Refund> {
    is(value, "refund")?;
    Some(Refund {
        id: text(value, "id").filter(|id| is_id(id))?,
        order_id: value
            .path(&["metadata", ORDER])
            .and_then(Json::text)
            .filter(|order| is_ours(order))
            .map(str::to_owned),
        amount: value.get("amount")?.whole()?,
        state: match value.get("status")?.text()? {
            "pending" | "requires_action" => RefundState::Pending,
            "succeeded" => RefundState::Succeeded,
            "failed" | "canceled" => RefundState::Failed,
            _ => return None,
        },
    })
}

fn booking(value: &Json) -> Option<Booking> {
    is(value, "balance_transaction")?;
    Some(Booking {
        id: text(value, "id").filter(|id| is_id(id))?,
        fee: Money {
            amount: value.get("fee")?.whole()?,
            currency: currency(value)?,
        },
        created_at: seconds(value, "created"),
    })
}

/// Brand and last four digits, also of the card behind a wallet; or the bank; or the method alone.
fn instrument(details: &Json) -> Option<String> {
    let kind = text(details, "type")?;
    let of = details.get(&kind)?;
    let card = of.path(&["funding", "card"]).unwrap_or(of);
    let told = match (text(card, "brand"), text(card, "last4"), text(of, "bank")) {
        (Some(brand), Some(last), _) => format!("{brand} {last}"),
        (_, _, Some(bank)) => bank,
        _ => kind,
    };
    (told.len() <= MOST_INSTRUMENT).then_some(told)
}

/// Reads a list of disputes; a payment has one or two, so that a second page is not expected.
/// `received` is what was paid: a dispute in another currency is about no more than all of it.
pub(crate) fn disputes(body: &[u8], received: &Money) -> Option<Vec<Dispute>> {
    let list = Json::parse(body)?;
    let (items, more) = list_of(&list)?;
    let disputes: Option<Vec<Dispute>> = items.iter().map(|item| dispute(item, received)).collect();
    disputes.filter(|_| !more)
}

fn dispute(value: &Json, received: &Money) -> Option<Dispute> {
    is(value, "dispute")?;
    let amount = value.get("amount")?.whole()?;
    Some(Dispute {
        id: text(value, "id").filter(|id| is_id(id))?,
        amount: if currency(value)? == received.currency {
            amount
        } else {
            received.amount
        },
        state: match value.get("status")?.text()? {
            // What begins with `warning` is an inquiry, out of which a chargeback may come.
            "warning_needs_response"
            | "warning_under_review"
            | "needs_response"
            | "under_review" => DisputeState::Open,
            "lost" => DisputeState::Lost,
            // Settled before it became a chargeback: by giving the money back, where Stripe has
            // withdrawn it and not reinstated it.
            "prevented" if value.get("balance_transactions")?.items().len() == 1 => {
                DisputeState::Lost
            }
            "won" | "warning_closed" | "prevented" => DisputeState::Won,
            _ => return None,
        },
        reason: code(value, "reason"),
        respond_by: value
            .get("evidence_details")
            .and_then(|details| seconds(details, "due_by")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn told() -> Value {
        json!({
            "id": "ch_1", "object": "charge", "amount": 4990, "amount_captured": 4990,
            "amount_refunded": 0, "disputed": false, "created": 1_800_000_000,
            "refunds": { "object": "list", "data": [], "has_more": false },
            "balance_transaction": {
                "id": "txn_1", "object": "balance_transaction", "fee": 175, "currency": "usd",
                "created": 1_800_000_060,
            },
            "payment_method_details": {
                "type": "card",
                "card": { "brand": "visa", "last4": "4242", "capture_before": 1_800_604_800 },
            },
        })
    }

    fn read(value: &Value) -> Option<Charge> {
        charge(&Json::parse(value.to_string().as_bytes())?)
    }

    fn refund(id: &str, amount: u64, status: &str) -> Value {
        json!({ "id": id, "object": "refund", "amount": amount, "status": status })
    }

    #[test]
    fn a_charge_tells_its_fee_its_times_and_the_card() {
        let charge = read(&told()).unwrap();
        let booking = charge.booking.unwrap();
        assert_eq!(
            (booking.fee.amount, booking.fee.currency.as_str()),
            (175, "USD")
        );
        assert_eq!(charge.created_at, Some(1_800_000_000_000));
        assert_eq!(booking.created_at, Some(1_800_000_060_000));
        assert_eq!(charge.capture_before, Some(1_800_604_800_000));
        assert_eq!(charge.instrument.as_deref(), Some("visa 4242"));
    }

    #[test]
    fn what_only_describes_may_be_missing_and_money_may_not() {
        let mut bare = told();
        for name in ["balance_transaction", "payment_method_details", "created"] {
            bare[name] = Value::Null;
        }
        let charge = read(&bare).unwrap();
        assert_eq!((charge.booking, charge.instrument), (None, None));
        for name in [
            "id",
            "amount",
            "amount_captured",
            "amount_refunded",
            "disputed",
        ] {
            let mut odd = told();
            odd.as_object_mut().unwrap().remove(name);
            assert_eq!(read(&odd), None, "{name}");
        }
    }

    #[test]
    fn each_method_names_what_was_paid_with() {
        for (details, instrument) in [
            (
                json!({ "type": "ideal", "ideal": { "bank": "ing" } }),
                "ing",
            ),
            (
                json!({ "type": "ideal", "ideal": { "bank": null } }),
                "ideal",
            ),
            (json!({ "type": "klarna", "klarna": {} }), "klarna"),
            (
                json!({ "type": "revolut_pay", "revolut_pay": { "funding": {
                    "type": "card", "card": { "brand": "mastercard", "last4": "4444" } } } }),
                "mastercard 4444",
            ),
        ] {
            let mut paid = told();
            paid["payment_method_details"] = details;
            assert_eq!(read(&paid).unwrap().instrument.as_deref(), Some(instrument));
        }
    }

    #[test]
    fn a_refund_that_failed_or_was_canceled_is_not_given_back() {
        let mut paid = told();
        // Stripe's own sum is not asked where every refund is told.
        paid["amount_refunded"] = json!(4990);
        paid["refunds"]["data"] = json!([
            refund("re_1", 1000, "failed"),
            refund("re_2", 700, "canceled"),
            refund("re_3", 990, "succeeded"),
            refund("re_4", 10, "pending"),
        ]);
        let charge = read(&paid).unwrap();
        assert_eq!(charge.given_back(), 1000);
        let states: Vec<RefundState> = charge.refunds.iter().map(|each| each.state).collect();
        assert_eq!(
            states,
            [
                RefundState::Failed,
                RefundState::Failed,
                RefundState::Succeeded,
                RefundState::Pending
            ]
        );
        paid["refunds"]["data"] = json!([refund("re_1", 1000, "odd")]);
        assert_eq!(read(&paid), None);
    }

    #[test]
    fn what_was_never_taken_is_not_given_back() {
        let mut short = told();
        short["amount_captured"] = json!(4890);
        short["amount_refunded"] = json!(600);
        short["refunds"]["has_more"] = json!(true);
        assert_eq!(read(&short).unwrap().given_back(), 500);
        // An authorisation that ran out.
        let mut expired = told();
        expired["amount_captured"] = json!(0);
        expired["amount_refunded"] = json!(4990);
        let mut release = refund("re_1", 4990, "succeeded");
        release["reason"] = json!("expired_uncaptured_charge");
        expired["refunds"]["data"] = json!([release]);
        let charge = read(&expired).unwrap();
        assert_eq!((charge.given_back(), charge.refunds), (0, Vec::new()));
    }

    fn disputed(change: &Value) -> Option<Dispute> {
        let mut dispute = json!({
            "id": "du_1", "object": "dispute", "amount": 4990, "currency": "eur",
            "status": "needs_response", "reason": "fraudulent", "balance_transactions": [],
            "evidence_details": { "due_by": 1_801_000_000 },
        });
        for (name, value) in change.as_object().unwrap() {
            dispute[name.as_str()] = value.clone();
        }
        let list = json!({ "object": "list", "data": [dispute], "has_more": false });
        let received = Money {
            amount: 6000,
            currency: "EUR".into(),
        };
        Some(disputes(list.to_string().as_bytes(), &received)?.remove(0))
    }

    #[test]
    fn a_dispute_tells_its_id_its_reason_and_its_deadline() {
        let dispute = disputed(&json!({})).unwrap();
        assert_eq!((dispute.id.as_str(), dispute.amount), ("du_1", 4990));
        assert_eq!(dispute.reason.as_deref(), Some("fraudulent"));
        assert_eq!(dispute.respond_by, Some(1_801_000_000_000));
    }

    #[test]
    fn disputes_say_whether_the_money_is_gone() {
        for (status, state) in [
            ("warning_needs_response", DisputeState::Open),
            ("warning_under_review", DisputeState::Open),
            ("warning_closed", DisputeState::Won),
            ("needs_response", DisputeState::Open),
            ("under_review", DisputeState::Open),
            ("won", DisputeState::Won),
            ("lost", DisputeState::Lost),
            ("prevented", DisputeState::Won),
        ] {
            let dispute = disputed(&json!({ "status": status })).unwrap();
            assert_eq!(dispute.state, state, "{status}");
        }
        assert_eq!(disputed(&json!({ "status": "odd" })), None);
    }

    #[test]
    fn a_dispute_that_was_settled_with_the_money_is_lost() {
        let state = |booked: Value| {
            let change = json!({ "status": "prevented", "balance_transactions": booked });
            disputed(&change).unwrap().state
        };
        assert_eq!(state(json!([{}])), DisputeState::Lost);
        assert_eq!(state(json!([{}, {}])), DisputeState::Won);
    }

    #[test]
    fn a_dispute_in_another_currency_is_about_all_that_was_received() {
        let dispute = disputed(&json!({ "currency": "usd", "amount": 5300 })).unwrap();
        assert_eq!(dispute.amount, 6000);
    }

    #[test]
    fn a_second_page_of_disputes_is_not_guessed() {
        let list = json!({ "object": "list", "data": [], "has_more": true });
        let received = Money {
            amount: 0,
            currency: "EUR".into(),
        };
        assert_eq!(disputes(list.to_string().as_bytes(), &received), None);
    }
}
