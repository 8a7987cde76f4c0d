//! Turns a module into machine code.
//!
//! The compiler reads what strangers wrote, cannot be interrupted, and small modules can make it
//! work for minutes. So the server has it run in a child process of its own program, under limits
//! that the kernel enforces, one at a time once requests are served ([`Compiler::Child`]). Tools and
//! tests that know what they compile do it themselves ([`Compiler::InProcess`]). Where no child can
//! be had, nothing is compiled: there is no falling back.

mod child;
mod child_main;
mod standby;

use std::time::Duration;

use wasmtime::Engine;

pub use self::child::CompilerChild;
pub use self::child_main::{ChildError, compile_as_child};
use crate::artifacts::Code;
use crate::error::LoadError;
use crate::text;

/// Bytes of the compiler's message that are shown.
const MESSAGE: usize = 300;

/// Who compiles modules.
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

    /// Machine code of a component.
    pub(crate) fn compile(
        &self,
        engine: &Engine,
        bytes: &[u8],
    ) -> Result<Code<'static>, LoadError> {
        let code = match self {
            Self::InProcess => engine
                .precompile_component(bytes)
                .map_err(|error| invalid(&format!("{error:#}")))?,
            Self::Child(child) => child.compile(bytes)?,
        };
        Ok(Code::compiled(code))
    }
}

/// The compiler's words about a module, printable and cut.
pub(crate) fn invalid(message: &str) -> LoadError {
    LoadError::Invalid(text::cut(message, MESSAGE))
}

/// What compiling one module may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// CPU time of all threads of the compiler; counted by the kernel in whole seconds.
    pub cpu: Duration,
    /// Wall-clock time, after which the compiler is killed.
    pub wall: Duration,
    /// Bytes of address space.
    pub memory: u64,
}

impl CompileLimits {
    /// Limits by the size of a module, in bytes. Our own guests (40-140 kB) take 0.2-0.6 s of CPU,
    /// a Python guest of 18 MB about 12 s and several hundred megabytes; each has at least three
    /// times that.
    pub const fn of(bytes: usize) -> Self {
        let mib = bytes.div_ceil(1 << 20) as u64;
        let cpu = 5 + 2 * mib;
        Self {
            cpu: Duration::from_secs(cpu),
            // The child yields to the gateway, so on a busy machine it waits a good deal.
            wall: Duration::from_secs(2 * cpu + 5),
            // The program itself, its stacks and the allocator's reserves are in the first part.
            memory: (768 << 20) + mib * (64 << 20),
        }
    }
}
