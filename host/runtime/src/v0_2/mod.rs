//! Version 0.2 of the contract: generated bindings, and conversions to and from the domain.
//!
//! A later version gets its own folder next to this one. The rest of the crate uses only types of the domain.

mod bounds;
pub(crate) mod description;
pub(crate) mod exports;
pub(crate) mod method;
pub(crate) mod provider;
pub(crate) mod refunds;
pub(crate) mod routing;
pub(crate) mod settings;

/// Version of the contract in the names of interfaces.
pub(crate) const VERSION: &str = "0.2.0";

/// Generated from `wit/`. The worlds have separate bindings, because calls of one are async and calls of the other
/// must not wait.
pub(crate) mod bindings {
    pub(crate) mod method {
        wasmtime::component::bindgen!({
            path: "../../wit",
            world: "method",
        });
    }
    pub(crate) mod provider {
        wasmtime::component::bindgen!({
            path: "../../wit",
            world: "refunding-provider",
            // Both worlds share these types.
            with: { "kassette:plugin/types": crate::v0_2::bindings::method::kassette::plugin::types },
            imports: {
                "kassette:plugin/http.send": async,
                "kassette:plugin/http.get-cached": async,
            },
            exports: { default: async },
        });
    }
}
