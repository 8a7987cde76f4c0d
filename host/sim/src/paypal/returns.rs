//! The JSON of an order's refunds, of the amounts of lost disputes, and of the disputes themselves.
use serde_json::{Value, json};

use crate::{
    afterwards::{Dispute, DisputeState},
    money::{Amount, Money},
    paypal::{
        ids, time,
        wire::{custom_id, invoice_id, money},
    },
    refund::{Refund, RefundState},
    session::Session,
};

/// All entries that the order lists as refunds. PayPal books the amount of a lost dispute as a refund, and calls
/// it a reversal in its webhooks.
pub(crate) fn all(session: &Session) -> Vec<Value> {
    let refunds = session.refunds.iter().map(|made| refund(session, made));
    let lost = |dispute: &&Dispute| dispute.state == DisputeState::Lost;
    let lost = session.disputes.iter().filter(lost);
    refunds
        .chain(lost.map(|lost| reversed(session, lost)))
        .collect()
}

/// The amount of a lost dispute, as a refund.
fn reversed(session: &Session, dispute: &Dispute) -> Value {
    let id = ids::reversal(&dispute.id);
    refund(
        session,
        &Refund::of_vendor(id, dispute.amount, dispute.updated_at),
    )
}

/// One of the order's refunds. A refund made in PayPal's dashboard may contain neither `custom_id` nor
/// `invoice_id`, so it contains none here.
pub(crate) fn refund(session: &Session, refund: &Refund) -> Value {
    let received = session.received.as_ref().unwrap_or(&session.due);
    let of_received = |value: Amount| {
        money(&Money {
            value,
            currency: received.currency.clone(),
        })
    };
    let amount = of_received(refund.amount);
    let status = match refund.state {
        RefundState::Pending => "PENDING",
        RefundState::Succeeded => "COMPLETED",
        RefundState::Failed => "FAILED",
        RefundState::Cancelled => "CANCELLED",
    };
    let mut told = json!({
        "id": refund.id,
        "status": status,
        "amount": amount,
        "seller_payable_breakdown": {
            "gross_amount": amount,
            "total_refunded_amount": of_received(session.given_back()),
        },
        "create_time": time::rfc3339(refund.created_at),
        "update_time": time::rfc3339(refund.updated_at),
        "links": [
            {
                "href": format!("https://api.paypal.example/v2/payments/refunds/{}", refund.id),
                "rel": "self",
                "method": "GET",
            },
            {
                "href": format!("https://api.paypal.example/v2/payments/captures/{}", ids::capture(&session.reference)),
                "rel": "up",
                "method": "GET",
            },
        ],
    });
    if refund.state == RefundState::Pending {
        told["status_details"] = json!({ "reason": "ECHECK" });
    }
    if let Some(asked) = &refund.asked {
        let words = asked.note.as_deref().map(serde_json::from_str::<Value>);
        let words = words.and_then(Result::ok).unwrap_or_default();
        let named = [
            ("invoice_id", asked.order.clone().into()),
            ("custom_id", words["custom_id"].clone()),
            ("note_to_payer", words["note_to_payer"].clone()),
        ];
        for (name, value) in named
            .into_iter()
            .filter(|(_, value): &(_, Value)| !value.is_null())
        {
            told[name] = value;
        }
    }
    told
}

/// A dispute about the order's capture.
pub(crate) fn dispute(session: &Session, dispute: &Dispute) -> Value {
    let received = session.received.as_ref().unwrap_or(&session.due);
    let disputed = Money {
        value: dispute.amount,
        currency: received.currency.clone(),
    };
    let outcome = match dispute.state {
        DisputeState::Open => None,
        DisputeState::Won => Some("RESOLVED_SELLER_FAVOUR"),
        DisputeState::Lost => Some("RESOLVED_BUYER_FAVOUR"),
    };
    let mut told = json!({
        "dispute_id": dispute.id,
        "reason": "UNAUTHORISED",
        "status": if outcome.is_some() { "RESOLVED" } else { "OPEN" },
        "dispute_life_cycle_stage": if dispute.inquiry { "INQUIRY" } else { "CHARGEBACK" },
        "dispute_channel": "INTERNAL",
        "dispute_amount": money(&disputed),
        "create_time": time::rfc3339(dispute.opened_at),
        "update_time": time::rfc3339(dispute.updated_at),
        "seller_response_due_date": time::rfc3339(dispute.respond_by),
        "disputed_transactions": [{
            "seller_transaction_id": ids::capture(&session.reference),
            "gross_amount": money(received),
            "transaction_status": "COMPLETED",
            "custom": custom_id(session),
            "invoice_number": invoice_id(session),
        }],
    });
    if let Some(code) = outcome {
        told["dispute_outcome"] = json!({ "outcome_code": code });
    }
    told
}
