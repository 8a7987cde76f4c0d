//! Transitions of one payment.
use super::*;

pub(crate) fn session() -> Session {
    Session::open(Opening {
        reference: "sbx_1".into(),
        attempt_id: "a".into(),
        key: "k".into(),
        fingerprint: "f".into(),
        due: Money {
            value: Amount(4990),
            currency: "EUR".into(),
        },
        method: "ideal".into(),
        order: "o".into(),
        merchant: "m".into(),
        return_url: "https://x.example/".into(),
        cancel_url: "https://x.example/".into(),
        now: 0,
        expires_at: 100,
    })
    .unwrap()
}

#[test]
fn money_is_taken_once() {
    let mut s = session();
    let due = s.due.clone();
    assert_eq!(s.approve(1, Some(due.clone())), Ok(Happened::Captured));
    assert_eq!(s.approve(2, Some(due.clone())), Err(Conflict));
    assert_eq!(s.capture(3, due), Err(Conflict));
    assert_eq!((s.captured_times, s.state), (1, State::Captured));
}

#[test]
fn a_declined_payer_may_try_again_until_it_is_closed() {
    let mut s = session();
    s.decline(1).unwrap();
    let mut again = s.clone();
    assert_eq!(again.approve(2, None), Ok(Happened::Authorised));
    s.close(2).unwrap();
    assert_eq!(s.phase(3), Phase::Declined);
    assert_eq!(s.approve(3, None), Err(Conflict));
}

#[test]
fn nobody_pays_after_the_end_but_an_authorisation_stands() {
    let mut s = session();
    assert_eq!(
        (s.phase(100), s.book_state(100)),
        (Phase::Expired, State::Closed)
    );
    assert_eq!(s.approve(100, None), Err(Conflict));
    s.approve(99, None).unwrap();
    let due = s.due.clone();
    assert_eq!(s.capture(200, due), Ok(Happened::Captured));
}

#[test]
fn what_is_reopened_is_paid_once_and_money_is_never_reopened() {
    let mut s = session();
    let due = s.due.clone();
    s.close(1).unwrap();
    assert!(s.is_over(2));
    s.reopen(2);
    s.approve(2, Some(due.clone())).unwrap();
    s.reopen(3);
    assert_eq!(
        (s.approve(3, Some(due)), s.captured_times),
        (Err(Conflict), 1)
    );
}

#[test]
fn a_held_payment_is_taken_once_and_let_go_once() {
    let mut s = session();
    let due = s.due.clone();
    assert_eq!(s.release(1), Err(Conflict));
    s.hold(1, due.clone()).unwrap();
    assert_eq!((s.phase(1), s.captured_times), (Phase::InReview, 1));
    assert_eq!(s.close(2), Err(Conflict));
    assert_eq!(s.capture(2, due), Err(Conflict));
    assert_eq!(s.release(3), Ok(Happened::Captured));
    assert_eq!((s.phase(3), s.captured_times), (Phase::Captured, 1));
    assert_eq!(s.release(4), Err(Conflict));
}

#[test]
fn a_held_payment_is_let_go_although_it_is_disputed_or_refunded() {
    let mut held = session();
    held.hold(1, held.due.clone()).unwrap();
    let mut disputed = held.clone();
    disputed.dispute("d1".into(), 2, false).unwrap();
    held.refund("r1".into(), 2, held.left(), None).unwrap();
    for (mut s, phase) in [(disputed, Phase::Disputed), (held, Phase::Refunded)] {
        assert_eq!(s.release(3), Ok(Happened::Captured));
        assert_eq!((s.held, s.phase(3)), (false, phase));
    }
}

#[test]
fn what_was_captured_cannot_be_called_off() {
    let mut s = session();
    let due = s.due.clone();
    s.approve(1, Some(due)).unwrap();
    assert_eq!(s.close(2), Err(Conflict));
}
