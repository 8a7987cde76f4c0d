//! Converts the settings in a description, and the result of checking settings, to the domain.

use kassette_domain::setting::{SettingForm, SettingSpec};

use super::bindings::method::kassette::plugin::types as wit;
use super::bounds::{self, DETAIL, at_most, bad_reply};
use crate::error::CallError;
use crate::text;

/// Maximum number of entries in each list of a description, from the contract.
pub(super) const LISTED: usize = 64;
/// Maximum length of a help text for operators, in bytes. Longer text is cut.
pub(super) const HELP: usize = 1_000;
/// Maximum length of a default that is shown, in bytes. Longer text is cut.
const DEFAULT: usize = 100;

pub(super) fn specs(specs: Vec<wit::SettingSpec>) -> Result<Vec<SettingSpec>, CallError> {
    let specs = at_most(specs, LISTED, "too many settings")?;
    let mut known: Vec<SettingSpec> = Vec::with_capacity(specs.len());
    for spec in specs {
        if known.iter().any(|known| known.name == spec.name) {
            return bad_reply("a setting is named twice");
        }
        known.push(SettingSpec {
            name: name(spec.name)?,
            help: text::cut(&spec.help, HELP),
            required: spec.required,
            form: form(spec.form)?,
            default: spec.default.map(|default| text::cut(&default, DEFAULT)),
        });
    }
    Ok(known)
}

/// Checks the name of a setting or secret.
pub(super) fn name(name: String) -> Result<String, CallError> {
    if !bounds::is_kebab(&name) {
        return bad_reply("a setting's or secret's name is not kebab-case");
    }
    Ok(name)
}

fn form(form: wit::SettingForm) -> Result<SettingForm, CallError> {
    Ok(match form {
        wit::SettingForm::Text => SettingForm::Text,
        wit::SettingForm::Flag => SettingForm::Flag,
        wit::SettingForm::Number((least, most)) => SettingForm::Number { least, most },
        wit::SettingForm::Amount => SettingForm::Amount,
        wit::SettingForm::Choice(words) if words.is_empty() => {
            return bad_reply("a setting has no word to choose");
        }
        wit::SettingForm::Choice(words) => {
            let words = at_most(words, LISTED, "a setting has too many words to choose")?;
            SettingForm::Choice(words.iter().map(|word| text::cut(word, DETAIL)).collect())
        }
        wit::SettingForm::Accounts => SettingForm::Accounts,
        wit::SettingForm::Countries => SettingForm::Countries,
        wit::SettingForm::Address => SettingForm::Address,
    })
}

/// Converts the answer of `check-settings`.
pub(crate) fn judged(answer: Result<(), String>) -> Result<(), String> {
    answer.map_err(|why| text::cut(&why, DETAIL))
}
