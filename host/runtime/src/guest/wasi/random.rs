//! The three interfaces of `wasi:random`, which share one generator.

use wasmtime::component::LinkerInstance;
use wasmtime::{StoreContextMut, bail};

use crate::guest::method::MethodState;

/// Maximum number of bytes per host call. The time limit of the module is checked only after a host call returns.
const AT_ONCE: u64 = 64 << 10;

type State<'a> = StoreContextMut<'a, MethodState>;

fn bytes(mut store: State<'_>, (length,): (u64,)) -> wasmtime::Result<(Vec<u8>,)> {
    if length > AT_ONCE {
        bail!("{length} random bytes at once are too many");
    }
    let mut bytes = vec![0; usize::try_from(length)?];
    store.data_mut().wasi.random.fill(&mut bytes);
    Ok((bytes,))
}

#[expect(clippy::unnecessary_wraps, reason = "as the linker wants it")]
fn number(mut store: State<'_>, (): ()) -> wasmtime::Result<(u64,)> {
    Ok((store.data_mut().wasi.random.number(),))
}

pub(super) fn random(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("get-random-bytes", bytes)?;
    to.func_wrap("get-random-u64", number)
}

pub(super) fn insecure(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("get-insecure-random-bytes", bytes)?;
    to.func_wrap("get-insecure-random-u64", number)
}

pub(super) fn insecure_seed(to: &mut LinkerInstance<'_, MethodState>) -> wasmtime::Result<()> {
    to.func_wrap("insecure-seed", |mut store: State<'_>, ()| {
        let random = &mut store.data_mut().wasi.random;
        Ok(((random.number(), random.number()),))
    })
}
