//! Disputes: "Disputes API v1". Webhooks contain disputes, orders do not. PayPal books the amount of a lost
//! dispute as a refund of the capture.
use kassette_plugin::encode;
use kassette_plugin::json::Json;
use kassette_plugin::provider::call::Broken;
use kassette_plugin::provider::{Account, Dispute, DisputeKind, DisputeState};
use kassette_plugin::time;

use crate::capture::{Capture, Taken};
use crate::{api, money, wire};

/// Maximum number of disputes that are read per capture; real captures have one or two.
const MOST: usize = 4;

/// Reads a dispute about a capture. `None` without an id. A dispute that has ended without a known decision counts
/// as open.
pub(crate) fn read(resource: &Json, capture: &Capture) -> Option<Dispute> {
    let state = state(resource).unwrap_or(DisputeState::Open);
    let same = |place: Option<&Json>| {
        let money = place.and_then(money::read);
        money.filter(|money| money.currency == capture.amount.currency)
    };
    let claimed = same(resource.get("dispute_amount"));
    let refunded = same(resource.path(&["dispute_outcome", "amount_refunded"]));
    let amount = match state {
        DisputeState::Lost => refunded.or(claimed),
        DisputeState::Open | DisputeState::Won => claimed,
    };
    let amount = amount.map_or(capture.amount.amount, |money| money.amount);
    let contested = matches!(capture.taken, Taken::Contested | Taken::ChargedBack);
    let stage = resource
        .get("dispute_life_cycle_stage")
        .and_then(Json::text);
    let channel = resource.get("dispute_channel").and_then(Json::text);
    let due = resource.get("seller_response_due_date");
    Some(Dispute {
        id: wire::word(resource.get("dispute_id"))?,
        // The payer and the merchant negotiate; PayPal does not decide yet.
        kind: match stage {
            Some("INQUIRY") if !contested => DisputeKind::Inquiry,
            _ => DisputeKind::Dispute,
        },
        amount,
        withdrawn: match state {
            DisputeState::Lost => amount,
            DisputeState::Open if contested => amount,
            DisputeState::Open | DisputeState::Won => 0,
        },
        // PayPal closes its own case when the payment is refunded; a chargeback belongs to the bank.
        ends_by_refund: channel != Some("EXTERNAL"),
        // PayPal books the withdrawn amount as a refund of the capture.
        listed_as_refund: true,
        at: wire::at(resource, "create_time"),
        state,
        reason: wire::word(resource.get("reason")),
        respond_by: due.and_then(Json::text).and_then(time::parse_rfc3339),
    })
}

/// Whether a dispute has ended without a known decision.
pub(crate) fn is_undecided(resource: &Json) -> bool {
    state(resource).is_none()
}

/// State of a dispute. `None` if it has ended without a documented decision.
fn state(resource: &Json) -> Option<DisputeState> {
    let outcome = resource.path(&["dispute_outcome", "outcome_code"]);
    let over = resource.get("status").and_then(Json::text) == Some("RESOLVED");
    match outcome.and_then(Json::text) {
        Some("RESOLVED_BUYER_FAVOUR" | "ACCEPTED") => Some(DisputeState::Lost),
        // In this order: the merchant wins; PayPal pays the buyer itself; the buyer withdraws the case; PayPal
        // rejects it; another case continues.
        Some(
            "RESOLVED_SELLER_FAVOUR"
            | "RESOLVED_WITH_PAYOUT"
            | "CANCELED_BY_BUYER"
            | "DENIED"
            | "NONE",
        ) => Some(DisputeState::Won),
        Some(_) => None,
        None if over => None,
        None => Some(DisputeState::Open),
    }
}

/// Reads a dispute by its id. `None` if its id is unusable or PayPal answers with a 4xx.
pub(crate) fn fetch(account: &Account, resource: &Json) -> Result<Option<Json>, Broken> {
    let Some(id) = wire::word(resource.get("dispute_id")) else {
        return Ok(None);
    };
    let answer = api::get(account, &format!("/v1/customer/disputes/{id}"))?;
    match answer.status {
        200 => Ok(answer.json()),
        400..=499 => Ok(None),
        _ => Err(Broken::NoAnswer(api::problem(&answer).to_string())),
    }
}

/// The disputes about a capture. Each is read separately, because the list does not contain decisions. Empty if
/// the account's app may not read disputes.
pub(crate) fn about(account: &Account, capture: &Capture) -> Result<Vec<Dispute>, Broken> {
    let query = encode::form(&[("disputed_transaction_id", &capture.id)]);
    let answer = api::get(account, &format!("/v1/customer/disputes?{query}"))?;
    let list = match answer.status {
        200 => answer.json().unwrap_or(Json::Null),
        400..=499 => return Ok(Vec::new()),
        _ => return Err(Broken::NoAnswer(api::problem(&answer).to_string())),
    };
    let mut disputes = Vec::new();
    for item in list
        .get("items")
        .map_or(&[][..], Json::items)
        .iter()
        .take(MOST)
    {
        let whole = fetch(account, item)?;
        disputes.extend(read(whole.as_ref().unwrap_or(item), capture));
    }
    Ok(disputes)
}
