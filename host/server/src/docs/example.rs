//! The example request and answer of a call, made from the examples of its schemas.

use serde_json::{Map, Value, json};

use super::schema::{Schemas, entries, list, text};

/// Maximum depth of an example, because a schema may contain itself.
const MAX_DEPTH: usize = 8;

/// A command line that makes the call, for a POSIX shell.
pub(super) fn curl(schemas: &Schemas<'_>, verb: &str, path: &str, operation: &Value) -> String {
    let mut target = String::new();
    let parts: Vec<&str> = path.split('/').collect();
    for (at, part) in parts.iter().enumerate().skip(1) {
        let owner = parts.get(at - 1).copied().unwrap_or_default();
        target.push('/');
        target += &match part
            .strip_prefix('{')
            .and_then(|name| name.strip_suffix('}'))
        {
            Some(name) => variable(name, owner),
            None => (*part).to_owned(),
        };
    }
    let required = list(&operation["parameters"])
        .iter()
        .filter(|parameter| parameter["in"] == "query" && parameter["required"] == true);
    let query: Vec<String> = required
        .map(|parameter| {
            let value = schemas.example(&parameter["schema"]);
            format!("{}={}", text(&parameter["name"]), plain(&value))
        })
        .collect();
    let mut lines = vec![match verb {
        "get" => "curl -s".to_owned(),
        "post" if operation["requestBody"].is_object() => "curl -s".to_owned(),
        verb => format!("curl -s -X {}", verb.to_uppercase()),
    }];
    let address = format!("$KASSETTE_URL{target}");
    lines[0] += &match query.is_empty() {
        true => format!(" {address}"),
        false => format!(" \"{address}?{}\"", query.join("&")),
    };
    let keys = operation["security"][0].as_object();
    match keys.and_then(|keys| keys.keys().next()).map(String::as_str) {
        Some("reseller_key") => lines.push("-H \"Authorization: Bearer $RESELLER_KEY\"".to_owned()),
        Some(_) => lines.push("-H \"Authorization: Bearer $KASSETTE_API_KEY\"".to_owned()),
        None => {}
    }
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    if schema.is_object() {
        let mut body = schemas.example(schema);
        let is_to_fill = body.get("payment_id").is_some();
        if is_to_fill {
            body["payment_id"] = json!("$PAYMENT_ID");
        }
        lines.push("-H 'Content-Type: application/json'".to_owned());
        let body = pretty(&body).replace('\'', "'\\''").replace('\n', "\n  ");
        lines.push(format!(
            "-d '{}'",
            body.replace("$PAYMENT_ID", "'$PAYMENT_ID'")
        ));
    }
    lines.join(" \\\n  ")
}

/// Shell variable of a path parameter. `owner` is the segment of the path before it.
fn variable(name: &str, owner: &str) -> String {
    let name = match (name, owner) {
        ("id", "webhook-endpoints") => "endpoint_id",
        ("id", "deliveries") => "delivery_id",
        (name, _) => name,
    };
    format!("${}", name.to_uppercase())
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

impl Schemas<'_> {
    /// A value of the schema: its example, else one with the required fields.
    pub(super) fn example(&self, schema: &Value) -> Value {
        self.example_at(schema, 0)
    }

    fn example_at(&self, schema: &Value, depth: usize) -> Value {
        let given = schema.get("example").or_else(|| schema["examples"].get(0));
        if let Some(given) = given {
            return given.clone();
        }
        if depth == MAX_DEPTH {
            return Value::Null;
        }
        if schema["$ref"].is_string() {
            return self.example_at(self.resolve(schema), depth + 1);
        }
        let parts = list(&schema["allOf"]);
        if !parts.is_empty() {
            let parts = parts.iter().map(|part| self.example_at(part, depth + 1));
            let fields = parts.filter_map(|part| match part {
                Value::Object(fields) => Some(fields),
                _ => None,
            });
            let fields: Map<String, Value> = fields.flatten().collect();
            return Value::Object(fields);
        }
        for choice in ["oneOf", "anyOf"] {
            let mut choices = list(&schema[choice]).iter();
            if let Some(first) = choices.find(|part| part["type"] != "null") {
                return self.example_at(first, depth + 1);
            }
        }
        if let Some(word) = schema["enum"].get(0) {
            return word.clone();
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.first().unwrap_or(&Value::Null),
            kind => kind,
        };
        match kind.as_str() {
            Some("array") => json!([self.example_at(&schema["items"], depth + 1)]),
            Some("boolean") => json!(true),
            Some("integer" | "number") => match &schema["minimum"] {
                Value::Null => json!(1),
                least => least.clone(),
            },
            Some("string") => json!("…"),
            _ => {
                let required = list(&schema["required"]);
                let fields = entries(&schema["properties"])
                    .filter(|(name, _)| required.iter().any(|known| known == *name))
                    .map(|(name, field)| (name.clone(), self.example_at(field, depth + 1)));
                Value::Object(fields.collect())
            }
        }
    }
}
