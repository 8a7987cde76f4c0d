//! `providers/*.toml`: one account each.

use std::collections::BTreeMap;
use std::path::Path;

use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::secret::Secret;
use kassette_files::{Holds, judge};
use kassette_gateway::settings::{Account, AccountSecret, Merchants, Terms};
use serde::Deserialize;
use url::Url;

use super::{ConfigError, Profile, Values, access};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    module: String,
    name: String,
    environment: Environment,
    #[serde(default)]
    simulated: bool,
    #[serde(default = "yes")]
    enabled: bool,
    merchants: Whose,
    #[serde(default)]
    platform_account: bool,
    #[serde(default)]
    verification_note: Option<String>,
    #[serde(default)]
    verification_url: Option<String>,
    hosts: Vec<String>,
    redirect_hosts: Vec<String>,
    #[serde(default)]
    settings: BTreeMap<String, toml::Value>,
    #[serde(default)]
    secrets: BTreeMap<String, SecretTable>,
    methods: BTreeMap<String, TermsTable>,
}

const fn yes() -> bool {
    true
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Whose {
    All(String),
    Only(Vec<u64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretTable {
    /// The value itself.
    #[serde(default)]
    value: Option<Secret>,
    /// Or the environment variable that holds it.
    #[serde(default)]
    env: Option<String>,
    /// Or the file.
    #[serde(default)]
    file: Option<std::path::PathBuf>,
    /// The value before a rotation; signatures under it still count.
    #[serde(default)]
    old_value: Option<Secret>,
    /// Hosts that may see it; all of the account's where absent.
    #[serde(default)]
    hosts: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct TermsTable {
    limits: BTreeMap<String, Limits>,
    fee_basis_points: Option<u32>,
    fee_fixed: BTreeMap<String, String>,
    priority: i32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Limits {
    #[serde(default)]
    min: Option<String>,
    #[serde(default)]
    max: Option<String>,
}

/// Reads an account; the file's name is its id.
///
/// # Errors
/// Everything that is wrong with a file that can be read.
pub(super) fn read(path: &Path, stem: &str, profile: Profile) -> Result<Account, Vec<ConfigError>> {
    let file: File = super::parse(path).map_err(|error| vec![error])?;
    let mut errors = Vec::new();
    let mut refuse = |why: String| errors.push(ConfigError::new(path, why));
    let serves = profile == Profile::Serve;
    if serves && file.simulated && file.environment == Environment::Live {
        refuse("a simulated account cannot be in the live environment; set environment = \"test\" or remove the file".into());
    }
    let merchants = match file.merchants {
        Whose::Only(ids) => Merchants::Only(ids.into_iter().map(MerchantId).collect()),
        Whose::All(word) if word == "all" => Merchants::All,
        Whose::All(word) => {
            refuse(format!(
                "merchants = {word:?} must be \"all\" or a list of merchant numbers"
            ));
            Merchants::Only(Vec::new())
        }
    };
    let simulated_dev = file.simulated && profile == Profile::Dev;
    if merchants == Merchants::All
        && file.environment == Environment::Live
        && !file.platform_account
        && !simulated_dev
    {
        refuse("merchants = \"all\" would take every merchant's live money into one account; list the merchants, or set platform_account = true if that is meant".into());
    }
    for (hosts, field) in [
        (&file.hosts, "hosts"),
        (&file.redirect_hosts, "redirect_hosts"),
    ] {
        if let Err(why) = check_hosts(hosts, field) {
            refuse(why);
        }
    }
    if let Some(link) = &file.verification_url
        && !Url::parse(link).is_ok_and(|url| url.scheme() == "https")
    {
        refuse("verification_url must be an https URL".into());
    }
    for (field, value, most) in [
        ("name", Some(&file.name), 40),
        ("verification_note", file.verification_note.as_ref(), 200),
    ] {
        if let Some(why) = value.and_then(|value| text_problem(value, field, most)) {
            refuse(why);
        }
    }
    let inline = |table: &SecretTable| table.value.is_some() || table.old_value.is_some();
    let holds = match file.secrets.values().any(inline) {
        true => Holds::Secret,
        false => Holds::Settings,
    };
    let mut methods = BTreeMap::new();
    for (name, table) in file.methods {
        match terms(&name, table) {
            Ok((method, terms)) => {
                methods.insert(method, terms);
            }
            Err(why) => refuse(why),
        }
    }
    let mut secrets = Vec::new();
    for (name, table) in file.secrets {
        match secret(path, name, table, profile) {
            Ok(secret) => secrets.push(secret),
            Err(why) => refuse(why),
        }
    }
    let id = AccountId::parse(stem);
    if let Err(error) = &id {
        refuse(format!("the file's name is {error}"));
    }
    let settings = settings(path, file.settings).unwrap_or_else(|wrong| {
        errors.extend(wrong);
        Vec::new()
    });
    if serves && let Err(error) = access::refused(path, holds) {
        errors.push(error);
    }
    match id {
        Ok(id) if errors.is_empty() => Ok(Account {
            id,
            module: file.module,
            name: file.name,
            environment: file.environment,
            simulated: file.simulated,
            enabled: file.enabled,
            merchants,
            methods,
            verification_note: file.verification_note,
            verification_url: file.verification_url,
            settings,
            secrets,
            hosts: file.hosts,
            redirect_hosts: file.redirect_hosts,
        }),
        _ => Err(errors),
    }
}

/// Settings are text to a module; numbers and switches are written as text for the operator's ease.
///
/// # Errors
/// Each that is none.
pub(super) fn settings(
    path: &Path,
    table: BTreeMap<String, toml::Value>,
) -> Result<Values, Vec<ConfigError>> {
    let plain = |name: &str| {
        !name.is_empty()
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    let (mut settings, mut errors) = (Vec::new(), Vec::new());
    for (name, value) in table {
        let mut refuse = |wanted: &str| {
            let why = format!("the setting {name} must be {wanted}");
            errors.push(ConfigError::new(path, why));
        };
        if !plain(&name) {
            refuse("kebab-case");
            continue;
        }
        let text = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(switch) => switch.to_string(),
            _ => {
                refuse("a text, a whole number, true or false");
                continue;
            }
        };
        settings.push((name, text));
    }
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(errors)
    }
}

/// What is wrong with a short text for people.
fn text_problem(text: &str, field: &str, most: usize) -> Option<String> {
    let fits = !text.trim().is_empty()
        && text.chars().count() <= most
        && !text.chars().any(char::is_control);
    (!fits).then(|| format!("{field} must be 1-{most} printable characters"))
}

/// `api.example.com`, `*.example.com`, each with a port where it is not the scheme's.
fn check_hosts(hosts: &[String], field: &str) -> Result<(), String> {
    for host in hosts {
        let name = host.strip_prefix("*.").unwrap_or(host);
        let url = Url::parse(&format!("https://{name}/"));
        let plain = url.is_ok_and(|url| {
            url.host_str().is_some() && url.path() == "/" && url.username().is_empty()
        });
        if !plain || name.contains(['/', '@', '?', '#', '*']) {
            return Err(format!(
                "{field}: {host:?} is no host name; write it like \"api.example.com\" or \"*.example.com\""
            ));
        }
    }
    Ok(())
}

fn secret(
    path: &Path,
    name: String,
    table: SecretTable,
    profile: Profile,
) -> Result<AccountSecret, String> {
    let mut values = Vec::new();
    match (table.value, table.env, table.file) {
        (Some(value), None, None) => values.push(value),
        (None, Some(variable), None) => {
            values.push(Secret::new(std::env::var(&variable).map_err(|_| {
                format!("secret {name:?}: the environment variable {variable} is not set")
            })?))
        }
        (None, None, Some(file)) => {
            let file = path.parent().unwrap_or(Path::new(".")).join(file);
            let refuse =
                |why: &dyn std::fmt::Display| format!("secret {name:?}: {} {why}", file.display());
            if profile == Profile::Serve {
                judge(&file, Holds::Secret).map_err(|exposed| refuse(&exposed))?;
            }
            let text = std::fs::read_to_string(&file)
                .map_err(|error| refuse(&format_args!("cannot be read: {error}")))?;
            values.push(Secret::new(text.trim_end_matches(['\r', '\n'])));
        }
        _ => {
            return Err(format!(
                "secret {name:?}: set exactly one of value, env and file"
            ));
        }
    }
    values.extend(table.old_value);
    if values.iter().any(|value| value.expose().is_empty()) {
        return Err(format!("secret {name:?} is empty"));
    }
    check_hosts(&table.hosts, "a secret's hosts")?;
    Ok(AccountSecret {
        name,
        values,
        hosts: table.hosts,
    })
}

fn terms(name: &str, table: TermsTable) -> Result<(MethodId, Terms), String> {
    let method = MethodId::parse(name).ok_or_else(|| {
        format!("methods: {name:?} is no payment method's id, which is written like \"ideal\"")
    })?;
    let currency = |code: &str| {
        Currency::parse(code)
            .ok_or_else(|| format!("methods.{name}: {code:?} is no supported currency"))
    };
    let amount = |text: &str| {
        Minor::parse(text).map_err(|error| format!("methods.{name}: amount {text:?} {error}"))
    };
    let mut terms = Terms {
        fee_basis_points: table.fee_basis_points,
        priority: table.priority,
        ..Terms::default()
    };
    if terms.fee_basis_points.is_some_and(|points| points > 10_000) {
        return Err(format!(
            "methods.{name}: fee_basis_points must be at most 10000 (100 %)"
        ));
    }
    for (code, fixed) in table.fee_fixed {
        terms.fee_fixed.insert(currency(&code)?, amount(&fixed)?);
    }
    for (code, limits) in table.limits {
        let least = limits.min.as_deref().map(amount).transpose()?;
        let most = limits.max.as_deref().map(amount).transpose()?;
        if least.zip(most).is_some_and(|(least, most)| least > most) {
            return Err(format!(
                "methods.{name}: the minimum in {code} is above the maximum"
            ));
        }
        terms.limits.insert(currency(&code)?, (least, most));
    }
    Ok((method, terms))
}
