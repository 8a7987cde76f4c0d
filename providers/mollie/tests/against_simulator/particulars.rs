//! Details of a payment, and changes that Mollie makes automatically.
use kassette_plugin::provider::{Attempt, DisputeState, Open, QueryPurpose, Settlement, Status};
use kassette_sim::{Fault, State};
use kassette_world::open;

use crate::{World, query, world};

fn paid(w: &World, method: &str) -> (Attempt, Open) {
    let attempt = w.attempt(method, "EUR");
    let started = open(w.start(&attempt));
    w.choose(&started, "approve");
    (attempt, started)
}

/// An authorized payment that the merchant captures.
fn approved(w: &World) -> (Attempt, Open) {
    w.change_setting("capture", "manual");
    paid(w, "credit_card")
}

#[test]
fn card_bank_and_wallet_are_told_with_the_ids_of_mollies_statements() {
    let w = world();
    for (method, instrument, fee) in [
        ("credit_card", Some("Mastercard 4444"), None),
        ("ideal", Some("ABNANL2A 4300"), None),
        ("paypal", None, Some(199)),
    ] {
        let (attempt, started) = paid(&w, method);
        let told = query(&w, &attempt, &started, QueryPurpose::Sync).particulars;
        assert_eq!(told.instrument.as_deref(), instrument, "{method}");
        assert_eq!(told.fee.map(|fee| fee.amount), fee, "{method}");
        assert_eq!(told.captured_at, Some(w.now()), "{method}");
        assert!(
            told.references.contains(&"stl_simulated".to_owned()),
            "{method}"
        );
        assert_eq!(told.provider_status.as_deref(), Some("paid"), "{method}");
    }
}

#[test]
fn an_authorisation_tells_until_when_it_can_be_captured() {
    let w = world();
    let (attempt, started) = approved(&w);
    let told = query(&w, &attempt, &started, QueryPurpose::Sync).particulars;
    assert_eq!(told.authorised_at, Some(w.now()));
    assert_eq!(told.capture_before, Some(w.now() + 7 * 86_400_000));
    assert_eq!(told.captured_at, None);
}

#[test]
fn a_chargeback_counts_as_lost_under_one_id_until_it_is_reversed() {
    let w = world();
    let (attempt, started) = paid(&w, "credit_card");
    w.choose(&started, "dispute");
    let first = query(&w, &attempt, &started, QueryPurpose::Sync);
    assert_eq!((first.status, first.given_back), (Status::Review, 4990));
    let disputes = &first.particulars.disputes;
    assert_eq!((disputes.len(), disputes[0].state), (1, DisputeState::Lost));
    w.choose(&started, "dispute");
    let again = query(&w, &attempt, &started, QueryPurpose::Sync).particulars;
    assert_eq!(&again.disputes, disputes);
    w.choose(&started, "dispute_won");
    let reversed = query(&w, &attempt, &started, QueryPurpose::Sync);
    assert_eq!(
        (reversed.status, reversed.settlement, reversed.given_back),
        (Status::Completed, Settlement::Confirmed, 0)
    );
    let decided = &reversed.particulars.disputes[0];
    assert_eq!(
        (&decided.id, decided.state),
        (&disputes[0].id, DisputeState::Won)
    );
}

#[test]
fn an_authorisation_can_be_given_back_after_a_capture_that_failed() {
    let w = world();
    let (attempt, started) = approved(&w);
    w.fault(Fault::CaptureRefused);
    query(&w, &attempt, &started, QueryPurpose::Capture);
    w.confirm();
    let closed = query(&w, &attempt, &started, QueryPurpose::Cancel);
    assert_eq!(closed.status, Status::Declined);
    assert_eq!(
        (w.entry().state, w.entry().captured_times),
        (State::Closed, 0)
    );
}
