//! Standard output.

use std::io::{ErrorKind, Write as _};

/// Writes to standard output; a reader that has seen enough is no failure.
pub(super) fn print(text: &str) -> Result<(), String> {
    write(text.as_bytes()).map(drop)
}

/// The same; whether there still is a reader.
pub(super) fn write(bytes: &[u8]) -> Result<bool, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}
