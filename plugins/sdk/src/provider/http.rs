//! HTTP requests, which the host sends for the module: its only access to the network.
pub use crate::bindings::provider::kassette::plugin::http::{
    Basic, Credential, Header, Keep, Request, Response, SecretField, SecretHeader, SendFailure,
    Verb,
};

/// Sends one request. Every status is a response; only a missing response is a failure.
///
/// In native builds the test's host (`kassette_plugin::testing`) receives the request. Without one nothing is
/// sent.
///
/// # Errors [`SendFailure::NotSent`] if the request certainly had no effect, [`SendFailure::NoAnswer`] if it may
/// have had one.
pub fn send(request: &Request) -> Result<Response, SendFailure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::http::send(request);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::send(request);
}

/// GETs a URL without credentials, from the host's cache if possible; see `get-cached` in the WIT.
///
/// In native builds the test's host receives the request, as with [`send`].
///
/// # Errors [`SendFailure::NotSent`] if the response is not cached and too many requests were sent within the last
/// minute, or as with [`send`]; [`SendFailure::NoAnswer`] as with [`send`].
pub fn get_cached(url: &str, life: u32) -> Result<Response, SendFailure> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::http::get_cached(url, life);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::get_cached(url, life);
}
