//! The cache of method answers: which answers it keeps, and for which version.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::allow_attributes,
    unreachable_pub,
    reason = "a test that cannot go on fails"
)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::method::MethodId;
use kassette_domain::money::Minor;
use kassette_domain::routing::Context;
use kassette_runtime::{CallError, MethodModule, OpenedModule, Runtime};
use support::{Method, NOW, context, runtime, runtime_with, slot, versions};

/// Amount at which [`failing`] traps.
const UNLUCKY: u64 = 1300;
/// Amount at which it does not trap.
const LUCKY: u64 = 1234;

fn remembering(folder: &Path) -> Arc<Runtime> {
    runtime_with(folder, |config| config.answer_cache_bytes = 1 << 20)
}

fn install(runtime: &Runtime, method: Method) -> Arc<MethodModule> {
    let bytes = method.build();
    runtime.install(&slot("method.ideal"), &bytes, NOW).unwrap();
    runtime.method(MethodId::Ideal).unwrap()
}

fn saying(reason: &str) -> Method {
    Method::saying(&[("a", Ok(reason))])
}

/// A method that accepts all amounts except one.
fn failing() -> Method {
    let mut method = saying("well");
    let trap = format!("(if (i64.eq (local.get 1) (i64.const {UNLUCKY})) (then unreachable))");
    method.rank = format!("{trap} {}", method.rank);
    method
}

fn asking(amount: u64) -> Context {
    Context {
        amount: Some(Minor(amount)),
        ..context(&["a"])
    }
}

/// Reason of the only verdict.
fn reason(module: &MethodModule, question: &Context) -> String {
    let verdicts = module.rank(question).unwrap().unwrap();
    verdicts[0].outcome.clone().unwrap()
}

#[test]
fn a_question_that_comes_again_is_answered_without_a_call_and_another_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    let module = install(&runtime, saying("one"));
    let question = context(&["a"]);
    assert_eq!(module.cached_answer(&question), None);
    let answer = module.rank(&question).unwrap();
    assert_eq!(module.cached_answer(&question).as_deref(), Some(&answer));
    let later = Context {
        now: NOW.after(Duration::from_secs(1)),
        ..question
    };
    assert_eq!(module.cached_answer(&later), None);
}

#[test]
fn nothing_is_cached_where_the_configuration_has_no_room_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let module = install(&runtime(folder.path()), saying("one"));
    assert_eq!(reason(&module, &context(&["a"])), "one");
    assert_eq!(module.cached_answer(&context(&["a"])), None);
}

#[test]
fn no_version_answers_from_the_memory_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    let question = context(&["a"]);
    for _ in 0..3 {
        for answer in ["one", "two"] {
            let module = install(&runtime, saying(answer));
            assert_eq!(reason(&module, &question), answer);
            assert_eq!(reason(&module, &question), answer);
        }
    }
}

#[test]
fn a_call_that_failed_is_made_again_and_quarantines_the_version() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    install(&runtime, saying("the one before"));
    let module = install(&runtime, failing());
    for _ in 0..10 {
        assert_eq!(module.rank(&asking(UNLUCKY)), Err(CallError::Trap));
        assert_eq!(module.cached_answer(&asking(UNLUCKY)), None);
    }
    let serving = runtime.method(MethodId::Ideal).unwrap();
    assert_eq!(reason(&serving, &asking(UNLUCKY)), "the one before");
    assert_eq!(reason(&serving, &asking(LUCKY)), "the one before");
}

#[test]
fn what_a_module_on_trial_does_is_neither_cached_nor_held_against_the_one_that_serves() {
    let folder = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    let runtime = runtime_with(folder.path(), |config| {
        config.answer_cache_bytes = 1 << 20;
        config.versions = Some(versions(kept.path()));
    });
    install(&runtime, saying("the one before"));
    let serving = install(&runtime, failing());
    let ideal = slot("method.ideal");
    let candidate = runtime.open_trial(&ideal, &saying("tried").build());
    let opened = [runtime.open_active(&ideal).unwrap(), candidate.unwrap()];
    let trials = opened.map(|module| match module {
        OpenedModule::Method(module) => module,
        OpenedModule::Provider(_) => panic!("a provider's module in a method's slot"),
    });
    assert_eq!(trials[0].digest(), serving.digest());
    for _ in 0..10 {
        assert_eq!(trials[0].rank(&asking(UNLUCKY)), Err(CallError::Trap));
    }
    for (trial, says) in trials.iter().zip(["well", "tried"]) {
        assert_eq!(reason(trial, &asking(LUCKY)), says);
        assert_eq!(trial.cached_answer(&asking(LUCKY)), None);
    }
    assert_eq!(serving.cached_answer(&asking(LUCKY)), None);
    let still = runtime.method(MethodId::Ideal).unwrap();
    assert_eq!(still.digest(), serving.digest(), "it is in no quarantine");
    assert!(runtime.open_trial(&ideal, b"no module").is_err());
    assert_eq!(runtime.slots()[0].last_error, None);
    assert_eq!(runtime.history(&ideal).unwrap().len(), 2);
}

#[test]
fn cached_answers_count_as_calls_so_that_a_rare_fault_stays_rare() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    let module = install(&runtime, failing());
    for _ in 0..20 {
        (0..9).for_each(|_| assert_eq!(reason(&module, &asking(LUCKY)), "well"));
        assert_eq!(module.rank(&asking(UNLUCKY)), Err(CallError::Trap));
    }
    assert!(
        runtime.method(MethodId::Ideal).is_some(),
        "it is not quarantined"
    );
}

#[test]
fn an_answer_that_breaks_a_rule_is_not_cached() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    let module = install(&runtime, Method::saying(&[("stranger", Ok("me"))]));
    let question = context(&["a"]);
    for _ in 0..2 {
        assert!(matches!(module.rank(&question), Err(CallError::Faulty(_))));
        assert_eq!(module.cached_answer(&question), None);
    }
}

#[test]
fn a_call_that_wrote_to_the_log_is_made_again() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = remembering(folder.path());
    let mut method = saying("said so");
    let line = method.data.put(b"for the operator");
    method.imports =
        r#"(import "kassette:plugin/log@0.2.0" "write" (func $log (param i32 i32 i32)))"#.into();
    method.rank = format!(
        "(call $log (i32.const 1) (i32.const {line}) (i32.const 16)) {}",
        method.rank
    );
    let module = install(&runtime, method);
    assert_eq!(reason(&module, &context(&["a"])), "said so");
    assert_eq!(module.cached_answer(&context(&["a"])), None);
}
