//! Real providers' additions to their answers: undocumented fields and nulls, which must not disturb a module.
//! Under `odd-answers` there are also list entries that no module can parse.
use axum::{
    body::{Body, to_bytes},
    http::header,
    response::Response,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::http::media_type;

/// Maximum size of an answer that gets more fields.
const MOST_BYTES: usize = 1024 * 1024;

/// Objects of the merchant, to which no provider adds fields.
const OWN: [&str; 2] = ["metadata", "notes"];

/// Adds fields to the objects of a JSON answer. They depend only on the answer, so equal answers stay equal.
pub(crate) async fn extra_fields(answer: Response) -> Response {
    changed(answer, |told, seed| add(told, &mut seed.iter().cycle())).await
}

/// Adds fields to the objects and an entry to the lists of a JSON answer.
pub(crate) async fn odd_parts(answer: Response) -> Response {
    changed(answer, |told, seed| {
        add(told, &mut seed.iter().cycle());
        add_entries(told);
    })
    .await
}

/// The same for a callback's body, if it is JSON.
pub(crate) fn odd_body(body: String) -> String {
    let Ok(mut told) = serde_json::from_str::<Value>(&body) else {
        return body;
    };
    add(&mut told, &mut Sha256::digest(&body).iter().cycle());
    add_entries(&mut told);
    told.to_string()
}

/// Fields of a callback's body that name its event.
const EVENT_FIELDS: [&str; 4] = ["type", "event", "event_type", "eventType"];

/// The same callback about an event that no document names, chosen by its digest. `None` if no field of the body
/// names an event, or if that field is signed in the body itself.
pub(crate) fn unknown_event(body: &str) -> Option<String> {
    let mut told: Value = serde_json::from_str(body).ok()?;
    let fields = told.as_object_mut()?;
    let mut named = EVENT_FIELDS
        .into_iter()
        .filter_map(|field| Some((field, fields.get(field)?.as_str()?)));
    let (field, known) = named.next()?;
    let unknown = match Sha256::digest(body).first().map_or(0, |byte| byte % 4) {
        0 => format!("{known}.not_documented"),
        1 => "not.documented".to_owned(),
        2 => known.chars().rev().collect(),
        _ => String::new(),
    };
    fields.insert(field.to_owned(), unknown.into());
    Some(told.to_string())
}

/// Adds an object without a known field to each list of objects.
fn add_entries(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(add_entries);
            if items.first().is_some_and(Value::is_object) {
                items.push(json!({ "x_not_documented": null }));
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(add_entries),
        _ => {}
    }
}

/// Applies a change, which may depend on the digest, to a JSON answer.
async fn changed(answer: Response, change: impl FnOnce(&mut Value, &[u8])) -> Response {
    let (mut parts, body) = answer.into_parts();
    if media_type(&parts.headers) != Some("application/json") {
        return Response::from_parts(parts, body);
    }
    let Ok(bytes) = to_bytes(body, MOST_BYTES).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let Ok(mut told) = serde_json::from_slice::<Value>(&bytes) else {
        return Response::from_parts(parts, bytes.into());
    };
    let digest = Sha256::digest(&bytes);
    change(&mut told, &digest);
    parts.headers.remove(header::CONTENT_LENGTH);
    Response::from_parts(parts, told.to_string().into())
}

/// Adds a null, an object, or nothing to each object, depending on the next byte.
fn add<'a>(value: &mut Value, bytes: &mut impl Iterator<Item = &'a u8>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| add(item, bytes)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                if !OWN.contains(&name.as_str()) {
                    add(field, bytes);
                }
            }
            let added = match bytes.next().map_or(0, |byte| byte % 4) {
                0 => Value::Null,
                1 => json!({ "since": "a later version", "of": [null, "1.00"] }),
                _ => return,
            };
            fields.insert("x_not_documented".into(), added);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_objects_get_an_entry_without_a_known_field() {
        let body = json!({ "list": [{ "id": 1 }], "words": ["a"], "none": [] });
        let told: Value = serde_json::from_str(&odd_body(body.to_string())).unwrap();
        assert_eq!(told["list"].as_array().unwrap().len(), 2);
        assert_eq!(told["list"][0]["id"], 1);
        assert_eq!((&told["words"], &told["none"]), (&json!(["a"]), &json!([])));
        assert_eq!(odd_body("id=tr_1".into()), "id=tr_1");
    }

    #[test]
    fn an_unknown_event_says_the_rest_as_before() {
        for field in EVENT_FIELDS {
            let body = json!({ "id": "evt_1", field: "payment.paid" });
            let told: Value =
                serde_json::from_str(&unknown_event(&body.to_string()).unwrap()).unwrap();
            assert_eq!(told["id"], "evt_1");
            assert!(
                told[field].is_string() && told[field] != body[field],
                "{told}"
            );
        }
        for body in ["id=tr_1", r#"{"notificationItems":[]}"#, "[1]"] {
            assert_eq!(unknown_event(body), None);
        }
    }

    #[test]
    fn fields_are_added_by_the_seed_and_none_to_what_is_the_merchants_own() {
        let mut told = json!({ "a": { "b": 1 }, "metadata": {}, "list": [{}, 7] });
        add(&mut told, &mut [0, 1, 2].iter().cycle());
        let added = json!({ "since": "a later version", "of": [null, "1.00"] });
        assert_eq!(
            told,
            json!({
                "a": { "b": 1, "x_not_documented": null },
                "metadata": {},
                "list": [{ "x_not_documented": added }, 7],
            })
        );
    }
}
