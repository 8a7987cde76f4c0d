//! Version of the program.

pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// Value of `KASSETTE_BUILD` at compile time, such as the commit.
pub(super) const BUILD: &str = match option_env!("KASSETTE_BUILD") {
    Some(build) => build,
    None => "unnamed",
};
