//! The page of a call, read from the OpenAPI document.

use askama::Template;
use serde_json::Value;

use super::example;
use super::markdown;
use super::schema::{ERROR, Field, Schemas, Shape, entries, list, text};
use super::site::Frame;

/// HTTP methods of operations.
const VERBS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

/// A call of the API, or the request that the gateway sends to an endpoint. Names that end in `html` contain HTML.
pub(super) struct Call {
    pub(super) id: String,
    /// Group of calls.
    pub(super) tag: String,
    pub(super) title: String,
    pub(super) summary: String,
    pub(super) summary_html: String,
    pub(super) about_html: String,
    pub(super) verb: String,
    pub(super) path: String,
    /// Key that the call requires.
    pub(super) key: Option<&'static str>,
    pub(super) parameters: Vec<Field>,
    pub(super) body: Vec<Field>,
    pub(super) answers: Vec<Answer>,
    pub(super) errors: Vec<Answer>,
    /// Objects inside of body and answers.
    pub(super) objects: Vec<Shape>,
    pub(super) examples_html: String,
}

pub(super) struct Answer {
    pub(super) status: String,
    pub(super) about_html: String,
    pub(super) fields: Vec<Field>,
}

/// The page.
#[derive(Template)]
#[template(path = "docs/call.html")]
pub(super) struct CallPage<'p> {
    pub(super) frame: Frame<'p>,
    pub(super) call: &'p Call,
}

/// All calls of a document. The requests that the gateway sends come last.
pub(super) fn all(document: &Value) -> Vec<Call> {
    let schemas = Schemas(document);
    let mut calls = Vec::new();
    for (place, is_hook) in [("paths", false), ("webhooks", true)] {
        for (path, item) in entries(&document[place]) {
            for verb in VERBS {
                if let Some(operation) = item.get(verb) {
                    calls.push(Call::read(&schemas, verb, path, operation, is_hook));
                }
            }
        }
    }
    calls
}

impl Call {
    fn read(
        schemas: &Schemas<'_>,
        verb: &str,
        path: &str,
        operation: &Value,
        is_hook: bool,
    ) -> Self {
        let id = text(&operation["operationId"]);
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut objects = Vec::new();
        schemas.objects_in(body, &mut objects);
        let (mut answers, mut errors) = (Vec::new(), Vec::new());
        let mut before = &Value::Null;
        for (status, answer) in entries(&operation["responses"]) {
            let schema = &answer["content"]["application/json"]["schema"];
            let about_html = markdown::text(answer["description"].as_str().unwrap_or_default());
            let status = status.clone();
            if schema["$ref"] == ERROR {
                let fields = Vec::new();
                errors.push(Answer {
                    status,
                    about_html,
                    fields,
                });
                continue;
            }
            schemas.objects_in(schema, &mut objects);
            // A status with the same body as the one before does not repeat it.
            let fields = match schema == before {
                true => Vec::new(),
                false => schemas.fields(schema),
            };
            before = schema;
            answers.push(Answer {
                status,
                about_html,
                fields,
            });
        }
        let examples_html = examples(schemas, verb, path, operation, is_hook);
        Self {
            tag: text(&operation["tags"][0]),
            title: title(&id),
            summary: text(&operation["summary"]),
            summary_html: markdown::text(operation["summary"].as_str().unwrap_or_default()),
            about_html: markdown::text(operation["description"].as_str().unwrap_or_default()),
            verb: verb.to_uppercase(),
            path: match is_hook {
                true => "your endpoint".to_owned(),
                false => path.to_owned(),
            },
            key: key(operation),
            parameters: list(&operation["parameters"])
                .iter()
                .map(|parameter| schemas.parameter(parameter))
                .collect(),
            body: schemas.fields(body),
            answers,
            errors,
            objects,
            examples_html,
            id,
        }
    }
}

fn key(operation: &Value) -> Option<&'static str> {
    let keys = operation["security"][0].as_object()?;
    match keys.keys().next().map(String::as_str) {
        Some("reseller_key") => Some("A reseller's key"),
        Some(_) => Some("A merchant's key"),
        None => None,
    }
}

/// Boxes with the request and the first successful answer.
fn examples(
    schemas: &Schemas<'_>,
    verb: &str,
    path: &str,
    operation: &Value,
    is_hook: bool,
) -> String {
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    if is_hook {
        let event = example::pretty(&schemas.example(body));
        return markdown::figure("What arrives", "", &event);
    }
    let request = example::curl(schemas, verb, path, operation);
    let request = markdown::figure("Request", "<span>curl</span>", &request);
    let mut answers =
        entries(&operation["responses"]).filter(|(status, _)| status.starts_with('2'));
    let created = operation["responses"]
        .get("201")
        .map(|answer| ("201", answer));
    let answer = created.or_else(|| {
        answers
            .next()
            .map(|(status, answer)| (status.as_str(), answer))
    });
    let Some((status, answer)) = answer else {
        return request;
    };
    let state = format!("<span class=\"state good\">{status}</span>");
    let schema = &answer["content"]["application/json"]["schema"];
    let body = match schema.is_object() {
        true => example::pretty(&schemas.example(schema)),
        false => "(no body)".to_owned(),
    };
    request + &markdown::figure("Answer", &state, &body)
}

/// `Create payment` for `createPayment`.
fn title(id: &str) -> String {
    let mut title = String::with_capacity(id.len() + 8);
    for (at, letter) in id.chars().enumerate() {
        match letter {
            first if at == 0 => title.push(first.to_ascii_uppercase()),
            capital if capital.is_ascii_uppercase() => {
                title.push(' ');
                title.push(capital.to_ascii_lowercase());
            }
            letter => title.push(letter),
        }
    }
    title
}
