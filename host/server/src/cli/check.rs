//! `kassette config check`: everything that `serve` would refuse, without starting it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use kassette_domain::id::AccountId;
use kassette_domain::key::Environment;
use kassette_gateway::clock::{Clock as _, SystemClock};
use kassette_gateway::modules::Modules;
use kassette_gateway::wasm::WasmModules;
use kassette_gateway::workers::settings_problems;
use kassette_http::{Client, Guard};
use kassette_runtime::{Runtime, RuntimeConfig};
use serde::Serialize;

use super::output::print;
use crate::config::{Config, ConfigError, Profile, start_problems};
use crate::simulators::{PlannedAccount, SANDBOX};

/// The options of `kassette config check`.
#[derive(Args)]
pub(super) struct CheckArgs {
    /// The folder.
    #[arg(long, default_value = "config")]
    config: PathBuf,
    /// Whose rules apply, and whether settings may name the accounts that `dev` simulates.
    #[arg(long, value_enum, default_value_t = Profile::Serve)]
    profile: Profile,
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

/// Reads a configuration as `serve` or `dev` would, and says all that is wrong with it.
pub(super) async fn check(args: CheckArgs) -> Result<(), String> {
    let (folder, modules) = (args.config.clone(), !args.without_modules);
    let profile = args.profile;
    let checked = tokio::task::spawn_blocking(move || checked(&folder, profile, modules))
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
    let checked = checked(folder, Profile::Serve, false);
    let problems = checked.problems.into_iter();
    problems
        .map(|problem| (problem.line, problem.why))
        .collect()
}

fn checked(folder: &Path, profile: Profile, modules: bool) -> Checked {
    let (config, errors) = Config::read_all(folder, profile);
    let mut checked = Checked {
        folder: folder.display().to_string(),
        accounts: config.accounts.len(),
        methods: config.methods.len(),
        problems: errors.into_iter().map(Problem::from).collect(),
        warnings: Vec::new(),
    };
    // A file that cannot be read says nothing about what stands in it. `dev` needs none, and has folders,
    // keys and addresses of its own.
    let serve = profile == Profile::Serve;
    let is_absent = !serve && !folder.join("kassette.toml").exists();
    if Config::read_main(folder).is_ok() || is_absent {
        let plugin_dir = config.path(&config.main.plugin_dir);
        let problems = serve.then(|| start_problems(&config));
        let problems = problems.into_iter().flatten();
        checked.problems.extend(problems.map(Problem::from));
        let (problems, warning) = config.check_rates(profile, SystemClock.now());
        let problems = problems.into_iter().map(Problem::from);
        checked.problems.extend(problems);
        checked.warnings.extend(warning);
        let runtime = match modules && plugin_dir.is_dir() {
            true => load(&config, &plugin_dir, &mut checked),
            false => None,
        };
        judge(&config, profile, runtime, &mut checked);
    }
    checked
}

/// Judges the files of methods and accounts as the gateway does, and says which modules are missing. Without
/// modules nothing is said of what only they know.
fn judge(config: &Config, profile: Profile, runtime: Option<Arc<Runtime>>, checked: &mut Checked) {
    let settings = config.settings("", profile);
    let simulated = match profile {
        Profile::Serve if config.main.sandbox => {
            vec![PlannedAccount::of(SANDBOX, Environment::Test)]
        }
        Profile::Serve => Vec::new(),
        Profile::Dev => PlannedAccount::all(),
    };
    let simulated = simulated.iter();
    let simulated: Vec<_> = simulated
        .filter_map(|account| AccountId::parse(&account.id).ok())
        .collect();
    let modules = runtime.map(WasmModules::new);
    let modules = modules.as_ref().map(|modules| modules as &dyn Modules);
    for problem in settings_problems(&settings, &simulated, modules) {
        let placed = ConfigError::of_settings(&config.folder, &problem);
        checked.problems.push(placed.into());
    }
    let Some(modules) = modules else {
        return;
    };
    for account in settings.accounts.values() {
        if modules.provider(&account.module).is_none() {
            checked.warnings.push(format!(
                "providers/{}.toml: its module {} is not there; the account is not used until it is",
                account.id, account.module
            ));
        }
    }
    for method in settings.methods.keys() {
        if modules.method(*method).is_none() {
            checked.warnings.push(format!(
                "methods/{method}.toml: there is no module method.{method} yet"
            ));
        }
    }
}

/// The modules of a folder; none where they cannot be loaded, which is said.
fn load(config: &Config, plugin_dir: &Path, checked: &mut Checked) -> Option<Arc<Runtime>> {
    let clock = Arc::new(|| SystemClock.now());
    // Modules are asked what they take, which takes no requests.
    let client = Client::new(Guard {
        allow_loopback: false,
    });
    let bundled = crate::bundle::modules().unwrap_or_else(|why| {
        checked.warnings.push(why);
        BTreeMap::new()
    });
    let mut runtime = RuntimeConfig::new(plugin_dir, clock);
    runtime.signing_keys = config.main.plugins.keys.clone();
    let runtime = Runtime::start_with(runtime, client, None, bundled);
    let runtime = runtime.map_err(|error| {
        let warning = format!("{}: {error}", plugin_dir.display());
        checked.warnings.push(warning);
    });
    let runtime = runtime.ok()?;
    for slot in runtime.slots() {
        if let Some(error) = slot.last_error {
            checked.warnings.push(format!("{}: {error}", slot.slot));
        }
    }
    Some(runtime)
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

    #[test]
    fn a_folder_for_dev_is_judged_by_its_rules_alone() {
        let folder = tempfile::tempdir().unwrap();
        let why = |profile| -> Vec<String> {
            let problems = checked(folder.path(), profile, false).problems.into_iter();
            problems.map(|problem| problem.why).collect()
        };
        // It needs no file, and no origin, key or folder that one would name.
        assert!(why(Profile::Dev).is_empty());
        assert!(!why(Profile::Serve).is_empty());
        std::fs::write(folder.path().join("kassette.toml"), "sandbox = true\n").unwrap();
        assert!(why(Profile::Dev).is_empty());
        std::fs::write(folder.path().join("kassette.toml"), "sandbx = true\n").unwrap();
        assert!(why(Profile::Dev)[0].contains("sandbx is unknown"));
    }
}
