//! Write Kassette payment methods and providers in Rust.
//!
//! A module is a crate with `crate-type = ["cdylib", "rlib"]`. It implements one trait and passes the implementing
//! type to a macro:
//!
//! | World | Trait | Macro | Start from |
//! |---|---|---|---|
//! | payment method | [`method::Method`] | [`method::export!`](export_method) | [`method`], [`ranking`] |
//! | payment provider | [`provider::Provider`] | [`provider::export!`](export_provider) | [`provider`] |
//!
//! The types are generated from the WIT package in `wit/`, whose comments document every record and function;
//! start with `wit/README.md`. This crate contains a copy of both, so that no other source is needed.
//!
//! On wasm32 the crate exports the component's functions and includes an allocator for short calls in new
//! instances. In native builds it exports and logs nothing and has no network, so that modules can be tested with
//! `cargo test`; [`testing`] replaces the host with one of the test.

#![warn(missing_docs)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::allow_attributes)
)]

#[cfg(all(target_arch = "wasm32", feature = "allocator"))]
mod arena;

pub mod amount;
pub mod countries;
pub mod encode;
pub mod json;
pub mod method;
pub mod provider;
pub mod ranking;
pub mod settings;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod time;

/// Expansion of the exported macros; not part of the public interface.
#[doc(hidden)]
pub mod bindings {
    pub mod method {
        wit_bindgen::generate!({
            path: "wit",
            world: "method",
            pub_export_macro: true,
            export_macro_name: "raw_export_method",
            default_bindings_module: "kassette_plugin::bindings::method",
            additional_derives: [PartialEq, Eq],
        });
    }
    pub mod provider {
        wit_bindgen::generate!({
            path: "wit",
            world: "refunding-provider",
            // Both worlds share these types.
            with: { "kassette:plugin/types@0.2.0": crate::bindings::method::kassette::plugin::types },
            pub_export_macro: true,
            export_macro_name: "raw_export_provider",
            default_bindings_module: "kassette_plugin::bindings::provider",
            additional_derives: [PartialEq, Eq],
        });
    }
}

/// Exports a type that implements [`method::Method`] as the module.
///
/// The component's symbols exist only on wasm32: their names (`kassette:plugin/routing@0.2.0#rank`) break native
/// linkers, and two modules in one test would define them two times. On other targets the macro only checks that
/// the trait is implemented.
#[macro_export]
macro_rules! export_method {
    ($answer:ident) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::method::Exported<$answer>;
            $crate::bindings::method::raw_export_method!(
                Exported with_types_in $crate::bindings::method
            );
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::method::implemented_by::<$answer>;
    };
}

/// Exports a type that implements [`provider::Provider`] as the module.
///
/// On other targets than wasm32 it is only a check, as explained for [`export_method!`].
#[macro_export]
macro_rules! export_provider {
    ($answer:ident) => {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = $crate::provider::Exported<$answer>;
            $crate::bindings::provider::raw_export_provider!(
                Exported with_types_in $crate::bindings::provider
            );
        };
        #[cfg(not(target_arch = "wasm32"))]
        const _: fn() = $crate::provider::implemented_by::<$answer>;
    };
}

/// Forwards the named functions to files of the module: `start` to `start::start`, `callback` to `callback::read`,
/// `query` to `query::query`, and `refund` to `refund::terms`, `refund::refund` and `refund::query`. All take
/// references. For use in the `impl` of [`provider::Provider`].
#[macro_export]
macro_rules! forward_provider {
    (@start) => {
        fn start(
            account: $crate::provider::Account,
            attempt: $crate::provider::Attempt,
        ) -> Result<$crate::provider::Started, $crate::provider::StartFailure> {
            start::start(&account, &attempt)
        }
    };
    (@callback) => {
        fn callback(
            account: $crate::provider::Account,
            incoming: $crate::provider::CallbackRequest,
        ) -> Result<$crate::provider::CallbackReply, $crate::provider::CallbackFailure> {
            callback::read(&account, &incoming)
        }
    };
    (@query) => {
        fn query(
            account: $crate::provider::Account,
            attempt: $crate::provider::Attempt,
            reference: Option<String>,
            purpose: $crate::provider::QueryPurpose,
            return_query: Option<String>,
        ) -> Result<$crate::provider::Report, $crate::provider::QueryFailure> {
            let (reference, return_query) = (reference.as_deref(), return_query.as_deref());
            query::query(&account, &attempt, reference, purpose, return_query)
        }
    };
    (@refund) => {
        fn refund_terms(
            account: $crate::provider::Account,
        ) -> Vec<$crate::provider::Refundable> {
            refund::terms(&account)
        }
        fn refund(
            account: $crate::provider::Account,
            paid: $crate::provider::Paid,
            order: $crate::provider::Order,
        ) -> Result<$crate::provider::Given, $crate::provider::RefundFailure> {
            refund::refund(&account, &paid, &order)
        }
        fn query_refund(
            account: $crate::provider::Account,
            paid: $crate::provider::Paid,
            order: $crate::provider::Order,
        ) -> Result<$crate::provider::Given, $crate::provider::QueryFailure> {
            refund::query(&account, &paid, &order)
        }
    };
    ($($name:ident),+) => {
        $($crate::forward_provider!(@$name);)+
    };
}

/// Compiles the examples of `wit/README.md`, so that they stay correct.
#[cfg(doctest)]
#[doc = include_str!("../wit/README.md")]
struct Readme;
