//! Immediate and delayed changes at each provider.
use super::*;
use crate::{
    account::{Unchanged, tests::Desk},
    vendor,
};

async fn approved(module: &str) -> Desk {
    let desk = Desk::at(module);
    desk.payment().await;
    let approve = |session: &mut Session, account: &Account, now| {
        Ok(account.approve(session, now, true).map(Some)?)
    };
    desk.act(approve).await.unwrap();
    desk
}

async fn capture(desk: &Desk) -> Result<Session, Unchanged> {
    let capture = |session: &mut Session, account: &Account, now| {
        account.capture(session, now, session.due.clone())
    };
    desk.act(capture).await
}

/// State and number of captures.
fn stands(desk: &Desk) -> (State, u32) {
    let session = desk.session();
    (session.state, session.captured_times)
}

#[tokio::test]
async fn a_capture_is_confirmed_at_once_or_a_moment_later_as_the_vendor_does() {
    for module in vendor::MODULES.iter().copied() {
        let desk = approved(module).await;
        capture(&desk).await.unwrap();
        let after = desk.account.vendor.captures().after_ms;
        if after > 0 {
            assert_eq!(stands(&desk), (State::Authorised, 0), "{module}");
            assert_eq!(desk.account.confirms_at(), Some(1_000 + after), "{module}");
            assert!(matches!(capture(&desk).await, Err(Unchanged::Conflict)));
            desk.move_clock(999 + after);
            desk.account.ripen_in_time().await.unwrap();
            assert_eq!(stands(&desk), (State::Authorised, 0), "{module}");
            desk.move_clock(1_000 + after);
            desk.account.ripen_in_time().await.unwrap();
        }
        assert_eq!(stands(&desk), (State::Captured, 1), "{module}");
        assert_eq!(desk.account.confirms_at(), None);
        assert!(matches!(capture(&desk).await, Err(Unchanged::Conflict)));
    }
}

#[test]
fn those_confirm_later_whose_documents_say_so() {
    let later = |module: &&&str| vendor::by_module(module).unwrap().captures().after_ms > 0;
    let found: Vec<_> = vendor::MODULES.iter().filter(later).collect();
    assert_eq!(found, [&"adyen", &"mollie", &"paysafe", &"revolut"]);
    assert!((1_000..=2_000).contains(&LATER_MS));
}

#[tokio::test]
async fn a_refused_capture_takes_nothing_and_leaves_what_the_vendor_leaves() {
    for module in vendor::MODULES.iter().copied() {
        let desk = approved(module).await;
        desk.account.faults.arm(Fault::CaptureRefused, 1);
        let answer = capture(&desk).await;
        let refusal = desk.account.vendor.captures().refusal;
        let told = matches!(answer, Err(Unchanged::Refused));
        assert_eq!(told, refusal == CaptureRefusal::Answered, "{module}");
        assert_eq!(stands(&desk), (State::Authorised, 0), "{module}");
        desk.move_clock(1_000 + LATER_MS);
        desk.account.ripen_in_time().await.unwrap();
        if refusal == CaptureRefusal::Ends {
            assert_eq!(stands(&desk), (State::Declined, 0), "{module}");
            assert!(matches!(capture(&desk).await, Err(Unchanged::Conflict)));
        } else {
            assert_eq!(stands(&desk), (State::Authorised, 0), "{module}");
            capture(&desk).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_late_capture_waits_for_the_clock_to_be_moved_and_survives_a_restart() {
    for by_merchant in [true, false] {
        let mut desk = Desk::at("sandbox");
        desk.payment().await;
        desk.account.faults.arm(Fault::CaptureLate, 1);
        let approve = move |session: &mut Session, account: &Account, now| {
            Ok(account.approve(session, now, by_merchant).map(Some)?)
        };
        desk.act(approve).await.unwrap();
        if by_merchant {
            capture(&desk).await.unwrap();
        }
        desk.restart();
        desk.move_clock(86_400_000);
        desk.account.ripen_in_time().await.unwrap();
        assert_eq!(stands(&desk), (State::Authorised, 0));
        let close =
            |session: &mut Session, _: &Account, now| Ok(session.close(now).map(|()| None)?);
        assert!(matches!(desk.act(close).await, Err(Unchanged::Conflict)));
        desk.account.ripen_due(true).unwrap();
        assert_eq!(stands(&desk), (State::Captured, 1));
    }
}

#[tokio::test]
async fn a_short_capture_takes_a_unit_less_and_never_nothing() {
    for (due, taken) in [(4_990, 4_890), (100, 1), (1, 1)] {
        let desk = approved("sandbox").await;
        desk.account.faults.arm(Fault::CaptureShort, 1);
        let capture = move |session: &mut Session, account: &Account, now| {
            let asked = Money {
                value: Amount(due),
                ..session.due.clone()
            };
            account.capture(session, now, asked)
        };
        let session = desk.act(capture).await.unwrap();
        assert_eq!(session.received.unwrap().value, Amount(taken));
    }
}

async fn doomed() -> Desk {
    let desk = Desk::at("sandbox");
    desk.payment().await;
    desk.account.faults.arm(Fault::VoidsApproval, 1);
    let approve = |session: &mut Session, account: &Account, now| {
        Ok(account.approve(session, now, true).map(Some)?)
    };
    desk.act(approve).await.unwrap();
    desk
}

#[tokio::test]
async fn an_approval_is_voided_by_the_vendor_a_moment_after_it_was_told() {
    let desk = doomed().await;
    assert_eq!(stands(&desk), (State::Authorised, 0));
    assert_eq!(desk.account.confirms_at(), None, "nothing was asked for");
    desk.move_clock(1_000 + VOIDS_MS);
    desk.account.ripen_in_time().await.unwrap();
    assert_eq!(stands(&desk), (State::Closed, 0));
    let [authorised, voided] = <[String; 2]>::try_from(desk.callbacks()).unwrap();
    assert!(authorised.contains("\"authorised\"") && voided.contains("\"voided\""));
}

#[tokio::test]
async fn a_capture_that_comes_before_the_void_finds_it_done() {
    let desk = doomed().await;
    assert!(matches!(capture(&desk).await, Err(Unchanged::Conflict)));
    assert_eq!(stands(&desk), (State::Closed, 0));
    assert_eq!(desk.callbacks().len(), 2, "the void is told");
    desk.move_clock(1_000 + VOIDS_MS);
    desk.account.ripen_in_time().await.unwrap();
    assert_eq!(desk.callbacks().len(), 2, "once");
}

#[tokio::test]
async fn what_is_under_way_does_not_wait_for_a_clock_that_went_back() {
    let mut desk = approved("adyen").await;
    desk.move_clock(86_400_000);
    capture(&desk).await.unwrap();
    desk.move_clock(2_000);
    desk.restart();
    desk.account.ripen_in_time().await.unwrap();
    assert_eq!(stands(&desk), (State::Captured, 1));
}
