//! Results of the checks for modules that keep the contract, and for modules that break it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

#[path = "../../runtime/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::id::Digest;
use kassette_domain::method::MethodId;
use kassette_kit::{CheckReport, Facts, Harness, LoadError, NoNetwork, accept, check};
use kassette_runtime::{Acceptance, Runtime, RuntimeConfig};
use support::{Data, Method, Provider, Refunds, provider_with};

/// Budget that a server gives the checks.
const BUDGET: Duration = Duration::from_secs(2);

fn checked(bytes: &[u8], name: Option<&str>) -> CheckReport {
    check(&Harness::new().unwrap(), bytes, name)
}

/// Name and message of the first failed check.
fn failure(bytes: &[u8]) -> (&'static str, String) {
    let report = checked(bytes, None);
    assert!(!report.passed);
    let failed = report.failure().unwrap().clone();
    (failed.name, failed.message)
}

#[test]
fn every_module_of_this_workspace_passes() {
    let harness = Harness::new().unwrap();
    for built in kassette_build::guests() {
        let bytes = std::fs::read(&built.path).unwrap();
        let name = format!("{}.wasm", built.slot);
        let report = check(&harness, &bytes, Some(&name));
        assert!(report.passed, "{name}: {report:#?}");
    }
}

#[test]
fn a_module_that_fails_a_check_does_not_replace_the_one_that_serves() {
    let good = kassette_build::guest("method.ideal");
    let good = std::fs::read(&good.path).unwrap();
    let trapping = Method::ideal("unreachable").build();
    let slot = support::slot("method.ideal");
    let installed = |acceptance: Option<Acceptance>| {
        let folder = tempfile::tempdir().unwrap();
        let config = RuntimeConfig::new(folder.path(), Arc::new(|| support::NOW));
        let runtime = Runtime::start_with(config, NoNetwork, acceptance, BTreeMap::new()).unwrap();
        runtime.install(&slot, &good, support::NOW).unwrap();
        let second = runtime.install(&slot, &trapping, support::NOW);
        let serving = runtime.method(MethodId::Ideal).unwrap().digest();
        (second.map(drop), serving)
    };
    let (refused, serving) = installed(Some(Arc::new(|module| accept(module, BUDGET))));
    let Err(LoadError::NotAccepted(why)) = refused else {
        panic!("{refused:?}");
    };
    assert!(why.starts_with("answers: the module trapped"), "{why}");
    assert_eq!(serving, Digest::hash(&good));
    let (taken, serving) = installed(None);
    assert_eq!((taken, serving), (Ok(()), Digest::hash(&trapping)));
}

#[test]
fn a_method_with_no_time_left_is_still_asked_every_kind_of_question() {
    // The module refuses every payer, which only the last check detects.
    let opened = Harness::new().unwrap().open(&shy().build()).unwrap();
    let why = accept(&opened.module, Duration::ZERO).unwrap_err();
    assert!(why.starts_with("absence: "), "{why}");
}

#[test]
fn the_report_has_the_shape_that_scripts_read() {
    let good = kassette_build::guest("method.ideal");
    let bytes = std::fs::read(&good.path).unwrap();
    let report = checked(&bytes, Some("method.ideal.wasm"));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["passed"], true);
    let names: Vec<_> = report.checks.iter().map(|check| check.name).collect();
    assert_eq!(
        names,
        [
            "file",
            "world",
            "describe",
            "slot",
            "answers",
            "order",
            "repeatable",
            "absence",
            "time"
        ]
    );
    for check in json["checks"].as_array().unwrap() {
        let fields: Vec<_> = check.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["message", "name", "passed"]);
    }
}

#[test]
fn what_no_server_would_load_fails_at_its_step() {
    assert_eq!(failure(b"#!/bin/sh").0, "file");
    let core = wat::parse_str("(module)").unwrap();
    let (name, message) = failure(&core);
    assert_eq!(name, "file");
    assert!(message.contains("core module"), "{message}");
    let empty = wat::parse_str("(component)").unwrap();
    let (name, message) = failure(&empty);
    assert_eq!(name, "world");
    assert!(message.contains("kassette:plugin/routing"), "{message}");
    let short = Method {
        id: "x",
        ..Method::saying(&[])
    };
    assert_eq!(failure(&short.build()).0, "describe");
    let odd = Method {
        id: "no slot's name",
        ..Method::saying(&[])
    };
    assert_eq!(failure(&odd.build()).0, "describe");
}

#[test]
fn a_file_that_is_called_after_another_slot_fails() {
    let good = kassette_build::guest("method.ideal");
    let bytes = std::fs::read(&good.path).unwrap();
    let report = checked(&bytes, Some("method.paypal.wasm"));
    assert_eq!(report.failure().unwrap().name, "slot");
    assert!(checked(&bytes, Some("mine.wasm")).passed);
}

#[test]
fn a_method_that_traps_or_breaks_a_rule_fails_with_the_question() {
    let (name, message) = failure(&Method::ideal("unreachable").build());
    assert_eq!(name, "answers");
    assert!(message.contains("asked about no amount"), "{message}");
    let (name, message) = failure(&Method::saying(&[]).build());
    assert_eq!(name, "answers");
    assert!(message.contains("no verdict on"), "{message}");
    let endless = Method::ideal("(loop $again (br $again)) unreachable");
    assert!(failure(&endless.build()).1.contains("ran too long"));
}

/// A method that refuses every request.
fn shy() -> Method {
    let mut shy = Method::ideal("");
    let detail = shy.data.text("who are you?");
    let mut answer = [0; 16];
    (answer[0], answer[4]) = (1, 3);
    answer[8..].copy_from_slice(&detail);
    shy.rank = format!("(i32.const {})", shy.data.put(&answer));
    shy
}

#[test]
fn a_method_that_refuses_whoever_is_unknown_fails() {
    let (name, message) = failure(&shy().build());
    assert_eq!(name, "absence");
    assert!(message.contains("no reason"), "{message}");
}

#[test]
fn a_provider_that_traps_on_a_strangers_callback_fails() {
    let mut data = Data::default();
    let unavailable = support::failure(&mut data, 0);
    let trapping = provider_with(
        data,
        &format!("(i32.const {unavailable})"),
        "unreachable",
        "unreachable",
    );
    let report = checked(&trapping, None);
    let outcomes: Vec<_> = report
        .checks
        .iter()
        .skip(3)
        .map(|check| (check.name, check.passed))
        .collect();
    assert_eq!(
        outcomes,
        [
            ("start", true),
            ("callback", false),
            ("query", false),
            ("health", false),
            ("refunds", true)
        ]
    );
}

/// A provider module with these responses about refunds, each modified by a test case.
fn refunding(
    terms: &[&str],
    refund: impl FnOnce(&mut Data) -> u32,
    query: impl FnOnce(&mut Data) -> u32,
    cancel: impl FnOnce(&mut Data) -> u32,
) -> Vec<u8> {
    let mut data = Data::default();
    let constant = |at: u32| format!("(i32.const {at})");
    let refunds = Refunds {
        terms: constant(support::terms(&mut data, terms)),
        refund: constant(refund(&mut data)),
        query: constant(query(&mut data)),
        cancel: constant(cancel(&mut data)),
    };
    Provider {
        data,
        refunds: Some(refunds),
        ..Provider::default()
    }
    .build()
}

#[test]
fn a_provider_that_claims_a_refund_without_a_request_fails() {
    let unavailable = |data: &mut Data| support::refund_failure(data, 0);
    let given = |data: &mut Data| support::given(data, "re_1", 1, None);
    let absent = |data: &mut Data| support::refund_failure(data, 1);
    for (what, provider, words) in [
        (
            "a foreign method",
            refunding(&["ideal"], unavailable, unavailable, unavailable),
            "not among its methods",
        ),
        (
            "given",
            refunding(&[], given, unavailable, unavailable),
            "money was given back",
        ),
        (
            "uncertain",
            refunding(
                &[],
                |data| support::refund_failure(data, 2),
                unavailable,
                unavailable,
            ),
            "is uncertain",
        ),
        (
            "absent",
            refunding(&[], unavailable, absent, unavailable),
            "knows what became of a refund",
        ),
        (
            "known",
            refunding(&[], unavailable, given, unavailable),
            "knows what became of a refund",
        ),
        (
            "cancelled",
            refunding(&[], unavailable, unavailable, given),
            "cancels a refund",
        ),
    ] {
        let report = checked(&provider, None);
        let check = report.checks.last().unwrap();
        assert_eq!((check.name, check.passed), ("refunds", false), "{what}");
        assert!(check.message.contains(words), "{what}: {}", check.message);
    }
    let honest = checked(&refunding(&[], unavailable, unavailable, unavailable), None);
    assert!(honest.checks.last().unwrap().passed, "{honest:#?}");
}

#[test]
fn the_facts_tell_what_a_module_is() {
    let facts = |slot: &str| {
        let bytes = std::fs::read(&kassette_build::guest(slot).path).unwrap();
        let opened = Harness::new().unwrap().open(&bytes).unwrap();
        Facts::new(&opened, bytes.len())
    };
    let ideal = facts("method.ideal");
    assert_eq!(
        (ideal.slot.as_str(), ideal.kind),
        ("method.ideal", "method")
    );
    assert_eq!((ideal.wit.as_str(), ideal.class), ("0.2.0", "native"));
    assert_eq!(ideal.currencies, ["EUR"]);
    assert_eq!(ideal.exports, ["kassette:plugin/routing@0.2.0"]);
    assert!(!ideal.wasi);
    assert!(ideal.code_bytes > 10_000, "{}", ideal.code_bytes);
    assert_eq!(ideal.memories, 1);
    let sandbox = facts("provider.sandbox");
    assert_eq!(sandbox.kind, "provider");
    assert!(sandbox.services.iter().any(|one| one.method == "ideal"));
    assert!(!sandbox.secrets.is_empty());
}
