//! What the templates of all pages ask of their context: links, the state of a refused form, the frame.

use std::borrow::Borrow;

use kassette_domain::key::Environment;
use serde_json::Value;

use super::node::{Markup, Node, neutral};
use crate::console::context::Context;
use crate::console::{ICON, SCRIPT};
use crate::status::{Part, State};

/// The places of the navigation, in groups.
const PLACES: [(&str, &[(&str, &str)]); 4] = [
    (
        "",
        &[
            ("/console/", "Overview"),
            ("/console/work", "Inbox"),
            ("/console/payments", "Payments"),
            ("/console/daybook", "Day book"),
        ],
    ),
    (
        "Routing",
        &[
            ("/console/providers", "Accounts"),
            ("/console/modules", "Modules"),
        ],
    ),
    (
        "Shops",
        &[
            ("/console/merchants", "Merchants"),
            ("/console/resellers", "Resellers"),
            ("/console/deliveries", "Deliveries"),
        ],
    ),
    (
        "This gateway",
        &[
            ("/console/operators", "Operators"),
            ("/console/audit", "Audit log"),
            ("/console/status", "Status"),
        ],
    ),
];

/// Maximum number of parts that the line on every page names.
const MOST_NAMED: usize = 3;

impl Context {
    /// A path of the console, with the page's environment.
    pub(in crate::console) fn link(&self, path: impl std::fmt::Display) -> String {
        link(&path.to_string(), self.environment_name())
    }

    /// This address with another value of a parameter.
    pub(in crate::console) fn address_with(&self, name: &str, value: &str) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (known, value) in &self.parameters {
            if known != name {
                query.append_pair(known, value);
            }
        }
        query.append_pair(name, value);
        format!("{}?{}", self.path, query.finish())
    }

    /// Address of the form for a call of the admin API, from the parts of its path.
    pub(in crate::console) fn path_of(&self, parts: &[&str]) -> String {
        parts
            .iter()
            .fold(String::from("/console"), |mut path, part| {
                path.push('/');
                path.extend(form_urlencoded::byte_serialize(part.as_bytes()));
                path
            })
    }

    /// A new idempotency key for a form, so that a double click is one act.
    pub(in crate::console) fn new_key(&self) -> String {
        let mut bytes = [0; 16];
        // Without random bytes, the key names the time: two forms of one page may share it, and the second
        // act of the same kind would be a replay.
        match getrandom::fill(&mut bytes) {
            Ok(()) => format!("console-{}", hex::encode(bytes)),
            Err(_) => format!("console-{}", self.now().as_millis()),
        }
    }

    /// The value of a query parameter for the field that sent it.
    pub(in crate::console) fn value(&self, name: &str) -> String {
        neutral(self.parameter(name).unwrap_or_default()).into_owned()
    }

    /// Whether a query parameter has a value; an absent one is empty.
    pub(in crate::console) fn has_value(&self, name: &str, value: &str) -> bool {
        self.parameter(name).unwrap_or_default() == value
    }

    /// The parameters of this address that a call of the admin API knows, and `environment` if it is among them,
    /// as a query. Empty ones are left out, because a form sends every field.
    pub(in crate::console) fn query(&self, names: &[&str]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        for name in names {
            let value = match *name {
                "environment" => Some(self.environment_name()),
                name => self.parameter(name).filter(|value| !value.is_empty()),
            };
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        query.finish()
    }

    /// A value of the admin API for templates.
    pub(in crate::console) fn node<'a>(&self, value: &'a Value) -> Node<'a> {
        Node::new(value, self.now())
    }

    pub(in crate::console) fn is_live(&self) -> bool {
        self.environment == Environment::Live
    }

    /// `live`, `test`, or `both` for a search that names none.
    pub(in crate::console) fn shown_environment(&self) -> &'static str {
        match (&*self.path, self.named_environment) {
            ("/console/payments", None) if self.parameter("q").is_some() => "both",
            _ => self.environment_name(),
        }
    }

    pub(in crate::console) fn places(
        &self,
    ) -> [(&'static str, &'static [(&'static str, &'static str)]); 4] {
        PLACES
    }

    /// Whether the page is this place or below it.
    pub(in crate::console) fn is_at(&self, place: &str) -> bool {
        let rest = self.path.strip_prefix(place);
        rest.is_some_and(|rest| rest.is_empty() || (place != "/console/" && rest.starts_with('/')))
    }

    /// Path of the script.
    pub(in crate::console) fn script(&self) -> &'static str {
        &SCRIPT.path
    }

    /// Path of the icon.
    pub(in crate::console) fn icon(&self) -> &'static str {
        &ICON.path
    }

    /// When the operator signed in.
    pub(in crate::console) fn signed_in(&self) -> Markup {
        let time = Value::from(self.signed_in_at.rfc3339());
        self.node(&time).age()
    }

    /// State of the gateway.
    pub(in crate::console) fn health_state(&self) -> Markup {
        part_state(self.status.state)
    }

    /// The parts that are not well, the worst first, each in a sentence.
    pub(in crate::console) fn unwell(&self) -> Vec<&str> {
        let mut parts: Vec<&Part> = self.status.parts.iter().collect();
        parts.retain(|part| part.state != State::Ok);
        parts.sort_by_key(|part| std::cmp::Reverse(part.state));
        let details = parts.into_iter().map(|part| &*part.detail);
        details.take(MOST_NAMED).collect()
    }

    /// The program's version with the time of the page.
    pub(in crate::console) fn version_line(&self) -> String {
        let now = self.now().rfc3339();
        format!(
            "Kassette {}. Figures of {}, {}.",
            crate::telemetry::version(),
            super::node::long_day(&now),
            now.get(11..19).unwrap_or_default()
        )
    }

    /// A foreign text without characters that control the display.
    pub(in crate::console) fn clean(&self, text: impl AsRef<str>) -> String {
        neutral(text.as_ref()).into_owned()
    }

    /// Whether the page shows this form again because it was refused.
    pub(in crate::console) fn is_refused(&self, action: impl AsRef<str>) -> bool {
        let refused = self.refused.as_ref();
        refused.is_some_and(|refused| refused.action == action.as_ref())
    }

    /// Whether a form was refused because of a field.
    pub(in crate::console) fn is_wrong(&self, action: impl AsRef<str>, field: &str) -> bool {
        !self.error_at(action, field).is_empty()
    }

    /// Why a form was refused because of a field. Empty if it was not.
    pub(in crate::console) fn error_at(&self, action: impl AsRef<str>, field: &str) -> String {
        let refused = self.refused.as_ref();
        let error = refused.map_or("", |refused| refused.error_at(action.as_ref(), field));
        neutral(error).into_owned()
    }

    /// What was typed into a field of a refused form, else the field's own value.
    pub(in crate::console) fn typed_or(
        &self,
        action: impl AsRef<str>,
        field: &str,
        own: impl std::fmt::Display,
    ) -> String {
        match &self.refused {
            Some(refused) if refused.action == action.as_ref() => {
                neutral(refused.typed(action.as_ref(), field)).into_owned()
            }
            _ => own.to_string(),
        }
    }
}

/// A path with an environment.
pub(in crate::console) fn link(path: &str, environment: &str) -> String {
    format!("{path}?environment={environment}")
}

/// State of a part of the gateway.
pub(in crate::console) fn part_state(state: impl Borrow<State>) -> Markup {
    match state.borrow() {
        State::Ok => Markup::state("good", "Ok"),
        State::Attention => Markup::state("warn", "Attention"),
        State::Failing => Markup::state("bad", "Failing"),
    }
}
