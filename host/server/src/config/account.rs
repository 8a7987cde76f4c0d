//! `providers/*.toml`: one account per file.

use std::collections::BTreeMap;
use std::path::Path;

use kassette_domain::id::{AccountId, MerchantId};
use kassette_domain::key::Environment;
use kassette_domain::method::MethodId;
use kassette_domain::money::{Currency, Minor};
use kassette_domain::order::is_name;
use kassette_domain::secret::Secret;
use kassette_files::{Holds, judge};
use kassette_gateway::settings::{Account, AccountSecret, Merchants, Terms};
use kassette_runtime::REDACTED_LEAST;
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
    /// The environment variable that holds the value.
    #[serde(default)]
    env: Option<String>,
    /// The file that holds the value, relative to the folder of the account file.
    #[serde(default)]
    file: Option<std::path::PathBuf>,
    /// Value before a rotation. Signatures made with it are still accepted.
    #[serde(default)]
    old_value: Option<Secret>,
    /// Hosts that may receive the secret. If empty, all hosts of the account may.
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

/// Reads an account. The stem of the file name is the account's id.
///
/// # Errors
/// All problems of the file. If it is not valid TOML, that is the only one.
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
            Ok(secret) if serves && file.environment == Environment::Live && is_short(&secret) => {
                refuse(format!(
                    "secret {:?} has fewer than {REDACTED_LEAST} characters: it would not be removed \
                     from what the provider answers; have the provider make a longer one",
                    secret.name
                ));
            }
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

/// Converts the settings to text, which is what modules receive. For convenience, an operator may also write
/// numbers and booleans.
///
/// # Errors
/// One error per setting with an invalid name or type.
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

/// Returns the problem with a short text that people read. `None` if it is acceptable.
fn text_problem(text: &str, field: &str, most: usize) -> Option<String> {
    is_name(text, most)
        .err()
        .map(|why| format!("{field} {why}"))
}

/// Checks host names: `api.example.com` or `*.example.com`, each with an optional port.
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

/// Whether a secret is too short to be redacted from a provider's responses. User names (secrets whose name
/// ends with `-user`) are exempt, because they are not confidential.
fn is_short(secret: &AccountSecret) -> bool {
    let is_user_name = secret.name.ends_with("-user");
    let short = |value: &Secret| value.expose().chars().count() < REDACTED_LEAST;
    !is_user_name && secret.values.iter().any(short)
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
