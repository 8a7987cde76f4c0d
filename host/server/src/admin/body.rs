//! Bodies of changes, and who makes them and why, for the audit log.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::AdminState;
use crate::web::ApiError;
use crate::web::json::{self, Fields, Value, text};
use crate::web::query::Query;
use crate::web::text::plain;

/// Most bytes of a change. Lists of methods and providers fit many times over.
pub(super) const MOST: usize = 1 << 20;
/// Most characters of an actor or a reason.
const MOST_CHARACTERS: usize = 500;

/// The fields of a JSON body; none where the body is empty.
pub(super) struct JsonBody(pub(super) Fields);

/// A merge patch (RFC 7396): its fields, and which of them are `null`.
pub(super) struct PatchBody {
    pub(super) fields: Fields,
    /// Names of fields that are to be reset.
    pub(super) nulls: BTreeSet<String>,
}

impl FromRequest<AdminState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AdminState) -> Result<Self, ApiError> {
        Ok(Self(Fields::of(read(request).await?)?))
    }
}

impl FromRequest<AdminState> for PatchBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AdminState) -> Result<Self, ApiError> {
        let fields = Fields::of(read(request).await?)?;
        let nulls = fields.nulls();
        Ok(Self { fields, nulls })
    }
}

/// Reads a request that changes something: no query, and JSON where there is a body.
async fn read(request: Request) -> Result<Value, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = crate::web::body::read(&parts.headers, body, MOST).await?;
    Query::of(parts.uri.query())?.finish()?;
    if bytes.is_empty() {
        return Ok(Value::Object(BTreeMap::new()));
    }
    check_media_type(&parts.headers)?;
    Ok(json::parse(&bytes)?)
}

/// 400 for anything but JSON, or a merge patch, as it is.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    refuse_encoded(headers)?;
    match is_json(headers) {
        true => Ok(()),
        false => Err(ApiError::Malformed(
            "Content-Type must be application/json".into(),
        )),
    }
}

/// 400 for a body that would have to be decoded.
pub(super) fn refuse_encoded(headers: &HeaderMap) -> Result<(), ApiError> {
    match headers.contains_key(CONTENT_ENCODING) {
        true => Err(ApiError::Malformed(
            "Content-Encoding is not supported; send the body as it is".into(),
        )),
        false => Ok(()),
    }
}

/// Whether the body is declared as JSON, or as a merge patch.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let essence = declared
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    let known = ["application/json", "application/merge-patch+json"];
    known
        .iter()
        .any(|known| known.eq_ignore_ascii_case(essence))
}

/// An actor or a reason.
pub(crate) fn audit_text(text: &str) -> Result<String, String> {
    plain::<MOST_CHARACTERS>(text)
}

/// Who acts through the operator, and why, as the request tells it.
#[derive(Default)]
pub(super) struct Attribution {
    /// The person behind the operator's token.
    pub(super) actor: Option<String>,
    pub(super) reason: Option<String>,
}

impl Attribution {
    /// Takes `actor` and `reason` out of a body.
    pub(super) fn in_body(fields: &mut Fields) -> Result<Self, ApiError> {
        Ok(Self {
            actor: fields.optional("actor", text(audit_text))?,
            reason: fields.optional("reason", text(audit_text))?,
        })
    }

    /// The same of a body that holds nothing else.
    pub(super) fn alone(mut fields: Fields) -> Result<Self, ApiError> {
        let attribution = Self::in_body(&mut fields)?;
        fields.finish()?;
        Ok(attribution)
    }

    /// Reads `X-Audit-Actor` and `X-Audit-Reason`, UTF-8, each at most once.
    pub(super) fn in_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let read = |name: &'static str| -> Result<Option<String>, ApiError> {
            let mut values = headers.get_all(name).iter();
            let Some(value) = values.next() else {
                return Ok(None);
            };
            if values.next().is_some() {
                return Err(ApiError::invalid(name, "is repeated; send the header once"));
            }
            let value = std::str::from_utf8(value.as_bytes())
                .map_err(|_| ApiError::invalid(name, "must be UTF-8"))?;
            audit_text(value)
                .map(Some)
                .map_err(|why| ApiError::invalid(name, why))
        };
        Ok(Self {
            actor: read("x-audit-actor")?,
            reason: read("x-audit-reason")?,
        })
    }
}
