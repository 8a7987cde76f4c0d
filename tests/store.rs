//! The store on which tests run their gateways. The default is the store of `kassette dev`.
//!
//! With `KASSETTE_TEST_STORE=postgres`, `kassette dev` starts a PostgreSQL server for each gateway. With
//! `KASSETTE_TEST_NODES=3` in addition, each gateway has three nodes behind a load balancer.

/// The options of `kassette dev` for this store.
pub(crate) fn options() -> Vec<String> {
    let set = |name, option: &str| {
        let value = std::env::var(name).ok()?;
        Some([option.to_owned(), value])
    };
    let kind = set("KASSETTE_TEST_STORE", "--store");
    let nodes = set("KASSETTE_TEST_NODES", "--nodes");
    kind.into_iter().chain(nodes).flatten().collect()
}
