//! Replays all seeds and all inputs found by fuzzing against the rules of their targets.
#![expect(clippy::panic, reason = "a test that cannot go on has failed")]

use std::panic::catch_unwind;

use kassette_fuzz::{TARGETS, corpus};

fn replay(name: &str) {
    let (_, run) = TARGETS
        .into_iter()
        .find(|(target, _)| *target == name)
        .unwrap_or_else(|| panic!("no target {name}"));
    let inputs = corpus::seeds(name).into_iter().chain(corpus::kept(name));
    for (input, bytes) in inputs {
        if catch_unwind(|| run(&bytes)).is_err() {
            panic!("{name}, {input}: {}", String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn what_was_found_at_the_router_keeps_its_rules() {
    replay("router");
}

#[test]
fn what_was_found_in_callbacks_keeps_their_rules() {
    replay("callback");
}

#[test]
fn what_was_found_at_the_resellers_routes_keeps_their_rules() {
    replay("reseller");
}

#[test]
fn what_was_found_at_the_sandboxes_pages_keeps_their_rules() {
    replay("sandbox");
}

#[test]
fn what_was_found_at_the_admin_api_keeps_its_rules() {
    replay("admin");
}

#[test]
fn what_was_found_in_answers_of_providers_keeps_their_rules() {
    for (name, _) in TARGETS {
        if name.starts_with("answers-") {
            replay(name);
        }
    }
}

#[test]
fn what_was_found_in_configurations_keeps_their_rules() {
    replay("configuration");
}
