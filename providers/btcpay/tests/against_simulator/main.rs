//! The module against the simulator: every outcome, every fault, over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

mod callbacks;
mod coins;
mod paying;
mod starting;

use kassette_plugin::provider::{Action, Attempt, Open, Report, Subject, Wish};
use kassette_provider_btcpay::BtcPay;
use kassette_world::open;

type World = kassette_world::World<BtcPay>;

fn world() -> World {
    World::new("btcpay")
}

/// A started attempt.
fn started(w: &World) -> (Attempt, Open) {
    let attempt = w.attempt("crypto", "EUR");
    let open = open(w.start(&attempt));
    (attempt, open)
}

/// What the payer does on the page that the instructions lead to.
fn choose(w: &World, started: &Open, outcome: &str) -> u16 {
    let Action::Show(show) = &started.action else {
        panic!("instructions: {:?}", started.action)
    };
    let page = Open {
        action: Action::Redirect(show.link.clone().unwrap()),
        ..started.clone()
    };
    w.choose(&page, outcome).0
}

/// What the host learns of an attempt after its next webhook, which proves nothing by itself.
fn told(w: &World, attempt: &Attempt, open: &Open) -> Report {
    let answer = w.callback(&w.next_callback()).unwrap();
    assert_eq!(answer.status, 200);
    let [notice] = answer.notices.as_slice() else {
        panic!("one notice: {:?}", answer.notices)
    };
    assert_eq!(notice.about, Subject::Attempt(attempt.id.clone()));
    assert_eq!(notice.report, None);
    looked(w, attempt, open)
}

fn looked(w: &World, attempt: &Attempt, open: &Open) -> Report {
    w.query(attempt, Some(&open.reference), Wish::Look).unwrap()
}
