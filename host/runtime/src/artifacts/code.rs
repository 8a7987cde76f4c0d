//! Machine code as bytes, before it is loaded.

use std::borrow::Cow;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::engine::{Engines, LoadedComponent};

/// Machine code that came out of this host's own compiler. Made in two places alone: by the
/// compiler, and by opening a seal that only this host can have put on it.
pub(crate) struct Code<'a>(Cow<'a, [u8]>);

impl<'a> Code<'a> {
    /// Fresh from the compiler.
    pub(crate) const fn compiled(bytes: Vec<u8>) -> Self {
        Self(Cow::Owned(bytes))
    }

    /// From a file whose MAC was right.
    pub(super) const fn authentic(bytes: &'a [u8]) -> Self {
        Self(Cow::Borrowed(bytes))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Maps the code so that it can run, for the engines that suit it.
    pub(crate) fn load(&self, engines: &Engines) -> wasmtime::Result<LoadedComponent> {
        engines.load(|engine| self.load_for(engine))
    }

    /// The engine checks that it was made by its own version with its own settings.
    #[expect(
        unsafe_code,
        reason = "loading machine code is running it, which no type can make safe"
    )]
    fn load_for(&self, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY: the bytes must be what `precompile_component` returned, unmodified. `compiled` is
        // called with just that. `authentic` is called after an HMAC-SHA256 over all of them proved
        // right under a key that is derived from the master key and never leaves this process; and
        // it is put only on what `compiled` made. They are borrowed from memory, so no file can
        // change between the check and here.
        unsafe { Component::deserialize(engine, self.bytes()) }
    }
}
