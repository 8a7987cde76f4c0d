//! Captures of authorized payments.
use kassette_plugin::provider::{QueryFailure, QueryPurpose, Settlement, Status};
use kassette_sim::Fault;

use super::{PURPOSES, Payment, Vendor, world};

pub fn an_authorisation_is_captured_on_capture_alone_and_once<V: Vendor>() {
    for by_setting in [false, true] {
        if by_setting && !V::CAPTURE_SETTING {
            continue;
        }
        let world = world::<V>();
        let mut payment = Payment::<V>::authorised_by(&world, by_setting);
        let due = payment.attempt.due.clone();
        let told = if V::AUTHORISED_IS_TOLD { due.amount } else { 0 };
        let authorised = payment.ask(QueryPurpose::Sync);
        assert_eq!(
            (authorised.status, authorised.received.amount),
            (Status::Processing, told)
        );
        assert_ne!(authorised.settlement, Settlement::Confirmed);
        assert_eq!(world.entry().captured_times, 0);
        for _ in 0..2 {
            let asked = payment.ask(QueryPurpose::Capture).status;
            assert_eq!(asked != Status::Completed, V::CONFIRMS_LATER);
        }
        let captured = payment.finish();
        assert_eq!(
            (captured.status, captured.settlement, captured.received),
            (Status::Completed, Settlement::Confirmed, due)
        );
        for purpose in PURPOSES {
            assert_eq!(
                payment.ask(purpose).status,
                Status::Completed,
                "{purpose:?}"
            );
        }
        assert_eq!(world.entry().captured_times, 1);
    }
}

pub fn a_capture_whose_answer_is_lost_is_repeated_without_a_second_capture<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::authorised(&world);
    world.lose_answer_of(V::CAPTURE_PATH);
    let lost = payment.try_ask(QueryPurpose::Capture);
    assert!(matches!(lost, Err(QueryFailure::Unavailable(_))));
    if !V::CONFIRMS_LATER {
        assert_eq!(world.entry().captured_times, 1);
    }
    assert_eq!(payment.finish().status, Status::Completed);
    assert_eq!(world.entry().captured_times, 1);
}

pub fn a_capture_under_way_is_no_money_and_is_neither_repeated_nor_called_off<V: Vendor>() {
    let world = world::<V>();
    let mut payment = if V::AUTHORISES {
        Payment::<V>::authorised(&world)
    } else {
        Payment::<V>::start(&world, V::METHODS[0])
    };
    if !V::CONFIRMS_LATER {
        world.fault(Fault::CaptureLate);
    }
    if !V::AUTHORISES {
        payment.approve();
    }
    for purpose in [
        QueryPurpose::Capture,
        QueryPurpose::Capture,
        QueryPurpose::Sync,
        QueryPurpose::Cancel,
    ] {
        let report = payment.ask(purpose);
        assert_eq!(
            (report.status, report.received.amount),
            (V::UNDER_WAY, 0),
            "{purpose:?}"
        );
    }
    world.confirm();
    world.advance(1);
    let report = payment.ask(QueryPurpose::Sync);
    assert_eq!(
        (report.status, report.settlement, &report.received),
        (
            Status::Completed,
            Settlement::Confirmed,
            &payment.attempt.due
        )
    );
    assert_eq!(world.entry().captured_times, 1);
}

pub fn a_capture_that_is_refused_takes_no_money<V: Vendor>() {
    let world = world::<V>();
    let mut payment = Payment::<V>::authorised(&world);
    world.fault(Fault::CaptureRefused);
    let mut refused = payment.ask(QueryPurpose::Capture);
    if V::CONFIRMS_LATER && refused.status == Status::Processing {
        refused = payment.confirmed();
    }
    assert_eq!(
        (refused.status, refused.received.amount),
        (V::CAPTURE_REFUSED, 0)
    );
    let reason = refused.particulars.reason.as_deref();
    assert_eq!(reason, V::CAPTURE_REFUSED_REASON);
    assert_eq!(world.entry().captured_times, 0);
    if V::REFUSAL_IS_FINAL {
        for purpose in PURPOSES {
            assert_eq!(
                payment.ask(purpose).status,
                V::CAPTURE_REFUSED,
                "{purpose:?}"
            );
        }
        assert_eq!(world.entry().captured_times, 0);
    } else {
        assert_eq!(payment.finish().status, Status::Completed);
        assert_eq!(world.entry().captured_times, 1);
    }
}

pub fn an_authorisation_that_the_vendor_voids_is_over_whatever_is_asked<V: Vendor>() {
    for purpose in PURPOSES {
        let world = world::<V>();
        world.fault(Fault::VoidsApproval);
        let mut payment = Payment::<V>::authorised(&world);
        world.advance(2_000);
        if V::BY_NOTICE {
            payment.hear();
        }
        let over = payment.ask(purpose);
        assert_eq!(
            (over.status, over.received.amount, over.given_back),
            (V::VOIDED, 0, 0),
            "{purpose:?}"
        );
        if V::VOIDED_REASON.is_some() {
            let reason = over.particulars.reason.as_deref();
            assert_eq!(reason, V::VOIDED_REASON, "{purpose:?}");
        }
        assert_eq!(world.entry().captured_times, 0, "{purpose:?}");
    }
}
