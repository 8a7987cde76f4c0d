//! Write Kassette payment methods and providers in Rust.
//!
//! A module is a crate with `crate-type = ["cdylib", "rlib"]` that implements one trait and hands
//! the type that does to a macro:
//!
//! | World | Trait | Macro | Start from |
//! |---|---|---|---|
//! | payment method | [`method::Method`] | [`method::export!`](export_method) | [`method`], [`ranking`] |
//! | payment provider | [`provider::Provider`] | [`provider::export!`](export_provider) | [`provider`] |
//!
//! The types are generated from the WIT package in `wit/`, whose comments are the documentation
//! of every record and function; `wit/README.md` is the way in. This crate carries a copy of both, so
//! that it is all one needs.
//!
//! On wasm32 the crate exports the component's functions and brings an allocator made for calls
//! that are short and each in a fresh instance. Natively it exports nothing, logs nothing and has
//! no network, so that a module's logic is tested with plain `cargo test`; [`testing`] puts a host
//! of the test's own in the place of the real one.

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

/// What the exported macros expand to; not part of the interface.
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
            // One type for both worlds.
            with: { "kassette:plugin/types@0.2.0": crate::bindings::method::kassette::plugin::types },
            pub_export_macro: true,
            export_macro_name: "raw_export_provider",
            default_bindings_module: "kassette_plugin::bindings::provider",
            additional_derives: [PartialEq, Eq],
        });
    }
}

/// Makes a type that implements [`method::Method`] the module's answer.
///
/// The component's symbols exist on wasm32 only: their names (`kassette:plugin/routing@0.2.0#rank`)
/// break a native linker, and two modules in one test would define them twice. Elsewhere the macro
/// only checks that the trait is implemented.
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

/// Makes a type that implements [`provider::Provider`] the module's answer.
///
/// See [`export_method!`] for why this does nothing but a check off wasm32.
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

/// Hands the functions that are named to the module's files: `start` to `start::start`, `callback` to
/// `callback::read`, `query` to `query::query` and `refund` to `refund::terms`, `refund::refund` and
/// `refund::query`, which borrow what they are given. Stands in the `impl` of
/// [`provider::Provider`].
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

/// The examples of `wit/README.md` are compiled, so that they stay true.
#[cfg(doctest)]
#[doc = include_str!("../wit/README.md")]
struct Readme;
