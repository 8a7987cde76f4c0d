//! Strict JSON: parsed once into a small value, and then read field by field.
//!
//! A name that occurs more than once in an object is rejected, because two readers of such a body may see two
//! different payments. The parser limits the depth to 128. Fields that no reader asks for are rejected. Used by
//! the public and the admin API.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::code::Code;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

/// Maximum number of characters of a caller's text that an error repeats.
const ECHO: usize = 64;

/// A JSON value without repeated names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    /// A number. Never an amount of money.
    Number(serde_json::Number),
    Text(String),
    List(Vec<Self>),
    Object(BTreeMap<String, Self>),
}

/// The bytes are not strict JSON: 400.
#[derive(Debug, thiserror::Error)]
#[error("the body is not valid JSON: {0}")]
pub(crate) struct NotJson(#[from] serde_json::Error);

/// A value has the wrong type or content: 422.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Invalid {
    pub(crate) code: Code,
    /// The field at fault. `None` if the error does not concern one.
    pub(crate) field: Option<String>,
    /// The problem, after the field's name.
    pub(crate) message: String,
}

impl Invalid {
    /// Describes a problem with a field.
    pub(crate) fn new(field: &str, why: impl fmt::Display) -> Self {
        Self {
            code: Code::InvalidField,
            field: Some(field.to_owned()),
            message: format!("{field}: {why}"),
        }
    }
}

/// A problem with a value, without the field's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Wrong(String);

impl Wrong {
    /// Describes the problem, such as "must be a string".
    pub(crate) fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

/// Parses a complete body.
///
/// # Errors
/// [`NotJson`] unless the bytes are exactly one JSON value in UTF-8 without repeated names.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, NotJson> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Quotes a caller's text: shortened and with misleading characters escaped.
pub(crate) fn echo(name: &str) -> String {
    format!("{:?}", short(name))
}

/// The first `ECHO` characters of a caller's text.
pub(crate) fn short(name: &str) -> String {
    name.chars().take(ECHO).collect()
}

/// A reader for a string field: `fields.required("amount", text(Minor::parse_positive))`.
pub(crate) fn text<T, E: fmt::Display>(
    read: impl FnOnce(&str) -> Result<T, E>,
) -> impl FnOnce(Value) -> Result<T, Wrong> {
    move |value| match value {
        Value::Text(text) => read(&text).map_err(Wrong::new),
        _ => Err(Wrong::new("must be a string")),
    }
}

/// An object that is read field by field.
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<String, Value>);

impl Fields {
    /// The fields of an object.
    ///
    /// # Errors
    /// [`Invalid`] if the value is not an object.
    pub(crate) fn read(value: Value) -> Result<Self, Invalid> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            _ => Err(Invalid {
                code: Code::InvalidField,
                field: None,
                message: "the body must be a JSON object".to_owned(),
            }),
        }
    }

    /// Takes a required field.
    ///
    /// # Errors
    /// [`Invalid`] if the field is missing or `null`, or if `read` rejects it.
    pub(crate) fn required<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value) -> Result<T, Wrong>,
    ) -> Result<T, Invalid> {
        match self.0.remove(name) {
            None => Err(Invalid::new(name, "is required")),
            Some(Value::Null) => Err(Invalid::new(name, "is required and must not be null")),
            Some(value) => read(value).map_err(|wrong| Invalid::new(name, wrong)),
        }
    }

    /// Takes an optional field. `null` counts as absent.
    ///
    /// # Errors
    /// [`Invalid`] if `read` rejects the value.
    pub(crate) fn optional<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(Value) -> Result<T, Wrong>,
    ) -> Result<Option<T>, Invalid> {
        match self.0.remove(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => read(value)
                .map(Some)
                .map_err(|wrong| Invalid::new(name, wrong)),
        }
    }

    /// Names of the fields that are `null`.
    pub(crate) fn nulls(&self) -> BTreeSet<String> {
        let nulls = self.0.iter().filter(|(_, value)| **value == Value::Null);
        nulls.map(|(name, _)| name.clone()).collect()
    }

    /// Checks that all fields have been taken.
    ///
    /// # Errors
    /// [`Invalid`] with the first unknown field.
    pub(crate) fn finish(self) -> Result<(), Invalid> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(Invalid {
                code: Code::UnknownField,
                message: format!("unknown field {}", echo(&name)),
                field: Some(short(&name)),
            }),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Builds a [`Value`] and rejects repeated names.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = echo(&name);
                return Err(A::Error::custom(format_args!(
                    "the name {name} is repeated"
                )));
            }
            object.insert(name, entries.next_value()?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kassette_domain::money::{Minor, NotAnAmount};
    use proptest::prelude::*;

    fn fields(body: &str) -> Fields {
        Fields::read(parse(body.as_bytes()).unwrap()).unwrap()
    }

    fn any_text(text: &str) -> Result<String, NotAnAmount> {
        Ok(text.to_owned())
    }

    #[test]
    fn a_repeated_name_is_no_json_at_any_depth() {
        for body in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"x":{"b":null,"b":null}}"#,
            r#"[{"b":1,"b":1}]"#,
        ] {
            let error = parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("repeated"), "{body}: {error}");
        }
        assert!(parse(br#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn what_is_not_one_json_value_in_utf8_is_refused() {
        let deep = "[".repeat(200) + &"]".repeat(200);
        for body in [
            &b""[..],
            b"{",
            b"{}{}",
            b"{\"a\":1,}",
            b"{'a':1}",
            b"\xff",
            b"{\"a\":\"\xc3\"}",
            b"{\"a\":\"\\ud800\"}",
            b"\xef\xbb\xbf{}",
            b"NaN",
            b"01",
            deep.as_bytes(),
        ] {
            assert!(parse(body).is_err(), "{}", String::from_utf8_lossy(body));
        }
    }

    #[test]
    fn a_field_that_nobody_asks_for_is_named() {
        let mut fields = fields(r#"{"a":"x","wallet":"w"}"#);
        assert_eq!(fields.required("a", text(any_text)).unwrap(), "x");
        assert_eq!(
            fields.finish().unwrap_err().message,
            "unknown field \"wallet\"".to_owned()
        );
    }

    #[test]
    fn null_is_absence_where_a_field_is_optional_and_wrong_where_it_is_required() {
        let mut optional = fields(r#"{"a":null}"#);
        assert_eq!(optional.optional("a", text(any_text)), Ok(None));
        assert_eq!(optional.finish(), Ok(()));
        let wrong = fields(r#"{"a":null}"#).required("a", text(any_text));
        assert!(wrong.unwrap_err().message.starts_with("a: "));
        let wrong = fields("{}").required("a", text(any_text));
        assert_eq!(wrong.unwrap_err().message, "a: is required");
    }

    #[test]
    fn a_number_is_no_amount() {
        let read = |body| fields(body).required("amount", text(Minor::parse_positive));
        assert_eq!(read(r#"{"amount":"49.90"}"#), Ok(Minor(4990)));
        for body in [
            r#"{"amount":49.90}"#,
            r#"{"amount":49}"#,
            r#"{"amount":true}"#,
            r#"{"amount":["49.90"]}"#,
            r#"{"amount":{}}"#,
            r#"{"amount":"49.9"}"#,
        ] {
            assert!(
                read(body).unwrap_err().message.starts_with("amount: "),
                "{body}"
            );
        }
    }

    #[test]
    fn a_body_that_is_no_object_has_no_fields() {
        for body in ["[]", "null", "\"x\"", "1", "true"] {
            let value = parse(body.as_bytes()).unwrap();
            assert!(Fields::read(value).is_err(), "{body}");
        }
    }

    #[test]
    fn an_echoed_name_is_short_and_harmless() {
        let name = "a\u{202E}\n".to_owned() + &"x".repeat(500);
        let echoed = echo(&name);
        assert!(echoed.len() < 100 && !echoed.contains(['\u{202E}', '\n']));
    }

    /// Converts a value to `serde_json`'s type for comparison.
    fn plain(value: &Value) -> serde_json::Value {
        match value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Number(number) => number.clone().into(),
            Value::Text(text) => text.clone().into(),
            Value::List(list) => list.iter().map(plain).collect(),
            Value::Object(object) => object
                .iter()
                .map(|(name, value)| (name.clone(), plain(value)))
                .collect(),
        }
    }

    proptest! {
        #[test]
        fn reading_never_panics_and_agrees_with_serde_json(body in r#"[\[\]{}:,"ab\\0-9.eE+u\- tnf]{0,40}"#) {
            if let Ok(value) = parse(body.as_bytes()) {
                let other: serde_json::Value = serde_json::from_str(&body).unwrap();
                prop_assert_eq!(plain(&value), other);
            }
        }

        #[test]
        fn names_read_back(names in proptest::collection::btree_set(".{0,8}", 0..6)) {
            let object: serde_json::Map<_, _> =
                names.iter().map(|name| (name.clone(), serde_json::Value::Null)).collect();
            let body = serde_json::Value::Object(object).to_string();
            let Value::Object(read) = parse(body.as_bytes()).unwrap() else { panic!("no object") };
            prop_assert!(read.keys().eq(names.iter()));
        }
    }
}
