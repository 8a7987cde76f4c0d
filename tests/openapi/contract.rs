//! Holds calls against an OpenAPI document: the operation, what was sent, and what came back.
//!
//! Stricter than JSON Schema where the document is ours: a field of an answer that it does not name is
//! wrong, and so is a keyword that nothing here checks. Formats and patterns are left to schemathesis,
//! which reads the same document (`run.py`).

use std::collections::BTreeMap;

use serde_json::Value;

/// Keywords that only tell people something, or that [`Contract`] leaves to others.
const TOLD: [&str; 9] = [
    "default",
    "x-extensible-enum",
    "description",
    "example",
    "examples",
    "title",
    "format",
    "pattern",
    "propertyNames",
];

/// A document to be held against.
pub(crate) struct Contract(Value);

/// A call that was made.
pub(crate) struct Exchange<'a> {
    pub(crate) method: &'a str,
    /// Below the document's server, with its query.
    pub(crate) path: &'a str,
    pub(crate) sent: Option<&'a Value>,
    pub(crate) status: u16,
    /// The answer's body, where it is JSON.
    pub(crate) answered: Option<&'a Value>,
}

impl Contract {
    pub(crate) const fn new(document: Value) -> Self {
        Self(document)
    }

    /// What the document says of a call otherwise than it went.
    pub(crate) fn check(&self, call: &Exchange<'_>) -> Result<(), String> {
        let (path, query) = call.path.split_once('?').unwrap_or((call.path, ""));
        let operation = match self.operation(call.method, path) {
            Some(operation) => operation,
            None if matches!(call.status, 404 | 405 | 421) => return Ok(()),
            None => return Err("there is no such operation".into()),
        };
        let status = call.status.to_string();
        let response = &operation["responses"][&status];
        if response.is_null() {
            return Err(format!("it does not name the status {status}"));
        }
        let schema = &response["content"]["application/json"]["schema"];
        match (schema.is_null(), call.answered) {
            (true, None) => {}
            (false, Some(answer)) => self.fits(schema, answer, "answer")?,
            (true, Some(_)) => return Err(format!("{status} has no JSON")),
            (false, None) => return Err(format!("{status} has JSON, and none came")),
        }
        // What was refused need not be as the document says.
        if !status.starts_with('2') {
            return Ok(());
        }
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let name = pair.split('=').next().unwrap_or_default();
            let mut parameters = operation["parameters"].as_array().into_iter().flatten();
            if !parameters.any(|known| known["in"] == "query" && known["name"] == name) {
                return Err(format!("it does not name the query parameter {name}"));
            }
        }
        let body = &operation["requestBody"];
        let schema = &body["content"]["application/json"]["schema"];
        match call.sent {
            Some(sent) if schema.is_null() => Err(format!("no JSON is to be sent: {sent}")),
            Some(sent) => self.fits(schema, sent, "body"),
            None if body["required"] == true && !schema.is_null() => {
                Err("a body is required, and none was sent".into())
            }
            None => Ok(()),
        }
    }

    /// The operation that a path means: one that is named goes before one with a variable.
    fn operation(&self, method: &str, path: &str) -> Option<&Value> {
        let means = |template: &str| {
            let (mut said, mut asked) = (template.split('/'), path.split('/'));
            loop {
                match (said.next(), asked.next()) {
                    (None, None) => return true,
                    (Some(said), Some(asked)) if said == asked => {}
                    (Some(said), Some(_)) if said.starts_with('{') => {}
                    _ => return false,
                }
            }
        };
        let paths = self.0["paths"].as_object()?;
        let mut found: Vec<_> = paths.iter().filter(|(path, _)| means(path)).collect();
        found.sort_by_key(|(path, _)| path.matches('{').count());
        let (_, item) = found.first()?;
        item.get(method.to_lowercase())
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Some(rules) = schema.as_object() else {
            return Err(format!("{at}: the schema {schema} is none"));
        };
        for (keyword, rule) in rules {
            let number = || rule.as_f64().unwrap_or(f64::NAN);
            let length = |length: Option<usize>| length.map(|length| length as f64);
            let characters = length(value.as_str().map(|text| text.chars().count()));
            let items = length(value.as_array().map(Vec::len));
            let fits = match keyword.as_str() {
                "$ref" => {
                    let pointer = rule.as_str().unwrap_or_default().trim_start_matches('#');
                    let meant = self.0.pointer(pointer);
                    let meant = meant.ok_or_else(|| format!("{at}: {rule} leads nowhere"))?;
                    self.fits(meant, value, at)?;
                    true
                }
                "type" => match rule {
                    Value::Array(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
                    kind => is_a(kind, value),
                },
                "enum" => rule.as_array().is_some_and(|known| known.contains(value)),
                "oneOf" => {
                    let ways = rule.as_array().into_iter().flatten();
                    let tried: Vec<_> = ways.map(|way| self.fits(way, value, at)).collect();
                    if tried.iter().filter(|tried| tried.is_ok()).count() != 1 {
                        let errors: Vec<_> = tried.into_iter().filter_map(Result::err).collect();
                        return Err(format!("{at}: not one of: {}", errors.join("; ")));
                    }
                    true
                }
                "minLength" => characters.is_none_or(|length| length >= number()),
                "maxLength" => characters.is_none_or(|length| length <= number()),
                "minItems" => items.is_none_or(|length| length >= number()),
                "minimum" => value.as_f64().is_none_or(|value| value >= number()),
                "maximum" => value.as_f64().is_none_or(|value| value <= number()),
                "items" => {
                    for item in value.as_array().into_iter().flatten() {
                        self.fits(rule, item, &format!("{at}[]"))?;
                    }
                    true
                }
                "required" => {
                    let names = rule.as_array().into_iter().flatten();
                    let mut missing =
                        names.filter(|name| value.get(name.as_str().unwrap_or_default()).is_none());
                    match missing.next() {
                        Some(name) => return Err(format!("{at}: {name} is missing")),
                        None => true,
                    }
                }
                "properties" | "additionalProperties" => true,
                told => TOLD.contains(&told),
            };
            if !fits {
                return Err(format!("{at}: {value} is not as {keyword}: {rule}"));
            }
        }
        let (known, others) = (rules.get("properties"), rules.get("additionalProperties"));
        let fields: BTreeMap<_, _> = match (known.is_some() || others.is_some(), value.as_object())
        {
            (true, Some(fields)) => fields.iter().collect(),
            _ => return Ok(()),
        };
        for (name, field) in fields {
            let at = format!("{at}.{name}");
            match (known.and_then(|known| known.get(name)), others) {
                (Some(schema), _) => self.fits(schema, field, &at)?,
                (None, Some(schema @ Value::Object(_))) => self.fits(schema, field, &at)?,
                (None, _) => return Err(format!("{at} is not named")),
            }
        }
        Ok(())
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap_or_default() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
