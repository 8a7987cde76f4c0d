//! Details of a session and its payment.
use kassette_plugin::provider::{Capture, Dispute, Particulars};

use crate::wire::{Payment, Phase, Session};

/// Details of a session: status, reason, ids in Stripe's statements, fee, times, the payer's means of payment,
/// refunds and disputes.
pub(crate) fn told(session: &Session, disputes: &[Dispute]) -> Particulars {
    let Some(payment) = &session.payment else {
        return Particulars {
            provider_status: Some(session.stage.word().to_owned()),
            ..Particulars::default()
        };
    };
    let mut told = Particulars {
        provider_status: Some(payment.phase.word().to_owned()),
        reason: reason(payment),
        unreadable: payment.unreadable.clone(),
        fraud_warning: payment.fraud_warning.clone(),
        references: vec![payment.id.clone()],
        ..Particulars::default()
    };
    let Some(charge) = &payment.charge else {
        return told;
    };
    told.references.push(charge.id.clone());
    told.instrument.clone_from(&charge.instrument);
    let approved = matches!(payment.phase, Phase::RequiresCapture | Phase::Succeeded);
    told.authorised_at = charge.created_at.filter(|_| approved);
    if payment.phase == Phase::RequiresCapture {
        told.capture_before = charge.capture_before;
    }
    if payment.received.amount > 0 {
        if let Some(booking) = &charge.booking {
            told.references.push(booking.id.clone());
            told.captured_at = booking.created_at;
            told.fee = Some(booking.fee.clone());
        }
        told.captures = vec![Capture {
            id: charge.id.clone(),
            amount: payment.received.amount,
            at: told.captured_at,
            reversed: false,
        }];
        told.refunds.clone_from(&charge.refunds);
    }
    told.disputes = disputes.to_vec();
    told
}

/// Reason of a cancellation, a review or a failed attempt to pay. For the latter, the issuer's code if there is
/// one.
fn reason(payment: &Payment) -> Option<String> {
    let held = payment.review.as_ref().filter(|review| !review.approved);
    match payment.phase {
        Phase::Canceled => payment.canceled.clone(),
        Phase::RequiresCapture | Phase::Succeeded => held?.reason.clone(),
        _ => {
            let words = payment.failed.as_deref()?;
            words.split(' ').next_back().map(str::to_owned)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tests::{authorised, paid, paying, read, told as open};
    use kassette_plugin::provider::{DisputeKind, DisputeState, RefundState};
    use serde_json::{Value, json};

    fn tell(session: &Value) -> Particulars {
        told(&read(session).unwrap(), &[])
    }

    #[test]
    fn a_paid_session_tells_its_ids_its_fee_its_times_and_the_card() {
        let mut session = paid();
        let charge = &mut session["payment_intent"]["latest_charge"];
        charge["balance_transaction"] = json!({
            "id": "txn_1", "object": "balance_transaction", "fee": 175, "currency": "eur",
            "created": 1_800_000_060,
        });
        charge["payment_method_details"] =
            json!({ "type": "card", "card": { "brand": "visa", "last4": "4242" } });
        charge["refunds"]["data"] =
            json!([{ "id": "re_1", "object": "refund", "amount": 990, "status": "pending" }]);
        let told = tell(&session);
        assert_eq!(told.provider_status.as_deref(), Some("succeeded"));
        assert_eq!(told.references, ["pi_1", "ch_1", "txn_1"]);
        assert_eq!(told.fee.unwrap().amount, 175);
        assert_eq!(told.authorised_at, Some(1_800_000_000_000));
        assert_eq!(told.captured_at, Some(1_800_000_060_000));
        assert_eq!(told.instrument.as_deref(), Some("visa 4242"));
        let [refund] = told.refunds.as_slice() else {
            panic!("one refund")
        };
        assert_eq!(
            (refund.id.as_str(), refund.amount, refund.state),
            ("re_1", 990, RefundState::Pending)
        );
        assert_eq!(told.reason, None);
    }

    #[test]
    fn an_authorisation_tells_until_when_it_can_be_captured() {
        let mut session = authorised();
        let charge = &mut session["payment_intent"]["latest_charge"];
        charge["payment_method_details"] =
            json!({ "type": "card", "card": { "capture_before": 1_800_604_800 } });
        let told = tell(&session);
        assert_eq!(told.capture_before, Some(1_800_604_800_000));
        assert_eq!(told.authorised_at, Some(1_800_000_000_000));
        assert_eq!((told.captured_at, told.fee), (None, None));
    }

    #[test]
    fn each_end_and_each_hold_tells_its_reason() {
        let mut refused = paying("open", "requires_payment_method");
        refused["payment_intent"]["last_payment_error"] =
            json!({ "code": "card_declined", "decline_code": "insufficient_funds" });
        assert_eq!(tell(&refused).reason.as_deref(), Some("insufficient_funds"));
        let mut canceled = paying("complete", "canceled");
        canceled["payment_intent"]["cancellation_reason"] = json!("automatic");
        assert_eq!(tell(&canceled).reason.as_deref(), Some("automatic"));
        let mut held = authorised();
        held["payment_intent"]["review"] =
            json!({ "object": "review", "open": true, "reason": "rule" });
        assert_eq!(tell(&held).reason.as_deref(), Some("rule"));
        held["payment_intent"]["review"] = json!({
            "object": "review", "open": false, "closed_reason": "approved", "reason": "approved",
        });
        assert_eq!(tell(&held).reason, None);
    }

    #[test]
    fn a_session_that_no_payer_has_tried_to_pay_tells_its_own_state() {
        assert_eq!(tell(&open("open")).provider_status.as_deref(), Some("open"));
    }

    #[test]
    fn disputes_are_handed_on() {
        let dispute = Dispute {
            id: "du_1".into(),
            amount: 4990,
            state: DisputeState::Lost,
            reason: Some("fraudulent".into()),
            respond_by: None,
            kind: DisputeKind::Dispute,
            withdrawn: 0,
            ends_by_refund: false,
            listed_as_refund: false,
            at: None,
        };
        let told = told(&read(&paid()).unwrap(), std::slice::from_ref(&dispute));
        assert_eq!(told.disputes, [dispute]);
    }
}
