//! Secrets by name. The module never sees one: not the operator's, not a token.
pub use crate::bindings::provider::kassette::plugin::secrets::Algorithm;

/// Whether the secret is there; for a token, whether it is still good.
#[must_use]
pub fn ready(name: &str) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::ready(name);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::ready(name);
}

/// Message authentication code under the secret; none where it is not there.
#[must_use]
pub fn sign(name: &str, algorithm: Algorithm, message: &[u8]) -> Option<Vec<u8>> {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::sign(name, algorithm, message);
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::sign(name, algorithm, message);
}

/// Whether `code` is right for `message`, in constant time. While the operator rotates a secret,
/// its old and its new value both count.
#[must_use]
pub fn verify(name: &str, algorithm: Algorithm, message: &[u8], code: &[u8]) -> bool {
    #[cfg(target_arch = "wasm32")]
    return crate::bindings::provider::kassette::plugin::secrets::verify(
        name, algorithm, message, code,
    );
    #[cfg(not(target_arch = "wasm32"))]
    return crate::testing::verify(name, algorithm, message, code);
}
