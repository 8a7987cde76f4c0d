//! The store that tests run their gateways on: that of `dev` where the environment names none.
//!
//! `KASSETTE_TEST_STORE=postgres` gives each gateway a PostgreSQL that `dev` starts for it, and
//! `KASSETTE_TEST_NODES=3` beside it makes of each three nodes behind `dev`'s balancer.

/// The options of `kassette dev` for it.
pub(crate) fn options() -> Vec<String> {
    let set = |name, option: &str| {
        let value = std::env::var(name).ok()?;
        Some([option.to_owned(), value])
    };
    let kind = set("KASSETTE_TEST_STORE", "--store");
    let nodes = set("KASSETTE_TEST_NODES", "--nodes");
    kind.into_iter().chain(nodes).flatten().collect()
}
