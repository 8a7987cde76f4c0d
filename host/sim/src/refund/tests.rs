//! Refunds of one payment, and refunds requested through the API.
use super::*;
use crate::{account::tests::Desk, session::tests::session};

fn paid() -> Session {
    let mut s = session();
    let due = s.due.clone();
    s.approve(1, Some(due)).unwrap();
    s
}

#[test]
fn no_more_is_given_back_than_was_taken() {
    let mut s = paid();
    let mut refund = |id: &str, amount| s.refund(id.into(), 2, Amount(amount), None);
    assert_eq!(refund("r1", 4991), Err(Conflict));
    refund("r1", 990).unwrap();
    assert_eq!(refund("r2", 4001), Err(Conflict));
    refund("r2", 4000).unwrap();
    assert_eq!(refund("r3", 1), Err(Conflict));
    assert_eq!((s.state, s.left()), (State::Refunded, Amount(0)));
}

#[test]
fn a_refund_that_fails_can_be_made_again_and_is_told_by_its_own_id() {
    let mut s = paid();
    for (id, amount) in [("r1", 1000), ("r2", 1000), ("r3", 2990)] {
        s.refund(id.into(), 2, Amount(amount), None).unwrap();
    }
    assert_eq!(s.state, State::Refunded);
    assert_eq!(s.fail_refund(Some("r1"), 3), Ok(Happened::RefundFailed));
    assert_eq!(s.newest_refund().unwrap().id, "r1");
    assert_eq!((s.state, s.returned), (State::Captured, Amount(3990)));
    assert_eq!(s.fail_refund(Some("r1"), 4), Err(Conflict));
    s.refund("r4".into(), 5, Amount(1000), None).unwrap();
    assert_eq!(s.newest_refund().unwrap().id, "r4");
    assert_eq!((s.state, s.returned), (State::Refunded, Amount(4990)));
    assert_eq!(s.fail_refund(None, 6), Ok(Happened::RefundFailed));
    assert_eq!(s.newest_refund().unwrap().id, "r4");
}

async fn captured(module: &str) -> Desk {
    let desk = Desk::at(module);
    desk.payment().await;
    let approve = |session: &mut Session, account: &Account, now| {
        Ok(account.approve(session, now, false).map(Some)?)
    };
    desk.act(approve).await.unwrap();
    desk
}

/// Requests a partial refund with a key that lives for a second.
async fn give_back(desk: &Desk, key: &str, amount: u64) -> Outcome {
    let asked = Asked {
        amount: Amount(amount),
        order: Some(format!("order of {key}")),
        key: Some(key.to_owned()),
        fingerprint: amount.to_string(),
        note: None,
    };
    let reference = desk.session().reference;
    let outcome = desk.account.give_back(&reference, asked, 1_000).await;
    outcome.unwrap()
}

fn state_of(desk: &Desk, at: usize) -> RefundState {
    desk.session().refunds[at].state
}

#[tokio::test]
async fn a_key_gives_back_once_while_it_is_remembered() {
    let desk = captured("sandbox").await;
    let Outcome::Made(_, made) = give_back(&desk, "k", 1_000).await else {
        panic!("made")
    };
    assert_eq!(made.order(), Some("order of k"));
    let again = give_back(&desk, "k", 1_000).await;
    assert!(matches!(again, Outcome::Replayed(_, before) if before.id == made.id));
    assert!(matches!(
        give_back(&desk, "k", 1_001).await,
        Outcome::Differs
    ));
    assert_eq!(desk.session().returned, Amount(1_000));
    desk.move_clock(2_000);
    assert!(matches!(
        give_back(&desk, "k", 1_000).await,
        Outcome::Made(..)
    ));
    assert_eq!(desk.session().returned, Amount(2_000));
}

#[tokio::test]
async fn what_is_refused_gives_nothing_back() {
    let desk = captured("sandbox").await;
    desk.account.faults.arm(Fault::RefundRefused, 1);
    assert!(matches!(give_back(&desk, "a", 1).await, Outcome::Refused));
    let much = give_back(&desk, "b", 4_991).await;
    assert!(matches!(much, Outcome::TooMuch(Amount(4_990))));
    give_back(&desk, "c", 4_990).await;
    assert!(matches!(give_back(&desk, "d", 1).await, Outcome::Nothing));
    assert_eq!(desk.session().refunds.len(), 1);
    let unpaid = Desk::at("sandbox");
    unpaid.payment().await;
    assert!(matches!(give_back(&unpaid, "e", 1).await, Outcome::Unpaid));
}

#[tokio::test]
async fn a_pending_refund_holds_its_amount_and_ends_in_time_or_with_the_clock() {
    for (fails, late, state, left) in [
        (false, true, RefundState::Succeeded, 0),
        (true, true, RefundState::Failed, 4_990),
        (true, false, RefundState::Failed, 4_990),
    ] {
        let mut desk = captured("sandbox").await;
        let faults = [(Fault::RefundFails, fails), (Fault::RefundLate, late)];
        for (fault, _) in faults.into_iter().filter(|(_, ordered)| *ordered) {
            desk.account.faults.arm(fault, 1);
        }
        give_back(&desk, "k", 4_990).await;
        assert_eq!(state_of(&desk, 0), RefundState::Pending);
        assert_eq!(desk.account.entries()[0].refunded, "0.00");
        assert!(matches!(give_back(&desk, "m", 1).await, Outcome::Nothing));
        let at = (!late).then_some(1_000 + LATER_MS);
        assert_eq!(desk.account.confirms_at(), at);
        let before = desk.callbacks().len();
        desk.move_clock(999 + LATER_MS);
        desk.account.ripen_in_time().await.unwrap();
        assert_eq!(state_of(&desk, 0), RefundState::Pending);
        desk.restart();
        desk.move_clock(1_000 + LATER_MS);
        desk.account.ripen_due(late).unwrap();
        assert_eq!(state_of(&desk, 0), state);
        assert_eq!(desk.session().left(), Amount(left));
        assert_eq!(desk.callbacks().len(), before + 1);
        desk.account.ripen_due(true).unwrap();
        assert_eq!(desk.callbacks().len(), before + 1, "it ends once");
    }
}

#[tokio::test]
async fn several_refunds_end_at_once_and_each_is_told() {
    let desk = captured("sandbox").await;
    desk.account.faults.arm(Fault::RefundLate, 3);
    for key in ["a", "b", "c"] {
        give_back(&desk, key, 1_000).await;
    }
    let before = desk.callbacks().len();
    desk.account.ripen_due(true).unwrap();
    assert_eq!(desk.callbacks().len(), before + 3);
    assert_eq!(desk.account.entries()[0].refunded, "30.00");
}

#[test]
fn only_a_pending_refund_is_called_off() {
    let mut s = paid();
    let ending = Some(Ending {
        fails: false,
        at: Some(9),
    });
    s.refund("r1".into(), 2, Amount(990), ending).unwrap();
    s.refund("r2".into(), 2, Amount(4_000), None).unwrap();
    assert_eq!(s.left(), Amount(0));
    assert_eq!(s.cancel_refund("r2", 3), Err(Conflict));
    assert_eq!(s.cancel_refund("r1", 3), Ok(Happened::RefundFailed));
    assert_eq!(s.newest_refund().unwrap().state, RefundState::Cancelled);
    assert_eq!(s.ripen_refund(10, true), None);
    assert_eq!((s.left(), s.returned), (Amount(990), Amount(4_000)));
}

#[tokio::test]
async fn what_the_payer_has_to_claim_waits_for_that_alone() {
    let mut desk = captured("btcpay").await;
    give_back(&desk, "a", 1_000).await;
    desk.account.faults.arm(Fault::RefundFails, 1);
    give_back(&desk, "b", 990).await;
    desk.restart();
    desk.move_clock(400 * 86_400_000);
    desk.account.ripen_due(true).unwrap();
    assert_eq!(state_of(&desk, 0), RefundState::Pending);
    assert_eq!(state_of(&desk, 1), RefundState::Failed);
    assert_eq!(desk.account.confirms_at(), None);
    let claim = async || {
        desk.act(|session, _, now| Ok(Some(session.claim_refund(now)?)))
            .await
    };
    claim().await.unwrap();
    assert_eq!(state_of(&desk, 0), RefundState::Succeeded);
    assert_eq!(desk.account.entries()[0].refunded, "10.00");
    assert!(matches!(claim().await, Err(Unchanged::Conflict)));
}
