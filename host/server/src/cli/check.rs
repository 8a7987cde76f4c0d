//! `kassette config check`: reports everything that `serve` would reject, without starting it.

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
use super::service_user::service_user;
use crate::config::{Config, ConfigError, Profile, start_problems};
use crate::simulators::{PlannedAccount, SANDBOX};
use crate::status::{self, certificate::Certificate};

/// The options of `kassette config check`.
#[derive(Args)]
pub(super) struct CheckArgs {
    /// Folder of the configuration.
    #[arg(long, default_value = "config")]
    config: PathBuf,
    /// Rules to check against, and whether settings may name the accounts that `dev` simulates.
    #[arg(long, value_enum, default_value_t = Profile::Serve)]
    profile: Profile,
    /// Leave out the checks that need the modules, such as required settings: the modules are not compiled.
    #[arg(long)]
    without_modules: bool,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Result of the check.
#[derive(Serialize)]
struct Checked {
    folder: String,
    accounts: usize,
    methods: usize,
    /// User id for which root checked owners and permissions of files. `None` for the user that runs the command.
    judged_as: Option<u32>,
    /// Everything that `serve` would reject, and certificates that clients reject.
    problems: Vec<Problem>,
    /// Findings with which `serve` would start anyway.
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

/// Reads a configuration as `serve` or `dev` would, and prints all problems. Returns an error if there are any.
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
        if let Some(user) = checked.judged_as {
            eprintln!("judged as user {user}, whom the service runs as");
        }
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

/// Lines and descriptions of the problems with a configuration, without the checks that need the modules.
pub(crate) fn problems(folder: &Path) -> Vec<(Option<usize>, String)> {
    let checked = checked(folder, Profile::Serve, false);
    let problems = checked.problems.into_iter();
    problems
        .map(|problem| (problem.line, problem.why))
        .collect()
}

fn checked(folder: &Path, profile: Profile, modules: bool) -> Checked {
    let judged_as = judge_as_service(folder, profile);
    let (config, errors) = Config::read_all(folder, profile);
    let mut checked = Checked {
        folder: folder.display().to_string(),
        accounts: config.accounts.len(),
        methods: config.methods.len(),
        judged_as,
        problems: errors.into_iter().map(Problem::from).collect(),
        warnings: Vec::new(),
    };
    // If the file cannot be parsed, there is nothing to check. `dev` does not need the file, because it has its
    // own folders, keys and addresses.
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
        if serve {
            judge_certificates(&config, &mut checked);
            checked.warnings.extend(switched_off(&config));
        }
        let runtime = match modules && plugin_dir.is_dir() {
            true => load(&config, &plugin_dir, &mut checked),
            false => None,
        };
        judge(&config, profile, runtime, &mut checked);
    }
    checked
}

/// Makes checks by root apply to the service's user, because files that root can use may prevent the service from
/// starting. Returns the user's id.
fn judge_as_service(folder: &Path, profile: Profile) -> Option<u32> {
    if profile != Profile::Serve {
        return None;
    }
    let main = Config::read_main(folder).ok()?;
    let user = service_user(folder, &folder.join(&main.data_dir))?;
    let id = user.id;
    kassette_files::judge_as(user);
    Some(id)
}

/// Checks the listeners' certificates. `serve` starts with a certificate that clients reject, but logs it.
fn judge_certificates(config: &Config, checked: &mut Checked) {
    let (main, now) = (&config.main, SystemClock.now());
    for file in [&main.tls_cert, &main.admin_tls_cert].into_iter().flatten() {
        let path = config.path(file);
        // An unreadable certificate is already reported by `start_problems`.
        let Ok(certificate) = Certificate::read(&path) else {
            continue;
        };
        let path = path.display().to_string();
        match certificate.refusal(now) {
            Some(why) => checked.problems.push(Problem {
                path,
                line: None,
                why,
            }),
            None if certificate.ends_soon(now) => {
                let days = certificate.days_left(now);
                let warning = format!("{path}: it ends in {days} days: renew it");
                checked.warnings.push(warning);
            }
            None => {}
        }
    }
}

/// Warnings about enabled accounts that an operator has switched off in the running server, from its last report.
fn switched_off(config: &Config) -> Vec<String> {
    let data_dir = config.path(&config.main.data_dir);
    // Without a readable report, the server has never run here, or it belongs to another user.
    let off = status::read(&data_dir).map_or_else(|_| Vec::new(), |file| file.switched_off);
    let accounts = config.accounts.values();
    let enabled = accounts.filter(|account| account.enabled);
    let switched = enabled.filter(|account| off.iter().any(|off| *off == account.id.as_str()));
    let warning = |id: &AccountId| {
        format!(
            "providers/{id}.toml: the account is switched off all the same; kassette provider update {id} --enabled \
             file removes the switch"
        )
    };
    switched.map(|account| warning(&account.id)).collect()
}

/// Checks the files of methods and accounts like the gateway, and reports missing modules. Without modules, skips
/// the checks that need them.
fn judge(config: &Config, profile: Profile, runtime: Option<Arc<Runtime>>, checked: &mut Checked) {
    let settings = config.settings("", profile);
    let simulated = match profile {
        Profile::Serve if config.main.sandbox => {
            vec![PlannedAccount::for_module(SANDBOX, Environment::Test)]
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
        if modules
            .provider(&account.module, account.environment)
            .is_none()
        {
            checked.warnings.push(format!(
                "providers/{}.toml: its module {} is not there; the account is not used until it is",
                account.id, account.module
            ));
        }
    }
    for method in settings.methods.keys() {
        if modules.method(*method, Environment::Live).is_none() {
            checked.warnings.push(format!(
                "methods/{method}.toml: there is no module method.{method} yet"
            ));
        }
    }
}

/// Loads the modules of a folder. `None` with a warning if that fails.
fn load(config: &Config, plugin_dir: &Path, checked: &mut Checked) -> Option<Arc<Runtime>> {
    let clock = Arc::new(|| SystemClock.now());
    // The checks only ask modules for metadata, which does not send requests.
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
        // `dev` does not need a file, or the origin, key or folders that it would name.
        assert!(why(Profile::Dev).is_empty());
        assert!(!why(Profile::Serve).is_empty());
        std::fs::write(folder.path().join("kassette.toml"), "sandbox = true\n").unwrap();
        assert!(why(Profile::Dev).is_empty());
        std::fs::write(folder.path().join("kassette.toml"), "sandbx = true\n").unwrap();
        assert!(why(Profile::Dev)[0].contains("sandbx is unknown"));
    }
}
