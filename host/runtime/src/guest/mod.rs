//! The host side of a guest's imports.

pub(crate) mod credentials;
pub(crate) mod exchange_log;
pub(crate) mod get_cached;
pub(crate) mod log;
pub(crate) mod method;
pub(crate) mod provider;
pub(crate) mod secrets;
mod seeded_random;
pub(crate) mod send;

pub(crate) mod wasi;
pub(crate) mod wasi_state;
