//! A payment with everything that happened to it, as JSON.

use kassette_domain::attempt::{Attempt, AttemptState, VendorFacts};
use kassette_domain::lifecycle::Transition;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::payment::{Origin, Payment, ReviewDecision, RoutingDecision};
use kassette_domain::provider::{PayerAction, VendorStatus};
use kassette_domain::refund::Refund;
use kassette_domain::returns::Disputed;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::refunds::{GivenRefund, given_refunds};
use kassette_store::History;
use serde_json::{Value, json};

use crate::api::{PaymentBody, RefundBody};

/// What the source of a merchant's own rates is called.
pub(super) const OWN_RATES: &str = "merchant";

/// The public fields and the operators'. `links` says whether the reader may act by those in it.
pub(super) fn payment(gateway: &Gateway, payment: &Payment, links: bool) -> Value {
    let mut view = serde_json::to_value(PaymentBody::of(payment, gateway)).unwrap_or(Value::Null);
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
        fields.insert("fx_rate".into(), json!(payment.rate));
        let source = match (payment.due.currency, payment.rate_table) {
            (Currency::USD, _) => None,
            (_, None) => Some(OWN_RATES),
            (_, Some(table)) => Some(table.source.as_str()),
        };
        fields.insert("fx_source".into(), json!(source));
        let date = payment.rate_table.map(|table| table.date.rfc3339());
        fields.insert("fx_source_date".into(), json!(date));
        fields.insert("vouched".into(), payment.vouched.into());
        let decision = payment.decision.as_deref();
        fields.insert("decision".into(), json!(decision.map(review_decision)));
        fields.insert("created_at".into(), payment.created_at.rfc3339().into());
        let completed_at = payment.completed_at.map(Time::rfc3339);
        fields.insert("completed_at".into(), json!(completed_at));
        fields.insert("expires_at".into(), payment.expires_at.rfc3339().into());
        if !links {
            fields.insert("checkout_url".into(), Value::Null);
        }
    }
    view
}

fn review_decision(decision: &ReviewDecision) -> Value {
    json!({
        "decision": decision.resolution,
        "settlement": decision.settlement,
        "vouch": decision.vouch,
        "state": decision.state,
        "received": decision.received.to_string(),
        "currency": decision.currency,
        "operator": decision.operator,
        "actor": decision.actor,
        "reason": decision.reason,
        "at": decision.at.rfc3339(),
    })
}

/// The whole object of `GET /payments/{id}`.
pub(super) fn whole(gateway: &Gateway, history: &History, links: bool) -> Value {
    let attempts = history.aggregate.attempts.iter();
    let attempts = attempts.map(|each| attempt(each, links));
    let refunds = given_refunds(&history.aggregate).into_iter();
    let refunds = refunds.map(|given| given_refund(&given, links));
    let events = history.events.iter().map(|event| {
        json!({
            "id": event.id.to_string(),
            "type": event.kind,
            "created_at": event.created_at.rfc3339(),
        })
    });
    json!({
        "payment": payment(gateway, &history.aggregate.payment, links),
        "attempts": attempts.collect::<Vec<_>>(),
        "refunds": refunds.collect::<Vec<_>>(),
        "decisions": history.decisions.iter().map(decision).collect::<Vec<_>>(),
        "transitions": history.transitions.iter().map(transition).collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
    })
}

/// What merchants see of a refund, and more. `links` says whether the reader may act by those in it.
pub(super) fn given_refund(given: &GivenRefund, links: bool) -> Value {
    let mut view = serde_json::to_value(RefundBody::of(given)).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut view {
        let refund = &given.refund;
        fields.insert("reference".into(), json!(refund.reference));
        fields.insert("detail".into(), json!(refund.detail));
        fields.insert("at".into(), refund.at.rfc3339().into());
        if !links {
            fields.insert("claim_url".into(), Value::Null);
        }
    }
    view
}

fn attempt(attempt: &Attempt, links: bool) -> Value {
    let redirect_url = match &attempt.action {
        Some(PayerAction::Redirect(url) | PayerAction::Post { url, .. }) if links => Some(url),
        Some(_) | None => None,
    };
    // What the vendor says it received, else what is due.
    let received = attempt.vendor.as_ref().filter(|facts| facts.received.0 > 0);
    let amount = received.map_or(attempt.due.amount, |facts| facts.received);
    let currency = received.map_or(attempt.due.currency.code(), |facts| facts.currency.as_str());
    let told = &attempt.particulars;
    let references = attempt.references.iter().chain(&told.references);
    json!({
        "attempt_id": attempt.id.to_string(),
        "provider_id": attempt.account,
        "slot": attempt.slot,
        "digest": attempt.digest.to_string(),
        "payment_method": attempt.method,
        "state": attempt.state,
        "redirect_url": redirect_url,
        "reference": attempt.reference(),
        "references": references.collect::<Vec<_>>(),
        "amount": amount.to_string(),
        "received": taken(attempt).map_or(Minor(0), |facts| facts.received).to_string(),
        "returned": attempt.returns.total().to_string(),
        "currency": currency,
        "provider_status": told.provider_status,
        "provider_reason": told.reason,
        "provider_fee": told.fee.as_ref().map(|(amount, currency)| json!({
            "amount": amount.to_string(),
            "currency": currency,
        })),
        "instrument": told.instrument,
        "authorised_at": told.authorised_at.map(Time::rfc3339),
        "captured_at": told.captured_at.map(Time::rfc3339),
        "capture_before": told.capture_before.map(Time::rfc3339),
        "refunds": attempt.returns.refunds.iter().map(refund).collect::<Vec<_>>(),
        "disputes": attempt.returns.disputes.iter().map(dispute).collect::<Vec<_>>(),
        "opened_at": attempt.opened_at.rfc3339(),
        "ended_at": attempt.ended_at.map(Time::rfc3339),
        "detail": attempt.detail,
    })
}

/// What the vendor last said of an attempt on which money was taken, whatever was given back of it.
pub(super) fn taken(attempt: &Attempt) -> Option<&VendorFacts> {
    let ours = matches!(
        attempt.state,
        AttemptState::Captured | AttemptState::Surplus
    );
    let facts = attempt.vendor.as_ref()?;
    let promised = matches!(
        facts.status,
        VendorStatus::Pending | VendorStatus::Processing | VendorStatus::VerificationPending
    );
    ((ours || !promised) && facts.received > Minor(0)).then_some(facts)
}

fn refund(refund: &Refund) -> Value {
    json!({
        "refund_id": refund.id.to_string(),
        "id": refund.reference,
        "amount": refund.amount.to_string(),
        "state": refund.state,
        "at": refund.at.rfc3339(),
    })
}

fn dispute(disputed: &Disputed) -> Value {
    let dispute = &disputed.dispute;
    json!({
        "id": dispute.id,
        "amount": dispute.amount.to_string(),
        "state": dispute.state,
        "reason": dispute.reason,
        "respond_by": dispute.respond_by.map(Time::rfc3339),
        "at": disputed.at.rfc3339(),
    })
}

fn decision(decision: &RoutingDecision) -> Value {
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
