//! A payment with everything that happened to it, as JSON.

use kassette_domain::attempt::Attempt;
use kassette_domain::ledger::{Ledger, Transition};
use kassette_domain::payment::{Decision, Origin, Payment};
use kassette_domain::provider::Action;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_store::History;
use serde_json::{Value, json};

/// The public fields and the operators'.
pub(super) fn payment(gateway: &Gateway, payment: &Payment) -> Value {
    let mut view =
        serde_json::to_value(crate::api::PaymentBody::of(payment, gateway)).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut view {
        let reseller = match &payment.origin {
            Origin::Merchant { .. } => None,
            Origin::Reseller { reseller, .. } => Some(*reseller),
        };
        fields.insert("merchant_id".into(), json!(payment.merchant));
        fields.insert("reseller_id".into(), json!(reseller));
        fields.insert("environment".into(), json!(payment.environment));
        fields.insert("checkout_mode".into(), json!(payment.mode));
        fields.insert("review_cause".into(), json!(payment.review));
        fields.insert(
            "platform_fee_usd".into(),
            json!(payment.fee.map(|fee| fee.to_string())),
        );
        fields.insert("created_at".into(), payment.created_at.rfc3339().into());
        fields.insert("expires_at".into(), payment.expires_at.rfc3339().into());
    }
    view
}

/// The whole object of `GET /payments/{id}`.
pub(super) fn whole(gateway: &Gateway, ledger: &Ledger, history: &History) -> Value {
    let events = history.events.iter().map(|event| {
        json!({
            "id": event.id.to_string(),
            "type": event.kind,
            "created_at": event.created_at.rfc3339(),
        })
    });
    json!({
        "payment": payment(gateway, &ledger.payment),
        "attempts": ledger.attempts.iter().map(attempt).collect::<Vec<_>>(),
        "decisions": history.decisions.iter().map(decision).collect::<Vec<_>>(),
        "transitions": history.transitions.iter().map(transition).collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
    })
}

fn attempt(attempt: &Attempt) -> Value {
    let redirect_url = match &attempt.action {
        Some(Action::Redirect(url) | Action::Post { url, .. }) => Some(url),
        Some(Action::Show(_) | Action::Ask(_)) | None => None,
    };
    // What the vendor says it received, else what is due.
    let received = attempt.vendor.as_ref().filter(|facts| facts.received.0 > 0);
    let amount = received.map_or(attempt.due.amount, |facts| facts.received);
    let currency = received.map_or(attempt.due.currency.code(), |facts| facts.currency.as_str());
    json!({
        "attempt_id": attempt.id.to_string(),
        "provider_id": attempt.account,
        "slot": attempt.slot,
        "digest": attempt.digest.to_string(),
        "payment_method": attempt.method,
        "state": attempt.state,
        "redirect_url": redirect_url,
        "reference": attempt.reference(),
        "amount": amount.to_string(),
        "currency": currency,
        "opened_at": attempt.opened_at.rfc3339(),
        "ended_at": attempt.ended_at.map(Time::rfc3339),
        "detail": attempt.detail,
    })
}

fn decision(decision: &Decision) -> Value {
    let verdicts = decision.verdicts.iter().map(|verdict| {
        json!({
            "provider_id": verdict.account,
            "eligible": verdict.eligible,
            "reason": verdict.reason,
        })
    });
    json!({
        "at": decision.at.rfc3339(),
        "slot": decision.slot,
        "digest": decision.digest.to_string(),
        "purpose": decision.purpose,
        "chosen": decision.chosen,
        "explanation": decision.explanation,
        "verdicts": verdicts.collect::<Vec<_>>(),
    })
}

fn transition(transition: &Transition) -> Value {
    json!({
        "at": transition.at.rfc3339(),
        "from": transition.from,
        "to": transition.to,
        "settlement": transition.settlement,
        "cause": transition.cause,
        "applied": transition.applied,
    })
}
