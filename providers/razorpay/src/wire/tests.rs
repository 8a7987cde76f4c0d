use super::*;
use serde_json::{Value, json};

/// Creation time of the payments in tests, in seconds since 1970.
pub(crate) const BEGAN: u64 = 1_800_000_000;

/// A link as Razorpay would return it.
pub(crate) fn told(status: &str) -> Value {
    json!({
        "id": "plink_1", "reference_id": "attempt-1", "amount": 4990, "amount_paid": 0,
        "currency": "INR", "status": status, "short_url": "https://rzp.io/i/1",
        "expire_by": 1_800_003_600, "order_id": "order_1", "payments": null,
    })
}

pub(crate) fn read(value: &Value) -> Option<Link> {
    link(value.to_string().as_bytes())
}

/// A payment as Razorpay would return it, with these fields changed.
pub(crate) fn payment_told(change: &Value) -> Value {
    let mut payment = json!({
        "id": "pay_1", "entity": "payment", "amount": 4990, "currency": "INR", "status": "captured",
        "captured": true, "amount_refunded": 0, "created_at": BEGAN, "method": "upi",
        "vpa": "ann.bee@okaxis", "fee": 118, "tax": 18, "error_reason": null,
        "acquirer_data": { "rrn": "103608848276" },
    });
    for (name, value) in change.as_object().unwrap() {
        payment[name.as_str()] = value.clone();
    }
    payment
}

/// A payment in that state.
pub(crate) fn paid(status: &str, captured: bool, refunded: u64) -> Payment {
    let change = json!({ "status": status, "captured": captured, "amount_refunded": refunded });
    payment(payment_told(&change).to_string().as_bytes()).unwrap()
}

/// A failed payment.
pub(crate) fn failed(reason: &str) -> Payment {
    let change = json!({
        "status": "failed", "captured": false, "error_reason": reason, "fee": null,
    });
    payment(payment_told(&change).to_string().as_bytes()).unwrap()
}

#[test]
fn a_link_is_read_with_its_order_and_what_was_captured() {
    let mut told = told("paid");
    told["payments"] = json!([{ "payment_id": "pay_1", "status": "captured" }]);
    let link = read(&told).unwrap();
    assert_eq!(link.attempt, "attempt-1");
    assert_eq!(link.order.as_deref(), Some("order_1"));
    assert_eq!(link.paid, ["pay_1"]);
    assert_eq!((link.due.amount, link.due.currency.as_str()), (4990, "INR"));
    for none in [json!(null), json!([])] {
        told["payments"] = none;
        told.as_object_mut().unwrap().remove("order_id");
        let link = read(&told).unwrap();
        assert_eq!((link.order, link.paid), (None, Vec::new()));
    }
}

#[test]
fn only_an_id_and_an_amount_make_an_answer() {
    assert!(link(b"{").is_none());
    for field in ["id", "amount", "currency"] {
        let mut told = told("paid");
        told.as_object_mut().unwrap().remove(field);
        assert_eq!(read(&told), None, "{field}");
        let mut tried = payment_told(&json!({}));
        tried.as_object_mut().unwrap().remove(field);
        assert_eq!(payment(tried.to_string().as_bytes()), None, "{field}");
    }
    for field in [
        "reference_id",
        "status",
        "short_url",
        "expire_by",
        "order_id",
    ] {
        let mut told = told("paid");
        told[field] = json!(null);
        assert!(read(&told).is_some(), "{field}");
    }
    for field in [
        "entity",
        "status",
        "captured",
        "amount_refunded",
        "created_at",
        "fee",
        "acquirer_data",
        "method",
    ] {
        let tried = payment_told(&json!({ field: null }));
        let read = payment(tried.to_string().as_bytes()).unwrap();
        assert!(read.captured, "{field}");
    }
}

#[test]
fn a_status_that_is_not_documented_leaves_the_money_readable() {
    assert_eq!(read(&told("issued")).unwrap().stage, Stage::Unknown);
    let odd = payment_told(&json!({ "status": "odd", "amount": "4990", "currency": "inr" }));
    let odd = payment(odd.to_string().as_bytes()).unwrap();
    assert_eq!((odd.phase, odd.captured), (Phase::Unknown, true));
    assert_eq!(
        (odd.money.amount, odd.money.currency.as_str()),
        (4990, "INR")
    );
}

#[test]
fn an_entry_that_cannot_be_read_hides_no_other() {
    let list = json!({ "items": [{ "id": "pay_2" }, payment_told(&json!({}))] });
    let (read, unreadable) = payments(list.to_string().as_bytes()).unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(unreadable, ["payment pay_2 cannot be read"]);

    let refund = json!({ "id": "rfnd_1", "amount": 990, "status": "frozen" });
    let list = json!({ "items": [{ "id": "rfnd_0", "amount": null }, refund] });
    let refunds = refunds(list.to_string().as_bytes(), 100).unwrap();
    assert_eq!(refunds.read[0].state, RefundState::Pending);
    assert!(!refunds.complete);
    assert_eq!(
        refunds.unreadable,
        [
            "refund rfnd_0 cannot be read",
            "refund rfnd_1 has the unknown status frozen"
        ]
    );
}

#[test]
fn a_link_of_the_attempt_that_cannot_be_read_is_not_absent() {
    let find = |links: Value| {
        let list = json!({ "payment_links": links });
        link_in(list.to_string().as_bytes(), "attempt-1")
    };
    assert_eq!(find(json!([])), Ok(None));
    assert_eq!(find(json!([{ "reference_id": "attempt-2" }])), Ok(None));
    assert_eq!(find(json!([{ "reference_id": "attempt-1" }])), Err(()));
    let both = json!([{ "reference_id": "attempt-2" }, told("created")]);
    assert!(find(both).unwrap().is_some());
}

#[test]
fn a_payment_tells_its_fee_its_numbers_and_the_bank_but_not_the_payer() {
    let paid = paid("captured", true, 0);
    assert_eq!(paid.fee, Some(118));
    assert_eq!(paid.numbers, ["103608848276"]);
    assert_eq!(paid.instrument.as_deref(), Some("upi @okaxis"));
    for (change, instrument) in [
        (
            json!({ "method": "card", "vpa": null, "card": { "network": "Visa", "last4": "0153" } }),
            "Visa 0153",
        ),
        (
            json!({ "method": "netbanking", "vpa": null, "bank": "HDFC" }),
            "netbanking HDFC",
        ),
        (json!({ "vpa": null }), "upi"),
    ] {
        let read = payment(payment_told(&change).to_string().as_bytes()).unwrap();
        assert_eq!(read.instrument.as_deref(), Some(instrument));
    }
}

#[test]
fn only_disputes_about_the_payment_count() {
    let dispute = |payment: &str, status: &str, phase: &str| {
        json!({
            "id": "disp_1", "payment_id": payment, "status": status, "phase": phase, "amount": 4990,
            "amount_deducted": if status == "lost" { 4000 } else { 0 },
            "reason_code": "goods_not_received", "respond_by": 1_800_600_000,
        })
    };
    let read = |items: &[Value]| {
        let list = json!({ "entity": "collection", "count": items.len(), "items": items });
        disputes(list.to_string().as_bytes(), &[paid("captured", true, 0)]).unwrap()
    };
    let ((found, unreadable), all) = read(&[
        dispute("pay_2", "lost", "chargeback"),
        dispute("pay_1", "open", "chargeback"),
        dispute("pay_1", "under_review", "fraud"),
        dispute("pay_1", "lost", "pre_arbitration"),
        dispute("pay_1", "won", "chargeback"),
        dispute("pay_1", "closed", "fraud"),
        dispute("pay_1", "odd", "chargeback"),
    ]);
    assert_eq!(all, 7);
    assert_eq!(unreadable, ["dispute disp_1 has the unknown status odd"]);
    let standing: Vec<(DisputeState, u64, u64, bool)> = found
        .iter()
        .map(|each| {
            let inquiry = each.kind == DisputeKind::Inquiry;
            (each.state, each.amount, each.withdrawn, inquiry)
        })
        .collect();
    assert_eq!(
        standing,
        [
            (DisputeState::Open, 4990, 0, false),
            (DisputeState::Open, 4990, 0, true),
            (DisputeState::Lost, 4000, 4000, false),
            (DisputeState::Won, 4990, 0, false),
            (DisputeState::Won, 4990, 0, true),
            (DisputeState::Open, 4990, 0, false),
        ]
    );
    let first = &found[0];
    assert_eq!(first.reason.as_deref(), Some("goods_not_received"));
    assert_eq!(first.respond_by, Some(1_800_600_000_000));
}

#[test]
fn refunds_tell_their_ids_and_states() {
    let refund = |id: &str, status: &str| json!({ "id": id, "entity": "refund", "amount": 990, "status": status });
    let list = json!({ "entity": "collection", "count": 3, "items": [
        refund("rfnd_1", "pending"), refund("rfnd_2", "processed"), refund("rfnd_3", "failed"),
    ] });
    let states: Vec<RefundState> = refunds(list.to_string().as_bytes(), 100)
        .unwrap()
        .read
        .iter()
        .map(|refund| refund.state)
        .collect();
    assert_eq!(
        states,
        [
            RefundState::Pending,
            RefundState::Succeeded,
            RefundState::Failed
        ]
    );
}

#[test]
fn an_id_that_the_account_does_not_know_is_told_from_other_refusals() {
    let refused = |status, description: &str| {
        let body = json!({ "error": { "code": "BAD_REQUEST_ERROR", "description": description } });
        problem(&Answer {
            status,
            headers: Vec::new(),
            body: body.to_string().into_bytes(),
        })
    };
    assert!(refused(400, "The id provided does not exist").is_unknown_id());
    assert!(!refused(400, "cannot cancel or expire an expired link").is_unknown_id());
    assert!(!refused(500, "The id provided does not exist").is_unknown_id());
}

#[test]
fn an_order_names_the_attempt_in_its_notes_or_as_its_receipt() {
    let of = |order: &Value| attempt_of(&Json::parse(order.to_string().as_bytes()).unwrap());
    let noted = json!({ "notes": { "attempt": "a1" }, "receipt": "other" });
    assert_eq!(of(&noted).as_deref(), Some("a1"));
    let receipt = json!({ "notes": [], "receipt": "a2" });
    assert_eq!(of(&receipt).as_deref(), Some("a2"));
    assert_eq!(of(&json!({ "notes": [], "receipt": null })), None);
}
