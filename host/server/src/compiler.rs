//! The compiler of modules: this very program, started once more as a child process.

use kassette_runtime::{Compiler, CompilerChild};

/// The command under which the gateway compiles a module in a child process of its own.
pub(crate) const COMPILE_MODULE: &str = "compile-module";

/// The program that runs, even where its file was replaced since.
pub(crate) const OWN_PROGRAM: &str = "/proc/self/exe";

/// The compiler.
pub(crate) fn child() -> Compiler {
    Compiler::Child(CompilerChild::new(OWN_PROGRAM, [COMPILE_MODULE]))
}
