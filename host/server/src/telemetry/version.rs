//! Which program this is.

pub(super) const RELEASE: &str = env!("CARGO_PKG_VERSION");

/// The build: what `KASSETTE_BUILD` said when it was compiled, as the commit that it was made of.
pub(super) const BUILD: &str = match option_env!("KASSETTE_BUILD") {
    Some(build) => build,
    None => "unnamed",
};
