//! A payment with its complete history, as JSON.

use std::collections::BTreeMap;

use kassette_domain::attempt::Attempt;
use kassette_domain::lifecycle::{PaymentAggregate, Transition};
use kassette_domain::money::{Currency, Minor};
use kassette_domain::movement::{Bucket, Position};
use kassette_domain::payment::{Origin, Payment, ReviewCause, ReviewDecision, RoutingDecision};
use kassette_domain::provider::PayerAction;
use kassette_domain::refund::Refund;
use kassette_domain::time::Time;
use kassette_gateway::Gateway;
use kassette_gateway::ledger::signed;
use kassette_gateway::operator_acts::{Possible, PossibleApproval};
use kassette_gateway::refunds::{GivenRefund, given_refunds};
use kassette_store::History;
use serde_json::{Value, json};

use crate::api::{DisputeBody, PaymentBody, RefundBody};

/// Name of the merchant's own rates as a source.
pub(super) const OWN_RATES: &str = "merchant";

/// A payment's public and operators' fields. `links` is whether the reader may use the links in it.
pub(super) fn payment(gateway: &Gateway, payment: &Payment, links: bool) -> Value {
    let mut view = serde_json::to_value(PaymentBody::new(payment, gateway)).unwrap_or(Value::Null);
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
        let short = payment.short.as_ref();
        let short = short.map(|(amount, currency)| money(*amount, currency));
        fields.insert("short".into(), json!(short));
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
        "accept": decision.accept.as_ref().map(|accept| money(accept.amount, &accept.currency)),
        "despite": decision.despite,
        "state": decision.state,
        "received": decision.received.to_string(),
        "currency": decision.currency,
        "operator": decision.operator,
        "actor": decision.actor,
        "reason": decision.reason,
        "at": decision.at.rfc3339(),
    })
}

fn money(amount: Minor, currency: &str) -> Value {
    json!({ "amount": amount.to_string(), "currency": currency })
}

/// The whole response of `GET /payments/{id}`; `movements` are the newest ones.
pub(super) fn whole(
    gateway: &Gateway,
    history: &History,
    movements: Vec<Value>,
    possible: &Possible,
    links: bool,
) -> Value {
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
    let next_query = history.aggregate.attempts.iter();
    let next_query = next_query
        .filter_map(|attempt| attempt.queries.next())
        .min();
    json!({
        "payment": payment(gateway, &history.aggregate.payment, links),
        "attempts": attempts.collect::<Vec<_>>(),
        "refunds": refunds.collect::<Vec<_>>(),
        "disputes": disputes(&history.aggregate),
        "movements": movements,
        "balance": balance(&history.aggregate),
        "possible": possibilities(possible),
        "review_reason": history.aggregate.payment.review.map(review_reason),
        "next_query_at": next_query.map(Time::rfc3339),
        "decisions": history.decisions.iter().map(decision).collect::<Vec<_>>(),
        "transitions": history.transitions.iter().map(transition).collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
    })
}

/// Disputes of all attempts: the merchants' fields and more.
fn disputes(aggregate: &PaymentAggregate) -> Vec<Value> {
    let each = aggregate.attempts.iter().flat_map(|attempt| {
        let shown = DisputeBody::of_attempt(attempt);
        shown.zip(&attempt.funds.disputes)
    });
    each.map(|(shown, disputed)| {
        let mut view = serde_json::to_value(shown).unwrap_or(Value::Null);
        view["ended_by_refund"] = disputed.ended_by_refund.into();
        view
    })
    .collect()
}

/// Balance by bucket and currency; always contains a row for the payment's own money.
fn balance(aggregate: &PaymentAggregate) -> Vec<Value> {
    let due = aggregate.payment.due.currency.code();
    let mut rows: BTreeMap<(Bucket, &str), Position> = BTreeMap::new();
    rows.insert((Bucket::Own, due), Position::default());
    for attempt in &aggregate.attempts {
        for bucket in Bucket::ALL {
            let position = attempt.funds.position(bucket);
            if position != Position::default() {
                let row = rows.entry((bucket, attempt.received_currency()));
                let row = row.or_default();
                *row = *row + position;
            }
        }
    }
    let rows = rows.into_iter().map(|((bucket, currency), position)| {
        json!({
            "bucket": bucket.as_str(),
            "currency": currency,
            "received": position.received.to_string(),
            "returned": position.returned.to_string(),
            "at_risk": position.at_risk.to_string(),
            "committed": position.committed.to_string(),
            "net": signed(position.net()),
        })
    });
    rows.collect()
}

fn possibilities(possible: &Possible) -> Value {
    let approve = possible.approve.as_ref().map(|approve: &PossibleApproval| {
        json!({
            "amount": approve.amount.to_string(),
            "currency": approve.currency,
            "needs_accept": approve.needs_accept,
            "despite": approve.despite,
            "platform_fee_usd": approve.platform_fee_usd.map(|fee| fee.to_string()),
        })
    });
    let refund = possible.refund.as_ref();
    json!({
        "approve": approve,
        "decline": possible.decline.map(|surplus| json!({ "surplus": surplus.to_string() })),
        "refund": refund.map(|(amount, currency)| money(*amount, currency)),
        "cancel": possible.cancel,
        "query": possible.query,
    })
}

/// Why a payment is in review.
pub(super) fn review_reason(cause: ReviewCause) -> Value {
    json!({ "code": cause.as_str(), "message": cause.sentence() })
}

/// A refund: the merchants' fields and more. `links` is whether the reader may use the links in it.
pub(super) fn given_refund(given: &GivenRefund, links: bool) -> Value {
    let mut view = serde_json::to_value(RefundBody::new(given, links)).unwrap_or(Value::Null);
    if let Value::Object(fields) = &mut view {
        let refund = &given.refund;
        fields.insert("reference".into(), json!(refund.reference));
        fields.insert("detail".into(), json!(refund.detail));
        fields.insert("at".into(), refund.at.rfc3339().into());
    }
    view
}

fn attempt(attempt: &Attempt, links: bool) -> Value {
    let redirect_url = match attempt.action() {
        Some(PayerAction::Redirect(url) | PayerAction::Post { url, .. }) if links => Some(url),
        Some(_) | None => None,
    };
    // The amount that the provider reports as received, otherwise the amount due.
    let received = attempt.vendor.as_ref().filter(|facts| facts.received.0 > 0);
    let amount = received.map_or(attempt.due.amount, |facts| facts.received);
    let currency = received.map_or(attempt.due.currency.code(), |facts| facts.currency.as_str());
    let told = &attempt.particulars;
    let total = attempt.funds.balance.total();
    let references = attempt.references.iter().chain(&told.references);
    json!({
        "attempt_id": attempt.id.to_string(),
        "provider_id": attempt.account,
        "slot": attempt.slot,
        "digest": attempt.digest.to_string(),
        "payment_method": attempt.method,
        "state": attempt.state(),
        "redirect_url": redirect_url,
        "reference": attempt.reference(),
        "references": references.collect::<Vec<_>>(),
        "amount": amount.to_string(),
        "received": total.received.to_string(),
        "returned": total.returned.to_string(),
        "currency": currency,
        "provider_status": told.provider_status,
        "provider_reason": told.reason,
        "provider_fee": told.fee.as_ref().map(|(amount, currency)| json!({
            "amount": amount.to_string(),
            "currency": currency,
        })),
        "instrument": told.instrument,
        "provider_url": told.provider_url,
        "authorised_at": told.authorised_at.map(Time::rfc3339),
        "captured_at": told.captured_at.map(Time::rfc3339),
        "capture_before": told.capture_before.map(Time::rfc3339),
        "refunds": attempt.funds.refunds.iter().map(refund).collect::<Vec<_>>(),
        "disputes": DisputeBody::of_attempt(attempt).collect::<Vec<_>>(),
        "opened_at": attempt.opened_at.rfc3339(),
        "ended_at": attempt.stage.ended_at().map(Time::rfc3339),
        "detail": attempt.detail,
    })
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
