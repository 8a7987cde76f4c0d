//! The calls that change something, as the console's forms need them: role and body, read from the document.

use std::sync::LazyLock;

use http::Method;
use kassette_domain::operator::Role;
use serde_json::{Map, Number, Value, json};

use super::call::TOKEN;
use super::openapi;

/// A call.
pub(crate) struct AdminCall {
    pub(crate) method: Method,
    /// Path with its variable parts in braces.
    pub(crate) path: String,
    /// The least role.
    pub(crate) role: Role,
    /// Whether the body can be a file.
    pub(crate) has_file: bool,
    /// Schema of the JSON body.
    schema: Value,
}

struct Calls {
    calls: Vec<AdminCall>,
    /// Schemas by name.
    schemas: Value,
}

static CALLS: LazyLock<Calls> = LazyLock::new(|| {
    let mut document = serde_json::to_value(openapi(false)).unwrap_or_default();
    let mut calls = Vec::new();
    for (path, operations) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let method = match &**method {
                "post" => Method::POST,
                "put" => Method::PUT,
                "patch" => Method::PATCH,
                "delete" => Method::DELETE,
                _ => continue,
            };
            let role = match operation["security"][0][TOKEN][0].as_str() {
                Some("viewer") => Role::Viewer,
                Some("operator") => Role::Operator,
                _ => Role::Admin,
            };
            let content = &operation["requestBody"]["content"];
            calls.push(AdminCall {
                method,
                path: path.clone(),
                role,
                has_file: content.get("application/wasm").is_some(),
                schema: content["application/json"]["schema"].clone(),
            });
        }
    }
    Calls {
        calls,
        schemas: document["components"]["schemas"].take(),
    }
});

impl AdminCall {
    /// The call with a path, such as `/payments/ID/refunds`, and one of these methods.
    pub(crate) fn find(path: &str, methods: &[Method]) -> Option<&'static Self> {
        let matches = |call: &&AdminCall| methods.contains(&call.method) && call.has_path(path);
        let calls = CALLS.calls.iter().filter(matches);
        // `/payments/redact` is not the payment `redact`.
        calls.min_by_key(|call| call.path.matches('{').count())
    }

    fn has_path(&self, path: &str) -> bool {
        let (mut own, mut other) = (self.path.split('/'), path.split('/'));
        loop {
            match (own.next(), other.next()) {
                (None, None) => return true,
                (Some(own), Some(other)) if own == other => {}
                (Some(own), Some(other)) if own.starts_with('{') && !other.is_empty() => {}
                _ => return false,
            }
        }
    }

    /// The JSON body with the fields of a form. `policy.max_usd` names a field of an object. An empty field of a
    /// merge patch is null, which resets; elsewhere it is absent. A text that has not the field's type stays a
    /// text, so that the call itself refuses it.
    pub(crate) fn body(&'static self, fields: &[(String, Vec<String>)]) -> Value {
        let mut body = json!({});
        for (name, values) in fields {
            let mut schema = Some(&self.schema);
            for part in name.split('.') {
                schema = schema.and_then(|schema| property(schema, part));
            }
            let is_nested = schema.is_some();
            let value = match schema {
                None => value(&Value::Null, values),
                Some(schema) => value(schema, values),
            };
            let value = match value {
                Value::String(text) if text.is_empty() => match self.method {
                    Method::PATCH if schema.is_some_and(|schema| is(schema, "null")) => Value::Null,
                    Method::PATCH => Value::String(text),
                    _ => continue,
                },
                value => value,
            };
            let parts: Vec<&str> = match is_nested {
                true => name.split('.').collect(),
                false => vec![name],
            };
            insert(&mut body, &parts, value);
        }
        body
    }
}

fn insert(object: &mut Value, path: &[&str], value: Value) {
    let (Some((first, rest)), Value::Object(fields)) = (path.split_first(), object) else {
        return;
    };
    match rest {
        [] => {
            fields.insert((*first).to_owned(), value);
        }
        rest => {
            let inner = fields.entry(*first).or_insert_with(|| json!({}));
            insert(inner, rest, value);
        }
    }
}

/// The schemas that a schema stands for: itself, what it refers to, and its alternatives.
fn alternatives(schema: &'static Value) -> Vec<&'static Value> {
    /// Depth of references, which are not circular.
    const DEPTH: usize = 8;
    let mut found = vec![schema];
    let (mut begin, mut end) = (0, 1);
    for _ in 0..DEPTH {
        for index in begin..end {
            let Some(schema) = found.get(index).copied() else {
                break;
            };
            let named = schema["$ref"]
                .as_str()
                .and_then(|name| name.rsplit('/').next());
            found.extend(named.and_then(|name| CALLS.schemas.get(name)));
            for list in ["oneOf", "anyOf", "allOf"] {
                found.extend(schema[list].as_array().into_iter().flatten());
            }
        }
        (begin, end) = (end, found.len());
    }
    found
}

/// Whether a value of this type is allowed.
fn is(schema: &'static Value, kind: &str) -> bool {
    alternatives(schema).iter().any(|schema| {
        let kinds = &schema["type"];
        kinds == kind
            || kinds
                .as_array()
                .is_some_and(|kinds| kinds.iter().any(|k| k == kind))
    })
}

/// The schema of an object's field.
fn property(schema: &'static Value, name: &str) -> Option<&'static Value> {
    let alternatives = alternatives(schema);
    let mut objects = alternatives.iter();
    objects.find_map(|schema| {
        let named = schema["properties"].get(name);
        named.or_else(|| {
            schema
                .get("additionalProperties")
                .filter(|more| more.is_object())
        })
    })
}

/// A field's value as JSON.
fn value(schema: &'static Value, values: &[String]) -> Value {
    if is(schema, "array") {
        let alternatives = alternatives(schema);
        let items = alternatives.iter().find_map(|schema| schema.get("items"));
        let items = items.unwrap_or(&Value::Null);
        // Numbers can be typed into one field: `5, 25, 100`.
        let split: Vec<String> = match (values, is(items, "integer")) {
            ([one], true) => one
                .split([',', ' '])
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect(),
            (values, _) => values
                .iter()
                .filter(|text| !text.is_empty())
                .cloned()
                .collect(),
        };
        let list = split.iter().map(|text| single(items, text)).collect();
        return Value::Array(list);
    }
    match values {
        [one] => single(schema, one),
        // A checkbox after a hidden field with the value for an empty box.
        [.., last] if is(schema, "boolean") => single(schema, last),
        several => json!(several),
    }
}

fn single(schema: &'static Value, text: &str) -> Value {
    match text {
        "true" if is(schema, "boolean") => return Value::Bool(true),
        "false" if is(schema, "boolean") => return Value::Bool(false),
        _ => {}
    }
    if is(schema, "integer") || is(schema, "number") {
        if let Ok(number) = text.trim().parse::<Number>() {
            return Value::Number(number);
        }
    }
    let is_amount = property(schema, "amount").is_some() && property(schema, "currency").is_some();
    if let (true, Some((amount, currency))) = (is_amount, text.split_once(' ')) {
        let mut object = Map::new();
        object.insert("amount".into(), amount.into());
        object.insert("currency".into(), currency.into());
        return Value::Object(object);
    }
    Value::String(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(method: Method, path: &str, fields: &[(&str, &[&str])]) -> Value {
        let call = AdminCall::find(path, &[method]).unwrap();
        let own = |text: &&str| (*text).to_owned();
        let fields = fields.iter().map(|(name, values)| {
            let values = values.iter().map(own).collect();
            ((*name).to_owned(), values)
        });
        call.body(&fields.collect::<Vec<_>>())
    }

    #[test]
    fn a_calls_path_is_the_one_with_the_fewest_variable_parts() {
        let find = |method, path| AdminCall::find(path, &[method]).map(|call| &*call.path);
        assert_eq!(
            find(Method::POST, "/payments/redact"),
            Some("/payments/redact")
        );
        assert_eq!(
            find(Method::POST, "/payments/x/redact"),
            Some("/payments/{id}/redact")
        );
        assert_eq!(find(Method::DELETE, "/keys/30"), Some("/keys/{id}"));
        for (method, path) in [
            (Method::POST, "/payments/x"),
            (Method::POST, "/payments//redact"),
        ] {
            assert_eq!(find(method, path), None, "{path}");
        }
    }

    #[test]
    fn the_document_names_each_calls_role() {
        let role = |method, path| AdminCall::find(path, &[method]).unwrap().role;
        assert_eq!(role(Method::POST, "/operators"), Role::Admin);
        assert_eq!(role(Method::POST, "/payments/x/query"), Role::Operator);
        assert_eq!(role(Method::PUT, "/resellers/1/live-rollout"), Role::Admin);
    }

    #[test]
    fn fields_of_a_form_get_the_types_of_the_body() {
        let review = body(
            Method::POST,
            "/payments/x/review",
            &[
                ("decision", &["approve"]),
                ("settlement", &[""]),
                ("vouch", &["true"]),
                ("accept", &["1099.80 EUR"]),
                ("despite", &["a", "b"]),
            ],
        );
        assert_eq!(
            review,
            json!({ "decision": "approve", "vouch": true, "despite": ["a", "b"],
                "accept": { "amount": "1099.80", "currency": "EUR" } })
        );
        let canary = body(
            Method::POST,
            "/plugins/method.ideal/canary",
            &[
                ("digest", &["ab"]),
                ("steps", &["5, 25,100"]),
                ("every_seconds", &["60"]),
            ],
        );
        assert_eq!(
            canary,
            json!({ "digest": "ab", "steps": [5, 25, 100], "every_seconds": 60 })
        );
        let account = |text: &str| body(Method::PATCH, "/providers/a", &[("enabled", &[text])]);
        assert_eq!(account("false"), json!({ "enabled": false }));
        assert_eq!(account("file"), json!({ "enabled": "file" }));
        let merchant = body(
            Method::PATCH,
            "/merchants/1",
            &[
                ("policy.max_usd", &[""]),
                ("policy.provider_choice", &["false", "true"]),
                ("policy.methods.ideal.enabled", &["true"]),
                ("fx_rates.EUR", &["1.08"]),
                ("unknown.field", &["x"]),
            ],
        );
        assert_eq!(
            merchant,
            json!({ "fx_rates": { "EUR": "1.08" }, "unknown.field": "x",
                "policy": { "max_usd": null, "provider_choice": true,
                    "methods": { "ideal": { "enabled": true } } } })
        );
    }

    #[test]
    fn a_text_of_another_type_is_left_to_the_call() {
        let hours = |text: &str| {
            body(
                Method::POST,
                "/keys/1/rotate",
                &[("overlap_hours", &[text])],
            )
        };
        assert_eq!(hours("12"), json!({ "overlap_hours": 12 }));
        assert_eq!(hours("soon"), json!({ "overlap_hours": "soon" }));
    }
}
