//! The only way out: requests that the host performs for the module.
pub use crate::bindings::provider::kassette::plugin::http::{
    Basic, Credential, Header, Keep, Request, Response, SecretField, SecretHeader, SendFailure,
    Verb,
};

/// Sends one request. Any status is an answer; only the lack of one is a failure.
///
/// Natively the request goes to the test's host (`kassette_plugin::testing`); without one nothing
/// is sent.
///
/// # Errors
/// [`SendFailure::NotSent`] where the request surely had no effect, [`SendFailure::NoAnswer`] where it may
/// have had one.
pub fn send(request: &Request) -> Result<Response, SendFailure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::http::send(request);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::send(request);
}

/// GETs an address without credentials, out of the host's memory where it is there; see `get-cached` in the
/// WIT.
///
/// Natively the request goes to the test's host, as [`send`] does.
///
/// # Errors
/// [`SendFailure::NotSent`] where it is not kept and something else was asked for within the last minute, and
/// where [`send`] says so; [`SendFailure::NoAnswer`] as [`send`].
pub fn get_cached(url: &str, life: u32) -> Result<Response, SendFailure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::http::get_cached(url, life);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::get_cached(url, life);
}
