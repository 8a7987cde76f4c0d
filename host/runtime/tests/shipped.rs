//! The modules of this workspace, built from source, with production limits.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use kassette_domain::id::SlotKind;
use kassette_domain::method::MethodId;
use kassette_domain::money::Currency;
use kassette_http::{Client, Guard};
use kassette_runtime::{ModuleClass, Runtime, RuntimeConfig, Workbench};
use std::sync::Arc;
use support::{NOW, answer_of_another_process, context, runtime, slot};

fn shipped() -> Arc<Runtime> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    for guest in kassette_build::guests() {
        let bytes = std::fs::read(&guest.path).unwrap();
        runtime.install(&slot(&guest.slot), &bytes, NOW).unwrap();
    }
    runtime
}

#[test]
fn every_module_of_this_workspace_loads_as_native() {
    let slots = shipped().slots();
    assert_eq!(
        slots
            .iter()
            .filter(|status| status.kind == SlotKind::Method)
            .count(),
        10
    );
    assert!(
        slots
            .iter()
            .any(|status| status.slot == slot("provider.sandbox"))
    );
    for status in slots {
        assert_eq!(
            status.active.unwrap().class,
            ModuleClass::Native,
            "{}",
            status.slot
        );
    }
}

/// The engine clears a memory of one page without asking the kernel what was written, which makes a call a quarter
/// shorter. Stack, arena and constants of a method share this page.
#[test]
fn every_method_of_this_workspace_lives_in_one_page() {
    let config = RuntimeConfig::new("", Arc::new(|| NOW));
    let client = Client::new(Guard {
        allow_loopback: false,
    });
    let workbench = Workbench::new(config, client).unwrap();
    for guest in kassette_build::guests() {
        let opened = workbench
            .open(&std::fs::read(&guest.path).unwrap())
            .unwrap();
        if opened.slot.kind() == SlotKind::Method {
            assert_eq!(opened.memory_bytes, 64 << 10, "{}", guest.slot);
        }
    }
}

#[test]
fn every_method_answers_for_every_currency_within_the_rules() {
    let runtime = shipped();
    for method in MethodId::SPECIFIED {
        let module = runtime.method(method).unwrap();
        for currency in Currency::ALL {
            let mut context = context(&["a", "b", "c", "d"]);
            context.currency = currency;
            // A refusal is an answer, a fault is not.
            let _ = module
                .rank(&context)
                .unwrap_or_else(|error| panic!("{method} {currency}: {error}"));
        }
    }
}

#[test]
fn a_method_gives_the_same_answer_to_the_same_question() {
    let module = shipped().method(MethodId::CreditCard).unwrap();
    let first = module.rank(&context(&["a", "b", "c", "d"])).unwrap();
    for _ in 0..1_000 {
        assert_eq!(module.rank(&context(&["a", "b", "c", "d"])).unwrap(), first);
    }
}

/// Complete decisions of two methods about one question, in a new runtime.
fn decided() -> String {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let decided = [MethodId::CreditCard, MethodId::Ideal].map(|method| {
        let name = format!("method.{method}");
        let mut guests = kassette_build::guests().iter();
        let guest = guests.find(|guest| guest.slot == name).unwrap();
        let bytes = std::fs::read(&guest.path).unwrap();
        runtime.install(&slot(&name), &bytes, NOW).unwrap();
        let module = runtime.method(method).unwrap();
        module.rank(&context(&["a", "b", "c", "d"])).unwrap()
    });
    format!("{decided:?}")
}

#[test]
#[ignore = "the test below runs it in a process of its own, and reads what it prints"]
fn decides_where_another_process_asks() {
    // On a separate line after the output of the test harness.
    println!("\nanswer={}", decided());
}

#[test]
fn a_decision_is_the_same_in_another_process_and_after_a_restart() {
    let here = decided();
    assert!(here.contains("Ok("), "{here}");
    assert_eq!(decided(), here, "after a restart");
    let there = answer_of_another_process("decides_where_another_process_asks");
    assert_eq!(there, here);
}
