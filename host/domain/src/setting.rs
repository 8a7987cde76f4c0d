//! Settings of modules, and checks of the configured values.
//!
//! An unknown name or an invalid value would have no visible effect in the running gateway: it is reported before
//! the configuration takes effect.

use std::fmt;

use url::Url;

use crate::money::Minor;

/// A setting of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingSpec {
    /// Kebab-case name.
    pub name: String,
    /// Purpose, and where the operator finds the value.
    pub help: String,
    /// Whether a configuration without it is rejected.
    pub required: bool,
    /// Form of a value.
    pub form: SettingForm,
    /// Default, for people.
    pub default: Option<String>,
}

/// Form of a setting's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingForm {
    /// Any text that is not empty.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number, both limits inclusive.
    Number { least: u64, most: u64 },
    /// An amount with at most two decimals.
    Amount,
    /// One of these texts.
    Choice(Vec<String>),
    /// Ids of configured accounts, separated by commas.
    Accounts,
    /// ISO 3166-1 alpha-2 codes, separated by commas, or `any`.
    Countries,
    /// A URL: https, or http if [`Surroundings::plain_http`].
    Address,
}

/// A setting that the module would not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the setting {setting} {why}")]
pub struct SettingProblem {
    pub setting: String,
    /// The problem and its solution, as the end of a sentence that starts with the setting's name.
    pub why: String,
}

/// Context in which values are checked.
pub struct Surroundings<'a> {
    /// Whether an account with an id is configured.
    pub is_account: &'a dyn Fn(&str) -> bool,
    /// Whether a URL may be plain http, as for a simulator.
    pub plain_http: bool,
}

/// Settings that their module would not accept: unknown names and values of another form.
pub fn violations(
    specs: &[SettingSpec],
    settings: &[(String, String)],
    surroundings: &Surroundings<'_>,
) -> Vec<SettingProblem> {
    let problem = |(name, value): &(String, String)| {
        let why = match specs.iter().find(|spec| spec.name == *name) {
            None => unknown(name, specs.iter().map(|spec| spec.name.as_str())),
            Some(spec) if spec.form.takes(value.trim(), surroundings) => return None,
            Some(spec) => format!("must be {}", spec.form),
        };
        Some(SettingProblem {
            setting: name.clone(),
            why,
        })
    };
    settings.iter().filter_map(problem).collect()
}

/// Required settings that are missing.
pub fn missing(specs: &[SettingSpec], settings: &[(String, String)]) -> Vec<SettingProblem> {
    let is_there = |spec: &SettingSpec| settings.iter().any(|(name, _)| *name == spec.name);
    let required = specs.iter().filter(|spec| spec.required);
    required
        .filter(|spec| !is_there(spec))
        .map(|spec| SettingProblem {
            setting: spec.name.clone(),
            why: format!("is missing: {}", spec.help),
        })
        .collect()
}

/// Error text for an unknown name, as the end of a sentence that starts with it.
pub fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match nearest(name, known.iter().copied()) {
        Some(nearest) => format!("is unknown: is {nearest} meant?"),
        None if known.is_empty() => "is unknown: its module has none".into(),
        None => format!("is unknown: its module knows {}", known.join(", ")),
    }
}

/// The known name that a misspelled one probably means. `None` if all differ too much.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |of: &str| strsim::damerau_levenshtein(name, of);
    let nearest = known.min_by_key(|of| distance(of));
    nearest.filter(|of| distance(of) <= 1 + name.len() / 4)
}

/// Description of the form, as the end of a sentence: "must be …".
impl fmt::Display for SettingForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "a text that is not empty",
            Self::Flag => "true or false",
            Self::Number { least, most } => {
                return write!(f, "a whole number between {least} and {most}");
            }
            Self::Amount => "an amount such as 25.00",
            Self::Choice(words) => return f.write_str(&words.join(" or ")),
            Self::Accounts => "ids of configured accounts, separated by commas",
            Self::Countries => {
                "ISO 3166 codes such as NL (the United Kingdom is GB), separated by commas, or any"
            }
            Self::Address => "an address that begins with https://",
        })
    }
}

impl SettingForm {
    /// Whether a trimmed value has this form.
    fn takes(&self, value: &str, surroundings: &Surroundings<'_>) -> bool {
        let mut entries = value.split(',').map(str::trim);
        match self {
            Self::Text => !value.is_empty(),
            Self::Flag => matches!(value, "true" | "false"),
            Self::Number { least, most } => {
                let number = value.parse::<u64>();
                number.is_ok_and(|number| (*least..=*most).contains(&number))
            }
            Self::Amount => Minor::parse(value).is_ok(),
            Self::Choice(words) => words.iter().any(|word| word == value),
            Self::Accounts => entries.all(|id| (surroundings.is_account)(id)),
            Self::Countries => value == "any" || entries.all(is_country),
            Self::Address => Url::parse(value).is_ok_and(|url| {
                url.scheme() == "https" || surroundings.plain_http && url.scheme() == "http"
            }),
        }
    }
}

/// ISO 3166-1 alpha-2, as of 2025.
const COUNTRIES: &str = "AD AE AF AG AI AL AM AO AQ AR AS AT AU AW AX AZ BA BB BD BE BF BG BH BI BJ BL BM BN \
    BO BQ BR BS BT BV BW BY BZ CA CC CD CF CG CH CI CK CL CM CN CO CR CU CV CW CX CY CZ DE DJ DK DM DO DZ EC \
    EE EG EH ER ES ET FI FJ FK FM FO FR GA GB GD GE GF GG GH GI GL GM GN GP GQ GR GS GT GU GW GY HK HM HN HR \
    HT HU ID IE IL IM IN IO IQ IR IS IT JE JM JO JP KE KG KH KI KM KN KP KR KW KY KZ LA LB LC LI LK LR LS LT \
    LU LV LY MA MC MD ME MF MG MH MK ML MM MN MO MP MQ MR MS MT MU MV MW MX MY MZ NA NC NE NF NG NI NL NO NP \
    NR NU NZ OM PA PE PF PG PH PK PL PM PN PR PS PT PW PY QA RE RO RS RU RW SA SB SC SD SE SG SH SI SJ SK SL \
    SM SN SO SR SS ST SV SX SY SZ TC TD TF TG TH TJ TK TL TM TN TO TR TT TV TW TZ UA UG UM US UY UZ VA VC VE \
    VG VI VN VU WF WS YE YT ZA ZM ZW";

fn is_country(code: &str) -> bool {
    COUNTRIES.split_ascii_whitespace().any(|of| of == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, form: SettingForm) -> SettingSpec {
        SettingSpec {
            name: name.into(),
            help: "found on the desk".into(),
            required: false,
            form,
            default: None,
        }
    }

    fn told(specs: &[SettingSpec], settings: &[(&str, &str)]) -> Vec<String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(own).collect();
        let surroundings = Surroundings {
            is_account: &|id| id == "mollie-live",
            plain_http: false,
        };
        let violations = violations(specs, &settings, &surroundings);
        let problems = violations.into_iter().chain(missing(specs, &settings));
        problems.map(|problem| problem.to_string()).collect()
    }

    #[test]
    fn a_misspelt_name_gets_its_nearest_neighbour() {
        let specs = [
            spec("capture", SettingForm::Text),
            spec("base-url", SettingForm::Text),
        ];
        assert_eq!(
            told(&specs, &[("captur", "manual")]),
            ["the setting captur is unknown: is capture meant?"]
        );
        assert_eq!(
            told(&specs, &[("priority", "1")]),
            ["the setting priority is unknown: its module knows capture, base-url"]
        );
        assert_eq!(
            told(&[], &[("priority", "1")]),
            ["the setting priority is unknown: its module has none"]
        );
    }

    #[test]
    fn a_value_that_is_not_of_its_form_is_refused_with_what_is_wanted() {
        let choice = SettingForm::Choice(vec!["automatic".into(), "manual".into()]);
        let number = SettingForm::Number {
            least: 1,
            most: 1000,
        };
        for (form, good, wrong) in [
            (SettingForm::Text, vec!["x"], vec!["", "  "]),
            (
                SettingForm::Flag,
                vec!["true", " false "],
                vec!["yes", "True", ""],
            ),
            (
                number,
                vec!["1", "1000"],
                vec!["0", "1001", "-1", "1.5", ""],
            ),
            (
                SettingForm::Amount,
                vec!["25.00", "0.50"],
                vec!["25,00", "-1.00", ""],
            ),
            (choice, vec!["manual"], vec!["cheap", "Manual", ""]),
            (
                SettingForm::Accounts,
                vec!["mollie-live", " mollie-live , mollie-live"],
                vec!["mollie-lve", "mollie-live,", ""],
            ),
            (
                SettingForm::Countries,
                vec!["NL, BE", "any"],
                vec!["UK", "nl", "NL BE", "any, NL", ""],
            ),
            (
                SettingForm::Address,
                vec!["https://api.example"],
                vec![
                    "http://api.example",
                    "htps://api.example",
                    "https://",
                    "api.example",
                ],
            ),
        ] {
            let specs = [spec("of", form)];
            for value in good {
                assert_eq!(
                    told(&specs, &[("of", value)]),
                    Vec::<String>::new(),
                    "{value}"
                );
            }
            for value in wrong {
                let told = told(&specs, &[("of", value)]);
                assert!(
                    told.len() == 1 && told[0].contains("must be"),
                    "{value}: {told:?}"
                );
            }
        }
    }

    #[test]
    fn a_simulators_address_may_be_plain_http() {
        let surroundings = Surroundings {
            is_account: &|_| false,
            plain_http: true,
        };
        let specs = [spec("base-url", SettingForm::Address)];
        let settings = [("base-url".to_owned(), "http://127.0.0.1:9".to_owned())];
        assert_eq!(violations(&specs, &settings, &surroundings), []);
    }

    #[test]
    fn a_required_setting_that_is_missing_is_told_with_where_it_is_found() {
        let required = SettingSpec {
            required: true,
            ..spec("store-id", SettingForm::Text)
        };
        assert_eq!(
            told(std::slice::from_ref(&required), &[]),
            ["the setting store-id is missing: found on the desk"]
        );
        assert!(told(&[required], &[("store-id", "1")]).is_empty());
    }
}
