//! Refunds and disputes of captured money.
use std::collections::HashSet;

use kassette_plugin::provider::{
    DisputeState, QueryPurpose, RefundState, Report, Settlement, Status,
};

use super::{Payment, Vendor, world};

/// Ids of a report's refunds. Each may occur only one time.
fn ids(report: &Report) -> HashSet<String> {
    let refunds = &report.particulars.refunds;
    let ids: HashSet<_> = refunds.iter().map(|refund| refund.id.clone()).collect();
    assert_eq!(ids.len(), refunds.len());
    ids
}

/// Amounts of a report's refunds in a state, in ascending order.
fn amounts(report: &Report, state: RefundState) -> Vec<u64> {
    let refunds = report.particulars.refunds.iter();
    let of_state = refunds.filter(|refund| refund.state == state);
    let mut amounts: Vec<_> = of_state.map(|refund| refund.amount).collect();
    amounts.sort_unstable();
    amounts
}

pub fn refunds_are_told_one_by_one_and_one_that_fails_no_longer_counts<V: Vendor>() {
    use RefundState::{Failed, Succeeded};
    let world = world::<V>();
    let mut payment = Payment::<V>::paid(&world);
    for amount in ["10.00", "10.00", "5.00"] {
        assert!(world.refund(&payment.open, amount).0 < 400);
    }
    let made = payment.ask(QueryPurpose::Sync);
    assert_eq!((made.status, made.given_back), (Status::Completed, 2500));
    let listed: &[u64] = if V::LISTS_REFUNDS {
        &[500, 1000, 1000]
    } else {
        &[]
    };
    assert_eq!(amounts(&made, Succeeded), listed);
    payment.choose("refund_fails");
    let failed = payment.ask(QueryPurpose::Sync);
    assert_eq!(
        (failed.status, failed.given_back),
        (Status::Completed, 2000)
    );
    let listed: &[u64] = if V::LISTS_REFUNDS { &[500] } else { &[] };
    assert_eq!(amounts(&failed, Failed), listed);
    assert_eq!(ids(&failed), ids(&made));
    // Another refund of the same amount has a new id.
    world.refund(&payment.open, "5.00");
    let again = payment.ask(QueryPurpose::Sync);
    let count = if V::LISTS_REFUNDS { 4 } else { 0 };
    assert_eq!((again.given_back, ids(&again).len()), (2500, count));
    payment.choose("refund");
    let whole = payment.ask(QueryPurpose::Sync);
    assert_eq!(
        (whole.status, whole.given_back),
        (Status::Completed, payment.attempt.due.amount)
    );
}

pub fn a_dispute_keeps_its_id_until_it_is_won_or_lost<V: Vendor>() {
    for (end, state, given_back) in [
        ("dispute_won", DisputeState::Won, 0),
        ("dispute_lost", DisputeState::Lost, 4990),
    ] {
        let world = world::<V>();
        let mut payment = Payment::<V>::paid(&world);
        payment.choose("dispute");
        let disputed = payment.ask(QueryPurpose::Sync);
        assert_eq!((disputed.status, disputed.given_back), (Status::Review, 0));
        let [dispute] = disputed.particulars.disputes.as_slice() else {
            panic!("one dispute: {disputed:?}")
        };
        assert_eq!((dispute.amount, dispute.state), (4990, DisputeState::Open));
        assert_eq!(dispute.reason.as_deref(), Some(V::DISPUTE_REASON));
        assert!(dispute.respond_by > Some(world.now()));
        // A repeated report contains the same dispute.
        payment.choose("dispute");
        let again = payment.ask(QueryPurpose::Sync).particulars;
        assert_eq!(again.disputes, disputed.particulars.disputes);
        payment.choose(end);
        let ended = payment.ask(QueryPurpose::Sync);
        assert_eq!(
            (ended.status, ended.settlement, ended.given_back),
            (Status::Completed, Settlement::Confirmed, given_back),
            "{end}"
        );
        let [decided] = ended.particulars.disputes.as_slice() else {
            panic!("one dispute: {ended:?}")
        };
        assert_eq!((&decided.id, decided.state), (&dispute.id, state), "{end}");
    }
}
