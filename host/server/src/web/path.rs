//! Variable parts of a path.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::web::ApiError;

/// The variable parts of a path. If they cannot be parsed, the response is a 404 in the common format of errors.
pub(crate) struct At<T>(pub(crate) T);

impl<S, T> FromRequestParts<S> for At<T>
where
    S: Send + Sync,
    T: DeserializeOwned + Send,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(named)) => Ok(Self(named)),
            Err(_) => Err(ApiError::NotFound("there is nothing at this path")),
        }
    }
}
