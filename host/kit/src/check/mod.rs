//! Checks that every module has to pass before it is shipped.

mod method;
mod provider;

use std::time::Duration;

use kassette_runtime::{LoadError, Opened, OpenedModule};
use serde::Serialize;

use crate::facts;
use crate::harness::Harness;

/// Result of checking a module.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Whether all checks passed.
    pub passed: bool,
    /// Checks in order. After a failure, checks that depend on it are missing.
    pub checks: Vec<Check>,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Name of the check, one term.
    pub name: &'static str,
    pub passed: bool,
    /// Result; for a failed check with advice.
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

    fn new(name: &'static str, outcome: Result<String, String>) -> Self {
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
    /// Combines checks into a report.
    #[must_use]
    pub fn new(checks: Vec<Check>) -> Self {
        Self {
            passed: checks.iter().all(|check| check.passed),
            checks,
        }
    }

    /// The first check that failed, if any.
    #[must_use]
    pub fn failure(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passed)
    }
}

/// Checks whether a server would load a module, and whether its responses keep the contract. If `file_name` is the
/// name of a slot, the module must belong to that slot.
///
/// Takes the time of a compilation and some hundred calls.
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
    CheckReport::new(checks)
}

/// Runs the checks of [`check`] on a loaded module, without those of the file and of CPU time. `budget` limits the
/// time for a payment method approximately: slow modules get fewer requests. It does not apply to providers.
///
/// # Errors
/// The first failed check, as text for the operator.
pub fn accept(module: &OpenedModule, budget: Duration) -> Result<(), String> {
    let checks = match module {
        OpenedModule::Method(module) => method::checks(module, Some(budget)),
        OpenedModule::Provider(module) => provider::checks(module),
    };
    match CheckReport::new(checks).failure() {
        None => Ok(()),
        Some(failed) => Err(format!("{}: {}", failed.name, failed.message)),
    }
}

/// The steps of loading, in order.
const STEPS: [&str; 3] = ["file", "world", "describe"];

/// Adds the checks that a refused module passed, and the failed one.
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
    checks.push(Check::new(name, Err(error.to_string())));
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

/// Checks the file name. `None` if it is not the name of a slot.
fn named(opened: &Opened, file_name: Option<&str>) -> Option<Check> {
    let stem = file_name?.strip_suffix(".wasm")?;
    if !stem.starts_with("method.") && !stem.starts_with("provider.") {
        return None;
    }
    let slot = opened.slot.as_str();
    Some(Check::new(
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
