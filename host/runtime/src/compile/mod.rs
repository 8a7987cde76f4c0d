//! Compiles modules to machine code.
//!
//! The compiler reads untrusted input, cannot be interrupted, and can need minutes even for a small module. So the
//! server runs it in a child process of the same program, with limits that the kernel enforces, and one module at a
//! time after startup ([`Compiler::Child`]). Tools and tests that know their modules compile in their own process
//! ([`Compiler::InProcess`]). If a child cannot be started, nothing is compiled: there is no fallback.

mod child;
mod child_main;
mod spare;

use wasmtime::Engine;

pub use self::child::{CompileLimits, CompilerChild};
pub use self::child_main::{ChildError, compile_as_child};
use crate::artifacts::Code;
use crate::error::LoadError;

#[derive(Clone, Debug, Default)]
pub enum Compiler {
    /// Compiles in this process without limits: for tests, and for tools on their user's own modules.
    #[default]
    InProcess,
    /// Compiles in a child process with limits.
    Child(CompilerChild),
}

impl Compiler {
    /// Prepares for the next module.
    pub(crate) fn warm_up(&self) {
        if let Self::Child(child) = self {
            child.warm_up();
        }
    }

    pub(crate) fn compile(
        &self,
        engine: &Engine,
        bytes: &[u8],
    ) -> Result<Code<'static>, LoadError> {
        let code = match self {
            Self::InProcess => engine
                .precompile_component(bytes)
                .map_err(|error| LoadError::invalid(&format!("{error:#}")))?,
            Self::Child(child) => child.compile(bytes)?,
        };
        Ok(Code::compiled(code))
    }
}
