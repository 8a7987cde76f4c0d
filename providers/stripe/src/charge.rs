//! The charge of a payment: refunds, Stripe's fee, disputes, and the payer's means of payment. Parsing is lenient:
//! a malformed part does not hide the rest.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Dispute, DisputeKind, DisputeState, Money, Refund, RefundState};

use crate::query::is_id;
use crate::wire::{code, currency, is_ours, list_of, seconds, text};

/// Key of the refund order's id in a refund's `metadata`.
pub(crate) const ORDER: &str = "refund";

/// Maximum length of the payer's means of payment, in bytes.
const MOST_INSTRUMENT: usize = 64;

/// A charge with its refunds and its balance transaction expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) id: String,
    /// Time of the payer's approval, in milliseconds since 1970.
    pub(crate) created_at: Option<u64>,
    /// Refunded amount in minor units. Stripe includes the part that was authorized but never captured.
    refunded: u64,
    /// Amount that was authorized but never captured, in minor units.
    untaken: u64,
    /// Whether the payer has disputed it at least once.
    pub(crate) disputed: bool,
    /// Refunds, newest first.
    pub(crate) refunds: Vec<Refund>,
    /// Whether `refunds` is complete.
    pub(crate) all_refunds: bool,
    /// Whether Stripe has more refunds than the charge lists.
    pub(crate) more_refunds: bool,
    /// The balance transaction. `None` before it exists.
    pub(crate) booking: Option<Booking>,
    /// Time until which an authorization can be captured, in milliseconds since 1970.
    pub(crate) capture_before: Option<u64>,
    /// The payer's means of payment: "visa 4242", "ing".
    pub(crate) instrument: Option<String>,
}

/// A balance transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) id: String,
    /// Stripe's fee, in the balance's currency.
    pub(crate) fee: Money,
    pub(crate) created_at: Option<u64>,
}

impl Charge {
    /// Refunded amount in minor units: the sum of the refunds that have not failed, including pending ones. If the
    /// list is incomplete, Stripe's own sum without the amount that was never captured.
    pub(crate) fn given_back(&self) -> u64 {
        if !self.all_refunds {
            return self.refunded.saturating_sub(self.untaken);
        }
        let alive = self.refunds.iter();
        let alive = alive.filter(|refund| refund.state != RefundState::Failed);
        alive.fold(0, |sum, refund| sum.saturating_add(refund.amount))
    }
}

/// Reads a charge. `None` without an id or an amount, or if it is not expanded. Adds a sentence to `unreadable`
/// for each part that cannot be parsed.
pub(crate) fn charge(value: &Json, unreadable: &mut Vec<String>) -> Option<Charge> {
    let amount = value.get("amount")?.whole()?;
    let taken = value.get("amount_captured").and_then(Json::whole);
    let list = value.get("refunds").filter(|list| list_of(list).is_some());
    let (refunds, all_refunds) = match list {
        Some(list) => refunds(list, unreadable),
        None => (Vec::new(), false),
    };
    let details = value.get("payment_method_details");
    let refunded = value.get("amount_refunded").and_then(Json::whole);
    Some(Charge {
        id: text(value, "id").filter(|id| is_id(id))?,
        created_at: seconds(value, "created"),
        refunded: refunded.unwrap_or(0),
        untaken: taken.map_or(0, |taken| amount.saturating_sub(taken)),
        // If the flag is missing, the disputes are queried.
        disputed: value.get("disputed").and_then(Json::flag).unwrap_or(true),
        refunds,
        all_refunds,
        more_refunds: list.and_then(list_of).is_none_or(|(_, more)| more),
        booking: value.get("balance_transaction").and_then(booking),
        capture_before: details
            .and_then(|details| details.get("card"))
            .and_then(|card| seconds(card, "capture_before")),
        instrument: details.and_then(instrument),
    })
}

/// Reads the refunds of a charge, and whether the list is complete. The release of an authorization that was not
/// captured in time is skipped, because no money was captured. An entry without a status, as in Stripe's first
/// years, is omitted and makes the list incomplete; Stripe's own sum includes it.
pub(crate) fn refunds(list: &Json, unreadable: &mut Vec<String>) -> (Vec<Refund>, bool) {
    let (items, more) = list_of(list).unwrap_or_default();
    let mut refunds = Vec::new();
    let mut all = !more;
    for item in items {
        if text(item, "reason").as_deref() == Some("expired_uncaptured_charge") {
            continue;
        }
        let has_status = item.get("status").and_then(Json::text).is_some();
        match refund(item).filter(|_| has_status) {
            Some(refund) => refunds.push(refund),
            None => {
                unreadable.push(format!("refund {} cannot be read", id_of(item)));
                all = false;
            }
        }
        if has_status && refund_state(item).is_none() {
            unreadable.push(unknown_status("refund", item));
        }
    }
    (refunds, all)
}

/// Reads a refund, with the refund order if it contains one. An undocumented status counts as pending.
fn refund(value: &Json) -> Option<Refund> {
    refund_of(value, None)
}

/// Reads a refund; `amount` is used if it contains none.
pub(crate) fn refund_of(value: &Json, amount: Option<u64>) -> Option<Refund> {
    Some(Refund {
        id: text(value, "id").filter(|id| is_id(id))?,
        order_id: value
            .path(&["metadata", ORDER])
            .and_then(Json::text)
            .filter(|order| is_ours(order))
            .map(str::to_owned),
        amount: value.get("amount").and_then(Json::whole).or(amount)?,
        paid_out: None,
        // Stripe provides no later time than the creation.
        at: seconds(value, "created"),
        state: refund_state(value).unwrap_or(RefundState::Pending),
    })
}

fn refund_state(value: &Json) -> Option<RefundState> {
    match value.get("status")?.text()? {
        "pending" | "requires_action" => Some(RefundState::Pending),
        "succeeded" => Some(RefundState::Succeeded),
        "failed" | "canceled" => Some(RefundState::Failed),
        _ => None,
    }
}

/// A sentence about an object with an undocumented status.
fn unknown_status(what: &str, value: &Json) -> String {
    let status = code(value, "status").unwrap_or_default();
    format!("{what} {} has the unknown status {status}", id_of(value))
}

/// The id of an entry, for a sentence about it.
fn id_of(value: &Json) -> String {
    let id = code(value, "id").filter(|id| is_id(id));
    id.unwrap_or_else(|| "without id".to_owned())
}

fn booking(value: &Json) -> Option<Booking> {
    Some(Booking {
        id: text(value, "id").filter(|id| is_id(id))?,
        fee: Money {
            amount: value.get("fee")?.whole()?,
            currency: currency(value)?,
        },
        created_at: seconds(value, "created"),
    })
}

/// Brand and last four digits, including those of the card in a wallet; otherwise the bank, otherwise the method.
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

/// Reads a list of disputes. A payment has one or two, so a second page is only noted in `unreadable`. A dispute
/// in another currency or without an amount counts for the whole amount `received`. Adds a sentence to
/// `unreadable` for each part that cannot be parsed.
pub(crate) fn disputes(
    list: &Json,
    received: &Money,
    unreadable: &mut Vec<String>,
) -> Vec<Dispute> {
    let (items, more) = list_of(list).unwrap_or_default();
    if more {
        unreadable.push("there are more disputes than one page".into());
    }
    let mut disputes = Vec::new();
    for item in items {
        match dispute(item, received) {
            Some(dispute) => disputes.push(dispute),
            None => unreadable.push(format!("dispute {} cannot be read", id_of(item))),
        }
        if dispute_state(item).is_none() {
            unreadable.push(unknown_status("dispute", item));
        }
    }
    disputes
}

fn dispute(value: &Json, received: &Money) -> Option<Dispute> {
    let claimed = value.get("amount").and_then(Json::whole);
    let same = currency(value).is_none_or(|currency| currency == received.currency);
    let amount = claimed.filter(|_| same).unwrap_or(received.amount);
    let status = text(value, "status").unwrap_or_default();
    // An inquiry, which may become a chargeback.
    let inquiry = status.starts_with("warning");
    Some(Dispute {
        id: text(value, "id").filter(|id| is_id(id))?,
        kind: if inquiry {
            DisputeKind::Inquiry
        } else {
            DisputeKind::Dispute
        },
        amount,
        withdrawn: withdrawn(value, amount),
        // "How disputes work": a full refund closes an inquiry, but not a chargeback.
        ends_by_refund: inquiry,
        listed_as_refund: false,
        at: seconds(value, "created"),
        state: dispute_state(value).unwrap_or(DisputeState::Open),
        reason: code(value, "reason"),
        respond_by: value
            .get("evidence_details")
            .and_then(|details| seconds(details, "due_by")),
    })
}

/// The amount that Stripe withholds for a dispute, in minor units. Withdrawals are negative bookings,
/// reinstatements positive. They may be in the balance's currency, so each counts as the whole amount.
fn withdrawn(dispute: &Json, amount: u64) -> u64 {
    let bookings = dispute.get("balance_transactions");
    let bookings = bookings.map_or(&[][..], Json::items);
    let taken = |booking: &&Json| {
        let amount = booking.get("amount").and_then(Json::number);
        amount.is_some_and(|amount| amount.starts_with('-'))
    };
    let withdrawals = bookings.iter().filter(taken).count();
    let lost = dispute_state(dispute) == Some(DisputeState::Lost);
    let held = withdrawals > bookings.len() - withdrawals || (lost && bookings.is_empty());
    if held { amount } else { 0 }
}

fn dispute_state(value: &Json) -> Option<DisputeState> {
    let bookings = || {
        value
            .get("balance_transactions")
            .map_or(0, |all| all.items().len())
    };
    match value.get("status")?.text()? {
        // Statuses that start with `warning` are inquiries, which may become chargebacks.
        "warning_needs_response" | "warning_under_review" | "needs_response" | "under_review" => {
            Some(DisputeState::Open)
        }
        "lost" => Some(DisputeState::Lost),
        // Settled before it became a chargeback. Lost if Stripe has withdrawn the money and not reinstated it.
        "prevented" if bookings() == 1 => Some(DisputeState::Lost),
        // `charge_refunded` is a status of old API versions: a refund ended the dispute, and is counted as a
        // refund.
        "won" | "warning_closed" | "prevented" | "charge_refunded" => Some(DisputeState::Won),
        _ => None,
    }
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
        charge(&Json::parse(value.to_string().as_bytes())?, &mut Vec::new())
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
    fn only_an_id_and_an_amount_make_a_charge() {
        let mut bare = told();
        for name in [
            "object",
            "balance_transaction",
            "payment_method_details",
            "created",
            "amount_captured",
            "amount_refunded",
            "disputed",
            "refunds",
        ] {
            bare[name] = Value::Null;
        }
        let charge = read(&bare).unwrap();
        assert_eq!((charge.booking, charge.instrument), (None, None));
        // The disputes and refunds are queried.
        assert!(charge.disputed && charge.more_refunds);
        for name in ["id", "amount"] {
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
        // Stripe's own sum is not used if the list of refunds is complete.
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
    }

    #[test]
    fn a_refund_that_cannot_be_read_hides_no_other() {
        let mut paid = told();
        paid["amount_refunded"] = json!(1990);
        let list = json!([
            refund("re_1", 1000, "frozen"),
            { "id": "re_2", "object": "refund", "amount": 1000, "status": null },
            refund("re_3", 990, "succeeded"),
        ]);
        paid["refunds"]["data"] = list;
        let mut unreadable = Vec::new();
        let value = Json::parse(paid.to_string().as_bytes()).unwrap();
        let charge = charge(&value, &mut unreadable).unwrap();
        let states: Vec<(&str, RefundState)> = charge
            .refunds
            .iter()
            .map(|refund| (refund.id.as_str(), refund.state))
            .collect();
        assert_eq!(
            states,
            [
                ("re_1", RefundState::Pending),
                ("re_3", RefundState::Succeeded)
            ]
        );
        // Stripe's own sum includes the omitted entry.
        assert_eq!(charge.given_back(), 1990);
        assert_eq!(
            unreadable,
            [
                "refund re_1 has the unknown status frozen",
                "refund re_2 cannot be read"
            ]
        );
    }

    #[test]
    fn what_was_never_taken_is_not_given_back() {
        let mut short = told();
        short["amount_captured"] = json!(4890);
        short["amount_refunded"] = json!(600);
        short["refunds"]["has_more"] = json!(true);
        assert_eq!(read(&short).unwrap().given_back(), 500);
        // An authorization that expired.
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
        let list = Json::parse(list.to_string().as_bytes())?;
        disputes(&list, &received, &mut Vec::new())
            .into_iter()
            .next()
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
            ("charge_refunded", DisputeState::Won),
            ("odd", DisputeState::Open),
        ] {
            let dispute = disputed(&json!({ "status": status })).unwrap();
            assert_eq!(dispute.state, state, "{status}");
        }
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
    fn a_dispute_tells_what_stripe_holds_back() {
        let held = |status: &str, amounts: &[i64]| {
            let bookings: Vec<Value> = amounts.iter().map(|n| json!({ "amount": n })).collect();
            let change = json!({ "status": status, "balance_transactions": bookings });
            let dispute = disputed(&change).unwrap();
            (dispute.kind, dispute.withdrawn, dispute.ends_by_refund)
        };
        let (inquiry, dispute) = (DisputeKind::Inquiry, DisputeKind::Dispute);
        assert_eq!(held("warning_needs_response", &[]), (inquiry, 0, true));
        assert_eq!(held("needs_response", &[-4990]), (dispute, 4990, false));
        assert_eq!(held("under_review", &[-4990, 4990]), (dispute, 0, false));
        assert_eq!(held("won", &[-5300, 5300]), (dispute, 0, false));
        assert_eq!(held("lost", &[-5300]), (dispute, 4990, false));
        assert_eq!(held("lost", &[]), (dispute, 4990, false));
    }

    #[test]
    fn a_dispute_in_another_currency_is_about_all_that_was_received() {
        let dispute = disputed(&json!({ "currency": "usd", "amount": 5300 })).unwrap();
        assert_eq!(dispute.amount, 6000);
    }

    #[test]
    fn a_dispute_that_cannot_be_read_hides_no_other() {
        let odd = json!({ "object": "dispute" });
        let bare = json!({ "id": "du_2", "status": "frozen" });
        let list = json!({ "data": [odd, bare], "has_more": true });
        let list = Json::parse(list.to_string().as_bytes()).unwrap();
        let received = Money {
            amount: 6000,
            currency: "EUR".into(),
        };
        let mut unreadable = Vec::new();
        let disputes = disputes(&list, &received, &mut unreadable);
        let [dispute] = disputes.as_slice() else {
            panic!("{disputes:?}")
        };
        assert_eq!((dispute.amount, dispute.state), (6000, DisputeState::Open));
        assert!(unreadable.contains(&"dispute du_2 has the unknown status frozen".to_owned()));
        assert!(unreadable.contains(&"there are more disputes than one page".to_owned()));
    }
}
