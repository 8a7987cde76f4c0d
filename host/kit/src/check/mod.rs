//! What every module is asked before it is shipped.

mod method;
mod provider;

use std::time::Duration;

use kassette_runtime::{LoadError, Opened, OpenedModule};
use serde::Serialize;

use crate::facts;
use crate::harness::Harness;

/// What was found out about a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Whether all of it holds.
    pub passed: bool,
    /// In order; what could not be looked at any more is left out.
    pub checks: Vec<Check>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// One word.
    pub name: &'static str,
    pub passed: bool,
    /// What was found: where it does not hold, what to do.
    pub message: String,
}

impl Check {
    fn held(name: &'static str, message: impl Into<String>) -> Self {
        Self {
            name,
            passed: true,
            message: message.into(),
        }
    }

    fn of(name: &'static str, outcome: Result<String, String>) -> Self {
        let passed = outcome.is_ok();
        let (Ok(message) | Err(message)) = outcome;
        Self {
            name,
            passed,
            message,
        }
    }
}

impl CheckReport {
    /// What these checks add up to.
    #[must_use]
    pub fn of(checks: Vec<Check>) -> Self {
        Self {
            passed: checks.iter().all(|check| check.passed),
            checks,
        }
    }

    /// The first check that failed.
    #[must_use]
    pub fn failure(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passed)
    }
}

/// Checks a module: that a server would load it, and that its answers are those that the contract
/// demands. `file_name` is what it is called, where it is called after its slot.
///
/// Takes the time of a compilation and of some hundred calls.
pub fn check(harness: &Harness, bytes: &[u8], file_name: Option<&str>) -> CheckReport {
    let mut checks = Vec::new();
    match harness.open(bytes) {
        Err(error) => refused(&error, bytes.len(), &mut checks),
        Ok(opened) => {
            loaded(&opened, bytes.len(), &mut checks);
            checks.extend(named(&opened, file_name));
            match &opened.module {
                OpenedModule::Method(module) => checks.extend(method::checks(module, None)),
                OpenedModule::Provider(module) => checks.extend(provider::checks(module)),
            }
        }
    }
    CheckReport::of(checks)
}

/// Asks a loaded module what [`check`] asks, but for its CPU time, within about `budget`: what is answered in
/// milliseconds is asked everything, a slow module less of each.
///
/// # Errors
/// The first check that fails, for the operator.
pub fn accept(module: &OpenedModule, budget: Duration) -> Result<(), String> {
    let checks = match module {
        OpenedModule::Method(module) => method::checks(module, Some(budget)),
        OpenedModule::Provider(module) => provider::checks(module),
    };
    match CheckReport::of(checks).failure() {
        None => Ok(()),
        Some(failed) => Err(format!("{}: {}", failed.name, failed.message)),
    }
}

/// The steps of loading, in their order.
const STEPS: [&str; 3] = ["file", "world", "describe"];

/// How far a refused module got.
fn refused(error: &LoadError, bytes: usize, checks: &mut Vec<Check>) {
    let step = match error {
        LoadError::UnknownImport { .. }
        | LoadError::Network { .. }
        | LoadError::Wasi { .. }
        | LoadError::OtherVersion { .. }
        | LoadError::MissingExport { .. }
        | LoadError::NoWorld
        | LoadError::Types(_) => 1,
        LoadError::Describe(_)
        | LoadError::OtherId { .. }
        | LoadError::NoSuchMethod(_)
        | LoadError::NoSlot(_) => 2,
        _ => 0,
    };
    let [file, world, describe] = STEPS;
    if step > 0 {
        checks.push(Check::held(file, size(bytes)));
    }
    if step > 1 {
        checks.push(Check::held(world, "imports and exports fit"));
    }
    let name = [file, world, describe][step];
    checks.push(Check::of(name, Err(error.to_string())));
}

fn loaded(opened: &Opened, bytes: usize, checks: &mut Vec<Check>) {
    let [file, world, describe] = STEPS;
    checks.push(Check::held(file, size(bytes)));
    let (kind, wit) = (facts::world(&opened.slot), &opened.wit);
    checks.push(Check::held(world, format!("{kind}, contract {wit}")));
    checks.push(Check::held(describe, opened.slot.to_string()));
}

fn size(bytes: usize) -> String {
    format!("a component of {bytes} bytes")
}

/// A file that is called after a slot must be called after its own.
fn named(opened: &Opened, file_name: Option<&str>) -> Option<Check> {
    let stem = file_name?.strip_suffix(".wasm")?;
    if !stem.starts_with("method.") && !stem.starts_with("provider.") {
        return None;
    }
    let slot = opened.slot.as_str();
    Some(Check::of(
        "slot",
        if stem == slot {
            Ok(format!("the file is called after its slot {slot}"))
        } else {
            Err(format!(
                "the file is called {stem}.wasm, but the module describes itself for {slot}; rename the file or fix its id"
            ))
        },
    ))
}
