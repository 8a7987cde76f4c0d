//! The contract in other languages than Rust without its standard library: a module in C, two in JavaScript
//! (without and with WASI), and one with Rust's standard library.
//!
//! The modules are built from source as an external author would (`wit/README.md`), compiled by the real binary in
//! a limited child process, and called with production limits. The tests are ignored by default, because not every
//! machine has the compilers; `.ci/run` installs them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    clippy::allow_attributes
)]

mod build;
#[path = "../../host/runtime/tests/support/mod.rs"]
mod support;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::routing::{AccountCandidate, Availability, Context, Ground, Verdict};
use kassette_runtime::{Compiler, CompilerChild, LoadError, MethodModule, ModuleClass, Runtime};
use support::{NOW, candidate, context, runtime_with, slot};

/// Installs a module like the server.
fn load(method: MethodId, bytes: &[u8]) -> Result<Arc<MethodModule>, LoadError> {
    let folder = tempfile::tempdir().unwrap();
    let runtime: Arc<Runtime> = runtime_with(folder.path(), |config| {
        let child = CompilerChild::new(env!("CARGO_BIN_EXE_kassette"), ["compile-module"]);
        config.compiler = Compiler::Child(child);
    });
    let slot = slot(&format!("method.{method}"));
    runtime.install(&slot, bytes, NOW)?;
    println!("{slot}: {} bytes", bytes.len());
    Ok(runtime.method(method).unwrap())
}

/// Pseudo-random requests of all kinds, the same in every run.
fn questions(currency: Currency, country: &str) -> Vec<Context> {
    let mut dice = 1_u64;
    let mut throw = |sides: u64| {
        dice = dice
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % sides
    };
    let mut all = Vec::new();
    for count in 0..64 {
        let mut question = context(&[]);
        question.currency = currency;
        question.amount = (throw(4) > 0).then(|| Minor(1 + throw(3_000)));
        question.country = (throw(3) > 0).then(|| country.to_owned());
        for number in 0..count {
            // Ids whose text order differs from their order of creation.
            let mut candidate = candidate(&format!("account-{}", (number * 37) % 101));
            candidate.minimum = (throw(3) > 0).then(|| Minor(throw(1_500)));
            candidate.maximum = (throw(3) > 0).then(|| Minor(1_500 + throw(1_500)));
            candidate.fee = (throw(5) > 0).then(|| Minor(throw(6)));
            candidate.health.status = match throw(6) {
                0 => Availability::Down,
                1 => Availability::Stale,
                2 | 3 => Availability::Degraded,
                _ => Availability::Operational,
            };
            question.candidates.push(candidate);
        }
        all.push(question);
    }
    all
}

/// Expected order of both modules: accounts that work and accept the amount, by health, then cost, then id.
fn expected(question: &Context) -> Vec<&str> {
    let mut eligible: Vec<&AccountCandidate> = question
        .candidates
        .iter()
        .filter(|one| one.health.status <= Availability::Degraded)
        .filter(|one| {
            question.amount.is_none_or(|amount| {
                one.minimum.is_none_or(|least| amount >= least)
                    && one.maximum.is_none_or(|most| amount <= most)
            })
        })
        .collect();
    eligible.sort_by_key(|one| {
        let fee = one.fee.map_or(u64::MAX, |fee| fee.0);
        (one.health.status, fee, one.id.as_str())
    });
    eligible.iter().map(|one| one.id.as_str()).collect()
}

fn eligible(verdicts: &[Verdict]) -> Vec<&str> {
    let fine = verdicts.iter().filter(|verdict| verdict.outcome.is_ok());
    fine.map(|verdict| verdict.id.as_str()).collect()
}

/// Sends all requests and compares each response with the expected order.
fn follows_the_rule(module: &MethodModule, currency: Currency, home: &str) {
    for question in questions(currency, home) {
        let verdicts = module.rank(&question).unwrap().unwrap();
        assert_eq!(eligible(&verdicts), expected(&question));
        assert_eq!(module.rank(&question).unwrap().unwrap(), verdicts);
    }
    let mut abroad = context(&["a"]);
    abroad.currency = currency;
    abroad.country = Some("BR".into());
    let refusal = module.rank(&abroad).unwrap().unwrap_err();
    assert_eq!(refusal.ground, Ground::Country);
    assert!(refusal.detail.len() > 10, "{}", refusal.detail);
}

#[test]
#[ignore = "needs clang with wasi-libc"]
fn a_module_in_c_follows_its_rule_as_a_native_one() {
    let module = load(MethodId::CashApp, &build::c()).unwrap();
    assert_eq!(module.class(), ModuleClass::Native);
    assert_eq!(module.description().label, "Cash App");
    follows_the_rule(&module, Currency::USD, "US");
    let one = module.rank(&dollars(&["a"])).unwrap().unwrap();
    assert_eq!(one[0].outcome, Ok("1: operational, fee 29".into()));
}

fn dollars(candidates: &[&str]) -> Context {
    let mut question = context(candidates);
    (question.currency, question.country) = (Currency::USD, None);
    question
}

#[test]
#[ignore = "needs node and npm's componentize-qjs"]
fn a_module_in_javascript_follows_its_rule_as_an_interpreted_one() {
    let module = load(MethodId::Klarna, &build::javascript("klarna.mjs", true)).unwrap();
    assert_eq!(module.class(), ModuleClass::Interpreted);
    let description = module.description();
    assert_eq!(description.label, "Klarna");
    assert_eq!(description.translations[0].language, "de");
    assert_eq!(description.icon.len(), 1);
    follows_the_rule(&module, Currency::EUR, "NL");
    let one = module.rank(&context(&["a"])).unwrap().unwrap();
    assert_eq!(one[0].outcome, Ok("1: operational, fee 29".into()));
}

#[test]
#[ignore = "needs node and npm's componentize-qjs"]
fn javascript_that_keeps_its_wasi_finds_the_clock_of_the_question() {
    let module = load(MethodId::Ideal, &build::javascript("clock.mjs", false)).unwrap();
    let question = context(&["a"]);
    let first = module.rank(&question).unwrap().unwrap();
    assert_eq!(first[0].outcome, Ok(format!("asked at {}", NOW.rfc3339())));
    for _ in 0..20 {
        assert_eq!(module.rank(&question).unwrap().unwrap(), first);
    }
}

#[test]
#[ignore = "needs rustup's target wasm32-wasip2"]
fn chance_of_rusts_standard_library_is_the_same_for_the_same_question() {
    let module = load(MethodId::Paypal, &build::rust_with_std()).unwrap();
    assert_eq!(module.class(), ModuleClass::Native);
    let names = ["a", "b", "c", "d", "e", "f"];
    let question = context(&names);
    let first = module.rank(&question).unwrap().unwrap();
    let reason = format!("drawn at {}", NOW.as_secs());
    assert!(first.iter().all(|one| one.outcome.as_ref() == Ok(&reason)));
    for _ in 0..1_000 {
        assert_eq!(module.rank(&question).unwrap().unwrap(), first);
    }
    let order = |later: u64| {
        let mut question = context(&names);
        question.now = NOW.after(Duration::from_millis(later));
        let verdicts = module.rank(&question).unwrap().unwrap();
        eligible(&verdicts).join(" ")
    };
    // With 720 possible orders, fifty requests give many different ones.
    let orders: HashSet<_> = (0..50).map(order).collect();
    assert!(orders.len() > 25, "{orders:?}");
}
