//! Method modules that use clock, random bytes, files and environment.
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

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::method::MethodId;
use kassette_domain::routing::Context;
use kassette_domain::time::Time;
use kassette_runtime::{CacheConfig, CallError, LoadError, MacKey, MethodModule};
use support::{Method, NOW, answer_of_another_process, context, runtime, runtime_with, slot};

/// Answers with the seconds of the clock and a random number, after waiting for a day. Each has 16 letters, a to p
/// for the hexadecimal digits.
fn probe() -> Method {
    let mut probe = Method::saying(&[("a", Ok("................ ................"))]);
    let answer = std::mem::take(&mut probe.rank);
    probe.imports = r#"
        (import "wasi:clocks/wall-clock@0.2.6" "now" (func $now (param i32)))
        (import "wasi:clocks/monotonic-clock@0.2.6" "subscribe-duration" (func $wait (param i64) (result i32)))
        (import "wasi:io/poll@0.2.0" "[method]pollable.block" (func $block (param i32)))
        (import "wasi:random/random@0.2.12" "get-random-u64" (func $random (result i64)))"#
        .into();
    probe.more = r"
        (func $hex (param $number i64) (param $at i32) (local $left i32)
          (local.set $left (i32.const 16))
          (loop $next
            (local.set $left (i32.sub (local.get $left) (i32.const 1)))
            (i32.store8 (i32.add (local.get $at) (local.get $left))
              (i32.add (i32.const 97) (i32.wrap_i64 (i64.and (local.get $number) (i64.const 15)))))
            (local.set $number (i64.shr_u (local.get $number) (i64.const 4)))
            (br_if $next (local.get $left))))"
        .into();
    // The list is at address + 4 of the answer, the address of the reason 12 bytes into a verdict.
    probe.rank = format!(
        "(local $text i32)
         (call $block (call $wait (i64.const 86400000000000)))
         (local.set $text (i32.load offset=12 (i32.load offset=4 {answer})))
         (call $now (i32.const 15000))
         (call $hex (i64.load (i32.const 15000)) (local.get $text))
         (call $hex (call $random) (i32.add (local.get $text) (i32.const 17)))
         {answer}"
    );
    probe
}

fn load(method: Method) -> Arc<MethodModule> {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let bytes = method.build();
    runtime.install(&slot("method.ideal"), &bytes, NOW).unwrap();
    runtime.method(MethodId::Ideal).unwrap()
}

fn refused(method: Method) -> LoadError {
    let folder = tempfile::tempdir().unwrap();
    let runtime = runtime(folder.path());
    let bytes = method.build();
    runtime
        .install(&slot("method.ideal"), &bytes, NOW)
        .unwrap_err()
}

fn reason(module: &MethodModule, context: &Context) -> String {
    let verdicts = module.rank(context).unwrap().unwrap();
    verdicts[0].outcome.clone().unwrap()
}

/// Digits as the module writes them: a to p.
fn digits(number: u64) -> String {
    let digit = |place: u32| char::from(b'a' + u8::try_from(number >> (4 * place) & 15).unwrap());
    (0..16).rev().map(digit).collect()
}

#[test]
fn the_clock_stands_at_the_time_of_the_question_and_a_wait_is_over_at_once() {
    let module = load(probe());
    for seconds in [NOW.as_secs(), 0, 4_000_000_000] {
        let mut context = context(&["a"]);
        context.now = Time::from_millis(seconds * 1000 + 999);
        let said = reason(&module, &context);
        assert_eq!(said.split_once(' ').unwrap().0, digits(seconds));
    }
}

#[test]
fn the_same_question_has_the_same_chance_a_thousand_times_and_another_has_another() {
    let module = load(probe());
    let first = reason(&module, &context(&["a"]));
    for _ in 0..1_000 {
        assert_eq!(reason(&module, &context(&["a"])), first);
    }
    let mut seen = HashSet::from([first]);
    for millis in 1..100 {
        let mut other = context(&["a"]);
        other.now = Time::from_millis(NOW.as_millis() + millis);
        assert!(seen.insert(reason(&module, &other)), "after {millis} ms");
    }
}

#[test]
#[ignore = "the test below runs it in a process of its own, and reads what it prints"]
fn answers_where_another_process_asks() {
    let said = reason(&load(probe()), &context(&["a"]));
    // On a separate line after the output of the test harness.
    println!("\nanswer={said}");
}

#[test]
fn another_process_draws_the_same() {
    let here = reason(&load(probe()), &context(&["a"]));
    for _ in 0..3 {
        let there = answer_of_another_process("answers_where_another_process_asks");
        assert_eq!(there, here);
    }
}

#[test]
fn after_a_restart_the_same_is_drawn() {
    let (plugins, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let start = || {
        runtime_with(plugins.path(), |config| {
            let key = MacKey::from_bytes([7; 32].into());
            config.cache = Some(CacheConfig::new(cache.path().join("code"), key));
        })
    };
    let bytes = probe().build();
    std::fs::write(plugins.path().join("method.ideal.wasm"), bytes).unwrap();
    let ask = || {
        let module = start().method(MethodId::Ideal).unwrap();
        reason(&module, &context(&["a"]))
    };
    assert_eq!(ask(), ask());
}

#[test]
fn there_are_no_arguments_no_environment_and_no_files() {
    let mut empty = Method::saying(&[("a", Ok("nothing"))]);
    empty.imports = r#"
        (import "wasi:cli/environment@0.2.0" "get-environment" (func $environment (param i32)))
        (import "wasi:cli/environment@0.2.0" "get-arguments" (func $arguments (param i32)))
        (import "wasi:filesystem/preopens@0.2.0" "get-directories" (func $folders (param i32)))"#
        .into();
    let look = |function: &str| {
        format!(
            "(call ${function} (i32.const 15000))
             (if (i32.load (i32.const 15004)) (then unreachable))"
        )
    };
    empty.rank = ["environment", "arguments", "folders"].map(look).concat() + &empty.rank;
    assert_eq!(reason(&load(empty), &context(&["a"])), "nothing");
}

#[test]
fn a_module_that_ends_itself_gives_no_answer() {
    let mut ended = Method::ideal("(call $exit (i32.const 0)) unreachable");
    ended.imports = r#"(import "wasi:cli/exit@0.2.0" "exit" (func $exit (param i32)))"#.into();
    assert_eq!(load(ended).rank(&context(&["a"])), Err(CallError::Trap));
}

#[test]
fn more_chance_than_a_decision_needs_is_a_fault() {
    let mut greedy = Method::ideal("(call $bytes (i64.const 65537) (i32.const 15000)) unreachable");
    greedy.imports = r#"(import "wasi:random/random@0.2.12" "get-random-bytes"
        (func $bytes (param i64 i32)))"#
        .into();
    let began = cpu_time::ThreadTime::now();
    assert_eq!(load(greedy).rank(&context(&["a"])), Err(CallError::Trap));
    assert!(began.elapsed() < Duration::from_secs(5));
}

#[test]
fn network_is_refused_by_name() {
    let mut talkative = Method::ideal("(call $network) unreachable");
    talkative.imports = r#"(import "wasi:sockets/instance-network@0.2.0" "instance-network"
        (func $network))"#
        .into();
    let error = refused(talkative);
    assert!(matches!(error, LoadError::Network { .. }), "{error}");
    assert_eq!(
        error.to_string(),
        "the module imports wasi:sockets/instance-network@0.2.0, but a method has no network of \
         its own; build it without sockets and HTTP"
    );
}

#[test]
fn other_wasi_than_what_is_offered_is_refused_by_name() {
    let refused = |import: &str, to: &str| {
        let component = format!(r#"(component (import "{import}" (instance)))"#);
        let folder = tempfile::tempdir().unwrap();
        let bytes = wat::parse_str(component).unwrap();
        let error = runtime(folder.path()).install(&slot(to), &bytes, NOW);
        error.unwrap_err().to_string()
    };
    for import in ["wasi:keyvalue/store@0.2.0", "wasi:clocks/wall-clock@0.3.0"] {
        let error = refused(import, "method.ideal");
        assert!(error.contains(import) && error.contains("0.2"), "{error}");
    }
    let error = refused("wasi:random/random@0.2.0", "provider.vendor");
    assert!(error.contains("a provider is offered no WASI"), "{error}");
    let error = refused("wasi:http/outgoing-handler@0.2.0", "provider.vendor");
    assert!(error.contains("kassette:plugin/http"), "{error}");
}
