//! `kassette config check`: everything that `serve` would refuse, without starting it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_gateway::settings::Settings;
use kassette_gateway::workers::{settings_problems, untaken};
use kassette_http::{Client, Guard};
use kassette_runtime::{Runtime, RuntimeConfig};
use serde::Serialize;

use super::remote::print;
use super::stopped_store;
use crate::config::{Config, ConfigError, Profile, plugin_problems};
use crate::files;
use crate::listen::tls_acceptor;

/// The options of `kassette config check`.
#[derive(Args)]
pub(super) struct CheckArgs {
    /// The folder.
    #[arg(long, default_value = "config")]
    config: PathBuf,
    /// Leave out what only the modules know, such as settings that they need: they are not compiled.
    #[arg(long)]
    without_modules: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Serialize)]
struct Checked {
    folder: String,
    accounts: usize,
    methods: usize,
    /// What `serve` would refuse.
    problems: Vec<Problem>,
    /// What it would start with all the same.
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Problem {
    path: String,
    line: Option<usize>,
    why: String,
}

impl From<ConfigError> for Problem {
    fn from(error: ConfigError) -> Self {
        Self {
            path: error.path,
            line: error.line,
            why: error.why,
        }
    }
}

/// Reads a configuration as `serve` would, and says all that is wrong with it.
pub(super) async fn check(args: CheckArgs) -> Result<(), String> {
    let (folder, modules) = (args.config.clone(), !args.without_modules);
    let checked = tokio::task::spawn_blocking(move || checked(&folder, modules))
        .await
        .map_err(|_| "the check panicked".to_owned())?;
    let problems = checked.problems.len();
    if args.json {
        let text = serde_json::to_string_pretty(&checked).map_err(|error| error.to_string())?;
        print(&format!("{text}\n"))?;
    } else {
        for problem in &checked.problems {
            let line = problem
                .line
                .map_or(String::new(), |line| format!(":{line}"));
            eprintln!("{}{line}: {}", problem.path, problem.why);
        }
        for warning in &checked.warnings {
            eprintln!("warning: {warning}");
        }
    }
    match problems {
        0 if args.json => Ok(()),
        0 => print(&format!(
            "{}: {} accounts, settings for {} methods: all is well\n",
            checked.folder, checked.accounts, checked.methods
        )),
        1 => Err(format!("{}: one problem", checked.folder)),
        more => Err(format!("{}: {more} problems", checked.folder)),
    }
}

/// The lines and sentences of what is wrong with a configuration, without what only the modules know.
pub(crate) fn problems(folder: &Path) -> Vec<(Option<usize>, String)> {
    let problems = checked(folder, false).problems.into_iter();
    problems
        .map(|problem| (problem.line, problem.why))
        .collect()
}

fn checked(folder: &Path, modules: bool) -> Checked {
    let (config, errors) = Config::read_all(folder, Profile::Serve);
    let mut problems: Vec<Problem> = errors.into_iter().map(Problem::from).collect();
    let main_file = folder.join("kassette.toml");
    let mut refused = |path: &Path, line: Option<usize>, why: String| {
        problems.push(Problem {
            path: path.display().to_string(),
            line,
            why,
        });
    };
    let main = &config.main;
    let text = std::fs::read_to_string(&main_file).ok();
    let line = |setting: &str| crate::config::line_of(text.as_deref()?, setting);
    let public_url = main.public_origin().unwrap_or_else(|why| {
        // A file that is not read says nothing about what stands in it.
        if text.is_some() {
            refused(&main_file, line("public_url"), why);
        }
        String::new()
    });
    let plugin_dir = config.path(&main.plugin_dir);
    for problem in plugin_problems(&plugin_dir) {
        refused(Path::new(&problem.path), None, problem.why);
    }
    let data_dir = config.path(&main.data_dir);
    if let Err(why) = files::can_be_a_folder(&data_dir) {
        refused(&main_file, line("data_dir"), format!("data_dir: {why}"));
    }
    let key_file = main
        .master_key_file
        .as_deref()
        .map(|path| config.path(path));
    let key = crate::master_key::read(key_file.as_deref()).map_err(|error| error.to_string());
    if let Err(why) = key.and_then(|key| stopped_store::parse(&key).map(drop)) {
        refused(&main_file, line("master_key_file"), why);
    }
    for (name, certificate, key) in [
        ("tls_cert", &main.tls_cert, &main.tls_key),
        ("admin_tls_cert", &main.admin_tls_cert, &main.admin_tls_key),
    ] {
        if let (Some(certificate), Some(key)) = (certificate, key)
            && let Err(error) = tls_acceptor(&config.path(certificate), &config.path(key))
        {
            refused(&main_file, line(name), error.to_string());
        }
    }
    if !main.admin_listen.ip().is_loopback() && main.admin_tls_cert.is_none() {
        let why = format!(
            "admin_listen = {} is not loopback, so it needs admin_tls_cert and admin_tls_key",
            main.admin_listen
        );
        refused(&main_file, line("admin_listen"), why);
    }
    if main.listen == main.admin_listen && main.listen.port() != 0 {
        let why = "listen and admin_listen are the same address: give each its own".to_owned();
        refused(&main_file, line("admin_listen"), why);
    }
    let settings = config.settings(&public_url, Profile::Serve);
    let (wrong, warnings) = accounts(&settings, modules.then_some(plugin_dir.as_path()));
    for (account, why) in wrong {
        let path = folder.join("providers").join(format!("{account}.toml"));
        refused(&path, None, why);
    }
    Checked {
        folder: folder.display().to_string(),
        accounts: config.accounts.len(),
        methods: config.methods.len(),
        problems,
        warnings,
    }
}

/// What is wrong with accounts, and what is only worth saying. With the folder of the modules each
/// account is held against what its module needs.
fn accounts(
    settings: &Settings,
    plugin_dir: Option<&Path>,
) -> (Vec<(String, String)>, Vec<String>) {
    let mut warnings = Vec::new();
    let runtime = plugin_dir
        .filter(|folder| folder.is_dir())
        .and_then(|folder| {
            let clock = Arc::new(|| SystemClock.now());
            // Modules are asked what they need, which takes no requests.
            let client = Client::new(Guard {
                allow_loopback: false,
            });
            match Runtime::start(RuntimeConfig::new(folder, clock), client) {
                Ok(runtime) => Some(runtime),
                Err(error) => {
                    warnings.push(format!("{}: {error}", folder.display()));
                    None
                }
            }
        });
    if let Some(folder) = plugin_dir.filter(|folder| !folder.is_dir()) {
        warnings.push(format!("{}: there are no modules yet", folder.display()));
    }
    for slot in runtime.iter().flat_map(|runtime| runtime.slots()) {
        if let Some(error) = slot.last_error {
            warnings.push(format!("{}: {error}", slot.slot));
        }
    }
    let describe = |module: &str| {
        let module = runtime.as_ref()?.provider(module)?;
        Some(module.description().clone())
    };
    let wrong = settings_problems(settings, describe);
    if let Some(runtime) = &runtime {
        for account in settings.accounts.values() {
            let Some(module) = runtime.provider(&account.module) else {
                warnings.push(format!(
                    "providers/{}.toml: its module {} is not there; the account is not used until \
                     it is",
                    account.id, account.module
                ));
                continue;
            };
            for method in untaken(account, module.description()) {
                warnings.push(format!(
                    "providers/{}.toml: its module {} does not take {method}, which is not offered \
                     through it",
                    account.id, account.module
                ));
            }
        }
        for method in settings.methods.keys() {
            if runtime.method(*method).is_none() {
                warnings.push(format!(
                    "methods/{method}.toml: there is no module method.{method} yet"
                ));
            }
        }
    }
    (wrong, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_main_file_lacks_its_public_url_like_any_other() {
        let folder = tempfile::tempdir().unwrap();
        let told = |text: &str| {
            std::fs::write(folder.path().join("kassette.toml"), text).unwrap();
            let problems = problems(folder.path()).into_iter();
            problems
                .map(|(_, why)| why)
                .find(|why| why.contains("public_url"))
        };
        assert!(told("").is_some());
        assert_eq!(told(""), told("# nothing yet\n"));
    }
}
