//! The only way out: requests that the host performs for the module.
pub use crate::bindings::provider::kassette::plugin::http::{
    Basic, Credential, Failure, Header, Keep, Request, Response, SecretField, SecretHeader, Verb,
};

/// Sends one request. Any status is an answer; only the lack of one is a failure.
///
/// Natively the request goes to the test's host (`kassette_plugin::testing`); without one nothing
/// is sent.
///
/// # Errors
/// [`Failure::NotSent`] where the request surely had no effect, [`Failure::NoAnswer`] where it may
/// have had one.
pub fn send(request: &Request) -> Result<Response, Failure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::http::send(request);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::send(request);
}
