//! Hostile modules. Each has a folder with the expected result.
//!
//! | file | contents |
//! |---|---|
//! | `expected.txt` | the expected result, see below |
//! | `rank.wat` | the body of `rank` of an otherwise valid method |
//! | `imports.wat`, `more.wat` | imports of that method; its further functions and tables |
//! | `verdicts.txt` | or its response: account, `ok` or `no`, reason |
//! | `label.txt` | or its label |
//! | `component.wat` | or a whole component |
//! | `recipe.txt` | or the name of a recipe in `cooked`, for modules that are not text |
//! | `describe.txt`, `start.txt`, `callback.txt` | actions of a provider module; see `providers` |
//!
//! The result of a method is `refused: <part of the message>`, `fault: <kind>` of a call, `says: <reason as
//! operators see it>` or `labelled: <label as payers see it>`. For provider modules see `providers`.
//!
//! Each module runs with production limits next to a good method, replaces a version that worked, and is compiled
//! by the real binary in a child process.
//!
//! `KASSETTE_HOSTILE_ROUNDS` sets how often each module is installed and called (1,000 by hand: half an hour on a
//! quiet machine, most of it for the compile bomb, which always uses its whole second). With it, the tests also
//! compare the neighbor's 99th percentile with the one before. `KASSETTE_HOSTILE_CASE` selects the cases whose
//! names contain a text.
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

/// Number of consecutive failed calls after which a version is quarantined.
const QUARANTINED_AFTER: usize = 10;

/// Environment variable that selects cases.
const CASE: &str = "KASSETTE_HOSTILE_CASE";

/// Number of rounds, if the environment sets it.
fn asked_rounds() -> Option<usize> {
    let set = std::env::var("KASSETTE_HOSTILE_ROUNDS").ok();
    set.map(|set| set.parse().unwrap())
}

/// Number of calls. The default is enough to quarantine a version, install it again and quarantine it again.
fn rounds() -> usize {
    asked_rounds().unwrap_or(2 * QUARANTINED_AFTER)
}

/// Number of attempts to install a module that is refused. Each needs a compilation.
fn offers() -> usize {
    asked_rounds().unwrap_or(1)
}

/// Whether the environment selects cases.
fn picked() -> bool {
    std::env::var_os(CASE).is_some()
}

/// Folders of the selected cases that satisfy a condition.
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

/// Expected result of a case: its kind and its detail.
fn expected(case: &Path) -> (String, String) {
    let expected = cooked::text(case, "expected.txt").unwrap();
    let (kind, what) = expected.trim().split_once(": ").unwrap();
    (kind.to_owned(), what.to_owned())
}

/// A runtime with the real compiler and a good method, the neighbor.
fn runtime(folder: &Path) -> Arc<Runtime> {
    let runtime = runtime_with(folder, |config| {
        let child = CompilerChild::new(env!("CARGO_BIN_EXE_kassette"), ["compile-module"]);
        // Generous limits except for CPU time, all of which the bomb uses. One second is the smallest limit that
        // the kernel enforces; honest modules of this size need a tenth of it.
        let limits = |bytes| CompileLimits {
            cpu: Duration::from_secs(if bytes < 1 << 20 { 1 } else { 5 }),
            ..CompileLimits::for_size(30 << 20)
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

/// Checks that the neighbor still works.
#[track_caller]
fn unharmed(runtime: &Runtime, case: &str) {
    let beside = runtime.method(MethodId::Paypal).expect(case);
    let verdicts = beside.rank(&context(&["a"])).expect(case).expect(case);
    assert_eq!(verdicts[0].outcome.as_deref(), Ok("beside"), "{case}");
}
