//! Modules that mean harm, each in a folder of its own with what is to become of it beside it.
//!
//! | file | holds |
//! |---|---|
//! | `expected.txt` | `refused: <part of the sentence>`, `fault: <kind>` of a call, or `says: <a reason as operators see it>` |
//! | `rank.wat` | the body of `rank` of a method that is sound otherwise |
//! | `imports.wat`, `more.wat` | what that method imports; its further functions and tables |
//! | `verdicts.txt` | or what it answers: provider, `ok` or `no`, reason |
//! | `component.wat` | or a whole component |
//! | `recipe.txt` | or a word for what is no text; see `cooked` |
//!
//! Each runs under production limits beside a good method, over a version that served well before,
//! and is compiled by the real binary in a child process.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    missing_docs,
    unreachable_pub,
    clippy::allow_attributes
)]

#[path = "../../host/runtime/tests/support/mod.rs"]
mod support;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use kassette_domain::id::Digest;
use kassette_domain::method::MethodId;
use kassette_domain::routing::Availability;
use kassette_runtime::{CallError, CompileLimits, Compiler, CompilerChild, Runtime, SlotState};
use support::{Data, Method, NOW, context, runtime_with, slot};

const IDEAL: &str = "method.ideal";
/// Rounds of each case; all of them stay within the window in which faults are counted.
const ROUNDS: usize = 9;

fn cases() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut cases: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    cases.sort();
    cases
}

fn text(case: &Path, name: &str) -> Option<String> {
    fs::read_to_string(case.join(name)).ok()
}

/// The bytes of a case.
fn module(case: &Path) -> Vec<u8> {
    if let Some(text) = text(case, "component.wat") {
        return wat::parse_str(text).unwrap();
    }
    if let Some(recipe) = text(case, "recipe.txt") {
        return cooked(recipe.trim());
    }
    if let Some(verdicts) = text(case, "verdicts.txt") {
        return saying(&verdicts);
    }
    let mut method = Method::ideal(text(case, "rank.wat").unwrap());
    method.more = text(case, "more.wat").unwrap_or_default();
    method.imports = text(case, "imports.wat").unwrap_or_default();
    method.build()
}

/// A method that gives these verdicts.
fn saying(verdicts: &str) -> Vec<u8> {
    let verdicts: Vec<_> = verdicts
        .lines()
        .filter(|line| !line.is_empty())
        .map(|line| {
            let mut parts = line.splitn(3, ' ');
            let (id, kind) = (parts.next().unwrap(), parts.next().unwrap());
            let words = parts.next().unwrap();
            (id, if kind == "ok" { Ok(words) } else { Err(words) })
        })
        .collect();
    Method::saying(&verdicts).build()
}

/// What cannot be written down in a small text.
fn cooked(recipe: &str) -> Vec<u8> {
    let good = saying("a ok good");
    match recipe {
        "provider" => support::provider(Data::default(), "unreachable"),
        "truncated" => good[..good.len() / 2].to_vec(),
        "not-wasm" => b"#!/bin/sh\nrm -rf /\n".to_vec(),
        "core-module" => wat::parse_str("(module)").unwrap(),
        "thirty-megabytes" => padded(30 << 20),
        "forty-megabytes" => padded(40 << 20),
        "compile-bomb" => compile_bomb(),
        "newer-major" => newer_major(),
        "counting" => counting(),
        _ => panic!("no such recipe: {recipe}"),
    }
}

/// A component of nothing but a custom section.
fn padded(length: usize) -> Vec<u8> {
    let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
    bytes.push(0);
    let mut rest = length;
    loop {
        let more = rest > 0x7f;
        bytes.push(u8::try_from(rest & 0x7f).unwrap() | u8::from(more) << 7);
        rest >>= 7;
        if !more {
            break;
        }
    }
    // The section's own name, of one letter.
    bytes.extend(b"\x01x");
    bytes.resize(bytes.len() + length - 2, 0);
    bytes
}

/// A small module whose one function holds thousands of values over thousands of branches.
fn compile_bomb() -> Vec<u8> {
    const VALUES: usize = 12_000;
    let mut body = String::new();
    for value in 0..VALUES {
        let other = (value * 7919 + 13) % VALUES;
        write!(
            body,
            "(if (local.get {other}) (then (local.set {value} (i32.add (local.get {other}) (i32.const {value})))))"
        )
        .unwrap();
    }
    let locals = "i32 ".repeat(VALUES);
    let mut method = Method::ideal("unreachable");
    method.more =
        format!("(func (export \"bomb\") (local {locals}) (loop $again {body} (br $again)))");
    method.build()
}

/// The contract of a version that this host does not speak.
fn newer_major() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(support::wit()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "wit") {
            let text = fs::read_to_string(&path).unwrap();
            let text = text.replace("@0.1.0", "@2.0.0");
            fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
        }
    }
    let context = support::CONTEXT;
    let core = format!(
        r#"(module (memory (export "memory") 1)
        (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#describe") (result i32) unreachable)
        (func (export "kassette:plugin/routing@2.0.0#rank") {context} (result i32) unreachable))"#
    );
    support::component(folder.path(), "method", &core)
}

/// Counts its calls in memory and gives a reason of as many letters.
fn counting() -> Vec<u8> {
    let mut method = Method::saying(&[("a", Ok("aaaaaaaa"))]);
    let answer = method.rank.clone();
    // The answer's list stands at its address + 4, the reason's length 16 bytes into a verdict.
    method.rank = format!(
        "(local $list i32)
         (local.set $list (i32.load offset=4 {answer}))
         (i32.store (i32.const 16000) (i32.add (i32.load (i32.const 16000)) (i32.const 1)))
         (i32.store offset=16 (local.get $list) (i32.load (i32.const 16000)))
         {answer}"
    );
    method.build()
}

struct World {
    runtime: Arc<Runtime>,
    good: Digest,
}

impl World {
    fn new(folder: &Path) -> Self {
        let runtime = runtime_with(folder, |config| {
            let child = CompilerChild::new(env!("CARGO_BIN_EXE_kassette"), ["compile-module"]);
            // The limits of a small module, of any size, and less CPU time: the bomb is patient.
            let limits = |_| CompileLimits {
                cpu: Duration::from_secs(2),
                ..CompileLimits::of(30 << 20)
            };
            config.compiler = Compiler::Child(child.limited(limits));
        });
        let good = saying("a ok good");
        runtime.install(&slot(IDEAL), &good, NOW).unwrap();
        let beside = Method {
            id: "paypal",
            ..Method::saying(&[("a", Ok("beside"))])
        };
        let beside = beside.build();
        runtime
            .install(&slot("method.paypal"), &beside, NOW)
            .unwrap();
        let good = Digest::of(&good);
        Self { runtime, good }
    }

    fn reason(&self, method: MethodId) -> Result<String, CallError> {
        let module = self.runtime.method(method).expect("something serves");
        let verdicts = module.rank(&context(&["a"]))?.expect("no refusal");
        Ok(verdicts[0].outcome.clone().expect("eligible"))
    }

    /// What else serves is as it was.
    fn unharmed(&self, case: &str) {
        assert_eq!(
            self.reason(MethodId::Paypal).as_deref(),
            Ok("beside"),
            "{case}"
        );
    }

    fn good_serves(&self, case: &str) {
        let serving = self.runtime.method(MethodId::Ideal).unwrap();
        assert_eq!(serving.digest(), self.good, "{case}");
        assert_eq!(
            self.reason(MethodId::Ideal).as_deref(),
            Ok("good"),
            "{case}"
        );
        self.unharmed(case);
    }
}

#[test]
fn every_hostile_module_is_contained() {
    let cases = cases();
    assert!(cases.len() > 30, "the set is there");
    for case in cases {
        let name = case.file_name().unwrap().to_str().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let world = World::new(folder.path());
        let expected = text(&case, "expected.txt").unwrap();
        let (kind, what) = expected.trim().split_once(": ").unwrap();
        let bytes = module(&case);
        let began = Instant::now();
        let installed = world.runtime.install(&slot(IDEAL), &bytes, NOW);
        println!("{name}: {installed:?} after {:?}", began.elapsed());
        match kind {
            "refused" => {
                let error = installed.expect_err(name).to_string();
                assert!(error.contains(what), "{name}: {error}");
                let status = &world.runtime.slots()[0];
                assert_eq!(status.last_error.as_ref(), Some(&error), "{name}");
                world.good_serves(name);
            }
            "fault" => {
                installed.expect(name);
                fails(&world, name, what);
            }
            "says" => {
                installed.expect(name);
                for _ in 0..ROUNDS {
                    assert_eq!(world.reason(MethodId::Ideal).as_deref(), Ok(what), "{name}");
                }
                world.unharmed(name);
            }
            other => panic!("{name}: expected {other}?"),
        }
    }
}

/// Every call fails in the way that was expected, within its limit and 100 ms, until the version is
/// benched and the last good one serves.
fn fails(world: &World, name: &str, expected: &str) {
    let (kind, stale) = expected.split_once(' ').unwrap_or((expected, ""));
    for _ in 0..=ROUNDS {
        let module = world.runtime.method(MethodId::Ideal).unwrap();
        assert_ne!(module.digest(), world.good, "{name}");
        let mut context = context(&["a"]);
        if stale == "stale" {
            context.candidates[0].health.status = Availability::Stale;
        }
        let before = cpu_time::ThreadTime::now();
        let fault = module.rank(&context).expect_err(name);
        let used = before.elapsed();
        assert_eq!(fault.kind(), kind, "{name}: {fault}");
        assert!(used < Duration::from_millis(5 + 100), "{name}: {used:?}");
        world.unharmed(name);
    }
    assert_eq!(world.runtime.slots()[0].state, SlotState::Benched, "{name}");
    world.good_serves(name);
}
