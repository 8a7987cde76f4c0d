//! Standard output.

use std::io::{ErrorKind, Write as _};

use kassette_domain::text::steers;

use crate::web::text::escape_directions;

/// Replaces characters that control a terminal or the direction of text.
pub(super) fn plain(text: &str) -> String {
    text.replace(steers, "\u{fffd}")
}

/// Writes to standard output. A reader that closes the pipe early is not an error. The value of JSON does not
/// change.
pub(super) fn print(text: &str) -> Result<(), String> {
    write(escape_directions(text).as_bytes()).map(drop)
}

/// Writes bytes unchanged. Returns false if the reader has closed the pipe.
pub(super) fn write(bytes: &[u8]) -> Result<bool, String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_from_elsewhere_do_not_steer_the_terminal() {
        assert_eq!(plain("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
        let value = serde_json::json!({ "name": "a\u{202e}b\u{061c}" });
        let text = value.to_string();
        let escaped = escape_directions(&text);
        assert_eq!(escaped, r#"{"name":"a\u202eb\u061c"}"#);
        let read: serde_json::Value = serde_json::from_str(&escaped).unwrap();
        assert_eq!(read, value);
    }
}
