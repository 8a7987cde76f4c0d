//! Bodies of changes, and the actor and reason for the audit log.

use std::collections::{BTreeMap, BTreeSet};

use axum::extract::{FromRequest, Request};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use kassette_domain::order::BadText;

use super::AdminState;
use crate::web::ApiError;
use crate::web::json::{self, Fields, Value, text};
use crate::web::query::Query;
use crate::web::text::plain;

/// Maximum size of a change in bytes. Lists of methods and providers are much smaller.
pub(super) const MOST: usize = 1 << 20;
/// Maximum length of an actor or a reason, in characters.
const MOST_CHARACTERS: usize = 500;

/// The fields of a JSON body; empty if the body is empty.
pub(super) struct JsonBody(pub(super) Fields);

/// A merge patch (RFC 7396): its fields, and the names of those that are `null`.
pub(super) struct PatchBody {
    pub(super) fields: Fields,
    /// Names of fields to be reset.
    pub(super) nulls: BTreeSet<String>,
}

impl FromRequest<AdminState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AdminState) -> Result<Self, ApiError> {
        Ok(Self(Fields::read(read(request).await?)?))
    }
}

impl FromRequest<AdminState> for PatchBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AdminState) -> Result<Self, ApiError> {
        let fields = Fields::read(read(request).await?)?;
        let nulls = fields.nulls();
        Ok(Self { fields, nulls })
    }
}

/// Reads a request that changes something: without a query, and with an optional JSON body.
async fn read(request: Request) -> Result<Value, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = crate::web::body::read(&parts.headers, body, MOST).await?;
    Query::parse(parts.uri.query())?.finish()?;
    if bytes.is_empty() {
        return Ok(Value::Object(BTreeMap::new()));
    }
    check_media_type(&parts.headers)?;
    Ok(json::parse(&bytes)?)
}

/// 400 unless the body is declared as JSON or as a merge patch, without an encoding.
fn check_media_type(headers: &HeaderMap) -> Result<(), ApiError> {
    refuse_encoded(headers)?;
    match is_json(headers) {
        true => Ok(()),
        false => Err(ApiError::Malformed(
            "Content-Type must be application/json".into(),
        )),
    }
}

/// 400 for a body with a content encoding.
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

/// Parses an actor or a reason.
pub(crate) fn audit_text(text: &str) -> Result<String, BadText> {
    plain::<MOST_CHARACTERS>(text)
}

/// The person who acts through the operator and the reason, according to the request.
#[derive(Clone, Default)]
pub(super) struct Attribution {
    /// The person behind the operator's token.
    pub(super) actor: Option<String>,
    pub(super) reason: Option<String>,
}

impl Attribution {
    /// Takes `actor` and `reason` from a body.
    pub(super) fn in_body(fields: &mut Fields) -> Result<Self, ApiError> {
        Ok(Self {
            actor: fields.optional("actor", text(audit_text))?,
            reason: fields.optional("reason", text(audit_text))?,
        })
    }

    /// The same for a body without other fields.
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
