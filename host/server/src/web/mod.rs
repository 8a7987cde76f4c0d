//! Code common to all HTTP interfaces: errors as responses, strict JSON, reading of bodies, request ids, and
//! values that the layers of a request pass to each other. Imports no other module of this crate.

pub(crate) mod body;
pub(crate) mod budget;
pub(crate) mod code;
pub(crate) mod document;
pub(crate) mod error;
pub(crate) mod json;
pub(crate) mod marks;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod request_id;
pub(crate) mod text;
pub(crate) mod time;

pub(crate) use self::error::ApiError;
