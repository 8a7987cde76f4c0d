//! A session's details: references, fee, times, captures, refunds and disputes.
use kassette_plugin::json::Json;
use kassette_plugin::provider::read::{self, Unreadable};
use kassette_plugin::provider::{
    Capture, Dispute, DisputeKind, DisputeState, Particulars, Refund, RefundState,
};

use crate::wire::{money, text};

/// Reads a session's details. Values that cannot be parsed are listed in `unreadable`.
pub(crate) fn read(session: &Json) -> Particulars {
    let mut unreadable = Unreadable::default();
    let time = |name| session.get(name).and_then(Json::whole);
    let status = text(session, "status");
    if let Some(status) = status.as_deref().filter(|status| !KNOWN.contains(status)) {
        let id = text(session, "id").unwrap_or_default();
        unreadable.unknown_status("session", &id, status);
    }
    let mut refunds = Vec::new();
    for value in read::items(session, &["refunds"]) {
        match refund(value, &mut unreadable) {
            Some(refund) => refunds.push(refund),
            None => unreadable.note("a refund has no id or no amount"),
        }
    }
    let mut disputes = Vec::new();
    for value in read::items(session, &["disputes"]) {
        match dispute(value, &mut unreadable) {
            Some(dispute) => disputes.push(dispute),
            None => unreadable.note("a dispute has no id or no amount"),
        }
    }
    let captured_at = time("captured_at");
    let received = session.get("received").and_then(money);
    let received = received.map_or(0, |money| money.amount);
    let capture = text(session, "charge").map(|id| Capture {
        id,
        amount: received,
        at: captured_at,
        reversed: time("capture_failed_at").is_some(),
    });
    Particulars {
        provider_status: status,
        reason: text(session, "reason"),
        references: text(session, "charge").into_iter().collect(),
        fee: session.get("fee").and_then(money),
        authorised_at: time("authorised_at"),
        captured_at,
        capture_before: time("capture_before"),
        instrument: text(session, "instrument"),
        captures: capture
            .filter(|capture| capture.amount > 0)
            .into_iter()
            .collect(),
        refunds,
        disputes,
        unreadable: unreadable.into_sentences(),
        ..Particulars::default()
    }
}

/// All statuses that the provider documents.
const KNOWN: [&str; 14] = [
    "open",
    "declined",
    "authorised",
    "capturing",
    "verifying",
    "in_review",
    "captured",
    "capture_failed",
    "disputed",
    "refunded",
    "closed",
    "cancelled",
    "failed",
    "expired",
];

/// Reads a refund. `None` without an id or an amount. An unknown status counts as pending.
pub(crate) fn refund(value: &Json, unreadable: &mut Unreadable) -> Option<Refund> {
    let id = text(value, "id")?;
    let status = read::field(value, "status").unwrap_or_default();
    let state = match status {
        "pending" => RefundState::Pending,
        "succeeded" => RefundState::Succeeded,
        "failed" | "cancelled" => RefundState::Failed,
        _ => {
            unreadable.unknown_status("refund", &id, status);
            RefundState::Pending
        }
    };
    Some(Refund {
        id,
        order_id: text(value, "merchant_reference"),
        amount: value.get("amount").and_then(money)?.amount,
        paid_out: None,
        at: value.get("updated_at").and_then(Json::whole),
        state,
    })
}

/// Reads a dispute. `None` without an id or an amount. An unknown status counts as open. A refund of the whole
/// payment ends a dispute here.
fn dispute(value: &Json, unreadable: &mut Unreadable) -> Option<Dispute> {
    let id = text(value, "id")?;
    let status = read::field(value, "status").unwrap_or_default();
    let state = match status {
        "open" => DisputeState::Open,
        "won" => DisputeState::Won,
        "lost" => DisputeState::Lost,
        _ => {
            unreadable.unknown_status("dispute", &id, status);
            DisputeState::Open
        }
    };
    let withdrawn = value.get("withdrawn").and_then(money);
    Some(Dispute {
        id,
        kind: match read::field(value, "kind") {
            Some("inquiry") => DisputeKind::Inquiry,
            _ => DisputeKind::Dispute,
        },
        amount: value.get("amount").and_then(money)?.amount,
        withdrawn: withdrawn.map_or(0, |money| money.amount),
        ends_by_refund: true,
        listed_as_refund: false,
        at: value.get("created_at").and_then(Json::whole),
        state,
        reason: text(value, "reason"),
        respond_by: value.get("respond_by").and_then(Json::whole),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{parsed, told};
    use kassette_plugin::provider::Money;
    use serde_json::{Value, json};

    fn changed(change: &[(&str, Value)]) -> Particulars {
        let mut told = told("captured", false, "49.90");
        for (name, value) in change {
            told[*name] = value.clone();
        }
        read(&parsed(&told))
    }

    #[test]
    fn everything_that_the_vendor_tells_is_told_on() {
        let euros = |value: &str| json!({ "value": value, "currency": "EUR" });
        let told = changed(&[
            ("charge", json!("sbc_1")),
            ("fee", euros("0.75")),
            ("authorised_at", json!(11)),
            ("captured_at", json!(12)),
            ("capture_before", json!(13)),
            ("instrument", json!("visa 4242")),
            ("reason", json!("risk")),
            (
                "refunds",
                json!([{
                    "id": "sbr_1", "merchant_reference": "order-1", "amount": euros("9.90"),
                    "status": "failed", "created_at": 14, "updated_at": 16,
                }]),
            ),
            (
                "disputes",
                json!([{
                    "id": "sbd_1", "amount": euros("49.90"), "status": "open", "kind": "inquiry",
                    "withdrawn": euros("0.00"),
                    "reason": "fraudulent", "respond_by": 15, "created_at": 14,
                }]),
            ),
        ]);
        let expected = Particulars {
            provider_status: Some("captured".into()),
            reason: Some("risk".into()),
            references: vec!["sbc_1".into()],
            fee: Some(Money {
                amount: 75,
                currency: "EUR".into(),
            }),
            authorised_at: Some(11),
            captured_at: Some(12),
            capture_before: Some(13),
            instrument: Some("visa 4242".into()),
            refunds: vec![Refund {
                id: "sbr_1".into(),
                order_id: Some("order-1".into()),
                amount: 990,
                state: RefundState::Failed,
                paid_out: None,
                at: Some(16),
            }],
            disputes: vec![Dispute {
                id: "sbd_1".into(),
                amount: 4990,
                state: DisputeState::Open,
                reason: Some("fraudulent".into()),
                respond_by: Some(15),
                kind: DisputeKind::Inquiry,
                withdrawn: 0,
                ends_by_refund: true,
                listed_as_refund: false,
                at: Some(14),
            }],
            captures: vec![Capture {
                id: "sbc_1".into(),
                amount: 4990,
                at: Some(12),
                reversed: false,
            }],
            ..Particulars::default()
        };
        assert_eq!(told, expected);
    }

    #[test]
    fn what_the_vendor_does_not_tell_is_absent() {
        let expected = Particulars {
            provider_status: Some("captured".into()),
            ..Particulars::default()
        };
        assert_eq!(changed(&[]), expected);
    }

    #[test]
    fn many_refunds_are_all_told() {
        let each = |number: u32| {
            json!({
                "id": format!("sbr_{number}"), "status": "succeeded", "created_at": 1,
                "amount": { "value": "0.01", "currency": "EUR" },
            })
        };
        let many: Vec<Value> = (0..80).map(each).collect();
        let told = changed(&[("refunds", many.into())]);
        assert_eq!(told.refunds.len(), 80);
    }

    #[test]
    fn one_odd_part_hides_no_other() {
        let euros = json!({ "value": 9.9, "currency": "eur" });
        let told = changed(&[
            ("status", json!("captured_maybe")),
            ("fee", json!("0.75")),
            ("captured_at", json!("today")),
            (
                "refunds",
                json!([
                    null, { "id": "sbr_1" }, { "id": "sbr_2", "status": "frozen", "amount": euros },
                    { "id": "sbr_3", "status": "succeeded", "amount": euros },
                ]),
            ),
            (
                "disputes",
                json!([{ "id": "sbd_1", "status": "lost_maybe", "amount": euros }]),
            ),
        ]);
        let states: Vec<_> = told
            .refunds
            .iter()
            .map(|each| (each.amount, each.state))
            .collect();
        assert_eq!(
            states,
            [(990, RefundState::Pending), (990, RefundState::Succeeded)]
        );
        assert_eq!(told.disputes[0].state, DisputeState::Open);
        assert_eq!((told.fee, told.captured_at), (None, None));
        assert_eq!(
            told.unreadable,
            [
                "session sbx_1 has the unknown status captured_maybe",
                "a refund has no id or no amount",
                "refund sbr_1 has the unknown status ",
                "refund sbr_2 has the unknown status frozen",
                "dispute sbd_1 has the unknown status lost_maybe",
            ]
        );
    }
}
