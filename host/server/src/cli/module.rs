//! `kassette plugin inspect`, `check`, `install`, `keygen` and `sign`: commands for module files that need no
//! server.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use kassette_domain::id::Digest;
use kassette_kit::{Check, CheckReport, Facts, Harness, NoNetwork};
use kassette_runtime::MAX_MODULE_BYTES;
use serde::Serialize;

use super::output::print;
use super::{signing, table};
use crate::config::Config;
use crate::files::{make_private_folder, open_regular, read_regular};

/// A command for a module file.
pub(super) enum OnFile {
    /// Show facts about the module.
    Inspect(PathBuf),
    /// Check whether the module is acceptable.
    Check(PathBuf),
    /// Write the bundled modules.
    Install(Folder),
    /// Generate a key pair for signatures.
    Keygen {
        secret_key: PathBuf,
        public_key: PathBuf,
    },
    /// Sign the module.
    Sign {
        file: PathBuf,
        secret_key: PathBuf,
        output: Option<PathBuf>,
    },
}

/// Folder that modules are written to.
pub(super) enum Folder {
    Named(PathBuf),
    /// The plugin folder of this configuration.
    Configured(PathBuf),
}

/// Runs a command.
///
/// # Errors
/// A sentence with the reason why the module would be rejected or the command failed.
pub(super) async fn run(what: OnFile, json: bool) -> Result<(), String> {
    let done = tokio::task::spawn_blocking(move || match what {
        OnFile::Inspect(path) => inspect(&path, json),
        OnFile::Check(path) => check(&path, json),
        OnFile::Install(folder) => install(folder, json),
        OnFile::Keygen {
            secret_key,
            public_key,
        } => signing::keygen(&secret_key, &public_key, json),
        OnFile::Sign {
            file,
            secret_key,
            output,
        } => signing::sign_file(&file, &read(&file)?, &secret_key, output, json),
    });
    done.await.map_err(|_| "the check panicked".to_owned())?
}

/// A harness that opens modules like the gateway, in a compiler child process, but without network access.
fn harness() -> Result<Harness, String> {
    Harness::with(crate::compiler::child(), NoNetwork).map_err(|error| error.to_string())
}

/// Reads a file, up to one byte more than the maximum size, so that a file that is too large is detected.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let mut bytes = Vec::new();
    open_regular(path)
        .and_then(|file| {
            file.take(MAX_MODULE_BYTES as u64 + 1)
                .read_to_end(&mut bytes)
        })
        .map_err(failed)?;
    Ok(bytes)
}

fn inspect(path: &Path, json: bool) -> Result<(), String> {
    let bytes = read(path)?;
    let refused = |error: kassette_runtime::LoadError| format!("{}: {error}", path.display());
    let opened = harness()?.open(&bytes).map_err(refused)?;
    let facts = Facts::new(&opened, bytes.len());
    print(&match json {
        true => as_json(&facts)?,
        false => facts_table(&facts),
    })
}

fn check(path: &Path, json: bool) -> Result<(), String> {
    let name = path.file_name().and_then(|name| name.to_str());
    let report = match read(path) {
        Ok(bytes) => kassette_kit::check(&harness()?, &bytes, name),
        Err(why) => CheckReport::new(vec![Check {
            name: "file",
            passed: false,
            message: why,
        }]),
    };
    print(&match json {
        true => as_json(&report)?,
        false => listed(&report),
    })?;
    match report.failure() {
        None => Ok(()),
        Some(check) => Err(format!("{}: {}", path.display(), check.message)),
    }
}

/// A module that was written.
#[derive(Serialize)]
struct Written {
    slot: String,
    digest: String,
    path: String,
}

/// Writes all missing modules. Writes none if one of them would replace a different version.
fn install(folder: Folder, json: bool) -> Result<(), String> {
    let modules = crate::bundle::modules()?;
    if modules.is_empty() {
        return Err("this program brings no modules along: only that of a release does".into());
    }
    let folder = match folder {
        Folder::Named(folder) => folder,
        Folder::Configured(config) => {
            let main = Config::read_main(&config).map_err(|error| error.to_string())?;
            config.join(main.plugin_dir)
        }
    };
    let at = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    make_private_folder(&folder).map_err(|error| at(&folder, error))?;
    let mut written = Vec::new();
    let mut missing = Vec::new();
    let mut others = Vec::new();
    for (slot, bytes) in &modules {
        let path = folder.join(format!("{slot}.wasm"));
        match read_regular(&path) {
            Ok(there) if there == *bytes => {}
            Ok(_) => others.push(path.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                missing.push((path.clone(), bytes));
            }
            Err(error) => return Err(at(&path, error)),
        }
        written.push(Written {
            slot: slot.to_string(),
            digest: Digest::hash(bytes).to_string(),
            path: path.display().to_string(),
        });
    }
    if !others.is_empty() {
        return Err(format!(
            "another version stands there, and nothing was written; remove it first: {}",
            others.join(", ")
        ));
    }
    for (path, bytes) in missing {
        kassette_files::write(&path, 0o644, bytes).map_err(|error| at(&path, error))?;
    }
    print(&match json {
        true => as_json(&serde_json::json!({ "modules": written }))?,
        false => {
            let rows = written.iter();
            let rows = rows.map(|it| [&it.slot, &it.digest, &it.path].map(String::clone));
            table::bare(&rows.collect::<Vec<_>>(), table::width())
        }
    })
}

fn as_json(value: &impl Serialize) -> Result<String, String> {
    let text = serde_json::to_string_pretty(value).map_err(|error| error.to_string())?;
    Ok(format!("{text}\n"))
}

fn listed(report: &CheckReport) -> String {
    let checks = report.checks.iter().map(|check| {
        let outcome = if check.passed { "ok" } else { "FAILED" };
        [check.name, outcome, &check.message].map(str::to_owned)
    });
    table::bare(&checks.collect::<Vec<_>>(), table::width())
}

fn facts_table(facts: &Facts) -> String {
    let mut rows = Vec::new();
    let mut row = |name: &str, value: String| {
        if !value.is_empty() {
            rows.push([name.to_owned(), value]);
        }
    };
    row("Slot", facts.slot.clone());
    row("Name", format!("{} {}", facts.name, facts.version));
    row("World", format!("{} {}", facts.kind, facts.wit));
    row("Digest", facts.digest.clone());
    row(
        "Class",
        format!(
            "{}: {} ms of CPU time and {} MiB a call",
            facts.class,
            facts.cpu_ms,
            facts.memory_bytes >> 20
        ),
    );
    row("File", format!("{} bytes", facts.file_bytes));
    row("Machine code", format!("{} bytes", facts.code_bytes));
    row(
        "Memory",
        format!(
            "{} KiB at first, in {}",
            facts.initial_memory_bytes >> 10,
            facts.memories
        ),
    );
    row("Imports", facts.imports.join("\n"));
    row("Exports", facts.exports.join("\n"));
    if facts.kind == "method" {
        let any = facts.currencies.is_empty();
        row(
            "Currencies",
            if any {
                "any".into()
            } else {
                facts.currencies.join(" ")
            },
        );
    }
    let services = facts
        .services
        .iter()
        .map(|service| match service.currencies.as_slice() {
            [] => format!("{}: any currency", service.method),
            some => format!("{}: {}", service.method, some.join(" ")),
        });
    row("Takes", services.collect::<Vec<_>>().join("\n"));
    let needed = |all: &[kassette_kit::Needed]| {
        let lines = all.iter().map(|need| {
            let otherwise = match (&need.default, need.required) {
                (_, true) => "required".to_owned(),
                (Some(default), false) => format!("default {default}"),
                (None, false) => "optional".to_owned(),
            };
            format!("{}, {} ({otherwise}): {}", need.name, need.form, need.help)
        });
        lines.collect::<Vec<_>>().join("\n")
    };
    row("Settings", needed(&facts.settings));
    row("Secrets", needed(&facts.secrets));
    row("Tokens", facts.tokens.join(" "));
    table::bare(&rows, table::width())
}
