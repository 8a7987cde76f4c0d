//! Clocks that do not advance. Waits end at once: a real wait would block a thread, and the clock would not
//! advance in it.

use wasmtime::StoreContextMut;
use wasmtime::component::{ComponentType, LinkerInstance, Lower};

use super::io::pollable;
use crate::guest::method::MethodState;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// Time since 1970-01-01T00:00:00Z.
#[derive(ComponentType, Lower)]
#[component(record)]
struct Datetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Datetime {
    fn from_millis(millis: u64) -> Self {
        let nanoseconds = millis % 1000 * NANOS_PER_MILLI;
        Self {
            seconds: millis / 1000,
            nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
        }
    }
}

pub(super) fn wall(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("now", |store: StoreContextMut<'_, MethodState>, ()| {
        let now = store.data().wasi.now.as_millis();
        Ok((Datetime::from_millis(now),))
    })?;
    to.func_wrap("resolution", |_, ()| Ok((Datetime::from_millis(1),)))
}

pub(super) fn monotonic(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("now", |store: StoreContextMut<'_, MethodState>, ()| {
        let now = store.data().wasi.now.as_millis();
        Ok((now.saturating_mul(NANOS_PER_MILLI),))
    })?;
    to.func_wrap("resolution", |_, ()| Ok((NANOS_PER_MILLI,)))?;
    to.func_wrap("subscribe-instant", |_, (_when,): (u64,)| Ok((pollable(),)))?;
    to.func_wrap("subscribe-duration", |_, (_when,): (u64,)| {
        Ok((pollable(),))
    })
}
