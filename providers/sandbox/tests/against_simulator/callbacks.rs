//! Verification of callbacks.
use kassette_plugin::provider::Status;

use kassette_world::open;

use crate::world;

#[test]
fn news_reports_what_is_certain_and_makes_the_host_ask_about_a_decline() {
    for (outcome, status) in [
        ("approve", Some(Status::Completed)),
        ("decline", None),
        ("review", Some(Status::Review)),
    ] {
        let w = world();
        let started = open(w.start(&w.attempt("ideal", "EUR")));
        w.choose(&started, outcome);
        let notices = w.callback(&w.next_callback()).unwrap().notices;
        let reports = notices.into_iter().map(|notice| notice.report);
        let told: Vec<_> = reports.map(|one| one.map(|it| it.status)).collect();
        assert_eq!(told, [status], "{outcome}");
    }
}
