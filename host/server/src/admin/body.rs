//! Bodies of changes, and the words that go into the audit log.

use axum::extract::{FromRequest, Request};
use http::HeaderMap;

use super::AdminState;
use super::text::plain;
use crate::api::error::ApiError;
use crate::api::json::{self, Fields, Value, text};

/// Most bytes of a change. Lists of methods and providers fit many times over.
const MOST: usize = 1 << 20;
/// Most characters of an actor or a reason.
const WORDS: usize = 500;

/// The fields of a JSON body; none where the body is empty.
pub(super) struct JsonBody(pub(super) Fields);

impl FromRequest<AdminState> for JsonBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &AdminState) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let bytes = crate::api::body::read(&parts.headers, body, MOST).await?;
        if bytes.is_empty() {
            return Ok(Self(Fields::of(Value::Object(Default::default()))?));
        }
        crate::api::require_json(&parts.headers)?;
        Ok(Self(Fields::of(json::parse(&bytes)?)?))
    }
}

/// Who is said to act, and why.
#[derive(Default)]
pub(super) struct Said {
    /// The person behind the operator's token.
    pub(super) actor: Option<String>,
    /// Why.
    pub(super) reason: Option<String>,
}

impl Said {
    /// Takes `actor` and `reason` out of a body.
    pub(super) fn in_body(fields: &mut Fields) -> Result<Self, ApiError> {
        Ok(Self {
            actor: fields.optional("actor", text(plain::<WORDS>))?,
            reason: fields.optional("reason", text(plain::<WORDS>))?,
        })
    }

    /// Reads `X-Audit-Actor` and `X-Audit-Reason`.
    pub(super) fn in_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let read = |name: &'static str| -> Result<Option<String>, ApiError> {
            let Some(value) = headers.get(name) else { return Ok(None) };
            let wrong = |why: String| ApiError::Invalid(format!("{name}: {why}").into());
            let value = std::str::from_utf8(value.as_bytes())
                .map_err(|_| wrong("must be UTF-8".to_owned()))?;
            plain::<WORDS>(value).map(Some).map_err(wrong)
        };
        Ok(Self { actor: read("x-audit-actor")?, reason: read("x-audit-reason")? })
    }
}
