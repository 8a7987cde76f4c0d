//! Turns a module into machine code.
//!
//! The compiler reads what strangers wrote, cannot be interrupted, and small modules can make it
//! work for minutes. So the server has it run in a child process of its own program, under limits
//! that the kernel enforces, one at a time once requests are served ([`Compiler::Child`]). Tools and
//! tests that know what they compile do it themselves ([`Compiler::InProcess`]). Where no child can
//! be had, nothing is compiled: there is no falling back.

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
    /// This process, without limits: for tests, and for tools on modules of their own user.
    #[default]
    InProcess,
    /// A child process under limits.
    Child(CompilerChild),
}

impl Compiler {
    /// Prepares for the next module, before it comes.
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
