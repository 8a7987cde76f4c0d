//! The command line.

use std::process::ExitCode;

/// Reads the arguments and does what they say.
pub(crate) fn main() -> ExitCode {
    ExitCode::SUCCESS
}
