//! Fields of objects, with their types, meanings and limits, as the OpenAPI document describes them.

use serde_json::{Map, Value};

use super::markdown;

/// Schema of all errors. Pages of calls do not repeat it for each error response.
pub(super) const ERROR: &str = "#/components/schemas/Error";

/// The document's schemas.
pub(super) struct Schemas<'d>(pub(super) &'d Value);

/// A field of an object, or a parameter. Names that end in `html` contain HTML.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) required: bool,
    pub(super) kind_html: String,
    pub(super) about_html: String,
    pub(super) limits_html: String,
}

/// An object of the document.
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) about_html: String,
    pub(super) fields: Vec<Field>,
}

impl<'d> Schemas<'d> {
    /// The schema that a reference names, else the schema itself.
    pub(super) fn resolve<'s>(&self, schema: &'s Value) -> &'s Value
    where
        'd: 's,
    {
        let pointer = schema["$ref"].as_str();
        let found = pointer.and_then(|pointer| self.0.pointer(pointer.trim_start_matches('#')));
        found.unwrap_or(schema)
    }

    /// Fields of an object and of its parts, required fields first.
    pub(super) fn fields(&self, schema: &Value) -> Vec<Field> {
        let mut found = Vec::new();
        self.collect(schema, &mut found);
        found.sort_by_key(|field| !field.required);
        found
    }

    fn collect(&self, schema: &Value, found: &mut Vec<Field>) {
        let schema = self.resolve(schema);
        let required = list(&schema["required"]);
        for (name, field) in entries(&schema["properties"]) {
            let required = required.iter().any(|known| known == name);
            found.push(self.field(name, required, field, ""));
        }
        for part in list(&schema["allOf"]) {
            self.collect(part, found);
        }
    }

    /// A parameter of a call.
    pub(super) fn parameter(&self, parameter: &Value) -> Field {
        let place = match text(&parameter["in"]).as_str() {
            "query" => "",
            "path" => " in the path",
            _ => " in a header",
        };
        let required = parameter["required"] == true;
        let name = text(&parameter["name"]);
        let mut field = self.field(&name, required, &parameter["schema"], place);
        if let Some(about) = parameter["description"].as_str() {
            field.about_html = markdown::text(about);
        }
        field
    }

    fn field(&self, name: &str, required: bool, schema: &Value, place: &str) -> Field {
        let about = self.description(schema).unwrap_or_default();
        Field {
            name: name.to_owned(),
            required,
            kind_html: format!("{}{place}", self.kind(schema)),
            about_html: markdown::text(about),
            limits_html: self.limits(schema).join("; "),
        }
    }

    /// Description of a value: its own, or that of one of its possible types.
    fn description<'s>(&self, schema: &'s Value) -> Option<&'s str>
    where
        'd: 's,
    {
        if let Some(own) = schema["description"].as_str() {
            return Some(own);
        }
        let resolved = self.resolve(schema);
        if self.is_object(resolved) {
            return None;
        }
        if let Some(own) = resolved["description"].as_str() {
            return Some(own);
        }
        let choices = ["oneOf", "anyOf", "allOf"].iter();
        choices
            .flat_map(|choice| list(&resolved[*choice]))
            .find_map(|part| self.description(part))
    }

    fn is_object(&self, schema: &Value) -> bool {
        let schema = self.resolve(schema);
        let mut parts = list(&schema["allOf"]).iter();
        schema["properties"].is_object() || parts.any(|part| self.is_object(part))
    }

    /// Type of a value. The name of an object is a link to its fields.
    pub(super) fn kind(&self, schema: &Value) -> String {
        let resolved = self.resolve(schema);
        if self.is_object(resolved) {
            let Some(name) = name(schema) else {
                return "object".to_owned();
            };
            return format!("<a href=\"#{name}\">{name}</a>");
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            let kinds = list(&resolved[choice]).iter();
            let kinds: Vec<_> = kinds.map(|part| self.kind(part)).collect();
            if !kinds.is_empty() {
                return kinds.join(" or ");
            }
        }
        match &resolved["type"] {
            Value::Array(types) => {
                let types: Vec<_> = types.iter().map(text).collect();
                types.join(" or ")
            }
            Value::String(word) if word == "array" => {
                format!("list of {}", self.kind(&resolved["items"]))
            }
            word => text(word),
        }
    }

    /// Limits of a value, as HTML.
    fn limits(&self, schema: &Value) -> Vec<String> {
        let resolved = self.resolve(schema);
        if self.is_object(resolved) {
            return Vec::new();
        }
        let mut found = Vec::new();
        let words: Vec<_> = list(&resolved["enum"])
            .iter()
            .map(|word| format!("<code>{}</code>", markdown::escaped(&text(word))))
            .collect();
        if !words.is_empty() {
            found.push(format!("one of {}", words.join(" ")));
        }
        let at = |name: &str| resolved[name].as_u64();
        match (at("minimum"), at("maximum")) {
            (Some(least), Some(most)) => found.push(format!("{least} to {most}")),
            (Some(least), None) => found.push(format!("at least {least}")),
            (None, Some(most)) => found.push(format!("at most {most}")),
            (None, None) => {}
        }
        match (at("minLength"), at("maxLength")) {
            (Some(least), Some(most)) => found.push(format!("{least} to {most} characters")),
            (Some(least), None) => found.push(format!("at least {least} characters")),
            (None, Some(most)) => found.push(format!("at most {most} characters")),
            (None, None) => {}
        }
        // A longer pattern only repeats the description.
        let pattern = resolved["pattern"].as_str();
        if let Some(pattern) = pattern.filter(|pattern| pattern.len() < 64) {
            found.push(format!("<code>{}</code>", markdown::escaped(pattern)));
        }
        for choice in ["oneOf", "anyOf", "allOf"] {
            found.extend(
                list(&resolved[choice])
                    .iter()
                    .flat_map(|part| self.limits(part)),
            );
        }
        match schema.get("default") {
            None | Some(Value::Null) => {}
            Some(Value::String(word)) => {
                found.push(format!("default <code>{}</code>", markdown::escaped(word)));
            }
            Some(other) => found.push(format!("default <code>{other}</code>")),
        }
        found
    }

    /// Objects that a schema contains, each once, outermost first. The schema itself is not among them.
    pub(super) fn objects_in(&self, schema: &Value, found: &mut Vec<Shape>) {
        let resolved = self.resolve(schema);
        let inner = entries(&resolved["properties"]).map(|(_, field)| field);
        let items = resolved.get("items");
        let values = resolved.get("additionalProperties");
        let parts = ["oneOf", "anyOf"]
            .iter()
            .flat_map(|choice| list(&resolved[*choice]));
        for part in inner.chain(items).chain(values).chain(parts) {
            self.object(part, found);
        }
        for part in list(&resolved["allOf"]) {
            self.objects_in(part, found);
        }
    }

    fn object(&self, schema: &Value, found: &mut Vec<Shape>) {
        if let Some(name) = name(schema).filter(|_| self.is_object(schema)) {
            if found.iter().any(|shape| shape.name == name) {
                return;
            }
            let about = self.resolve(schema)["description"].as_str();
            found.push(Shape {
                name: name.to_owned(),
                about_html: markdown::text(about.unwrap_or_default()),
                fields: self.fields(schema),
            });
        }
        self.objects_in(schema, found);
    }
}

/// Name of the schema that a reference names.
fn name(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.rsplit('/').next()
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flat_map(Map::iter)
}
