//! The compiler of modules: this program, started as a child process.

use kassette_runtime::{Compiler, CompilerChild};

/// Command that compiles a module in a child process.
pub(crate) const COMPILE_MODULE: &str = "compile-module";

/// The running program, even if its file has been replaced.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// Creates the compiler.
pub(crate) fn child() -> Compiler {
    Compiler::Child(CompilerChild::new(OWN_PROGRAM, [COMPILE_MODULE]))
}
