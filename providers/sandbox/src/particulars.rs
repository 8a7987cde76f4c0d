//! What a session tells beside where the money is: references, fee, times, refunds, disputes.
use kassette_plugin::json::Json;
use kassette_plugin::provider::{Dispute, DisputeState, Money, Particulars, Refund, RefundState};

use crate::wire::{money, text};

/// Refunds and disputes that a report may tell, each.
const MOST: usize = 64;

/// Reads a session's particulars; none where anything in them is not as documented.
pub(crate) fn read(session: &Json) -> Option<Particulars> {
    let words = |name| optional(session, name, |value| value.text().map(str::to_owned));
    let time = |name| optional(session, name, Json::whole);
    Some(Particulars {
        provider_status: text(session, "status"),
        reason: words("reason")?,
        references: words("charge")?.into_iter().collect(),
        fee: optional(session, "fee", money)?,
        authorised_at: time("authorised_at")?,
        captured_at: time("captured_at")?,
        capture_before: time("capture_before")?,
        instrument: words("instrument")?,
        refunds: list(session, "refunds", refund)?,
        disputes: list(session, "disputes", dispute)?,
    })
}

/// The value of a field that may be null or absent.
fn optional<T>(session: &Json, name: &str, read: impl Fn(&Json) -> Option<T>) -> Option<Option<T>> {
    match session.get(name) {
        None | Some(Json::Null) => Some(None),
        Some(value) => read(value).map(Some),
    }
}

fn list<T>(session: &Json, name: &str, read: fn(&Json) -> Option<T>) -> Option<Vec<T>> {
    match session.get(name) {
        None => Some(Vec::new()),
        Some(Json::List(items)) => items.iter().take(MOST).map(read).collect(),
        Some(_) => None,
    }
}

pub(crate) fn refund(value: &Json) -> Option<Refund> {
    let Money { amount, .. } = money(value.get("amount")?)?;
    Some(Refund {
        id: text(value, "id")?,
        order_id: optional(value, "merchant_reference", |value| {
            value.text().map(str::to_owned)
        })?,
        amount,
        state: match value.get("status")?.text()? {
            "pending" => RefundState::Pending,
            "succeeded" => RefundState::Succeeded,
            "failed" => RefundState::Failed,
            _ => return None,
        },
    })
}

fn dispute(value: &Json) -> Option<Dispute> {
    let Money { amount, .. } = money(value.get("amount")?)?;
    Some(Dispute {
        id: text(value, "id")?,
        amount,
        state: match value.get("status")?.text()? {
            "open" => DisputeState::Open,
            "won" => DisputeState::Won,
            "lost" => DisputeState::Lost,
            _ => return None,
        },
        reason: optional(value, "reason", |value| value.text().map(str::to_owned))?,
        respond_by: optional(value, "respond_by", Json::whole)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{parsed, told};
    use serde_json::{Value, json};

    fn of(change: &[(&str, Value)]) -> Option<Particulars> {
        let mut told = told("captured", false, "49.90");
        for (name, value) in change {
            told[*name] = value.clone();
        }
        read(&parsed(&told))
    }

    #[test]
    fn everything_that_the_vendor_tells_is_told_on() {
        let euros = |value: &str| json!({ "value": value, "currency": "EUR" });
        let told = of(&[
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
                    "status": "failed", "created_at": 14,
                }]),
            ),
            (
                "disputes",
                json!([{
                    "id": "sbd_1", "amount": euros("49.90"), "status": "open",
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
            }],
            disputes: vec![Dispute {
                id: "sbd_1".into(),
                amount: 4990,
                state: DisputeState::Open,
                reason: Some("fraudulent".into()),
                respond_by: Some(15),
            }],
        };
        assert_eq!(told, Some(expected));
    }

    #[test]
    fn what_the_vendor_does_not_tell_is_absent() {
        let expected = Particulars {
            provider_status: Some("captured".into()),
            ..Particulars::default()
        };
        assert_eq!(of(&[]), Some(expected));
    }

    #[test]
    fn no_more_refunds_are_told_than_a_report_may_hold() {
        let each = |number: u32| {
            json!({
                "id": format!("sbr_{number}"), "status": "succeeded", "created_at": 1,
                "amount": { "value": "0.01", "currency": "EUR" },
            })
        };
        let many: Vec<Value> = (0..80).map(each).collect();
        let told = of(&[("refunds", many.into())]).unwrap();
        assert_eq!(told.refunds.len(), MOST);
    }

    #[test]
    fn particulars_of_another_form_are_no_answer() {
        for (name, odd) in [
            ("fee", json!("0.75")),
            ("captured_at", json!("today")),
            ("charge", json!(1)),
            ("refunds", json!(null)),
            ("refunds", json!([{ "id": "sbr_1" }])),
            ("disputes", json!({})),
            (
                "disputes",
                json!([{ "id": "sbd_1", "status": "lost_maybe" }]),
            ),
        ] {
            assert_eq!(of(&[(name, odd.clone())]), None, "{name} {odd}");
        }
    }
}
