//! The compiler of modules: this very program, started once more as a child process.

use kassette_runtime::{Compiler, CompilerChild};

/// The command under which the gateway compiles a module in a child process of its own.
pub(crate) const COMPILE_MODULE: &str = "compile-module";

/// The program that runs, even where its file was replaced since.
pub(crate) fn child() -> Compiler {
    Compiler::Child(CompilerChild::new("/proc/self/exe", [COMPILE_MODULE]))
}
