//! Modules that mean harm, each in a folder of its own with what is to become of it beside it.
//!
//! | file | holds |
//! |---|---|
//! | `expected.txt` | of a method: `refused: <part of the sentence>`, `fault: <kind>` of a call, `says: <a reason as operators see it>` or `labelled: <its name as payers see it>`; of a provider see `providers` |
//! | `rank.wat` | the body of `rank` of a method that is sound otherwise |
//! | `imports.wat`, `more.wat` | what that method imports; its further functions and tables |
//! | `verdicts.txt` | or what it answers: provider, `ok` or `no`, reason |
//! | `label.txt` | or what it calls itself |
//! | `component.wat` | or a whole component |
//! | `recipe.txt` | or a word for what is no text; see `cooked` |
//! | `describe.txt`, `start.txt`, `callback.txt` | of a provider: what it does; see `providers` |
//!
//! Each runs under production limits beside a good method, over a version that served well before,
//! and is compiled by the real binary in a child process.
//!
//! `KASSETTE_HOSTILE_ROUNDS` sets how often each is offered and called (1,000 by hand, for half an
//! hour on a quiet machine, most of it for the compile bomb, which uses up its whole second each
//! time); then the neighbour's 99th percentile is held against what it was before.
//! `KASSETTE_HOSTILE_CASE` picks those whose names hold a text.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    unreachable_pub,
    clippy::allow_attributes
)]

#[path = "../../host/runtime/tests/support/mod.rs"]
mod support;

mod cooked;
mod methods;
mod neighbour;
mod providers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kassette_domain::method::MethodId;
use kassette_runtime::{CompileLimits, Compiler, CompilerChild, Runtime};

use self::support::{Method, NOW, context, runtime_with, slot};

/// Calls after which a version is quarantined, all of which fail.
const QUARANTINED_AFTER: usize = 10;

/// Which cases, where a run is of some alone.
const CASE: &str = "KASSETTE_HOSTILE_CASE";

/// How often each is called, where the environment says so.
fn asked_rounds() -> Option<usize> {
    let set = std::env::var("KASSETTE_HOSTILE_ROUNDS").ok();
    set.map(|set| set.parse().unwrap())
}

/// How often each is called: until it has been quarantined, let back in and quarantined again.
fn rounds() -> usize {
    asked_rounds().unwrap_or(2 * QUARANTINED_AFTER)
}

/// How often each that is refused is offered: that takes a compilation every time.
fn offers() -> usize {
    asked_rounds().unwrap_or(1)
}

/// Whether the run is of some cases alone.
fn picked() -> bool {
    std::env::var_os(CASE).is_some()
}

/// The folders that hold a file.
fn cases(file: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/hostile");
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let picked = std::env::var(CASE).unwrap_or_default();
    let case = |path: &PathBuf| path.is_dir() && name(path).contains(&picked) && file(path);
    let mut cases: Vec<_> = entries.filter(case).collect();
    cases.sort();
    cases
}

fn name(case: &Path) -> &str {
    case.file_name().unwrap().to_str().unwrap()
}

/// What is to become of a case: in what way, and what it says.
fn expected(case: &Path) -> (String, String) {
    let expected = cooked::text(case, "expected.txt").unwrap();
    let (kind, what) = expected.trim().split_once(": ").unwrap();
    (kind.to_owned(), what.to_owned())
}

/// A runtime with the real compiler, and a good method for the neighbour.
fn runtime(folder: &Path) -> Arc<Runtime> {
    let runtime = runtime_with(folder, |config| {
        let child = CompilerChild::new(env!("CARGO_BIN_EXE_kassette"), ["compile-module"]);
        // Generous but for the CPU time, of which the bomb takes all there is. A second is the least
        // that the kernel counts; honest modules of this size need a tenth of it.
        let limits = |bytes| CompileLimits {
            cpu: Duration::from_secs(if bytes < 1 << 20 { 1 } else { 5 }),
            ..CompileLimits::of(30 << 20)
        };
        config.compiler = Compiler::Child(child.limited(limits));
    });
    let beside = Method {
        id: "paypal",
        ..Method::saying(&[("a", Ok("beside"))])
    };
    let beside = beside.build();
    runtime
        .install(&slot("method.paypal"), &beside, NOW)
        .unwrap();
    runtime
}

/// What else serves is as it was.
#[track_caller]
fn unharmed(runtime: &Runtime, case: &str) {
    let beside = runtime.method(MethodId::Paypal).expect(case);
    let verdicts = beside.rank(&context(&["a"])).expect(case).expect(case);
    assert_eq!(verdicts[0].outcome.as_deref(), Ok("beside"), "{case}");
}
