//! The fields of a form.

use axum::body::{Body, Bytes};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use kassette_runtime::MAX_MODULE_BYTES;

use super::multipart;
use super::reply::ConsoleError;

/// Maximum size of a form without a file, in bytes. The largest text is a merchant's logo.
const MAX_FORM: usize = 1 << 20;
/// Maximum size of a form with a file.
const MAX_UPLOAD: usize = MAX_MODULE_BYTES + MAX_FORM;
/// Maximum number of fields.
const MAX_FIELDS: usize = 1000;
/// Fields of the console itself.
pub(super) const CSRF: &str = "csrf";
pub(super) const CONFIRMED: &str = "confirmed";
pub(super) const REASON: &str = "reason";

/// The fields of a form.
pub(super) struct Form {
    fields: Vec<(String, String)>,
    pub(super) file: Option<Bytes>,
}

impl Form {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// 400, 408, 413 or 503 if it cannot be read.
    pub(super) async fn read(parts: &Parts, body: Body) -> Result<Self, ConsoleError> {
        let media_type = parts.headers.get(CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok());
        let boundary = media_type.and_then(multipart::boundary);
        let most = match boundary {
            Some(_) => MAX_UPLOAD,
            None => MAX_FORM,
        };
        let bytes = crate::web::body::read(&parts.headers, body, most).await;
        let bytes = bytes.map_err(ConsoleError::of_body)?;
        let form = match boundary {
            Some(boundary) => multipart::read(&bytes, &boundary),
            None => Some((
                form_urlencoded::parse(&bytes)
                    .into_owned()
                    .take(MAX_FIELDS + 1)
                    .collect(),
                None,
            )),
        };
        match form {
            Some((fields, file)) if fields.len() <= MAX_FIELDS => Ok(Self { fields, file }),
            _ => {
                let why = format!("This is not a form with at most {MAX_FIELDS} fields.");
                Err(ConsoleError::of(StatusCode::BAD_REQUEST, why))
            }
        }
    }

    /// The first value of a field.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(known, _)| known == name);
        found.map(|(_, value)| &**value)
    }

    /// All values of a field.
    pub(super) fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.fields.iter().filter(|(known, _)| known == name);
        fields.map(|(_, value)| &**value).collect()
    }

    /// The fields, without those of the console itself.
    pub(super) fn own_fields(&self) -> impl Iterator<Item = &(String, String)> {
        let fields = self.fields.iter();
        fields.filter(|(name, _)| ![CSRF, CONFIRMED].contains(&&**name))
    }

    /// The fields by name, in the order in which they first occur, without the reason.
    pub(super) fn grouped(&self) -> Vec<(String, Vec<String>)> {
        let mut grouped: Vec<(String, Vec<String>)> = Vec::new();
        for (name, value) in self.own_fields().filter(|(name, _)| name != REASON) {
            match grouped.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(value.clone()),
                None => grouped.push((name.clone(), vec![value.clone()])),
            }
        }
        grouped
    }
}
