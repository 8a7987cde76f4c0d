//! Version 0.2 of the contract: generated bindings, and the conversions to and from the domain.
//!
//! A later version of the contract gets a folder beside this one; the rest of the crate speaks the
//! domain's words only.

mod bounds;
pub(crate) mod description;
pub(crate) mod exports;
pub(crate) mod method;
pub(crate) mod provider;
pub(crate) mod refunds;
pub(crate) mod routing;
pub(crate) mod settings;

/// The contract's version, as names of interfaces carry it.
pub(crate) const VERSION: &str = "0.2.0";

/// Generated from `wit/`. The two worlds are bound apart because one waits and the other must not.
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
            // One type for both worlds.
            with: { "kassette:plugin/types": crate::v0_2::bindings::method::kassette::plugin::types },
            imports: {
                "kassette:plugin/http.send": async,
                "kassette:plugin/http.get-cached": async,
            },
            exports: { default: async },
        });
    }
}
