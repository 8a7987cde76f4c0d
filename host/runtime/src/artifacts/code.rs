//! Machine code as bytes, before it is loaded.

use std::borrow::Cow;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::engine::{Engines, LoadedComponent};

/// Machine code from this host's own compiler. Only two places create it: the compiler, and the check of a MAC
/// that only this host can have made.
pub(crate) struct Code<'a>(Cow<'a, [u8]>);

impl<'a> Code<'a> {
    /// Machine code directly from the compiler.
    pub(crate) const fn compiled(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }

    /// Machine code from a file with a valid MAC.
    pub(super) const fn authentic(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Maps the code as executable, for the engines that suit it.
    pub(crate) fn load(&self, engines: &Engines) -> wasmtime::Result<LoadedComponent> {
        engines.load(|engine| self.load_for(engine))
    }

    /// wasmtime checks that the code was compiled by its own version with the same settings.
    #[expect(
        unsafe_code,
        reason = "loading machine code is running it, which no type can make safe"
    )]
    fn load_for(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: the bytes must be the unmodified output of `precompile_component`. `compiled` gets exactly that.
        // `authentic` gets bytes after their HMAC-SHA256 was verified, with a key that is derived from the master
        // key and never leaves this process; only output of `compiled` gets such a MAC. The bytes are in memory,
        // so no file can change between the check and this call.
        unsafe { Component::deserialize(engine, self.bytes()) }
    }
}
