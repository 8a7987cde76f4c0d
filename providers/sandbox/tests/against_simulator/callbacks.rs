//! Which news is believed.
use kassette_plugin::provider::{Refused, Status, Subject};
use kassette_sim::Fault;

use kassette_world::open;

use crate::world;

#[test]
fn callbacks_are_believed_when_signed_by_the_account_and_not_otherwise() {
    for (outcome, status) in [
        ("approve", Some(Status::Completed)),
        ("decline", None),
        ("review", Some(Status::Review)),
    ] {
        let w = world();
        let attempt = w.attempt("ideal", "EUR");
        let started = open(w.start(&attempt));
        w.choose(&started, outcome);
        let news = w.next_callback();
        let answer = w.callback(&news).unwrap();
        let [notice] = answer.notices.as_slice() else {
            panic!("one notice")
        };
        assert_eq!(notice.about, Subject::Attempt(attempt.id), "{outcome}");
        assert_eq!(
            notice.report.as_ref().map(|report| report.status),
            status,
            "{outcome}"
        );
        w.advance(301_000);
        assert!(
            matches!(w.callback(&news), Err(Refused::Forged(_))),
            "{outcome}"
        );
    }
    let w = world();
    w.fault(Fault::CallbackForged);
    let started = open(w.start(&w.attempt("ideal", "EUR")));
    w.choose(&started, "decline");
    assert!(matches!(
        w.callback(&w.next_callback()),
        Err(Refused::Forged(_))
    ));
}
