//! Tests that compare `config/` with the code: names of settings, defaults, and whether a change needs a restart.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::{MainFile, Profile};

const MAIN: &str = include_str!("../../../../config/kassette.toml");
const PAGE: &str = include_str!("../../../../config/README.md");
/// Header row of the table of settings.
const TABLE: &str = "| Setting | Live | Meaning |";
/// Settings whose value in the sample differs from the default.
const OWN: [&str; 4] = ["public_url", "data_dir", "plugin_dir", "master_key_file"];
/// Other valid values for settings whose value cannot be varied automatically.
const OTHERS: [(&str, &str); 17] = [
    ("public_url", "\"https://other.example\""),
    ("listen", "\"127.0.0.1:1\""),
    ("admin_listen", "\"127.0.0.1:1\""),
    ("trusted_proxies", "[\"192.0.2.1\"]"),
    ("admin_hosts", "[\"other.example\"]"),
    ("alerts_url", "\"https://other.example/alerts\""),
    ("outgoing.proxy", "\"http://other.example:3128\""),
    ("outgoing.resolve", "\"proxy\""),
    ("store.url", "\"postgres://other.example/kassette\""),
    (
        "store.owner_url",
        "\"postgres://owner@other.example/kassette\"",
    ),
    ("store.node", "\"other\""),
    ("log.format", "\"pretty\""),
    ("log.filter", "\"warn\""),
    ("plugins.uploads", "\"shadow-first\""),
    ("payments.query_minutes", "[2]"),
    (
        "webhooks.test_hosts",
        "[{ host = \"other.internal\", merchants = [1] }]",
    ),
    (
        "plugins.keys",
        "[{ slots = \"*\", public_key = \"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\" }]",
    ),
];

/// Parses the sample, including the settings that it shows as comments.
fn sample() -> Table {
    let lines = MAIN.lines().map(|line| match line.strip_prefix("# ") {
        Some(setting)
            if setting
                .split_once(" = ")
                .is_some_and(|(name, _)| is_name(name)) =>
        {
            setting
        }
        _ => line,
    });
    toml::from_str(&lines.collect::<Vec<_>>().join("\n")).unwrap()
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_lowercase() || c == '_')
}

/// Collects the settings below a table, by their full names.
fn settings(table: &Table, above: &str, found: &mut BTreeMap<String, Value>) {
    for (name, value) in table {
        let name = format!("{above}{name}");
        match value {
            Value::Table(inner) => settings(inner, &format!("{name}."), found),
            value => drop(found.insert(name, value.clone())),
        }
    }
}

fn shown() -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    settings(&sample(), "", &mut found);
    found
}

/// Fields of the main file (`above` empty) or of one of its tables, from the error that an unknown field causes.
fn fields(above: &str) -> Vec<String> {
    let text = match above {
        "" => "none_of_them = 1".to_owned(),
        above => format!("{above}.none_of_them = 1"),
    };
    let refused = toml::from_str::<MainFile>(&text).unwrap_err().to_string();
    let (_, names) = refused
        .split_once("unknown field `none_of_them`, expected ")
        .unwrap_or_default();
    let names = names.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Rows of the table: names of the settings, the cell "Live", and the description.
fn rows() -> Vec<(Vec<String>, String, String)> {
    let known = shown();
    let (_, table) = PAGE.split_once(TABLE).unwrap();
    let rows = table.lines().skip(2).take_while(|row| row.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row
            .trim_matches('|')
            .splitn(3, '|')
            .map(str::trim)
            .collect();
        let mut names = Vec::new();
        for name in cells[0].split('`').skip(1).step_by(2) {
            let name = match name.strip_prefix('.') {
                // A leading dot means the table of the previous setting.
                Some(name) => {
                    let before: &String = names.last().unwrap();
                    format!("{}.{name}", before.rsplit_once('.').unwrap().0)
                }
                None => name.to_owned(),
            };
            match name.strip_suffix('*') {
                Some(above) => {
                    names.extend(known.keys().filter(|key| key.starts_with(above)).cloned())
                }
                None => names.push(name),
            }
        }
        (names, cells[1].to_owned(), cells[2].to_owned())
    })
    .collect()
}

#[test]
fn the_sample_shows_every_setting_with_its_default() {
    let shown = shown();
    for name in fields("") {
        let inner = fields(&name);
        if inner.is_empty() || shown.contains_key(&name) {
            assert!(
                shown.keys().any(|key| key.split('.').next() == Some(&name)),
                "{name} is not shown"
            );
        }
        for inner in inner {
            let name = format!("{name}.{inner}");
            let below = format!("{name}.");
            let is_shown = shown
                .keys()
                .any(|key| *key == name || key.starts_with(&below));
            assert!(is_shown, "{name} is not shown");
        }
    }
    let mut table: Table = toml::from_str(MAIN).unwrap();
    for name in OWN {
        table.remove(name).unwrap();
    }
    let read: MainFile = table.try_into().unwrap();
    assert_eq!(format!("{read:?}"), format!("{:?}", MainFile::default()));
}

#[test]
fn the_table_says_of_every_setting_whether_it_is_live() {
    let shown = shown();
    let mut unsaid: Vec<&String> = shown.keys().collect();
    let started: MainFile = sample().try_into().unwrap();
    for (names, live, _) in rows() {
        for name in names {
            let value = shown
                .get(&name)
                .unwrap_or_else(|| panic!("there is no setting {name}"));
            unsaid.retain(|unsaid| **unsaid != name);
            let other = OTHERS.iter().find(|(of, _)| *of == name);
            let other = match (other, value) {
                (Some((_, other)), _) => {
                    toml::from_str::<Table>(&format!("it = {other}")).unwrap()["it"].clone()
                }
                (None, Value::Integer(number)) => Value::Integer(number + 1),
                (None, Value::Boolean(on)) => Value::Boolean(!on),
                (None, Value::String(text)) => Value::String(format!("{text}-other")),
                (None, Value::Array(numbers)) => {
                    Value::Array(numbers.iter().rev().cloned().collect())
                }
                (None, value) => panic!("{name} is {value}"),
            };
            let mut table = sample();
            let mut parts = name.split('.').peekable();
            let mut inner = &mut table;
            while let Some(part) = parts.next() {
                if parts.peek().is_some() {
                    inner = inner[part].as_table_mut().unwrap();
                } else {
                    inner[part] = other.clone();
                }
            }
            let new: MainFile = table.try_into().unwrap();
            let restart = started.restart_needed(&new, Profile::Serve);
            let said = if restart.contains(&name.as_str()) {
                "restart"
            } else {
                "yes"
            };
            assert_eq!(live, said, "{name}");
        }
    }
    assert!(unsaid.is_empty(), "the table is silent on {unsaid:?}");
}

#[test]
fn defaults_in_the_table_are_those_that_hold() {
    let shown = shown();
    let said_of = [
        "limits.",
        "store.",
        "plugins.",
        "retention.",
        "drain_seconds",
    ];
    let mut looked_at = 0;
    for (names, _, text) in rows() {
        let words: Vec<&str> = text.split(|c: char| !c.is_ascii_alphanumeric()).collect();
        for name in names
            .iter()
            .filter(|name| said_of.iter().any(|of| name.starts_with(of)))
            // Their defaults are not literal values: no database address, the machine's name, no keys, and a
            // keyword.
            .filter(|name| {
                ![
                    "store.url",
                    "store.owner_url",
                    "store.node",
                    "plugins.keys",
                    "plugins.uploads",
                ]
                .contains(&name.as_str())
            })
        {
            let default = shown[name].to_string();
            assert!(
                words.contains(&default.as_str()),
                "{name} is {default} where nothing is said: {text}"
            );
            looked_at += 1;
        }
    }
    assert_eq!(looked_at, 24);
}
