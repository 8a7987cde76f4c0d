//! Content of the page, read from the API document.

use askama::Template;
use serde_json::{Map, Value};

use super::text::{blocks, escaped, line};
use crate::pages::{DOCS_STYLE, ICON, STYLE};

/// HTTP methods of operations.
const VERBS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// Schema of all errors. The page does not repeat it for each error response.
const ERROR: &str = "#/components/schemas/Error";

/// The page. `String` fields whose name ends in `html` contain HTML.
#[derive(Template)]
#[template(path = "docs.html")]
pub(super) struct Docs {
    title: String,
    about_html: String,
    /// Names and descriptions of keys.
    keys: Vec<(String, String)>,
    groups: Vec<Group>,
    /// Responses that all operations have.
    common: Vec<Answer>,
    /// Schemas of objects.
    shapes: Vec<Shape>,
    /// Schemas of strings and numbers.
    words: Vec<Shape>,
}

/// Operations on the same subject.
struct Group {
    name: String,
    about_html: String,
    operations: Vec<Operation>,
}

struct Operation {
    id: String,
    verb: String,
    path: String,
    summary_html: String,
    about_html: String,
    /// Key that the operation requires.
    key: Option<String>,
    parameters: Vec<Field>,
    body_html: Option<String>,
    answers: Vec<Answer>,
}

/// A field of an object, or a parameter.
struct Field {
    name: String,
    required: bool,
    /// Type of the value.
    kind_html: String,
    about_html: String,
}

#[derive(Clone, PartialEq)]
struct Answer {
    status: String,
    about_html: String,
    body_html: Option<String>,
}

/// A schema of the document.
struct Shape {
    name: String,
    about_html: String,
    /// Type of the schema. `None` if the fields describe it completely.
    kind_html: Option<String>,
    fields: Vec<Field>,
    example: Option<String>,
}

impl Docs {
    /// Creates the page for a document.
    pub(super) fn read(document: &Value) -> Self {
        let mut operations = Vec::new();
        for (of, hooks) in [("paths", false), ("webhooks", true)] {
            for (path, item) in entries(&document[of]) {
                for verb in VERBS {
                    if let Some(told) = item.get(verb) {
                        let (verb, path) = match hooks {
                            true => ("webhook", "your endpoint"),
                            false => (verb, path.as_str()),
                        };
                        operations
                            .push((text(&told["tags"][0]), Operation::read(verb, path, told)));
                    }
                }
            }
        }
        let common = common(&operations);
        for (_, operation) in &mut operations {
            operation.answers.retain(|answer| !common.contains(answer));
        }
        let mut groups = Vec::new();
        for tag in list(&document["tags"]) {
            let name = text(&tag["name"]);
            let (of_it, others) = operations.into_iter().partition(|(tag, _)| *tag == name);
            operations = others;
            groups.push(Group {
                about_html: line(&text(&tag["description"])),
                operations: of_it.into_iter().map(|(_, operation)| operation).collect(),
                name,
            });
        }
        let components = &document["components"];
        let keys = entries(&components["securitySchemes"]);
        let schemas = entries(&components["schemas"]);
        let schemas = schemas.map(|(name, schema)| Shape::read(name, schema));
        let (shapes, words) = schemas.partition(|shape| !shape.fields.is_empty());
        Self {
            title: text(&document["info"]["title"]),
            about_html: blocks(&text(&document["info"]["description"])),
            keys: keys
                .map(|(name, key)| (name.clone(), line(&text(&key["description"]))))
                .collect(),
            groups,
            common,
            shapes,
            words,
        }
    }

    fn styles() -> [&'static str; 2] {
        [&STYLE.path, &DOCS_STYLE.path]
    }

    fn icon() -> &'static str {
        &ICON.path
    }
}

/// Responses that all operations with a key have.
fn common(operations: &[(String, Operation)]) -> Vec<Answer> {
    let mut with_key = operations
        .iter()
        .filter(|(_, operation)| operation.key.is_some())
        .map(|(_, operation)| &operation.answers);
    let mut common = with_key.next().cloned().unwrap_or_default();
    for answers in with_key {
        common.retain(|answer| answers.contains(answer));
    }
    common
}

impl Operation {
    fn read(verb: &str, path: &str, told: &Value) -> Self {
        let key = told["security"][0].as_object();
        Self {
            id: text(&told["operationId"]),
            verb: verb.to_owned(),
            path: path.to_owned(),
            summary_html: line(&text(&told["summary"])),
            about_html: blocks_of(&told["description"]),
            key: key.and_then(|key| key.keys().next().cloned()),
            parameters: list(&told["parameters"])
                .iter()
                .map(Field::parameter)
                .collect(),
            body_html: content(&told["requestBody"]),
            answers: entries(&told["responses"])
                .map(|(status, answer)| Answer {
                    status: status.clone(),
                    about_html: line(&text(&answer["description"])),
                    body_html: content(answer),
                })
                .collect(),
        }
    }
}

impl Field {
    fn parameter(told: &Value) -> Self {
        let place = match text(&told["in"]).as_str() {
            "query" => "",
            "path" => " in the path",
            _ => " in a header",
        };
        Self {
            name: text(&told["name"]),
            required: told["required"] == true,
            kind_html: format!("{}{place}", kind(&told["schema"])),
            about_html: line(&text(&told["description"])),
        }
    }

    /// Fields of an object, required fields first.
    fn all(schema: &Value) -> Vec<Self> {
        let required = list(&schema["required"]);
        let fields = entries(&schema["properties"]).map(|(name, field)| Self {
            name: name.clone(),
            required: required.iter().any(|known| known == name),
            kind_html: kind(field),
            about_html: description(field).map_or_else(String::new, blocks),
        });
        let mut fields: Vec<_> = fields.collect();
        fields.sort_by_key(|field| !field.required);
        fields
    }
}

impl Shape {
    fn read(name: &str, schema: &Value) -> Self {
        let mut fields = Field::all(schema);
        let mut others = Vec::new();
        for part in list(&schema["allOf"]) {
            match part["properties"].is_object() {
                true => fields.extend(Field::all(part)),
                false => others.push(kind(part)),
            }
        }
        let kind_html = match (fields.is_empty(), others.is_empty()) {
            (true, true) => Some(kind(schema)),
            (false, true) => None,
            (_, false) => Some(format!("All of {}, and:", others.join(" and "))),
        };
        let is_object = !fields.is_empty();
        let example = schema.get("example").filter(|_| is_object);
        Self {
            name: name.to_owned(),
            about_html: blocks_of(&schema["description"]),
            kind_html,
            fields,
            example: example.and_then(|example| serde_json::to_string_pretty(example).ok()),
        }
    }
}

/// Description of a field: its own, or that of one of its possible types.
fn description(field: &Value) -> Option<&str> {
    let kinds = ["oneOf", "anyOf", "allOf"].iter();
    let kinds = kinds.flat_map(|of| list(&field[*of]));
    std::iter::once(field)
        .chain(kinds)
        .find_map(|part| part["description"].as_str())
}

/// JSON type of a body or a response. `None` if there is no JSON, or for errors.
fn content(told: &Value) -> Option<String> {
    let schema = &told["content"]["application/json"]["schema"];
    (schema.is_object() && schema["$ref"] != ERROR).then(|| kind(schema))
}

/// Short description of a schema's type.
fn kind(schema: &Value) -> String {
    if let Some(target) = schema["$ref"].as_str() {
        let name = escaped(target.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\">{name}</a>{}", default(schema));
    }
    let parts: Vec<_> = ["oneOf", "anyOf", "allOf"]
        .iter()
        .flat_map(|of| list(&schema[*of]))
        .filter(|part| part.get("$ref").is_some() || part.get("type").is_some())
        .map(kind)
        .collect();
    if !parts.is_empty() {
        return format!("{}{}", parts.join(" or "), default(schema));
    }
    let mut words = match &schema["type"] {
        Value::Array(types) => {
            let types = types.iter().map(text).map(|word| escaped(&word));
            types.collect::<Vec<_>>().join(" or ")
        }
        Value::String(word) if word == "array" => {
            format!("a list of {}", kind(&schema["items"]))
        }
        word => escaped(&text(word)),
    };
    let known: Vec<_> = list(&schema["enum"])
        .iter()
        .map(|word| escaped(&text(word)))
        .collect();
    if !known.is_empty() {
        words = format!("one of {}", known.join(", "));
    }
    for (name, means) in [
        ("format", ""),
        ("minimum", "at least "),
        ("maximum", "at most "),
        ("minLength", "characters from "),
        ("maxLength", "characters up to "),
    ] {
        match &schema[name] {
            Value::Null => {}
            Value::String(format) => words += &format!(", {means}{}", escaped(format)),
            number => words += &format!(", {means}{number}"),
        }
    }
    if let Some(pattern) = schema["pattern"]
        .as_str()
        .filter(|pattern| pattern.len() < 64)
    {
        words += &format!(", <code>{}</code>", escaped(pattern));
    }
    words + &default(schema)
}

fn default(schema: &Value) -> String {
    match &schema["default"] {
        Value::Null => String::new(),
        Value::String(word) => format!(", default <code>{}</code>", escaped(word)),
        other => format!(", default <code>{other}</code>"),
    }
}

fn blocks_of(told: &Value) -> String {
    told.as_str().map_or_else(String::new, blocks)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
