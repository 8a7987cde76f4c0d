//! The variable parts of a path.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::de::DeserializeOwned;

use crate::web::ApiError;

/// What a path names. Whatever is no text at all names nothing: 404, in the shape of every error.
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
