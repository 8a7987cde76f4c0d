//! Secrets by name. The module never sees the value of a secret or token.
pub use crate::bindings::provider::kassette::plugin::secrets::Algorithm;

/// Whether the secret or an unexpired token exists.
#[must_use]
pub fn ready(name: &str) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::ready(name);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::ready(name);
}

/// The message authentication code with this secret. `None` if it does not exist.
#[must_use]
pub fn sign(name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::sign(name, algorithm, message);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::sign(name, algorithm, message);
}

/// Whether `code` is valid for `message`, in constant time. During a rotation of the secret, its old and new value
/// both count.
#[must_use]
pub fn verify(name: &str, algorithm: Algorithm, message: &[u8], code: &[u8]) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::verify(
        name, algorithm, message, code,
    );
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::verify(name, algorithm, message, code);
}
