//! Parses the text values of settings.
//!
//! A missing or empty setting has its default. A malformed setting is a refusal that names it, and never has its
//! default: a misspelled limit must not mean that no limit applies.
use crate::method::{Ground, Refusal, SettingForm, SettingSpec};

impl SettingSpec {
    /// A required setting. It is a text unless [`SettingSpec::of`] sets another form.
    #[must_use]
    pub fn required(name: &str, help: &str) -> Self {
        Self {
            required: true,
            ..Self::optional(name, help)
        }
    }

    /// An optional setting. It is a text unless [`SettingSpec::of`] sets another form.
    #[must_use]
    pub fn optional(name: &str, help: &str) -> Self {
        Self {
            name: name.to_owned(),
            help: help.to_owned(),
            required: false,
            form: SettingForm::Text,
            default: None,
        }
    }

    /// Sets the form.
    #[must_use]
    pub fn form(mut self, form: SettingForm) -> Self {
        self.form = form;
        self
    }

    /// Sets the allowed values.
    #[must_use]
    pub fn among(self, words: &[&str]) -> Self {
        let words = words.iter().map(|&word| word.to_owned());
        self.form(SettingForm::Choice(words.collect()))
    }

    /// Sets the default that is shown.
    #[must_use]
    pub fn or(mut self, default: &str) -> Self {
        self.default = Some(default.to_owned());
        self
    }
}

/// Names and values of settings, as in the context or the account.
pub type Settings = [(String, String)];

/// The trimmed value of a setting. `None` if it is missing or empty. Of a repeated name the last value counts.
#[must_use]
pub fn text<'a>(settings: &'a Settings, name: &str) -> Option<&'a str> {
    settings
        .iter()
        .rev()
        .find(|(key, _)| key == name)
        .map(|(_, value)| value.trim())
        .filter(|value| !value.is_empty())
}

/// Parses `true` or `false`. Returns `default` if the setting is missing.
///
/// # Errors [`Ground::Policy`] for any other value.
pub fn flag(settings: &Settings, name: &str, default: bool) -> Result<bool, Refusal> {
    match text(settings, name) {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(unreadable(name, "true or false")),
    }
}

/// Parses a whole number, such as days or per mille. `None` if the setting is missing.
///
/// # Errors [`Ground::Policy`] for any other value.
pub fn number(settings: &Settings, name: &str) -> Result<Option<u64>, Refusal> {
    match text(settings, name) {
        None => Ok(None),
        Some(value) => match value.parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(unreadable(name, "a whole number")),
        },
    }
}

/// Parses an amount in the wire form `25.00` to minor units. `None` if the setting is missing.
///
/// # Errors [`Ground::Policy`] for any other value.
pub fn amount(settings: &Settings, name: &str) -> Result<Option<u64>, Refusal> {
    match text(settings, name) {
        None => Ok(None),
        Some(value) => match crate::amount::parse(value) {
            Some(amount) => Ok(Some(amount)),
            None => Err(unreadable(name, "an amount such as 25.00")),
        },
    }
}

/// Parses a list separated by commas and trims its entries. Empty if the setting is missing.
pub fn list<'a>(settings: &'a Settings, name: &str) -> impl Iterator<Item = &'a str> {
    text(settings, name)
        .unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

/// Parses one of several values. Returns `default` if the setting is missing.
///
/// # Errors [`Ground::Policy`] for any other value.
pub fn choice<T: Copy>(
    settings: &Settings,
    name: &str,
    choices: &[(&str, T)],
    default: T,
) -> Result<T, Refusal> {
    let Some(value) = text(settings, name) else {
        return Ok(default);
    };
    match choices.iter().find(|(word, _)| *word == value) {
        Some((_, choice)) => Ok(*choice),
        None => {
            let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
            Err(unreadable(name, &words.join(" or ")))
        }
    }
}

fn unreadable(name: &str, wanted: &str) -> Refusal {
    Refusal {
        ground: Ground::Policy,
        detail: format!("setting {name} must be {wanted}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs
            .iter()
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect()
    }

    #[test]
    fn absent_and_empty_settings_have_their_default() {
        let settings = settings(&[("empty", "  ")]);
        assert_eq!(flag(&settings, "empty", true), Ok(true));
        assert_eq!(number(&settings, "absent"), Ok(None));
        assert_eq!(list(&settings, "absent").count(), 0);
    }

    #[test]
    fn a_later_setting_overlays_an_earlier_one() {
        let settings = settings(&[("days", "3"), ("days", "5")]);
        assert_eq!(number(&settings, "days"), Ok(Some(5)));
    }

    #[test]
    fn what_cannot_be_read_is_refused_by_name() {
        let settings = settings(&[("days", "three"), ("cap", "1.5"), ("on", "yes")]);
        for refusal in [
            number(&settings, "days").err(),
            amount(&settings, "cap").err(),
            flag(&settings, "on", false).err(),
        ] {
            assert_eq!(refusal.map(|refusal| refusal.ground), Some(Ground::Policy));
        }
    }

    #[test]
    fn lists_are_trimmed_and_choices_checked() {
        let settings = settings(&[("countries", "NL, BE,,"), ("rail", "swift")]);
        let countries: Vec<&str> = list(&settings, "countries").collect();
        assert_eq!(countries, ["NL", "BE"]);
        let rails = [("upi", 1), ("imps", 2)];
        let refusal = choice(&settings, "rail", &rails, 1).err();
        assert_eq!(
            refusal.map(|refusal| refusal.detail),
            Some("setting rail must be upi or imps".into())
        );
        assert_eq!(choice(&settings, "absent", &rails, 2), Ok(2));
    }
}
