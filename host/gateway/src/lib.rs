//! The use cases of a payment: create, list methods, start, read news, capture, close, expire.
//!
//! The gateway sequences; it holds no rule about money (those are the domain's) and knows no HTTP
//! server. Each use case answers with a type of its own whose errors the edge maps to HTTP.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::panic))]

pub mod auth;
pub mod callback;
pub mod checkout;
pub mod clock;
pub mod create;
pub mod health;
pub mod methods;
pub mod review;
pub mod settings;
pub mod start;
pub mod workers;

use std::sync::Arc;

use arc_swap::ArcSwap;
use kassette_runtime::Runtime;
use kassette_store::Store;

use crate::clock::Clock;
use crate::settings::Settings;

/// Everything that a use case needs; cheap to clone.
#[derive(Clone)]
pub struct Gateway {
    inner: Arc<Inner>,
}

struct Inner {
    store: Arc<dyn Store>,
    runtime: Arc<Runtime>,
    clock: Arc<dyn Clock>,
    settings: ArcSwap<Settings>,
}

impl Gateway {
    /// A gateway over a store and a runtime.
    pub fn new(
        store: Arc<dyn Store>,
        runtime: Arc<Runtime>,
        clock: Arc<dyn Clock>,
        settings: Settings,
    ) -> Self {
        let settings = ArcSwap::from_pointee(settings);
        Self {
            inner: Arc::new(Inner {
                store,
                runtime,
                clock,
                settings,
            }),
        }
    }

    /// The store, for reads and directory changes that are no use case of their own.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.inner.store
    }

    /// The modules.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.inner.runtime
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// The settings of now; a request takes them once.
    pub fn settings(&self) -> Arc<Settings> {
        self.inner.settings.load_full()
    }
}
